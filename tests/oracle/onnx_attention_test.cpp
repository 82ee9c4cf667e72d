// The cases of ONNX's test suite for its Attention operator (opsets 23 and 24): their shapes and modes, random numbers
// in [0, 1) as there, and the operator written down as its text defines it, step by step on whole arrays.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/cases.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

using array = tensor<double, 4>;

struct onnx_case {
  char const* name;
  int rank = 4;  // 3: [batch, tokens, heads * dim]
  index_t q_heads = 3, kv_heads = 3, value_dim = 8, past = 0;
  std::optional<double> scale{}, softcap{};
  bool is_causal = false;
  int mask_rank = 0;  // 0: none
  bool mask_is_bool = false, mask_repeats = false;
  index_t mask_keys = 0;                       // a short last axis; 0: all keys
  std::vector<index_t> nonpad_kv_seqlen = {};  // keys that are not padding
  index_t batch = 2, rows = 4, keys = 6, dim = 8;

  [[nodiscard]] index_t total() const { return past + keys; }
};

/// Shapes and modes of attention_<name>.
std::vector<onnx_case> onnx_cases() {
  return {
      {.name = "4d"},
      {.name = "4d_gqa", .q_heads = 9},
      {.name = "4d_diff_heads_sizes", .value_dim = 10},
      {.name = "4d_scaled", .scale = 0.01},
      {.name = "4d_gqa_scaled", .q_heads = 9, .scale = 0.01},
      {.name = "4d_diff_heads_sizes_scaled", .value_dim = 10, .scale = 0.01},
      {.name = "4d_softcap", .softcap = 2.0},
      {.name = "4d_gqa_softcap", .q_heads = 9, .softcap = 2.0},
      {.name = "4d_diff_heads_sizes_softcap", .value_dim = 10, .softcap = 2.0},
      {.name = "4d_causal", .is_causal = true},
      {.name = "4d_gqa_causal", .q_heads = 9, .is_causal = true},
      {.name = "4d_diff_heads_sizes_causal", .value_dim = 10, .is_causal = true},
      {.name = "4d_attn_mask", .mask_rank = 2},
      {.name = "4d_attn_mask_3d", .mask_rank = 3, .mask_repeats = true},
      {.name = "4d_attn_mask_3d_causal", .is_causal = true, .mask_rank = 3, .mask_repeats = true},
      {.name = "4d_attn_mask_3d_of_heads", .mask_rank = 3},
      {.name = "4d_attn_mask_4d", .mask_rank = 4},
      {.name = "4d_attn_mask_4d_causal", .is_causal = true, .mask_rank = 4},
      {.name = "4d_attn_mask_bool", .mask_rank = 2, .mask_is_bool = true},
      {.name = "4d_attn_mask_bool_4d", .mask_rank = 4, .mask_is_bool = true},
      {.name = "4d_gqa_attn_mask", .q_heads = 9, .mask_rank = 2},
      {.name = "4d_diff_heads_sizes_attn_mask", .value_dim = 10, .mask_rank = 2},
      {.name = "4d_with_past_and_present", .past = 12, .mask_rank = 2},
      {.name = "4d_gqa_with_past_and_present", .q_heads = 9, .past = 12, .mask_rank = 2},
      {.name = "4d_diff_heads_with_past_and_present", .value_dim = 10, .past = 12, .mask_rank = 2},
      {.name = "4d_diff_heads_with_past_and_present_mask3d",
       .value_dim = 10,
       .past = 12,
       .mask_rank = 3,
       .mask_repeats = true},
      {.name = "4d_diff_heads_with_past_and_present_mask4d", .value_dim = 10, .past = 12, .mask_rank = 4},
      {.name = "4d_with_past_and_causal", .past = 12, .is_causal = true},
      {.name = "4d_with_qk_matmul_softcap_and_bias", .softcap = 2.0, .mask_rank = 4},
      {.name = "4d_causal_softcap_bool_mask", .softcap = 2.0, .is_causal = true, .mask_rank = 2, .mask_is_bool = true},
      {.name = "4d_diff_heads_mask4d_padded_kv",
       .value_dim = 10,
       .mask_rank = 4,
       .mask_keys = 4,
       .nonpad_kv_seqlen = {3, 4}},
      {.name = "4d_padded_kv_without_mask", .nonpad_kv_seqlen = {3, 6}},
      {.name = "3d", .rank = 3},
      {.name = "3d_gqa", .rank = 3, .q_heads = 9},
      {.name = "3d_diff_heads_sizes", .rank = 3, .value_dim = 10},
      {.name = "3d_scaled", .rank = 3, .scale = 0.01},
      {.name = "3d_softcap", .rank = 3, .softcap = 3.0},
      {.name = "3d_gqa_softcap", .rank = 3, .q_heads = 9, .softcap = 3.0},
      {.name = "3d_causal", .rank = 3, .is_causal = true},
      {.name = "3d_gqa_causal", .rank = 3, .q_heads = 9, .is_causal = true},
      {.name = "3d_attn_mask", .rank = 3, .mask_rank = 2},
      {.name = "3d_gqa_attn_mask", .rank = 3, .q_heads = 9, .mask_rank = 2},
      {.name = "3d_diff_heads_sizes_attn_mask", .rank = 3, .value_dim = 10, .mask_rank = 2},
      {.name = "3d_with_past_and_present", .rank = 3, .past = 12, .mask_rank = 2},
      {.name = "3d_gqa_with_past_and_present", .rank = 3, .q_heads = 9, .past = 12, .mask_rank = 2},
      {.name = "3d_transpose_verification", .rank = 3, .batch = 1, .rows = 2, .keys = 2, .dim = 4},
      {.name = "one_token_after_a_long_past", .q_heads = 9, .past = 100, .is_causal = true, .rows = 1, .keys = 1},
  };
}

/// What the operator computes: the stages of its product, and Y.
struct onnx_answer {
  array raw, capped, biased, softmax, out;
};

array map(axes<4> extents, std::function<double(index_t, index_t, index_t, index_t)> const& f) {
  array filled(extents);
  for (index_t b = 0; b < filled.extent(0); ++b) {
    for (index_t h = 0; h < filled.extent(1); ++h) {
      for (index_t i = 0; i < filled.extent(2); ++i) {
        for (index_t j = 0; j < filled.extent(3); ++j) filled(b, h, i, j) = f(b, h, i, j);
      }
    }
  }
  return filled;
}

array product(array const& left, array const& right, bool transposed) {
  return map({left.extent(0), left.extent(1), left.extent(2), right.extent(transposed ? 2 : 3)},
             [&](index_t b, index_t h, index_t i, index_t j) {
               double sum = 0;
               for (index_t d = 0; d < left.extent(3); ++d) {
                 sum += left(b, h, i, d) * (transposed ? right(b, h, j, d) : right(b, h, d, j));
               }
               return sum;
             });
}

/// q, k, v of [B, H, S, D], the past in front of k and v; `mask` of any extents that repeat.
onnx_answer attention_of_onnx(onnx_case const& c, array const& q, array const& k, array const& v, array const& mask) {
  const double scale = c.scale ? *c.scale : 1 / std::sqrt(static_cast<double>(c.dim));
  const index_t repeats = c.q_heads / c.kv_heads, total = c.total();
  const axes<4> square(c.batch, c.q_heads, c.rows, total);
  const array scaled_q = map({c.batch, c.q_heads, c.rows, c.dim},
                             [&](auto b, auto h, auto i, auto d) { return std::sqrt(scale) * q(b, h, i, d); });
  const array scaled_k = map({c.batch, c.q_heads, total, c.dim}, [&](auto b, auto h, auto j, auto d) {
    return std::sqrt(scale) * k(b, h / repeats, j, d);
  });
  const array many_v = map({c.batch, c.q_heads, total, c.value_dim},
                           [&](auto b, auto h, auto j, auto d) { return v(b, h / repeats, j, d); });
  const array added = map(square, [&](index_t b, index_t h, index_t i, index_t j) {
    if (c.is_causal && j > i + c.past) return -infinity;
    if (!c.nonpad_kv_seqlen.empty() && j >= c.nonpad_kv_seqlen[static_cast<std::size_t>(b)]) return -infinity;
    if (c.mask_rank == 0) return 0.0;
    if (j >= mask.extent(3)) return -infinity;
    const double element =
        mask(mask.extent(0) == 1 ? 0 : b, mask.extent(1) == 1 ? 0 : h, mask.extent(2) == 1 ? 0 : i, j);
    return c.mask_is_bool ? (element != 0 ? 0.0 : -infinity) : element;
  });
  onnx_answer answer;
  answer.raw = product(scaled_q, scaled_k, true);
  answer.capped = map(square, [&](auto b, auto h, auto i, auto j) {
    const double score = answer.raw(b, h, i, j);
    return c.softcap ? *c.softcap * std::tanh(score / *c.softcap) : score;
  });
  answer.biased =
      map(square, [&](auto b, auto h, auto i, auto j) { return answer.capped(b, h, i, j) + added(b, h, i, j); });
  answer.softmax = map(square, [&](index_t b, index_t h, index_t i, index_t j) {
    double sum = 0;
    for (index_t key = 0; key < total; ++key) sum += std::exp(answer.biased(b, h, i, key) - answer.biased(b, h, i, 0));
    return std::exp(answer.biased(b, h, i, j) - answer.biased(b, h, i, 0)) / sum;
  });
  answer.out = product(answer.softmax, many_v, false);
  return answer;
}

template <class T, class Found>
void expect_near(Found const& found, array const& right, char const* what) {
  for (index_t b = 0; b < right.extent(0); ++b) {
    for (index_t h = 0; h < right.extent(1); ++h) {
      for (index_t i = 0; i < right.extent(2); ++i) {
        for (index_t j = 0; j < right.extent(3); ++j) {
          const double got = static_cast<double>(found(b, h, i, j)), wanted = right(b, h, i, j);
          if (got == wanted) continue;
          ASSERT_NEAR(got, wanted, tolerance<T>() * (1 + std::fabs(wanted)))
              << what << " at " << b << " " << h << " " << i << " " << j;
        }
      }
    }
  }
}

template <class T>
void check(onnx_case const& c, std::uint64_t seed) {
  SCOPED_TRACE(c.name);
  random_source random(seed);
  const auto drawn = [&](index_t heads, index_t tokens, index_t dim) {
    return map({c.batch, heads, tokens, dim}, [&](auto...) { return rounded<T>(random.uniform()); });
  };
  const array q = drawn(c.q_heads, c.rows, c.dim), k = drawn(c.kv_heads, c.total(), c.dim),
              v = drawn(c.kv_heads, c.total(), c.value_dim);
  const index_t mask_keys = c.mask_keys > 0 ? c.mask_keys : c.total();
  const array mask =
      map({c.mask_rank == 4 ? c.batch : 1, c.mask_rank >= 3 && !c.mask_repeats ? c.q_heads : 1, c.rows, mask_keys},
          [&](index_t, index_t, index_t, index_t j) {
            // Every row sees key 0.
            return c.mask_is_bool ? (j == 0 || random.chance(0.5) ? 1.0 : 0.0) : random.uniform();
          });
  const onnx_answer right = attention_of_onnx(c, q, k, v, mask);

  // As a user holds them: [B, H, S, D], or [B, S, H * D]; a present that holds the past and what is new.
  std::vector<tensor<T, 4>> memory;
  memory.reserve(4);
  const auto held = [&](array const& from) {
    const index_t heads = from.extent(1), tokens = from.extent(2), dim = from.extent(3);
    const bool is_rank3 = c.rank == 3;
    memory.emplace_back(is_rank3 ? axes<4>(c.batch, tokens, heads, dim) : axes<4>(c.batch, heads, tokens, dim));
    tensor<T, 4>& own = memory.back();
    const tensor_view<T, 4> view =
        is_rank3 ? split_heads(tensor_view<T, 3>(own.data(), {c.batch, tokens, heads * dim}), heads) : own.view();
    for (index_t b = 0; b < c.batch; ++b) {
      for (index_t h = 0; h < heads; ++h) {
        for (index_t i = 0; i < tokens; ++i) {
          for (index_t d = 0; d < dim; ++d) view(b, h, i, d) = static_cast<T>(from(b, h, i, d));
        }
      }
    }
    return view;
  };
  const tensor_view<T, 4> query = held(q), key = held(k), value = held(v), out = held(right.out);
  for (index_t i = 0; i < memory.back().size(); ++i) memory.back().data()[i] = static_cast<T>(777);
  using accumulate = accumulate_of<T>;
  const axes<4> square(c.batch, c.q_heads, c.rows, c.total());
  tensor<accumulate, 4> raw(square), capped(square), biased(square);
  tensor<T, 4> weights(square);
  const attention_options options{.scale = c.scale, .softcap = c.softcap, .anchor = at_offset(c.past), .precise = true};
  const auto run = [&](auto const& rule) {
    attention(query, key, value,
              into(out)
                  .scores(raw, score_stage::raw)
                  .scores(capped, score_stage::capped)
                  .scores(biased, score_stage::biased)
                  .weights(weights),
              rule, options);
    expect_near<T>(out, right.out, "out");
    expect_near<T>(weights, right.softmax, "softmax");
    expect_near<accumulate>(capped, right.capped, "capped");
    expect_near<accumulate>(biased, right.biased, "biased");
    expect_near<accumulate>(raw, right.raw, "raw");
    attention(query, key, value, out, rule, options);
    expect_near<T>(out, right.out, "out alone");
  };

  // A mask of the wanted rank; the padding of a short one is the caller's.
  const axes<4> extents(mask.extent(0), mask.extent(1), c.rows, c.total());
  tensor<bool, 4> bools(extents);
  tensor<double, 4> terms(extents);
  for (index_t b = 0; b < extents[0]; ++b) {
    for (index_t h = 0; h < extents[1]; ++h) {
      for (index_t i = 0; i < c.rows; ++i) {
        for (index_t j = 0; j < c.total(); ++j) {
          const bool there = j < mask_keys;
          bools(b, h, i, j) = there && mask(b, h, i, j) != 0;
          terms(b, h, i, j) = there ? mask(b, h, i, j) : -infinity;
        }
      }
    }
  }
  const auto ranked = [&]<class E>(tensor<E, 4> const& whole, auto const& visit) {
    if (c.mask_rank == 2) return visit(tensor_view<E const, 2>(whole.data(), {c.rows, c.total()}));
    if (c.mask_rank == 3) return visit(tensor_view<E const, 3>(whole.data(), {extents[1], c.rows, c.total()}));
    return visit(whole.view());
  };
  const auto with_mask = [&](auto const& rule) {
    if (c.mask_rank == 0) return run(rule);
    if (c.mask_is_bool) return ranked(bools, [&](auto const& view) { run(keep_mask(view) & rule); });
    ranked(terms, [&](auto const& view) { run(bias(view) & rule); });
  };
  const std::vector<index_t> keys = c.nonpad_kv_seqlen.empty()
                                        ? std::vector<index_t>(static_cast<std::size_t>(c.batch), c.total())
                                        : c.nonpad_kv_seqlen;
  // Scores of keys outside of the lengths are never computed; a padding that is only hidden shows them.
  index_t const* const number = keys.data();
  const auto padding = mask_fn([number](position at) { return at.key < number[at.batch]; });
  if (c.is_causal) {
    with_mask(causal{} & padding);
  } else {
    with_mask(padding);
  }
  if (c.nonpad_kv_seqlen.empty()) return;
  attention(query, key, value, out, lengths{.key = keys}, options);
  if (c.mask_rank == 0) expect_near<T>(out, right.out, "out by lengths");
}

TEST(OnnxAttention, EveryCaseOfTheSuite) {
  for_each_type([]<class T>(T) {
    std::uint64_t seed = 0;
    for (onnx_case const& c : onnx_cases()) check<T>(c, ++seed);
  });
}

}  // namespace
