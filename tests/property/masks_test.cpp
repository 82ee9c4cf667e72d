// Masks that say the same give the same bits; query tiles end where documents do; functors are asked only where they
// may.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "heed/reference/visible.hpp"
#include "support/bits.hpp"
#include "support/few_rows_scenario.hpp"
#include "support/run_scenario.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// A scenario's mask against a bool for each score: where a tile ends, and who answers, shows in no bit.
template <class T>
void check_against_bools(std::uint64_t first, std::uint64_t count, scenario (*draw)(std::uint64_t)) {
  for (std::uint64_t seed = first; seed < first + count; seed += thinned) {
    scenario s = draw(seed);
    s.rank = 4;
    s.rule = static_cast<rule_kind>(static_cast<int>(rule_kind::window) + static_cast<int>(seed % 6));
    s.stage = stage_kind::none;
    testing::Message what;
    what << s << " type " << type_name<T>();
    SCOPED_TRACE(what);
    const rule_data data(s);
    const attention_options options{.scale = s.scale, .anchor = anchor_of(s, data), .threads = s.threads};
    const scenario_inputs<T, T, T> in(s);
    with_rule(s, data, [&](auto const& rule) {
      tensor<bool, 4> visible({s.batch, s.heads, s.rows, s.keys});
      std::vector<index_t> query_len, key_len, key_start;
      for (index_t b = 0; b < s.batch; ++b) {
        const auto exists = reference::limits_of(rule, options.anchor, b, s.rows, s.keys);
        query_len.push_back(exists.query_len);
        key_len.push_back(exists.key_end);
        key_start.push_back(exists.key_begin);
        for (index_t h = 0; h < s.heads; ++h) {
          for (index_t i = 0; i < s.rows; ++i) {
            for (index_t j = 0; j < s.keys; ++j) {
              visible(b, h, i, j) = reference::is_visible(rule, {b, h, i, j, exists.offset}, exists);
            }
          }
        }
      }
      const auto run = [&](auto const& mask) {
        std::pair<tensor<T, 4>, tensor<accumulate_of<T>, 3>> found{
            tensor<T, 4>({s.batch, s.heads, s.rows, s.value_dim}),
            tensor<accumulate_of<T>, 3>({s.batch, s.heads, s.rows})};
        attention(in.query.read_only(), in.key.read_only(), in.value.read_only(), into(found.first).lse(found.second),
                  mask, options);
        return found;
      };
      const auto [out, lse] = run(rule);
      const auto [same_out, same_lse] =
          run(keep_mask(visible) & lengths{.query = query_len, .key = key_len, .key_start = key_start});
      EXPECT_TRUE(same_bits(out, same_out));
      EXPECT_TRUE(same_bits(lse, same_lse));
    });
    if (testing::Test::HasFailure()) return;
  }
}
TEST(Masks, EqualBoolsInEveryBitFloat) { check_against_bools<float>(90000, 300, random_scenario); }
TEST(Masks, EqualBoolsInEveryBitFewRows) { check_against_bools<float>(91000, 150, decode_scenario); }
TEST(Masks, EqualBoolsInEveryBitDouble) { check_against_bools<double>(92000, 150, random_scenario); }
TEST(Masks, EqualBoolsInEveryBitBfloat16) { check_against_bools<bfloat16>(93000, 150, random_scenario); }

std::string line_of(std::string const& text, std::string const& name) {
  const auto begin = text.find(name + ": ");
  return text.substr(begin, text.find('\n', begin) - begin);
}

/// In one piece of work; where another one begins in the middle of a document, so does a tile.
TEST(Masks, TilesEndAtBordersOfDocuments) {
  const tensor<float, 4> x({1, 1, 376, 16});
  std::vector<index_t> ids(376);
  for (index_t i = 0; i < 376; ++i) ids[static_cast<std::size_t>(i)] = i / 94;
  // 4 documents of 94: what is visible is all that is computed, and nothing is looked at one by one.
  const std::string said = explain(x, x, x, documents{.ids = ids}, {.threads = 1});
  EXPECT_NE(line_of(said, "blocks").find("partial 0"), std::string::npos) << said;
  EXPECT_EQ(line_of(said, "elements evaluated"), "elements evaluated: 0");
  EXPECT_EQ(line_of(said, "flops"), "flops: " + std::to_string(4 * 94 * 94 * 2 * 32));
  tensor<bool, 2> map({6, 6});
  for (index_t block = 0; block < 6; ++block) map(block, block) = true;
  const block_sparse diagonal{.blocks = map, .block_rows = 64, .block_keys = 64};
  const std::string blocks = explain(x, x, x, diagonal, {.threads = 1});
  EXPECT_EQ(line_of(blocks, "elements evaluated"), "elements evaluated: 0");
  EXPECT_EQ(line_of(blocks, "flops"), "flops: " + std::to_string((5 * 64 * 64 + 56 * 56) * 2 * 32));
}

/// Borders at every row, or at every odd distance: the tiles must fit the memory that was set aside for them.
TEST(Masks, ManyBordersDoNotOverflow) {
  for (index_t length = 1; length < 100; length += (length < 40 ? 1 : 7)) {
    const tensor<float, 4> x = random_tensor<float>({1, 2, 800, 8}, 5);
    std::vector<index_t> ids(800);
    for (index_t i = 0; i < 800; ++i) ids[static_cast<std::size_t>(i)] = i / length;
    tensor<float, 4> found;
    // Memory is kept by the thread: a new one has no more than it asks for.
    std::thread([&] { found = attention(x, x, x, documents{.ids = ids}, {.threads = 1}); }).join();
    const auto same = attention(
        x, x, x, mask_fn([length](position at) { return at.query / length == at.key / length; }), {.threads = 1});
    ASSERT_TRUE(same_bits(found, same)) << length;
  }
}

TEST(Functors, AreAskedOnlyAboutRowsAndKeysThatExist) {
  for (index_t rows : {1, 3, 5, 17, 47, 50, 130}) {
    for (index_t keys : {1, 5, 16, 130, 300}) {
      const tensor<float, 4> q({2, 4, rows, 8}), k({2, 2, keys, 8});
      std::atomic<int> calls{0}, wrong{0};
      const auto ask = [&](position at) {
        ++calls;
        wrong += at.batch < 0 || at.batch >= 2 || at.head < 0 || at.head >= 4 || at.query < 0 || at.query >= rows ||
                 at.key < 0 || at.key >= keys || at.offset != keys - rows;
        return at.key <= at.query + at.offset;
      };
      EXPECT_EQ(validate(q, k, k, mask_fn(ask)), errc::ok);
      (void)explain(q, k, k, mask_fn(ask));
      EXPECT_EQ(calls, 0);
      const auto found = attention(q, k, k, mask_fn(ask), {.threads = 2});
      EXPECT_GT(calls, 0);
      EXPECT_EQ(wrong, 0) << rows << " rows, " << keys << " keys";
      EXPECT_TRUE(same_bits(found, attention(q, k, k, causal{})));
    }
  }
}

TEST(Functors, AnAnswerForBlocksSparesTheRest) {
  const tensor<float, 4> x({1, 1, 256, 8});
  std::atomic<int> calls{0};
  const auto f = [&](position at) {
    ++calls;
    return at.key < 128;
  };
  const auto exact = [](block area) {
    return area.key_end <= 128 ? cover::full : area.key_begin >= 128 ? cover::none : cover::partial;
  };
  (void)attention(x, x, x, mask_fn(f, exact));
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(line_of(explain(x, x, x, mask_fn(f, exact)), "elements evaluated"), "elements evaluated: 0");
  (void)attention(x, x, x, mask_fn(f));
  EXPECT_GE(calls, 256 * 256);
}

/// One that cannot be copied byte by byte is used where it is.
TEST(Functors, OfAnyKindGiveTheSame) {
  const tensor<float, 4> x = random_tensor<float>({1, 2, 100, 16}, 3);
  std::vector<int> const limit{40};
  auto referred = [limit](position at) { return at.key <= at.query + limit[0]; };
  const auto by_reference = mask_fn(referred);
  const auto moved = mask_fn([limit](position at) { return at.key <= at.query + limit[0]; });
  const auto expected = attention(x, x, x, mask_fn([](position at) { return at.key <= at.query + 40; }));
  EXPECT_TRUE(same_bits(expected, attention(x, x, x, by_reference)));
  EXPECT_TRUE(same_bits(expected, attention(x, x, x, moved)));
  EXPECT_TRUE(same_bits(expected, attention(x, x, x, window{.right = 40})));
  EXPECT_TRUE(same_bits(expected, attention(x, x, x, no_mask{} & moved & by_reference)));
}

}  // namespace
