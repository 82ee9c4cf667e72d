// Outputs that share an element with anything else are refused before the first write; neighbours are not.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "heed/heed.hpp"
#include "heed/view/layout.hpp"

namespace {

using namespace heed;

/// The call must be refused with this code and leave `memory` as it is.
template <class Q, class K, class V, class O, class Rule = no_mask>
void refused(std::vector<float> const& memory, Q const& q, K const& k, V const& v, O const& o, errc code,
             std::vector<std::string> const& parts, Rule const& rule = {}, attention_options const& options = {}) {
  const std::vector<float> before = memory;
  EXPECT_EQ(validate(q, k, v, o, rule, options), code);
  try {
    attention(q, k, v, o, rule, options);
    ADD_FAILURE() << "not refused";
  } catch (error const& broken) {
    const std::string text = broken.what();
    EXPECT_EQ(broken.code(), code) << text;
    for (auto const& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
  }
  EXPECT_EQ(std::memcmp(before.data(), memory.data(), memory.size() * sizeof(float)), 0);
}

class Overlap : public testing::Test {
 protected:
  using view = tensor_view<float, 4>;
  std::vector<float> memory = std::vector<float>(4000, 0.5f);
  view q{at(0), {2, 2, 3, 4}}, k{at(100), {2, 2, 5, 4}}, v{at(200), {2, 2, 5, 4}}, out{at(400), {2, 2, 3, 4}},
      weights{at(500), {2, 2, 3, 5}};
  tensor_view<float, 3> lse{at(600), {2, 2, 3}};

  float* at(index_t i) { return memory.data() + i; }
};

TEST_F(Overlap, NeighboursAreFine) {
  EXPECT_EQ(validate(q, k, v, into(out).lse(lse).weights(weights)), errc::ok);
  EXPECT_EQ(validate(q, k, v, view(at(48), {2, 2, 3, 4})), errc::ok);  // right behind query
  EXPECT_EQ(validate(q, k, v, view(at(52), {2, 2, 3, 4})), errc::ok);  // right before key
}

TEST_F(Overlap, OutAndAnInput) {
  refused(memory, q, k, v, q, errc::output_overlaps_input, {"out", "query", "share an element", "memory of its own"});
  refused(memory, q, k, v, view(at(47), {2, 2, 3, 4}), errc::output_overlaps_input, {"out", "query"});
  refused(memory, q, k, v, view(at(53), {2, 2, 3, 4}), errc::output_overlaps_input, {"out", "key"});
  refused(memory, q, k, v, view(at(279), {2, 2, 3, 4}), errc::output_overlaps_input, {"out", "value"});
  // Backwards through memory.
  refused(memory, q, k, v, view(at(147), {2, 2, 3, 4}, {-24, -12, -4, -1}), errc::output_overlaps_input, {"key"});
}

TEST_F(Overlap, LseAndWeightsAndAnInput) {
  refused(memory, q, k, v, into(out).lse(tensor_view<float, 3>(at(40), {2, 2, 3})), errc::output_overlaps_input,
          {"lse", "query"});
  refused(memory, q, k, v, into(out).weights(view(at(150), {2, 2, 3, 5})), errc::output_overlaps_input,
          {"weights", "key"});
}

TEST_F(Overlap, TwoOutputs) {
  refused(memory, q, k, v, into(out).lse(tensor_view<float, 3>(at(447), {2, 2, 3})), errc::output_overlaps_output,
          {"out", "lse", "share an element"});
  refused(memory, q, k, v, into(out).weights(view(at(447), {2, 2, 3, 5})), errc::output_overlaps_output,
          {"out", "weights"});
  refused(memory, q, k, v, into(out).lse(lse).weights(view(at(560), {2, 2, 3, 5})), errc::output_overlaps_output,
          {"lse", "weights"});
  EXPECT_EQ(validate(q, k, v, into(out).lse(tensor_view<float, 3>(at(448), {2, 2, 3}))), errc::ok);
}

TEST_F(Overlap, AnOutputAndItself) {
  refused(memory, q, k, v, view(at(400), {2, 2, 3, 4}, {24, 0, 4, 1}), errc::output_overlaps_itself,
          {"out", "two indices"});
  refused(memory, q, k, v, view(at(400), {2, 2, 3, 4}, {24, 12, 1, 1}), errc::output_overlaps_itself, {"out"});
  refused(memory, q, k, v, view(at(400), {2, 2, 3, 4}, {24, 12, -1, 1}), errc::output_overlaps_itself, {"out"});
  refused(memory, q, k, v, view(at(400), {2, 2, 3, 4}, {24, 12, 3, 1}), errc::output_overlaps_itself, {"out"});
  refused(memory, q, k, v, into(out).lse(tensor_view<float, 3>(at(600), {2, 2, 3}, {0, 3, 1})),
          errc::output_overlaps_itself, {"lse"});
  refused(memory, q, k, v, into(out).weights(view(at(700), {2, 2, 3, 5}, {30, 15, 4, 1})), errc::output_overlaps_itself,
          {"weights"});
  const auto raw = score_stage::raw, biased = score_stage::biased;
  refused(memory, q, k, v, into(out).scores(view(at(700), {2, 2, 3, 5}, {30, 15, 4, 1}), raw),
          errc::output_overlaps_itself, {"scores"});
  refused(memory, q, k, v, into(out).scores(view(at(150), {2, 2, 3, 5}), raw), errc::output_overlaps_input,
          {"scores", "key"});
  refused(memory, q, k, v, into(out).weights(weights).scores(view(at(501), {2, 2, 3, 5}), raw),
          errc::output_overlaps_output, {"scores", "weights"});
  refused(memory, q, k, v, into(out).scores(weights, raw).scores(weights, biased), errc::output_overlaps_output,
          {"scores and scores"});
  // Interleaved without sharing: 3 rows of step 1, 4 columns of step 3.
  EXPECT_EQ(validate(q, k, v, view(at(400), {2, 2, 3, 4}, {24, 12, 1, 3})), errc::ok);
}

TEST_F(Overlap, PackedBuffersOfThreeAndFour) {
  // [B, S, 4, H, D]: the fourth part takes the output of the first three.
  const index_t b = 2, s = 6, h = 3, d = 5;
  const auto part = [&](index_t which) {
    return view(at(1000 + which * h * d), {b, h, s, d}, {s * 4 * h * d, d, 4 * h * d, index_t{1}});
  };
  EXPECT_EQ(validate(part(0), part(1), part(2), part(3)), errc::ok);
  attention(part(0), part(1), part(2), part(3), causal{});
  refused(memory, part(0), part(1), part(2), part(2), errc::output_overlaps_input, {"out", "value"});
  EXPECT_EQ(validate(part(0), part(1), part(1), part(3)), errc::ok);  // inputs may share
}

TEST_F(Overlap, OutAndWhatTheRuleReads) {
  const auto bits = tensor_view<bool const, 1>(reinterpret_cast<bool const*>(at(402)), {5});
  refused(memory, q, k, v, out, errc::output_overlaps_input, {"out", "keep_mask"}, keep_mask(bits));
  const auto bits_of_weights = tensor_view<bool const, 1>(reinterpret_cast<bool const*>(at(502)), {5});
  refused(memory, q, k, v, into(out).scores(weights, score_stage::raw), errc::output_overlaps_input,
          {"scores", "keep_mask"}, keep_mask(bits_of_weights));
  const auto map = tensor_view<bool const, 2>(reinterpret_cast<bool const*>(at(402)), {3, 1});
  refused(memory, q, k, v, out, errc::output_overlaps_input, {"out", "block_sparse"},
          block_sparse{.blocks = map, .block_rows = 1, .block_keys = 5});
}

TEST_F(Overlap, OutAndIdsOfDocuments) {
  const list<index_t> ids(std::span<index_t const>(reinterpret_cast<index_t*>(at(402)), 5));
  const list<index_t> query_ids(std::span<index_t const>(reinterpret_cast<index_t*>(at(402)), 3));
  const std::vector<index_t> apart(5);
  refused(memory, q, k, v, out, errc::output_overlaps_input, {"out", "documents"}, documents{.ids = ids});
  refused(memory, q, k, v, out, errc::output_overlaps_input, {"out", "documents"},
          documents{.ids = apart, .query_ids = query_ids});
}

/// Lists: every byte of every number counts, the last one too.
TEST_F(Overlap, OutAndAList) {
  index_t* const numbers = reinterpret_cast<index_t*>(at(700));
  const list<index_t> two(std::span<index_t const>(numbers, 2));
  for (index_t first : {index_t{700}, index_t{701}, index_t{702}, index_t{703}, index_t{653}}) {
    const view shared(at(first), {2, 2, 3, 4});
    numbers[0] = numbers[1] = 3;
    refused(memory, q, k, v, shared, errc::output_overlaps_input, {"out", "lengths"}, lengths{.key = two});
    numbers[0] = numbers[1] = 3;
    refused(memory, q, k, v, shared, errc::output_overlaps_input, {"out", "lengths"}, lengths{.query = two});
    numbers[0] = numbers[1] = 3;
    refused(memory, q, k, v, shared, errc::output_overlaps_input, {"out", "prefix"}, prefix{.lengths = two});
    numbers[0] = numbers[1] = 3;
    refused(memory, q, k, v, shared, errc::output_overlaps_input, {"out", "at_offset"}, causal{},
            {.anchor = at_offset(two)});
  }
  numbers[0] = numbers[1] = 3;
  EXPECT_EQ(validate(q, k, v, view(at(704), {2, 2, 3, 4}), lengths{.key = two}, {.anchor = at_offset(two)}), errc::ok);
}

}  // namespace
