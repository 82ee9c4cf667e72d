// Runs one combination forward and backward on the kernels and lets the judge look at every gradient.
#pragma once

#include <gtest/gtest.h>

#include <limits>

#include "support/every_rule.hpp"
#include "support/gradient_judge.hpp"
#include "support/gradients.hpp"

namespace heed::test {

template <class View>
[[nodiscard]] auto gathered(View const& view) {
  using T = std::remove_cv_t<std::remove_reference_t<decltype(*view.data())>>;
  tensor<T, 4> values({view.extent(0), view.extent(1), view.extent(2), view.extent(3)});
  index_t place = 0;
  for (index_t b = 0; b < view.extent(0); ++b) {
    for (index_t h = 0; h < view.extent(1); ++h) {
      for (index_t row = 0; row < view.extent(2); ++row) {
        for (index_t d = 0; d < view.extent(3); ++d) values.data()[place++] = view(b, h, row, d);
      }
    }
  }
  return values;
}

/// What a backward pass is given besides query, key and value, and what it writes, in layouts drawn at random.
template <class T>
struct gradient_buffers {
  using accumulate = accumulate_of<T>;
  stored<T> out, d_out, dq, dk, dv;
  stored<accumulate> lse, d_lse;
  bool with_d_lse = false;

  explicit gradient_buffers(scenario const& s) {
    random_source random(s.seed * 7 + 31337);
    const auto input = [&] { return random.chance(0.4) ? layout::contiguous : input_layouts[random.bits() % 10]; };
    const auto output = [&] { return random.chance(0.4) ? layout::contiguous : output_layouts[random.bits() % 10]; };
    const axes<4> rows(s.batch, s.heads, s.rows, s.value_dim);
    out = stored<T>(rows, s.out_layout), d_out = stored<T>(rows, input());
    dq = stored<T>({s.batch, s.heads, s.rows, s.dim}, output());
    dk = stored<T>({s.batch, s.kv_heads, s.keys, s.dim}, output());
    dv = stored<T>({s.batch, s.kv_heads, s.keys, s.value_dim}, output());
    lse = stored<accumulate>({s.batch, s.heads, s.rows, 1}, s.lse_layout);
    d_lse = stored<accumulate>({s.batch, s.heads, s.rows, 1}, input());
    with_d_lse = random.chance(0.5);
    d_out.fill([&](auto...) { return random.normal(); });
    d_lse.fill([&](auto...) { return with_d_lse ? random.normal() : 0.0; });
  }

  [[nodiscard]] tensor<double, 4> exact_d_out() const { return widened(gathered(d_out.view())); }
  [[nodiscard]] tensor<double, 3> exact_d_lse() const {
    tensor<double, 3> to({d_lse.view().extent(0), d_lse.view().extent(1), d_lse.view().extent(2)});
    const tensor<accumulate, 4> from = gathered(d_lse.view());
    for (index_t i = 0; i < from.size(); ++i) to.data()[i] = static_cast<double>(from.data()[i]);
    return to;
  }

  /// NaN in what a row that sees no key was given, and in what it has left unless a sink asks for that.
  template <class Rule>
  void soil_rows(scenario const& s, Rule const& rule, attention_options const& options) {
    const double garbage = std::numeric_limits<double>::quiet_NaN();
    for (index_t b = 0; b < s.batch; ++b) {
      const auto exists = reference::limits_of(rule, options.anchor, b, s.rows, s.keys);
      for (index_t h = 0; h < s.heads; ++h) {
        bool has_sink = false;
        reference::for_each_sink(rule, h, [&](float logit) { has_sink = has_sink || !std::isinf(logit); });
        for (index_t i = 0; i < s.rows; ++i) {
          bool is_empty = true;
          for (index_t j = exists.key_begin; is_empty && i < exists.query_len && j < exists.key_end; ++j) {
            const position at{b, h, i, j, exists.offset};
            reference::detail::staged<double> term{0};
            if (!reference::is_visible(rule, at, exists)) continue;
            reference::adjust<double>(rule, at, term);
            is_empty = term.is_hidden;
          }
          if (!is_empty) continue;
          // A sink has a gradient from every row that exists, by the lse that the row has left; its out is 0.
          const bool has_left = has_sink && i < exists.query_len;
          for (index_t d = 0; d < s.value_dim; ++d) {
            d_out.view()(b, h, i, d) = static_cast<T>(garbage);
            if (!has_left) out.view()(b, h, i, d) = static_cast<T>(garbage);
          }
          if (!has_left) lse.view()(b, h, i, 0) = static_cast<accumulate>(garbage);
        }
      }
    }
  }

 private:
  static tensor<double, 4> widened(tensor<T, 4> const& from) {
    tensor<double, 4> to({from.extent(0), from.extent(1), from.extent(2), from.extent(3)});
    for (index_t i = 0; i < from.size(); ++i) to.data()[i] = static_cast<double>(from.data()[i]);
    return to;
  }
};

/// What a call has written; compiled once for all its rules.
template <class T, class Exact>
void judge_gradients(exact_inputs const& inputs, gradient_buffers<T>& buffers,
                     reference::stage_gradients<accumulate_of<T>>&& stages, Exact const& exact_rule,
                     attention_options const& options, strictness how) {
  const gradient_verdict<T> judge(inputs, exact_rule, options, how);
  const differentiated<T> found{std::move(stages), gathered(buffers.dq.view()), gathered(buffers.dk.view()),
                                gathered(buffers.dv.view())};
  EXPECT_TRUE(judge(found));
  EXPECT_TRUE(buffers.dq.gaps_intact());
  EXPECT_TRUE(buffers.dk.gaps_intact());
  EXPECT_TRUE(buffers.dv.gaps_intact());
}

/// Calls the kernels with `rule`, which says what `given` does; the judge reads `given` itself.
template <class T, class Rule>
void run_gradients(combination const& given, every_rule const& everything, Rule const& rule,
                   strictness how = strictness::any_size) {
  using accumulate = accumulate_of<T>;
  scenario const& s = given.sizes;
  testing::Message what;
  what << given.these << "of " << type_name<T>() << " " << s;
  SCOPED_TRACE(what);
  const attention_options options = given.options();
  const auto exact_rule = everything.exact_rule();
  scenario_inputs<T, T, T> in(s);
  gradient_buffers<T> buffers(s);
  const tensor<double, 4> exact_d_out = buffers.exact_d_out();
  const tensor<double, 3> exact_d_lse = buffers.exact_d_lse();
  if (s.garbage) in.plant_garbage(s, exact_rule, options);

  reference::stage_gradients<accumulate> stages;
  reference::detail::append_zeros<accumulate>(rule, s.heads, stages);
  for (auto& each : stages.biases) make_stale(each);
  for (auto& each : stages.tables) make_stale(each);
  const auto call = [&](auto const& ranked, auto const& ranked_lse) {
    attention(ranked(in.query), ranked(in.key), ranked(in.value),
              into(ranked(buffers.out)).lse(ranked_lse(buffers.lse)), rule, options);
    if (s.garbage) buffers.soil_rows(s, exact_rule, options);
    gradient_targets to = with_stages(gradients(ranked(buffers.dq), ranked(buffers.dk), ranked(buffers.dv)), stages);
    if (buffers.with_d_lse) to = to.lse(ranked_lse(buffers.d_lse));
    attention_backward(ranked(in.query), ranked(in.key), ranked(in.value),
                       saved(ranked(buffers.out), ranked_lse(buffers.lse)), ranked(buffers.d_out), to, rule, options);
  };
  if (s.rank == 4) {
    call([](auto const& held) { return held.view(); }, [](auto const& held) { return held.lse3(); });
  } else if (s.rank == 3) {
    call([](auto const& held) { return held.rank3(); }, [](auto const& held) { return held.lse2(); });
  } else {
    call([](auto const& held) { return held.rank2(); }, [](auto const& held) { return held.lse1(); });
  }

  judge_gradients<T>({in.exact_query, in.exact_key, in.exact_value, exact_d_out, exact_d_lse}, buffers,
                     std::move(stages), exact_rule, options, how);
}

}  // namespace heed::test
