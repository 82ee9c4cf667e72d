// explain is a dry run of every call that attention takes, also of those with nothing to do; what it says of blocks,
// elements and flops is what a mask is asked when attention runs.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "heed/heed.hpp"
#include "support/cases.hpp"
#include "support/executors.hpp"

namespace {

using heed::index_t;

TEST(Explain, TakesEmptyCalls) {
  for (int axis = 0; axis < 4; ++axis) {
    const index_t batch_size = axis == 0 ? 0 : 2, heads = axis == 1 ? 0 : 4, rows = axis == 2 ? 0 : 5;
    const index_t keys = axis == 3 ? 0 : 7;
    heed::tensor<float, 4> query({batch_size, heads, rows, 3}), key({batch_size, heads, keys, 3});
    heed::tensor<float, 4> out({batch_size, heads, rows, 3});
    const std::string text = heed::explain(query, key, key, out, heed::causal{});
    EXPECT_NE(text.find("flops: 0\n"), std::string::npos) << axis << "\n" << text;
    EXPECT_NE(text.find("blocks: skipped 0, full 0, partial 0\n"), std::string::npos) << axis << "\n" << text;
  }
}

using numbers = std::vector<index_t>;

/// What a mask was asked, each question once however often it was asked. A block that is partly visible is followed by
/// questions about stretches of it, up to its end.
struct questions {
  using area = std::array<index_t, 6>;  // batch, head, rows and keys
  std::map<area, heed::cover> blocks, stretches;
  std::set<std::array<index_t, 4>> elements;  // batch, head, row, key
  area block{};                               // that was asked about last
  index_t next_key = 0, block_end = 0;        // of the block whose stretches come now
  index_t last_stretch = -1;                  // where the last of them begins
  bool cuts_blocks = true;                    // few rows are not asked about stretches

  void note(heed::block const& asked, heed::cover seen) {
    const area place{asked.batch, asked.head, asked.query_begin, asked.query_end, asked.key_begin, asked.key_end};
    // Behind a stretch may come questions about some of its rows: the same keys once more.
    const bool is_inside = asked.batch == block[0] && asked.head == block[1] && asked.query_begin >= block[2] &&
                           asked.query_end <= block[3];
    if (is_inside && asked.key_end == next_key && asked.key_begin == last_stretch) return;
    if (next_key < block_end) {
      last_stretch = asked.key_begin;
      EXPECT_EQ(asked.key_begin, next_key);
      EXPECT_LE(asked.key_end, block_end);
      stretches[place] = seen;
      next_key = asked.key_end;
      return;
    }
    blocks[place] = seen;
    block = place;
    last_stretch = -1;
    if (seen == heed::cover::partial && cuts_blocks) {
      next_key = asked.key_begin;
      block_end = asked.key_end;
    }
  }
  [[nodiscard]] index_t answered(heed::cover seen) const {
    index_t count = 0;
    for (auto const& [place, cover] : blocks) count += cover == seen ? 1 : 0;
    return count;
  }
  [[nodiscard]] static index_t full_scores(std::map<area, heed::cover> const& areas) {
    index_t sum = 0;
    for (auto const& [place, cover] : areas) {
      sum += cover == heed::cover::full ? (place[3] - place[2]) * (place[5] - place[4]) : 0;
    }
    return sum;
  }
  /// Scores computed: in what is wholly visible, and those that the mask was asked about one by one.
  [[nodiscard]] index_t scores() const {
    return full_scores(blocks) + full_scores(stretches) + static_cast<index_t>(elements.size());
  }
};

/// Another mask, with a note of every question.
template <class Mask>
struct noted {
  Mask mask;
  questions* notes;

  [[nodiscard]] heed::cover covers(heed::block const& area) const {
    const heed::cover seen = mask.covers(area);
    notes->note(area, seen);
    return seen;
  }
  [[nodiscard]] bool allows(heed::position const& at) const {
    notes->elements.insert({at.batch, at.head, at.query, at.key});
    return mask.allows(at);
  }
  [[nodiscard]] heed::key_range visible_keys(heed::block const& area) const {
    return heed::detail::visible_keys(mask, area);
  }
  void narrow(index_t batch, heed::sequence& seq) const { heed::detail::narrow(mask, batch, seq); }
};

/// The numbers of a line of explain's.
numbers line(std::string const& text, char const* format) {
  std::string name(format, std::string(format).find(':') + 1);
  const auto begin = text.find("\n" + name);
  long long one = -1, two = -1, three = -1;
  if (begin == std::string::npos) return {};
  const int found = std::sscanf(text.c_str() + begin + 1, format, &one, &two, &three);
  const long long all[] = {one, two, three};
  return {all, all + (found > 0 ? found : 0)};
}

/// For one thread, and as several would share the work: the executor runs them one after the other.
template <class Mask>
void expect_that_explain_is_right(heed::axes<4> queries, index_t kv_heads, index_t keys, Mask const& mask,
                                  heed::attention_options options = {}) {
  if (options.threads == 0) {
    heed::test::serial_executor executor;
    options.executor = executor;
    for (const int threads : {1, 2, 3, 7}) {
      options.threads = threads;
      expect_that_explain_is_right(queries, kv_heads, keys, mask, options);
    }
    return;
  }
  const auto q = heed::test::pattern<float>(31, 1, queries);
  const auto k = heed::test::pattern<float>(5, 20, {queries[0], kv_heads, keys, queries[3]});
  const auto v = heed::test::pattern<float>(7, 30, {queries[0], kv_heads, keys, 24});
  heed::tensor<float, 4> out({queries[0], queries[1], queries[2], 24});
  questions told, asked;
  const bool decodes = heed::explain(q, k, v, out, mask, options).find("tile: decode") != std::string::npos;
  told.cuts_blocks = false;  // each rule is asked once more, alone
  asked.cuts_blocks = !decodes;
  const std::string text = heed::explain(q, k, v, out, noted<Mask>{mask, &told}, options);
  EXPECT_TRUE(told.elements.empty()) << "a dry run asks about blocks only";
  heed::attention(q, k, v, out, noted<Mask>{mask, &asked}, options);
  const numbers blocks = line(text, "blocks: skipped %lld, full %lld, partial %lld");
  ASSERT_EQ(blocks.size(), 3u) << text;
  EXPECT_GE(blocks[0], asked.answered(heed::cover::none)) << text;
  EXPECT_EQ(blocks[1], asked.answered(heed::cover::full)) << text;
  EXPECT_EQ(blocks[2], asked.answered(heed::cover::partial)) << text;
  EXPECT_EQ(line(text, "rule: custom mask (copied into the kernel): blocks skipped %lld, full %lld, partial %lld"),
            blocks)
      << text;
  EXPECT_EQ(line(text, "elements evaluated: %lld"), numbers{static_cast<index_t>(asked.elements.size())}) << text;
  EXPECT_EQ(line(text, "flops: %lld"), numbers{asked.scores() * 2 * (queries[3] + 24)}) << text;
}

/// So much work that every number of threads is repaid: the products of that number stay within their type.
TEST(Explain, AnyNumberOfThreadsMayBeAskedFor) {
  const float one = 1;
  const index_t rows = 1024, keys = index_t{1} << 20, dim = index_t{1} << 20;
  const heed::tensor_view<float const, 4> query(&one, {1, 1, rows, dim}, {0, 0, 0, 0});
  const heed::tensor_view<float const, 4> key(&one, {1, 1, keys, dim}, {0, 0, 0, 0});
  const heed::tensor_view<float const, 4> value(&one, {1, 1, keys, 1}, {0, 0, 0, 0});
  heed::tensor<float, 4> out({1, 1, rows, 1});
  const std::string text = heed::explain(query, key, value, out, {.threads = 1000});
  EXPECT_EQ(text, heed::explain(query, key, value, out, {.threads = std::numeric_limits<int>::max()}));
}

TEST(Explain, CountsWhatRuns) {
  using namespace heed;
  const std::vector<index_t> query_lengths = {200, 1}, key_lengths = {300, 77};
  const lengths both{.query = query_lengths, .key = key_lengths};
  tensor<bool, 2> keep({200, 300});
  for (index_t i = 0; i < 200; ++i) {
    for (index_t j = 0; j < 300; ++j) keep(i, j) = j / 100 == 0 || (j / 100 == 1 && (i * j) % 7 == 0);
  }
  expect_that_explain_is_right({2, 4, 200, 16}, 2, 300, no_mask{});
  expect_that_explain_is_right({2, 4, 200, 16}, 2, 300, causal{});
  expect_that_explain_is_right({1, 1, 700, 16}, 1, 700, causal{});
  expect_that_explain_is_right({1, 2, 300, 16}, 1, 500, causal{}, {.anchor = top_left});
  expect_that_explain_is_right({1, 2, 300, 16}, 1, 200, causal{}, {.anchor = at_offset(-150)});
  expect_that_explain_is_right({2, 4, 200, 16}, 4, 300, both);
  expect_that_explain_is_right({2, 4, 200, 16}, 2, 300, causal{} & both);
  expect_that_explain_is_right({2, 2, 200, 16}, 1, 300, keep_mask(keep));
  expect_that_explain_is_right({2, 2, 200, 16}, 1, 300, causal{} & keep_mask(keep));
  for (index_t rows : {1, 7, 16, 48, 49}) expect_that_explain_is_right({1, 3, rows, 16}, 3, 130, causal{});
}

/// Few query rows for each key-value head, where the instruction set has kernels for them.
TEST(Explain, SaysWhenFewRowsAreDecoded) {
  const bool decodes = heed::active_isa() != "v1";
  heed::tensor<float, 4> key({1, 2, 5000, 64});
  for (index_t rows : {1, 4, 8}) {
    heed::tensor<float, 4> query({1, 10, rows, 64});
    const std::string text = heed::explain(query, key, key, heed::no_mask{}, {.threads = 3});
    const bool few = decodes && rows <= 4;
    EXPECT_EQ(text.find("tile: decode, " + std::to_string(5 * rows) + " queries") != std::string::npos, few) << text;
    EXPECT_NE(text.find(few ? "splits: 5\n" : "splits: 1\n"), std::string::npos) << text;
    EXPECT_NE(text.find("key: in place\n"), std::string::npos) << text;
    EXPECT_NE(text.find("threads: 3\n"), std::string::npos) << text;
  }
  // The heads of a wide group take turns, as many as fit in 64 rows.
  heed::tensor<float, 4> wide({1, 142, 3, 64});
  const std::string text = heed::explain(wide, key, key, heed::no_mask{});
  EXPECT_EQ(text.find("tile: decode, 63 queries") != std::string::npos, decodes) << text;
}

/// Eight rows at v4 are few, but where products are of floats: these rows share the lanes with pairs of columns, if the
/// columns come in pairs.
TEST(Explain, SaysHowHalfAVectorOfRowsRuns) {
  const auto tile = []<class T>(T, index_t rows, index_t dim, index_t value_dim, bool precise) {
    heed::tensor<T, 4> query({1, 2, rows, dim}), key({1, 2, 300, dim}), value({1, 2, 300, value_dim});
    const std::string text = heed::explain(query, key, value, heed::no_mask{}, {.precise = precise});
    const auto begin = text.find("tile: ") + 6;
    return text.substr(begin, text.find(" queries", begin) - begin);
  };
  const std::string level(heed::active_isa());
  const std::string whole = level == "v4" ? "48" : level == "v3" ? "24" : "12", few = "decode, 8";
  for (const auto& [dim, value_dim] : {std::pair{64, 64}, {64, 2}, {63, 64}, {64, 33}, {7, 7}}) {
    const bool in_pairs = dim % 2 == 0 && value_dim % 2 == 0;
    const std::string eight = level != "v4" ? whole : in_pairs ? "8" : few;
    EXPECT_EQ(tile(float{}, 8, dim, value_dim, false), eight) << dim << " " << value_dim;
    EXPECT_EQ(tile(heed::half{}, 8, dim, value_dim, false), eight) << dim << " " << value_dim;
    EXPECT_EQ(tile(heed::bfloat16{}, 8, dim, value_dim, true), eight) << dim << " " << value_dim;
    const bool is_dot_fast = heed::detail::current_bf16_unit() != heed::detail::bf16_unit::none;
    EXPECT_EQ(tile(heed::bfloat16{}, 8, dim, value_dim, false), is_dot_fast ? few : eight) << dim << " " << value_dim;
    EXPECT_EQ(tile(float{}, 9, dim, value_dim, false), whole) << dim << " " << value_dim;
    EXPECT_EQ(tile(heed::bfloat16{}, 9, dim, value_dim, false), whole) << dim << " " << value_dim;
    EXPECT_EQ(tile(double{}, 8, dim, value_dim, false), level == "v4" ? "24" : level == "v3" ? "12" : "6");
  }
}

TEST(Explain, CountsWhatRunsForFewRows) {
  using namespace heed;
  tensor<bool, 2> keep({4, 1500});
  for (index_t i = 0; i < 4; ++i) {
    for (index_t j = 0; j < 1500; ++j) keep(i, j) = j / 100 % 3 == 0 || (j / 100 % 3 == 1 && (i * j) % 7 == 0);
  }
  const std::vector<index_t> query_lengths = {4, 1}, key_lengths = {1500, 77};
  const lengths both{.query = query_lengths, .key = key_lengths};
  expect_that_explain_is_right({2, 4, 4, 16}, 2, 1500, no_mask{});
  expect_that_explain_is_right({2, 4, 4, 16}, 2, 1500, causal{} & both);
  expect_that_explain_is_right({2, 4, 4, 16}, 4, 1500, causal{} & keep_mask(keep));
}

}  // namespace
