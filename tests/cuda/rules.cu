// Every rule type, alone and joined, and the user's lambdas in it, as device code: what does not compile there fails
// here.
#include "heed/mask/block_sparse.hpp"
#include "heed/mask/causal.hpp"
#include "heed/mask/combine.hpp"
#include "heed/mask/custom.hpp"
#include "heed/mask/dense.hpp"
#include "heed/mask/documents.hpp"
#include "heed/mask/lengths.hpp"
#include "heed/mask/prefix.hpp"
#include "heed/mask/window.hpp"
#include "heed/score/alibi.hpp"
#include "heed/score/bias.hpp"
#include "heed/score/custom.hpp"
#include "heed/score/dual.hpp"
#include "heed/score/relative.hpp"
#include "heed/score/sink.hpp"
#include "heed/softmax/math.hpp"

namespace {

using namespace heed::detail;

/// Everything that a kernel asks of a rule.
template <class Rule, class Real>
__global__ void ask(Rule rule, Real const* terms, Real* scores, heed::index_t* answers) {
  const heed::block area{0, 1, 2, 66, 0, 64, 5};
  strip<Real> rows{0, 1, 2, 65, static_cast<heed::index_t>(threadIdx.x), 5};
  rows.terms = terms;
  const auto at = on(rule, rows);
  for (int lane = 0; lane < 16; ++lane) {
    bool visible = true;
    adjust(at, scores[lane], visible, lane);
    answers[lane] = visible & allows(at, lane) & is_allowed(rule, rows.at(lane));
  }
  answers[16] = static_cast<heed::index_t>(covers(rule, area));
  const heed::key_range keys = visible_keys(rule, area);
  heed::sequence seq{64, 0, 64, 5};
  narrow(rule, 0, seq);
  row_start start;
  begin_row(rule, 1, start);
  answers[17] = keys.begin + keys.end + seq.key_end + next_border(rule, area);
  scores[16] = static_cast<Real>(start.max + start.sum);
}

/// What a generic lambda would be, which nvcc does not take into kernels.
struct soft_step {
  float gain;
  template <class Real>
  HEED_FN Real operator()(Real score, heed::position const& at) const {
    return heed::select(at.key < at.query, score, heed::tanh(score) * Real(gain)) + heed::log(heed::exp(score));
  }
};

/// Its derivative, in everything that a dual can do.
template <class Real>
__global__ void ask_slope(heed::score_fn<soft_step> stage, Real* scores) {
  const heed::position at{0, 1, 2, static_cast<heed::index_t>(threadIdx.x), 5};
  heed::dual<Real> score(scores[0], Real(1));
  score += heed::clamp(score, -1, 1) / 2 - heed::abs(score) * score;
  score /= (heed::max)(heed::log(score), heed::half(1.0f)) - (heed::min)(2, heed::exp(score));
  if (score > 0) score = -score;
  scores[1] = stage.slope(score.slope, at);
}

template <class Rule>
void ask_all(Rule const& rule) {
  ask<Rule, float><<<1, 32>>>(rule, nullptr, nullptr, nullptr);
  ask<Rule, double><<<1, 32>>>(rule, nullptr, nullptr, nullptr);
}

}  // namespace

int main() {
  using heed::index_t;
  const index_t numbers[] = {0, 0, 1, 1};
  const float slopes[] = {0.5f, 0.25f};
  const bool bools[] = {true, false, true, true};
  const float terms[] = {1, 2, 3, 4};
  const heed::list<index_t> list(numbers);
  const heed::tensor_view<bool const, 2> mask(bools, {2, 2});
  const heed::tensor_view<float const, 2> table(terms, {2, 2});
  const heed::documents texts{.ids = list};

  ask_all(heed::no_mask{});
  ask_all(heed::causal{});
  ask_all(heed::window{.left = 255, .right = 0});
  ask_all(heed::window{.left = 255});
  ask_all(heed::prefix{.lengths = list});
  ask_all(heed::lengths{.query = list, .key = list, .key_start = list});
  ask_all(document_ids(texts, 4, 4));  // what documents are once the sizes of a call are known
  ask_all(heed::keep_mask(mask));
  ask_all(heed::drop_mask(mask));
  ask_all(heed::block_sparse{.blocks = mask});
  ask_all(heed::alibi{.slopes = slopes});
  ask_all(heed::bias(table));
  ask_all(heed::relative_bias{.table = table});
  ask_all(heed::sink{.logits = slopes});

  // Lambdas of the user's, which capture a number each.
  const index_t far_away = 7;
  const float gain = 2;
  const auto keep = [=] __host__ __device__(heed::position at) { return at.key <= at.query + at.offset + far_away; };
  const auto cover_of = [=] __host__ __device__(heed::block const& area) {
    return area.key_end <= far_away ? heed::cover::full : heed::cover::partial;
  };
  const auto change = [=] __host__ __device__(double score, heed::position at) {
    return heed::select(at.key < far_away, score, gain * heed::tanh(score)) + heed::log(heed::exp(score));
  };
  ask_all(heed::mask_fn(keep));
  ask_all(heed::mask_fn(keep, cover_of));
  ask_all(heed::score_fn(change));
  ask_all(heed::score_fn(soft_step{gain}));
  ask_slope<float><<<1, 32>>>(heed::score_fn(soft_step{gain}), nullptr);
  ask_slope<double><<<1, 32>>>(heed::score_fn(soft_step{gain}), nullptr);
  ask_all(heed::score_fn(soft_step{gain}) & heed::score_fn(change) & heed::alibi{.slopes = slopes} & heed::causal{} &
          heed::mask_fn(keep, cover_of) & heed::window{.left = 255} & heed::bias(table) & heed::keep_mask(mask) &
          heed::sink{.logits = slopes});
}
