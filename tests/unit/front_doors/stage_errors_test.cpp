// Every rule of a stage that a call can break: its code, its text, the same from validate, and no output touched.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heed/heed.hpp"

namespace {

using namespace heed;

/// B 2, H 4 over 2, Sq 3, Skv 5, D 6.
class StageErrors : public testing::Test {
 protected:
  template <class Rule>
  void refused(Rule const& rule, errc code, std::vector<std::string> const& parts) {
    for (index_t i = 0; i < out.size(); ++i) out.data()[i] = 777;
    try {
      attention(q, k, k, out, rule);
      ADD_FAILURE() << "the call was not refused";
    } catch (error const& broken) {
      const std::string text = broken.what();
      EXPECT_EQ(broken.code(), code) << text;
      for (auto const& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\": " << text;
      EXPECT_LT(text.size(), 500u) << text;
    }
    EXPECT_EQ(validate(q, k, k, out, rule), code);
    EXPECT_EQ(validate(q, k, k, out, causal{} & rule), code);
    for (index_t i = 0; i < out.size(); ++i) ASSERT_EQ(out.data()[i], 777) << "out was touched";
  }

  tensor<float, 4> q{{2, 4, 3, 6}}, k{{2, 2, 5, 6}}, out{{2, 4, 3, 6}};
  tensor<float, 1> memory{{1000}};
  tensor_view<float const, 2> table(index_t buckets, index_t heads) const {
    return tensor_view<float const, 2>(memory.data(), {buckets, heads});
  }
};

TEST_F(StageErrors, BiasBroadcasts) {
  refused(bias(tensor_view<float const, 2>(memory.data(), {3, 6})), errc::bias_not_broadcastable,
          {"bias has the shape [3, 6]", "[batch_size=2, num_heads=4, seq_len_q=3, seq_len_kv=5]", "align right"});
  refused(bias(tensor_view<float const, 4>(memory.data(), {1, 3, 1, 5})), errc::bias_not_broadcastable,
          {"bias has the shape [1, 3, 1, 5]"});
  refused(bias(tensor_view<float const, 3>(memory.data(), {2, 3, 5})), errc::bias_not_broadcastable,
          {"rank 3 is [num_heads, seq_len_q, seq_len_kv]", "one bias per batch item is [batch_size, 1,"});
  refused(bias(tensor_view<float const, 1>(memory.data(), {0})), errc::bias_not_broadcastable, {"[0]"});
  refused(bias(tensor_view<float const, 2>(nullptr, {3, 5})), errc::null_data, {"bias", "[3, 5]"});
  refused(bias(tensor_view<float const, 3>(nullptr, {4, 3, 5})), errc::null_data, {"bias", "[4, 3, 5]"});
  refused(bias(tensor_view<float const, 1>(nullptr, {5})), errc::null_data, {"bias has the shape [5]"});
  for (auto const& shape : {axes<4>(2, 4, 3, 5), axes<4>(1, 1, 1, 1), axes<4>(2, 1, 1, 5), axes<4>(1, 4, 3, 1)}) {
    EXPECT_EQ(validate(q, k, k, out, bias(tensor_view<float const, 4>(memory.data(), shape))), errc::ok);
  }
}

TEST_F(StageErrors, OneNumberForEachQueryHead) {
  const std::vector<float> two(2), four(4), five(5);
  refused(alibi{.slopes = two}, errc::slopes_wrong_count,
          {"alibi.slopes has 2 numbers for num_heads 4", "one for each query head", "alibi_slopes"});
  refused(alibi{.slopes = five}, errc::slopes_wrong_count, {"5"});
  refused(alibi{}, errc::slopes_wrong_count, {"0 numbers"});
  refused(sink{.logits = two}, errc::logits_wrong_count, {"sink.logits has 2 numbers for num_heads 4"});
  refused(sink{}, errc::logits_wrong_count, {"0 numbers"});
  refused(sink{.logits = four} & sink{.logits = five}, errc::logits_wrong_count, {"5"});
  EXPECT_EQ(validate(q, k, k, out, alibi{.slopes = four} & sink{.logits = four}), errc::ok);
}

TEST_F(StageErrors, TablesOfRelativeBiases) {
  refused(relative_bias{.table = table(32, 2)}, errc::table_wrong_shape,
          {"relative_bias.table has the shape [32, 2]", "[buckets, num_heads=4]", "at least 2"});
  refused(relative_bias{.table = table(4, 32)}, errc::table_wrong_shape, {"[4, 32]"});
  refused(relative_bias{.table = table(1, 4)}, errc::table_wrong_shape, {"[1, 4]"});
  refused(relative_bias{}, errc::table_wrong_shape, {"[0, 0]"});
  refused(relative_bias{.table = tensor_view<float const, 2>(nullptr, {32, 4})}, errc::null_data,
          {"relative_bias.table"});
  refused(relative_bias{.table = table(32, 4), .max_distance = 8}, errc::bad_max_distance,
          {"relative_bias.max_distance is 8", "first 8 of 16 buckets of a direction", "greater"});
  refused(relative_bias{.table = table(32, 4), .bidirectional = false, .max_distance = 16}, errc::bad_max_distance,
          {"is 16", "first 16 of 32 buckets stand"});
  refused(relative_bias{.table = table(2, 4), .max_distance = 0}, errc::bad_max_distance, {"is 0"});
  refused(relative_bias{.table = table(32, 4), .max_distance = INT64_MIN}, errc::bad_max_distance, {});
  EXPECT_EQ(validate(q, k, k, out, relative_bias{.table = table(32, 4), .max_distance = 9}), errc::ok);
  EXPECT_EQ(validate(q, k, k, out, relative_bias{.table = table(2, 4), .max_distance = 1}), errc::ok);
}

TEST_F(StageErrors, WhatAStageReadsIsNoOutput) {
  float* const inside = out.data();
  refused(bias(tensor_view<float const, 2>(inside + 20, {3, 5})), errc::output_overlaps_input, {"out", "bias"});
  refused(relative_bias{.table = tensor_view<float const, 2>(inside, {8, 4})}, errc::output_overlaps_input,
          {"out", "relative_bias.table"});
  const list<float> numbers = std::span<float const>(inside + 7, 4);
  refused(alibi{.slopes = numbers}, errc::output_overlaps_input, {"out", "alibi.slopes"});
  refused(sink{.logits = numbers}, errc::output_overlaps_input, {"out", "sink.logits"});
}

}  // namespace
