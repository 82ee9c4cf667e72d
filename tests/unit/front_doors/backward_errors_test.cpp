// Every rule that a backward pass can break: its code, its text, the same from validate and explain, nothing written.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "heed/heed.hpp"

namespace {

using namespace heed;

/// A call that is right: B 2, H 4 over 2, Sq 3, Skv 5, D 6, Dv 7. A test spoils one thing of it.
class BackwardErrors : public testing::Test {
 protected:
  using view = tensor_view<float, 4>;

  void SetUp() override {
    for (auto* written : {&dq_memory, &dk_memory, &dv_memory}) {
      for (index_t i = 0; i < written->size(); ++i) written->data()[i] = 777;
    }
    for (index_t i = 0; i < terms_memory.size(); ++i) terms_memory.data()[i] = 777;
  }
  void TearDown() override {
    for (auto* written : {&dq_memory, &dk_memory, &dv_memory}) {
      for (index_t i = 0; i < written->size(); ++i) ASSERT_EQ(written->data()[i], 777) << "a gradient was touched";
    }
    for (index_t i = 0; i < terms_memory.size(); ++i) {
      ASSERT_EQ(terms_memory.data()[i], 777) << "the gradient of a stage was touched";
    }
  }

  template <class Call>
  static void expect_error(Call const& call, char const* function, errc code, std::vector<std::string> const& parts) {
    try {
      call();
      ADD_FAILURE() << function << " did not refuse the call";
    } catch (error const& broken) {
      const std::string text = broken.what();
      EXPECT_EQ(broken.code(), code) << text;
      EXPECT_EQ(text.rfind(std::string(function) + ": ", 0), 0u) << text;
      for (auto const& part : parts)
        EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
      EXPECT_LT(text.size(), 500u) << text;
    }
  }

  template <class Q, class K, class V, class D, class Rule = no_mask>
  static void refused(Q const& query, K const& key, V const& value, saved_result const& forward, D const& d_out,
                      gradient_targets const& targets, errc code, std::vector<std::string> const& parts,
                      Rule const& rule = {}, attention_options const& options = {}) {
    expect_error([&] { attention_backward(query, key, value, forward, d_out, targets, rule, options); },
                 "heed::attention_backward", code, parts);
    expect_error([&] { (void)explain(query, key, value, forward, d_out, targets, rule, options); }, "heed::explain",
                 code, parts);
    EXPECT_EQ(validate(query, key, value, forward, d_out, targets, rule, options), code);
  }
  /// A right call but for these gradients, or this rule, or these options.
  template <class Rule = no_mask>
  void targets_refused(gradient_targets const& targets, errc code, std::vector<std::string> const& parts,
                       Rule const& rule = {}, attention_options const& options = {}) {
    refused(q, k, v, saved(out, lse), d_out, targets, code, parts, rule, options);
  }

  /// A view of other extents over the same memory; the call must be refused before it is read.
  static view reshaped(view const& x, axes<4> extents) { return {x.data(), extents}; }
  template <std::size_t Rank>
  tensor_view<float, Rank> terms(axes<Rank> extents) {
    return {terms_memory.data(), extents};
  }

  tensor<float, 4> q_memory{{2, 4, 3, 6}}, k_memory{{2, 2, 5, 6}}, v_memory{{2, 2, 5, 7}}, out_memory{{2, 4, 3, 7}},
      d_out_memory{{2, 4, 3, 7}}, dq_memory{{2, 4, 3, 6}}, dk_memory{{2, 2, 5, 6}}, dv_memory{{2, 2, 5, 7}};
  tensor<float, 3> lse_memory{{2, 4, 3}}, d_lse_memory{{2, 4, 3}};
  tensor<float, 1> terms_memory{{400}};
  view q = q_memory, k = k_memory, v = v_memory, out = out_memory, d_out = d_out_memory, dq = dq_memory, dk = dk_memory,
       dv = dv_memory;
  tensor_view<float, 3> lse = lse_memory, d_lse = d_lse_memory;
  float* const null = nullptr;
};

TEST_F(BackwardErrors, TheCallItselfIsRight) {
  const std::vector<float> four(4);
  const tensor<float, 2> table({8, 4}), terms_read({3, 5});
  const auto rule = causal{} & bias(terms_read) & sink{.logits = four} & alibi{.slopes = four} &
                    relative_bias{.table = table} & bias(terms_read);
  const auto targets = gradients(dq, dk, dv)
                           .bias(terms<2>({3, 5}))
                           .sink(tensor_view<float, 1>(terms_memory.data() + 20, {4}))
                           .slopes(tensor_view<float, 1>(terms_memory.data() + 30, {4}))
                           .table(tensor_view<float, 2>(terms_memory.data() + 40, {8, 4}))
                           .bias(tensor_view<float, 4>(terms_memory.data() + 100, {1, 1, 3, 5}))
                           .lse(d_lse);
  EXPECT_EQ(validate(q, k, v, saved(out, lse), d_out, targets, rule), errc::ok);
  EXPECT_EQ(validate(q, k, v, saved(out, lse), d_out, targets, rule, {.scale = 0.5}), errc::ok);
  EXPECT_EQ(validate(q, k, v, saved(out, lse), d_out, gradients(dq, dk, dv)), errc::ok);
  EXPECT_EQ(validate(q, k, v, saved(out, lse), d_out, gradients(dq, dk, dv), {.threads = 1}), errc::ok);
  EXPECT_EQ(validate(q, k, v, saved(out, lse), d_out, gradients(nullptr, nullptr, nullptr)), errc::ok);
  EXPECT_EQ(validate(q, k, v, saved(out, lse), d_out,
                     gradients(nullptr, dk, nullptr).bias(nullptr).bias(terms<2>({3, 5})), rule),
            errc::ok);
  // Tensors as well as views, of const elements where they are read.
  const tensor<float, 4> fixed_out = out_memory;
  EXPECT_EQ(validate(q_memory, k_memory, v_memory, saved(fixed_out, lse_memory), d_out_memory,
                     gradients(dq_memory, dk_memory, dv_memory).lse(d_lse_memory)),
            errc::ok);
  const std::string lines = explain(q, k, v, saved(out, lse), d_out, targets, rule);
  EXPECT_NE(lines.find("isa: "), std::string::npos) << lines;
  EXPECT_NE(lines.find("gradients: dq, dk, dv, bias gradient 1, bias gradient 2, sink gradient 1, slopes gradient 1, "
                       "table gradient 1\n"),
            std::string::npos)
      << lines;
  EXPECT_NE(explain(q, k, v, saved(out, lse), d_out, gradients(nullptr, nullptr, nullptr)).find("gradients: none\n"),
            std::string::npos);
  for (char const* line :
       {"tile: ", "accumulate: float32\n", "blocks: skipped 0, full 0, partial 8\n", "elements evaluated: 120\n",
        "key: ", "value: ", "bf16_dot: off\n", "dropout: off\n", "threads: 1\n", "splits: 1\n",
        // 120 scores; recomputed 6, dP 7, dq 6, dk 6, dv 7
        "flops: 7680\n", "bytes: ", "scratch: ", "causal: ", "bias (float32): ", "sink: ", "alibi: "}) {
    EXPECT_NE(lines.find(line), std::string::npos) << "no \"" << line << "\" in:\n" << lines;
  }
  EXPECT_NE(explain(q, k, v, saved(out, lse), d_out, gradients(dq, dk, dv), {.drop = {.p = 0.5, .seed = 3}})
                .find("dropout: p 0.5, seed 3, offset 0\n"),
            std::string::npos);
  tensor<float, 4> no_rows({2, 4, 0, 6}), no_out({2, 4, 0, 7});
  const tensor<float, 3> no_lse({2, 4, 0});
  EXPECT_NE(explain(no_rows, k, v, saved(no_out, no_lse), no_out, gradients(no_rows, dk, dv)).find("flops: 0\n"),
            std::string::npos);
}

/// Without a batch item there is no length to ask a rule or an anchor for, without a head no unit of work.
TEST(BackwardOfNothing, IsExplained) {
  for (const auto [batch, heads] : {std::array<index_t, 2>{0, 2}, {1, 0}, {0, 0}}) {
    tensor<float, 4> q({batch, heads, 3, 4}), k({batch, heads, 5, 4}), out({batch, heads, 3, 4});
    tensor<float, 4> dq({batch, heads, 3, 4}), dk({batch, heads, 5, 4}), dv({batch, heads, 5, 4});
    tensor<float, 3> lse({batch, heads, 3});
    const std::vector<index_t> lengths_of_items(static_cast<std::size_t>(batch), 5);
    const auto told = [&](auto const& rule, attention_options const& options) {
      return explain(q, k, k, saved(out, lse), out, gradients(dq, dk, dv), rule, options);
    };
    EXPECT_NE(told(no_mask{}, {}).find("flops: 0\n"), std::string::npos);
    EXPECT_NE(told(lengths{.key = lengths_of_items}, {}).find("flops: 0\n"), std::string::npos);
    EXPECT_NE(told(causal{}, {.anchor = at_offset(lengths_of_items)}).find("flops: 0\n"), std::string::npos);
  }
}

TEST_F(BackwardErrors, LowerRanks) {
  const tensor_view<float, 3> q3(q.data(), {2, 3, 6}), k3(k.data(), {2, 5, 6}), v3(v.data(), {2, 5, 7}),
      out3(out.data(), {2, 3, 7}), d_out3(d_out.data(), {2, 3, 7}), dq3(dq.data(), {2, 3, 6}),
      dk3(dk.data(), {2, 5, 6}), dv3(dv.data(), {2, 5, 7});
  const tensor_view<float, 2> q2(q.data(), {3, 6}), k2(k.data(), {5, 6}), v2(v.data(), {5, 7}),
      out2(out.data(), {3, 7}), d_out2(d_out.data(), {3, 7}), dq2(dq.data(), {3, 6}), dk2(dk.data(), {5, 6}),
      dv2(dv.data(), {5, 7}), lse2(lse.data(), {2, 3});
  const tensor_view<float, 1> lse1(lse.data(), {3});
  EXPECT_EQ(validate(q3, k3, v3, saved(out3, lse2), d_out3, gradients(dq3, dk3, dv3)), errc::ok);
  EXPECT_EQ(validate(q2, k2, v2, saved(out2, lse1), d_out2, gradients(dq2, dk2, dv2)), errc::ok);
  refused(q3, k3, v3, saved(out3, lse), d_out3, gradients(dq3, dk3, dv3), errc::wrong_rank,
          {"saved lse has rank 3 but must have rank 2", "without head_dim"});
  refused(q2, k2, v2, saved(out2, lse1), d_out2, gradients(dq, dk2, dv2), errc::wrong_rank,
          {"dq has rank 4 but must have rank 2"});
}

TEST_F(BackwardErrors, WhatAttentionRefuses) {
  refused(q, reshaped(k, {1, 2, 5, 6}), v, saved(out, lse), d_out, gradients(dq, dk, dv), errc::batch_size_mismatch,
          {"key must be"});
  refused(q, view(null, {2, 2, 5, 6}), v, saved(out, lse), d_out, gradients(dq, dk, dv), errc::null_data, {"key"});
  targets_refused(gradients(dq, dk, dv), errc::negative_threads, {"options.threads"}, no_mask{}, {.threads = -1});
  targets_refused(gradients(dq, dk, dv), errc::negative_window, {"window.left"}, window{.left = -1});
  const std::vector<float> two(2);
  targets_refused(gradients(dq, dk, dv), errc::slopes_wrong_count, {"alibi.slopes"}, alibi{.slopes = two});
}

TEST_F(BackwardErrors, Ranks) {
  const auto all = gradients(dq, dk, dv);
  const tensor_view<float, 3> three(out.data(), {4, 3, 7});
  const tensor_view<float, 2> two(lse.data(), {2, 3});
  refused(q, k, v, saved(three, lse), d_out, all, errc::wrong_rank,
          {"saved out has rank 3 but must have rank 4: the axes of query"});
  refused(q, k, v, saved(out, two), d_out, all, errc::wrong_rank, {"saved lse has rank 2 but must have rank 3"});
  refused(q, k, v, saved(out, lse), three, all, errc::wrong_rank, {"d_out has rank 3"});
  targets_refused(gradients(dq, dk, dv).lse(two), errc::wrong_rank, {"d_lse has rank 2"});
  targets_refused(gradients(three, dk, dv), errc::wrong_rank, {"dq has rank 3"});
  targets_refused(gradients(dq, three, dv), errc::wrong_rank, {"dk has rank 3"});
  targets_refused(gradients(dq, dk, three), errc::wrong_rank, {"dv has rank 3"});
}

TEST_F(BackwardErrors, Shapes) {
  const auto all = gradients(dq, dk, dv);
  refused(q, k, v, saved(reshaped(out, {1, 4, 3, 7}), lse), d_out, all, errc::batch_size_mismatch,
          {"saved out must be [batch_size=2, num_heads=4, seq_len_q=3, head_dim_v=7], got [1, 4, 3, 7]"});
  refused(q, k, v, saved(out, tensor_view<float, 3>(lse.data(), {2, 4, 2})), d_out, all, errc::seq_len_mismatch,
          {"saved lse must be [batch_size=2, num_heads=4, seq_len_q=3], got [2, 4, 2]"});
  refused(q, k, v, saved(out, lse), reshaped(d_out, {2, 4, 3, 6}), all, errc::head_dim_mismatch,
          {"d_out must be", "got [2, 4, 3, 6]"});
  targets_refused(all.lse(tensor_view<float, 3>(d_lse.data(), {2, 3, 3})), errc::num_heads_mismatch,
                  {"d_lse must be", "got [2, 3, 3]"});
  targets_refused(gradients(reshaped(dq, {2, 4, 3, 7}), dk, dv), errc::head_dim_mismatch,
                  {"dq must be [batch_size=2, num_heads=4, seq_len_q=3, head_dim_qk=6]"});
  targets_refused(gradients(dq, reshaped(dk, {2, 4, 5, 6}), dv), errc::num_heads_mismatch,
                  {"dk must be [batch_size=2, num_kv_heads=2, seq_len_kv=5, head_dim_qk=6], got [2, 4, 5, 6]"});
  targets_refused(gradients(dq, dk, reshaped(dv, {2, 2, 4, 7})), errc::seq_len_mismatch,
                  {"dv must be [batch_size=2, num_kv_heads=2, seq_len_kv=5, head_dim_v=7], got [2, 2, 4, 7]"});
}

TEST_F(BackwardErrors, Memory) {
  const auto all = gradients(dq, dk, dv);
  refused(q, k, v, saved(view(null, {2, 4, 3, 7}), lse), d_out, all, errc::null_data, {"saved out", "[2, 4, 3, 7]"});
  refused(q, k, v, saved(out, tensor_view<float, 3>(null, {2, 4, 3})), d_out, all, errc::null_data,
          {"saved lse has the shape [2, 4, 3]"});
  refused(q, k, v, saved(out, lse), view(null, {2, 4, 3, 7}), all, errc::null_data, {"d_out"});
  targets_refused(gradients(view(null, {2, 4, 3, 6}), dk, dv), errc::null_data, {"dq"});
  targets_refused(gradients(dq, reshaped(dk, {2, 2, -5, 6}), dv), errc::negative_extent, {"dk", "[2, 2, -5, 6]"});
  const index_t huge = index_t{1} << 61;
  targets_refused(gradients(dq, dk, view(dv.data(), {2, 2, 5, 7}, {huge, huge, huge, huge})), errc::size_overflow,
                  {"dv", "64-bit"});
  const tensor<float, 3> read({4, 3, 5});
  targets_refused(all.bias(tensor_view<float, 3>(null, {4, 3, 5})), errc::null_data,
                  {"bias gradient 1 has the shape [4, 3, 5]"}, bias(read));
  targets_refused(all.bias(nullptr).bias(terms<1>({-5})), errc::negative_extent, {"bias gradient 2", "[-5]"},
                  bias(read) & bias(read));
}

TEST_F(BackwardErrors, ElementTypes) {
  const tensor<double, 3> wide({2, 4, 3});
  const tensor<double, 4> wide_query({2, 4, 3, 6});
  const tensor<half, 3> narrow({2, 4, 3});
  refused(q, k, v, saved(out, wide), d_out, gradients(dq, dk, dv), errc::wrong_element_type,
          {"saved lse is float64 but query is float32", "lse is float, or double where query is double"});
  targets_refused(gradients(dq, dk, dv).lse(wide), errc::wrong_element_type, {"d_lse is float64"});
  targets_refused(gradients(dq, dk, dv).lse(narrow), errc::wrong_element_type, {"d_lse is float16"});
  EXPECT_EQ(validate(wide_query, k, v, saved(out, wide), d_out, gradients(dq, dk, dv).lse(d_lse)), errc::ok);
  tensor<bfloat16, 4> narrow_dq({2, 4, 3, 6});
  EXPECT_EQ(validate(q, k, v, saved(out, lse), d_out, gradients(narrow_dq, dk, dv)), errc::ok);
}

TEST_F(BackwardErrors, AGradientAndAnInput) {
  targets_refused(gradients(q, dk, dv), errc::output_overlaps_input,
                  {"dq and query share an element", "give dq memory of its own"});
  targets_refused(gradients(dq, k, dv), errc::output_overlaps_input, {"dk and key"});
  targets_refused(gradients(dq, dk, v), errc::output_overlaps_input, {"dv and value"});
  targets_refused(gradients(reshaped(d_out, {2, 4, 3, 6}), dk, dv), errc::output_overlaps_input, {"dq and d_out"});
  targets_refused(gradients(reshaped(out, {2, 4, 3, 6}), dk, dv), errc::output_overlaps_input, {"dq and saved out"});
  const std::vector<float> four(4);
  tensor_view<float, 1> in_lse(lse.data() + 20, {4}), in_d_lse(d_lse.data(), {4});
  targets_refused(gradients(dq, dk, dv).sink(in_lse), errc::output_overlaps_input, {"sink gradient 1 and saved lse"},
                  sink{.logits = four});
  targets_refused(gradients(dq, dk, dv).slopes(nullptr).slopes(in_d_lse).lse(d_lse), errc::output_overlaps_input,
                  {"slopes gradient 2 and d_lse"}, alibi{.slopes = four} & alibi{.slopes = four});
  const list<index_t> offsets = std::span<index_t const>(reinterpret_cast<index_t*>(dk.data()), 2);
  targets_refused(gradients(dq, dk, dv), errc::output_overlaps_input, {"dk and the offsets of at_offset"}, causal{},
                  {.anchor = at_offset(offsets)});
}

TEST_F(BackwardErrors, AGradientAndWhatTheRuleReads) {
  const tensor_view<float const, 2> in_dv(dv.data() + 3, {3, 5});
  const list<float> numbers = std::span<float const>(dq.data() + 7, 4);
  targets_refused(gradients(dq, dk, dv), errc::output_overlaps_input, {"dv and bias share an element"}, bias(in_dv));
  targets_refused(gradients(dq, nullptr, nullptr), errc::output_overlaps_input, {"dq and sink.logits"},
                  sink{.logits = numbers});
  const tensor_view<float, 2> own = terms<2>({3, 5});
  targets_refused(gradients(dq, dk, dv).bias(own), errc::output_overlaps_input, {"bias gradient 1 and bias"},
                  bias(own));
  const tensor_view<bool const, 2> bits(reinterpret_cast<bool const*>(dk.data()), {3, 5});
  targets_refused(gradients(dq, dk, dv), errc::output_overlaps_input, {"dk and keep_mask"}, keep_mask(bits));
  EXPECT_EQ(validate(q, k, v, saved(out, lse), d_out, gradients(dq, dk, nullptr), bias(in_dv)), errc::ok);
}

TEST_F(BackwardErrors, TwoGradients) {
  const tensor<float, 2> read({3, 5});
  targets_refused(gradients(dq, reshaped(dq, {2, 2, 5, 6}), dv), errc::output_overlaps_output,
                  {"dk and dq share an element"});
  targets_refused(gradients(dq, dk, dv).bias(tensor_view<float, 2>(dv.data(), {3, 5})), errc::output_overlaps_output,
                  {"bias gradient 1 and dv"}, bias(read));
  targets_refused(gradients(dq, dk, dv).bias(terms<2>({3, 5})).bias(terms<2>({3, 5})), errc::output_overlaps_output,
                  {"bias gradient 2 and bias gradient 1"}, bias(read) & bias(read));
}

TEST_F(BackwardErrors, AGradientAndItself) {
  const tensor<float, 2> read({3, 5});
  targets_refused(gradients(view(dq.data(), {2, 4, 3, 6}, {72, 18, 0, 1}), dk, dv), errc::output_overlaps_itself,
                  {"dq has strides that give two indices the same element"});
  targets_refused(gradients(dq, dk, dv).bias(tensor_view<float, 2>(terms_memory.data(), {3, 5}, {4, 1})),
                  errc::output_overlaps_itself, {"bias gradient 1 has strides"}, bias(read));
  // What is repeated has extent 1, whatever its stride.
  const tensor<float, 2> column({3, 1});
  EXPECT_EQ(
      validate(q, k, v, saved(out, lse), d_out,
               gradients(dq, dk, dv).bias(tensor_view<float, 2>(terms_memory.data(), {3, 1}, {1, 1})), bias(column)),
      errc::ok);
}

TEST_F(BackwardErrors, GradientsWithoutAStage) {
  const tensor<float, 2> read({3, 5});
  const std::vector<float> four(4);
  targets_refused(gradients(dq, dk, dv).bias(terms<2>({3, 5})), errc::gradient_without_stage,
                  {"gradients(...).bias: 1 given, but the rule has 0 of heed::bias", "nullptr"}, causal{});
  targets_refused(gradients(dq, dk, dv).bias(nullptr).bias(nullptr), errc::gradient_without_stage,
                  {"2 given", "has 1 of heed::bias"}, causal{} & bias(read));
  targets_refused(gradients(dq, dk, dv).sink(terms<1>({4})), errc::gradient_without_stage, {".sink", "0 of heed::sink"},
                  alibi{.slopes = four});
  targets_refused(gradients(dq, dk, dv).slopes(terms<1>({4})), errc::gradient_without_stage,
                  {".slopes", "0 of heed::alibi"}, sink{.logits = four});
  targets_refused(gradients(dq, dk, dv).table(terms<2>({8, 4})), errc::gradient_without_stage,
                  {".table", "0 of heed::relative_bias"});
}

TEST_F(BackwardErrors, GradientsOfAnotherShape) {
  const tensor<float, 2> read({3, 5}), table({8, 4});
  const tensor<float, 3> heads({4, 1, 5});
  const std::vector<float> four(4);
  targets_refused(gradients(dq, dk, dv).bias(terms<2>({1, 5})), errc::gradient_wrong_shape,
                  {"bias gradient 1 has the shape [1, 5]", "the bias it belongs to has [3, 5]", "summed over"},
                  bias(read));
  targets_refused(gradients(dq, dk, dv).bias(terms<4>({2, 4, 3, 5})), errc::gradient_wrong_shape,
                  {"[2, 4, 3, 5]", "has [3, 5]"}, bias(read));
  targets_refused(gradients(dq, dk, dv).bias(nullptr).bias(terms<3>({4, 3, 5})), errc::gradient_wrong_shape,
                  {"bias gradient 2 has the shape [4, 3, 5]", "[4, 1, 5]"}, bias(read) & causal{} & bias(heads));
  targets_refused(gradients(dq, dk, dv).sink(terms<1>({3})), errc::gradient_wrong_shape,
                  {"sink gradient 1 has the shape [3]", "the sink it belongs to has [4]"}, sink{.logits = four});
  targets_refused(gradients(dq, dk, dv).slopes(terms<1>({8})), errc::gradient_wrong_shape,
                  {"slopes gradient 1 has the shape [8]", "alibi", "[4]"}, alibi{.slopes = four});
  targets_refused(gradients(dq, dk, dv).table(terms<2>({4, 8})), errc::gradient_wrong_shape,
                  {"table gradient 1 has the shape [4, 8]", "relative_bias", "[8, 4]"}, relative_bias{.table = table});
}

}  // namespace
