// Every rule that a call can break: its code, its text, the same from validate and explain, and no output touched.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "heed/heed.hpp"
#include "heed/view/layout.hpp"

namespace {

using namespace heed;

/// A call that is right: B 2, H 4 over 2, Sq 3, Skv 5, D 6, Dv 7. A test spoils one thing of it.
class Errors : public testing::Test {
 protected:
  using view = tensor_view<float, 4>;

  void SetUp() override {
    for (auto* filled : {&out_memory, &weights_memory}) {
      for (index_t i = 0; i < filled->size(); ++i) filled->data()[i] = 777;
    }
    for (index_t i = 0; i < lse_memory.size(); ++i) lse_memory.data()[i] = 777;
  }
  void TearDown() override {
    for (auto* filled : {&out_memory, &weights_memory}) {
      for (index_t i = 0; i < filled->size(); ++i) ASSERT_EQ(filled->data()[i], 777) << "an output was touched";
    }
    for (index_t i = 0; i < lse_memory.size(); ++i) ASSERT_EQ(lse_memory.data()[i], 777) << "lse was touched";
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

  /// The call must be refused with this code and a text that holds all of `parts`.
  template <class Q, class K, class V, class O, class Rule = no_mask>
  static void refused(Q const& query, K const& key, V const& value, O const& to, errc code,
                      std::vector<std::string> const& parts, Rule const& rule = {},
                      attention_options const& options = {}) {
    expect_error([&] { attention(query, key, value, to, rule, options); }, "heed::attention", code, parts);
    expect_error([&] { (void)explain(query, key, value, to, rule, options); }, "heed::explain", code, parts);
    EXPECT_EQ(validate(query, key, value, to, rule, options), code);
  }
  /// The same for what does not concern the outputs: the allocating forms refuse it too.
  template <class Q, class K, class V, class Rule = no_mask>
  void inputs_refused(Q const& query, K const& key, V const& value, errc code, std::vector<std::string> const& parts,
                      Rule const& rule = {}, attention_options const& options = {}) {
    refused(query, key, value, into(out).lse(lse).weights(weights), code, parts, rule, options);
    refused(query, key, value, out, code, parts, rule, options);
    expect_error([&] { (void)attention(query, key, value, rule, options); }, "heed::attention", code, parts);
    expect_error([&] { (void)attention_with_weights(query, key, value, rule, options); },
                 "heed::attention_with_weights", code, parts);
    expect_error([&] { (void)explain(query, key, value, rule, options); }, "heed::explain", code, parts);
    EXPECT_EQ(validate(query, key, value, rule, options), code);
  }

  tensor<float, 4> q_memory{{2, 4, 3, 6}}, k_memory{{2, 2, 5, 6}}, v_memory{{2, 2, 5, 7}}, out_memory{{2, 4, 3, 7}},
      weights_memory{{2, 4, 3, 5}};
  tensor<float, 3> lse_memory{{2, 4, 3}};
  view q = q_memory, k = k_memory, v = v_memory, out = out_memory, weights = weights_memory;
  tensor_view<float, 3> lse = lse_memory;
  float* const null = nullptr;
};

/// A view of other extents over the same memory; the call must be refused before it is read.
tensor_view<float, 4> reshaped(tensor_view<float, 4> const& x, axes<4> extents) { return {x.data(), extents}; }

TEST_F(Errors, TheCallItselfIsRight) {
  EXPECT_EQ(validate(q, k, v, into(out).lse(lse).weights(weights)), errc::ok);
  EXPECT_EQ(validate(q, k, v), errc::ok);
  EXPECT_FALSE(explain(q, k, v, into(out).lse(lse).weights(weights)).empty());
}

TEST_F(Errors, NegativeExtent) {
  inputs_refused(reshaped(q, {2, 4, -3, 6}), k, v, errc::negative_extent, {"query", "[2, 4, -3, 6]", "0 or more"});
  inputs_refused(q, reshaped(k, {2, 2, -5, 6}), v, errc::negative_extent, {"key", "[2, 2, -5, 6]"});
  inputs_refused(q, k, reshaped(v, {-2, 2, 5, 7}), errc::negative_extent, {"value", "[-2, 2, 5, 7]"});
  refused(q, k, v, reshaped(out, {2, 4, 3, -7}), errc::negative_extent, {"out", "[2, 4, 3, -7]"});
  refused(q, k, v, into(out).lse(tensor_view<float, 3>(lse.data(), {2, -4, 3})), errc::negative_extent,
          {"lse", "[2, -4, 3]"});
}

TEST_F(Errors, SizeOverflow) {
  const index_t huge = index_t{1} << 61;
  inputs_refused(view(q.data(), {2, 4, 3, 6}, {index_t{72}, index_t{18}, huge, index_t{1}}), k, v, errc::size_overflow,
                 {"query", "[2, 4, 3, 6]", "64-bit"});
  inputs_refused(q, view(k.data(), {2, 2, 5, 6}, {INT64_MIN, index_t{1}, index_t{1}, index_t{1}}), v,
                 errc::size_overflow, {"key", "[2, 2, 5, 6]"});
  inputs_refused(q, k, view(v.data(), {2, 2, 5, 7}, {INT64_MAX, index_t{1}, index_t{1}, index_t{1}}),
                 errc::size_overflow, {"value"});
  refused(q, k, v, view(out.data(), {2, 4, 3, 7}, {huge, -huge, huge, huge}), errc::size_overflow, {"out"});
  const index_t many = index_t{1} << 40;
  inputs_refused(view(q.data(), {many, many, many, many}, {0, 0, 0, 0}), k, v, errc::size_overflow, {"query"});
  const bool bit = true;
  inputs_refused(q, k, v, errc::size_overflow, {"keep_mask"},
                 keep_mask(tensor_view<bool const, 2>(&bit, {3, 5}, {INT64_MAX, index_t{1}})));
}

TEST_F(Errors, NullData) {
  inputs_refused(reshaped({null, {2, 4, 3, 6}}, {2, 4, 3, 6}), k, v, errc::null_data,
                 {"query", "[2, 4, 3, 6]", "null", "only an empty view"});
  inputs_refused(q, view(null, {2, 2, 5, 6}), v, errc::null_data, {"key"});
  inputs_refused(q, k, view(null, {2, 2, 5, 7}), errc::null_data, {"value"});
  refused(q, k, v, view(null, {2, 4, 3, 7}), errc::null_data, {"out"});
  refused(q, k, v, into(out).lse(tensor_view<float, 3>(null, {2, 4, 3})), errc::null_data, {"lse"});
  refused(q, k, v, into(out).weights(view(null, {2, 4, 3, 5})), errc::null_data, {"weights"});
  refused(q, k, v, into(out).scores(view(null, {2, 4, 3, 5}), score_stage::raw), errc::null_data, {"scores"});
  inputs_refused(q, k, v, errc::null_data, {"drop_mask"}, drop_mask(tensor_view<bool const, 1>(nullptr, {5})));
}

TEST_F(Errors, WrongRank) {
  const tensor_view<float, 3> three(k.data(), {2, 5, 6});
  const tensor_view<float, 2> two(q.data(), {3, 6});
  const tensor_view<float, 1> one(q.data(), {6});
  inputs_refused(q, three, v, errc::wrong_rank, {"key has rank 3", "query has rank 4"});
  inputs_refused(q, k, tensor_view<float, 2>(v.data(), {5, 7}), errc::wrong_rank, {"value has rank 2"});
  inputs_refused(one, k, v, errc::wrong_rank, {"query has rank 1"});
  refused(q, k, v, tensor_view<float, 3>(out.data(), {2, 3, 7}), errc::wrong_rank, {"out has rank 3"});
  refused(q, k, v, into(out).lse(tensor_view<float, 2>(lse.data(), {2, 3})), errc::wrong_rank,
          {"lse has rank 2", "rank 3"});
  refused(two, two, two, into(tensor_view<float, 2>(out.data(), {3, 6})).lse(lse), errc::wrong_rank,
          {"lse has rank 3", "rank 1"});
  refused(q, k, v, into(out).weights(tensor_view<float, 2>(weights.data(), {3, 5})), errc::wrong_rank,
          {"weights has rank 2", "rank 4"});
  refused(q, k, v, into(out).scores(tensor_view<float, 2>(weights.data(), {3, 5}), score_stage::raw), errc::wrong_rank,
          {"scores has rank 2", "rank 4"});
}

TEST_F(Errors, BatchSizeMismatch) {
  inputs_refused(q, reshaped(k, {1, 2, 5, 6}), v, errc::batch_size_mismatch,
                 {"key must be [batch_size=2, num_kv_heads=2, seq_len_kv=5, head_dim_qk=6], got [1, 2, 5, 6]"});
  inputs_refused(q, k, reshaped(v, {1, 2, 5, 7}), errc::batch_size_mismatch, {"value must be", "got [1, 2, 5, 7]"});
  refused(q, k, v, reshaped(out, {1, 4, 3, 7}), errc::batch_size_mismatch,
          {"out must be [batch_size=2", "got [1, 4, 3, 7]"});
  refused(q, k, v, into(out).lse(tensor_view<float, 3>(lse.data(), {1, 4, 3})), errc::batch_size_mismatch,
          {"lse must be [batch_size=2, num_heads=4, seq_len_q=3], got [1, 4, 3]"});
  refused(q, k, v, into(out).weights(reshaped(weights, {1, 4, 3, 5})), errc::batch_size_mismatch, {"weights must be"});
}

TEST_F(Errors, HeadsNotDivisibleOrDifferent) {
  inputs_refused(reshaped(q, {2, 3, 3, 6}), k, v, errc::heads_not_divisible,
                 {"num_heads (3) must be a multiple of num_kv_heads (2)"});
  inputs_refused(q, reshaped(k, {2, 0, 5, 6}), reshaped(v, {2, 0, 5, 7}), errc::heads_not_divisible,
                 {"num_heads (4)", "num_kv_heads (0)"});
  inputs_refused(reshaped(q, {2, 1, 3, 6}), k, v, errc::heads_not_divisible, {"num_heads (1)", "num_kv_heads (2)"});
  inputs_refused(q, k, reshaped(v, {2, 1, 5, 7}), errc::num_heads_mismatch,
                 {"value must be", "num_kv_heads=2", "got [2, 1, 5, 7]"});
  refused(q, k, v, reshaped(out, {2, 2, 3, 7}), errc::num_heads_mismatch, {"out must be", "num_heads=4"});
  tensor<float, 4> more({2, 8, 3, 7});
  refused(q, k, v, reshaped(more, {2, 8, 3, 7}), errc::num_heads_mismatch,
          {"out must be", "num_heads=4", "got [2, 8, 3, 7]"});
  refused(q, k, v, into(out).lse(tensor_view<float, 3>(lse.data(), {2, 2, 3})), errc::num_heads_mismatch, {"lse"});
  refused(q, k, v, into(out).weights(reshaped(weights, {2, 2, 3, 5})), errc::num_heads_mismatch, {"weights"});
}

TEST_F(Errors, SeqLenMismatch) {
  inputs_refused(q, k, reshaped(v, {2, 2, 4, 7}), errc::seq_len_mismatch,
                 {"value must be", "seq_len_kv=5", "got [2, 2, 4, 7]"});
  refused(q, k, v, reshaped(out, {2, 4, 2, 7}), errc::seq_len_mismatch, {"out must be", "seq_len_q=3"});
  refused(q, k, v, reshaped(out, {2, 4, 7, 3}), errc::seq_len_mismatch, {"got [2, 4, 7, 3]"});  // transposed
  refused(q, k, v, into(out).lse(tensor_view<float, 3>(lse.data(), {2, 4, 2})), errc::seq_len_mismatch, {"lse"});
  refused(q, k, v, into(out).weights(reshaped(weights, {2, 4, 3, 4})), errc::seq_len_mismatch,
          {"weights must be [batch_size=2, num_heads=4, seq_len_q=3, seq_len_kv=5], got [2, 4, 3, 4]"});
  refused(q, k, v, into(out).weights(reshaped(weights, {2, 4, 2, 5})), errc::seq_len_mismatch, {"weights"});
  refused(q, k, v,
          into(out).scores(weights, score_stage::raw).scores(reshaped(weights, {2, 4, 3, 4}), score_stage::biased),
          errc::seq_len_mismatch,
          {"scores must be [batch_size=2, num_heads=4, seq_len_q=3, seq_len_kv=5], got [2, 4, 3, 4]"});
}

TEST_F(Errors, HeadDimMismatchOrZero) {
  inputs_refused(q, reshaped(k, {2, 2, 5, 5}), v, errc::head_dim_mismatch,
                 {"key must be", "head_dim_qk=6", "got [2, 2, 5, 5]"});
  refused(q, k, v, reshaped(out, {2, 4, 3, 6}), errc::head_dim_mismatch, {"out must be", "head_dim_v=7"});
  const tensor<float, 4> wide({2, 2, 5, 7});  // more than there must be is as wrong as less
  inputs_refused(q, wide, v, errc::head_dim_mismatch, {"key must be", "head_dim_qk=6", "got [2, 2, 5, 7]"});
  inputs_refused(reshaped(q, {2, 4, 3, 0}), reshaped(k, {2, 2, 5, 0}), v, errc::zero_head_dim,
                 {"query has head_dim 0", "[2, 4, 3, 0]", "at least 1"});
  inputs_refused(q, k, reshaped(v, {2, 2, 5, 0}), errc::zero_head_dim, {"value has head_dim 0"});
  inputs_refused(reshaped(q, {2, 4, 3, 0}), reshaped(k, {2, 2, 5, 0}), v, errc::zero_head_dim, {"query"}, no_mask{},
                 {.scale = 1.0});
}

TEST_F(Errors, RanksTwoAndThreeNameTheirOwnAxes) {
  const tensor_view<float, 3> q3(q.data(), {2, 3, 6}), k3(k.data(), {2, 5, 6}), v3(v.data(), {2, 4, 7});
  refused(q3, k3, v3, tensor_view<float, 3>(out.data(), {2, 3, 7}), errc::seq_len_mismatch,
          {"value must be [batch_size=2, seq_len_kv=5, head_dim_v=7], got [2, 4, 7]"});
  const tensor_view<float, 2> q2(q.data(), {3, 6}), k2(k.data(), {5, 4});
  refused(q2, k2, k2, tensor_view<float, 2>(out.data(), {3, 4}), errc::head_dim_mismatch,
          {"key must be [seq_len_kv=5, head_dim_qk=6], got [5, 4]"});
}

TEST_F(Errors, BadScale) {
  for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                     -std::numeric_limits<double>::infinity()}) {
    inputs_refused(q, k, v, errc::bad_scale, {"options.scale", "finite"}, no_mask{}, {.scale = bad});
  }
  EXPECT_EQ(validate(q, k, v, out, {.scale = 0.0}), errc::ok);
  EXPECT_EQ(validate(q, k, v, out, {.scale = -3.0}), errc::ok);
}

TEST_F(Errors, BadDropout) {
  for (double bad : {-0.5, 1.5, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    inputs_refused(q, k, v, errc::bad_dropout, {"options.drop.p", "from 0 (leave it out) to 1"}, no_mask{},
                   {.drop = {.p = bad}});
  }
  EXPECT_EQ(validate(q, k, v, out, {.drop = {.p = 1}}), errc::ok);
}

TEST_F(Errors, NegativeThreads) {
  inputs_refused(q, k, v, errc::negative_threads, {"options.threads is -1", "0 for as many"}, causal{},
                 {.threads = -1});
  inputs_refused(q, k, v, errc::negative_threads, {"-2147483648"}, causal{}, {.threads = INT32_MIN});
}

TEST_F(Errors, WrongElementTypeOfLse) {
  tensor<half, 3> narrow({2, 4, 3});
  tensor<double, 3> wide({2, 4, 3});
  refused(q, k, v, into(out).lse(narrow), errc::wrong_element_type, {"lse", "float16"});
  refused(q, k, v, into(out).lse(wide), errc::wrong_element_type, {"lse", "float64"});
  const tensor<double, 4> q_wide({2, 4, 3, 6});
  EXPECT_EQ(validate(q_wide, k, v, into(out).lse(wide)), errc::ok);
  EXPECT_EQ(validate(q_wide, k, v, into(out).lse(lse)), errc::ok);
}

TEST_F(Errors, MaskNotBroadcastable) {
  const tensor<bool, 4> bits({4, 5, 6, 7});
  const auto view_of = [&](axes<4> extents) { return tensor_view<bool const, 4>(bits.data(), extents); };
  inputs_refused(
      q, k, v, errc::mask_not_broadcastable,
      {"keep_mask has the shape [3, 6]", "[batch_size=2, num_heads=4, seq_len_q=3, seq_len_kv=5]", "align right"},
      keep_mask(tensor_view<bool const, 2>(bits.data(), {3, 6})));
  inputs_refused(q, k, v, errc::mask_not_broadcastable, {"drop_mask has the shape [1, 3, 1, 5]"},
                 drop_mask(view_of({1, 3, 1, 5})));
  inputs_refused(q, k, v, errc::mask_not_broadcastable, {"keep_mask has the shape [4]"},
                 causal{} & keep_mask(tensor_view<bool const, 1>(bits.data(), {4})));
  inputs_refused(q, k, v, errc::mask_not_broadcastable, {"[0]"},
                 keep_mask(tensor_view<bool const, 1>(bits.data(), {0})));
  // Rank 3 is one mask per head: one per batch item must say so.
  inputs_refused(q, k, v, errc::mask_not_broadcastable,
                 {"[2, 3, 5]", "[num_heads, seq_len_q, seq_len_kv]", "[batch_size, 1, "},
                 keep_mask(tensor_view<bool const, 3>(bits.data(), {2, 3, 5})));
  EXPECT_EQ(validate(q, k, v, out, keep_mask(tensor_view<bool const, 3>(bits.data(), {4, 3, 5}))), errc::ok);
}

TEST_F(Errors, LengthsWrongCount) {
  const std::vector<index_t> one{1}, three{1, 2, 3}, two{1, 2};
  inputs_refused(q, k, v, errc::lengths_wrong_count, {"lengths.key has 1 numbers", "batch_size 2"},
                 lengths{.key = one});
  inputs_refused(q, k, v, errc::lengths_wrong_count, {"lengths.query has 3"}, causal{} & lengths{.query = three});
  inputs_refused(q, k, v, errc::lengths_wrong_count, {"lengths.key_start has 1"},
                 lengths{.key = two, .key_start = one});
  inputs_refused(q, k, v, errc::offsets_wrong_count, {"at_offset has 3 offsets", "batch_size 2"}, causal{},
                 {.anchor = at_offset(three)});
}

TEST_F(Errors, LengthsOutOfRange) {
  const std::vector<index_t> fine{3, 5}, negative{2, -1}, long_key{6, 5}, long_query{3, 4}, huge{INT64_MAX, 1},
      two{2, 5};
  inputs_refused(q, k, v, errc::lengths_out_of_range, {"lengths.key[0] is 6", "seq_len_kv=5"},
                 lengths{.key = long_key});
  inputs_refused(q, k, v, errc::lengths_out_of_range, {"lengths.query[1] is 4", "seq_len_q=3"},
                 lengths{.query = long_query});
  inputs_refused(q, k, v, errc::lengths_out_of_range, {"lengths.key[1] is -1"}, lengths{.key = negative});
  inputs_refused(q, k, v, errc::lengths_out_of_range, {"lengths.key[0] is 9223372036854775807"}, lengths{.key = huge});
  inputs_refused(q, k, v, errc::lengths_out_of_range, {"lengths.key_start[1] is -1"}, lengths{.key_start = negative});
  inputs_refused(q, k, v, errc::lengths_out_of_range, {"lengths.key_start[0] is 3", "lengths.key (2)"},
                 causal{} & lengths{.key = two, .key_start = fine});
  EXPECT_EQ(validate(q, k, v, out, lengths{.key = fine, .key_start = fine}), errc::ok);
}

TEST_F(Errors, NegativeWindow) {
  inputs_refused(q, k, v, errc::negative_window, {"window.left is -1", "0 or more"}, window{.left = -1});
  inputs_refused(q, k, v, errc::negative_window, {"window.right is -9223372036854775808"},
                 causal{} & window{.left = 3, .right = INT64_MIN});
  EXPECT_EQ(validate(q, k, v, out, window{.left = 0, .right = INT64_MAX}), errc::ok);
  EXPECT_EQ(validate(q, k, v, out, window{}), errc::ok);
}

TEST_F(Errors, PrefixLengths) {
  const std::vector<index_t> one{1}, negative{2, -1}, fine{0, INT64_MAX};
  inputs_refused(q, k, v, errc::lengths_wrong_count, {"prefix.lengths has 1 numbers", "batch_size 2"},
                 prefix{.lengths = one});
  inputs_refused(q, k, v, errc::lengths_wrong_count, {"prefix.lengths has 0 numbers"}, prefix{});
  inputs_refused(q, k, v, errc::lengths_out_of_range, {"prefix.lengths[1] is -1", "0 or more"},
                 window{} & prefix{.lengths = negative});
  EXPECT_EQ(validate(q, k, v, out, prefix{.lengths = fine}), errc::ok);
}

TEST_F(Errors, DocumentsWrongCount) {
  const std::vector<index_t> five(5), ten(10), three(3), six(6), four(4);
  inputs_refused(q, k, v, errc::documents_wrong_count, {"documents.ids has 4 numbers", "seq_len_kv=5", "batch_size=2"},
                 documents{.ids = four});
  inputs_refused(q, k, v, errc::documents_wrong_count, {"documents.ids has 0 numbers"}, documents{});
  inputs_refused(q, k, v, errc::documents_wrong_count, {"documents.ids has 0 numbers"}, documents{.query_ids = three});
  inputs_refused(q, k, v, errc::documents_wrong_count, {"documents.query_ids has 5 numbers", "seq_len_q=3"},
                 causal{} & documents{.ids = five, .query_ids = five});
  for (auto const& ids : {list<index_t>(five), list<index_t>(ten)}) {
    EXPECT_EQ(validate(q, k, v, out, documents{.ids = ids}), errc::ok);
    EXPECT_EQ(validate(q, k, v, out, documents{.ids = ids, .query_ids = three}), errc::ok);
    EXPECT_EQ(validate(q, k, v, out, documents{.ids = ids, .query_ids = six}), errc::ok);
  }
}

TEST_F(Errors, BlockSparseShapes) {
  const tensor<bool, 2> map({2, 3});
  inputs_refused(q, k, v, errc::bad_block_size, {"block_sparse.block_rows is 0", "at least 1"},
                 block_sparse{.blocks = map, .block_rows = 0, .block_keys = 2});
  inputs_refused(q, k, v, errc::bad_block_size, {"block_sparse.block_keys is -7"},
                 causal{} & block_sparse{.blocks = map, .block_rows = 2, .block_keys = -7});
  inputs_refused(q, k, v, errc::mask_not_broadcastable,
                 {"block_sparse.blocks has the shape [2, 3]", "seq_len_q / block_rows=3", "seq_len_kv / block_keys=3"},
                 block_sparse{.blocks = map, .block_rows = 1, .block_keys = 2});
  inputs_refused(q, k, v, errc::mask_not_broadcastable, {"seq_len_kv / block_keys=1]"},
                 block_sparse{.blocks = map, .block_rows = 2, .block_keys = INT64_MAX});
  inputs_refused(q, k, v, errc::mask_not_broadcastable, {"block_sparse.blocks has no shape"}, block_sparse{});
  inputs_refused(
      q, k, v, errc::mask_not_broadcastable, {"[3, 2, 3]", "num_heads=4"},
      block_sparse{
          .blocks = tensor_view<bool const, 3>(map.data(), {3, 2, 3}, {0, 3, 1}), .block_rows = 2, .block_keys = 2});
  inputs_refused(q, k, v, errc::null_data, {"block_sparse.blocks", "null"},
                 block_sparse{.blocks = tensor_view<bool const, 2>(nullptr, {2, 3}), .block_rows = 2, .block_keys = 2});
  EXPECT_EQ(validate(q, k, v, out, block_sparse{.blocks = map, .block_rows = 2, .block_keys = 2}), errc::ok);
  const tensor<bool, 4> whole({2, 4, 2, 3}), per_batch({2, 1, 2, 3});
  EXPECT_EQ(validate(q, k, v, out, block_sparse{.blocks = whole, .block_rows = 2, .block_keys = 2}), errc::ok);
  EXPECT_EQ(validate(q, k, v, out, block_sparse{.blocks = per_batch, .block_rows = 2, .block_keys = 2}), errc::ok);
}

}  // namespace
