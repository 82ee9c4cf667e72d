// documents: what is read of lists of every shape and order, as given and packed.
#include "heed/mask/documents.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "heed/cpu/packed_documents.hpp"
#include "support/blocks.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// Runs of ids that rise, or return; the numbers differ in one half of their bits, in the other, or in both.
std::vector<index_t> random_ids(random_source& random, index_t each) {
  const index_t step = random.pick({index_t{1}, index_t{1} << 32, -(index_t{1} << 32) - 1, INT64_MAX / 40});
  const double change = random.pick({0.7, 0.2, 0.05, 0.0});
  const bool rises = random.chance(0.5);
  std::vector<index_t> ids;
  const index_t count = each * (random.chance(0.5) ? 1 : batch_size);
  index_t id = 0;
  for (index_t place = 0; place < count; ++place) {
    if (random.chance(change)) id = rises ? (id + 1) % 30 : random.between(-2, 2);
    ids.push_back(id * step);
  }
  return ids;
}

TEST(Documents, AgreeWithTheirIdsHoweverTheyAreGiven) {
  random_source random(1);
  std::map<cover, int> seen;
  detail::problem call;
  call.batch_size = batch_size, call.num_heads = heads, call.seq_len_q = rows, call.seq_len_kv = keys;
  for (int turn = 0; turn < 20000; ++turn) {
    const auto ids = random_ids(random, keys), query_ids = random_ids(random, rows);
    const documents rule = random.chance(0.7) ? documents{.ids = ids} : documents{.ids = ids, .query_ids = query_ids};
    const block area = random_block(random, random_offset(random));
    ++seen[check_block(detail::document_ids(rule, rows, keys), rule, area, precision::sound)];
    const detail::document_words size(rule, call);
    std::vector<std::uint32_t> words(static_cast<std::size_t>(size.count()) + 1, 7u);
    const auto packed = detail::pack_documents(rule, call, words.data());
    EXPECT_EQ(words.back(), 7u);
    (void)check_block(packed, rule, area, precision::sound);
    check_border(packed, area);
    if (HasFailure()) return;
  }
  EXPECT_GT(seen[cover::none], 500);
  EXPECT_GT(seen[cover::full], 500);
  EXPECT_GT(seen[cover::partial], 500);
}

TEST(Documents, BlocksOfOneDocumentAreKnownWholly) {
  const std::vector<index_t> ids{4, 4, 4, 4, 9, 9, 9, 9};
  const detail::document_ids mask(documents{.ids = ids}, 8, 8);
  EXPECT_EQ(mask.covers({0, 0, 0, 4, 0, 4, 0}), cover::full);
  EXPECT_EQ(mask.covers({0, 0, 0, 4, 4, 8, 0}), cover::none);
  EXPECT_EQ(mask.covers({0, 0, 0, 5, 4, 8, 0}), cover::partial);
  EXPECT_EQ(mask.covers({0, 0, 4, 8, 4, 8, 0}), cover::full);
  EXPECT_EQ(mask.covers({0, 0, 4, 8, 4, 8, 1}), cover::partial);  // the last row stands behind the last key
  EXPECT_EQ(mask.covers({0, 0, 0, 8, 0, 8, 8}), cover::none);
  EXPECT_EQ(mask.next_border({0, 0, 1, 8, 0, 8, 0}), 4);
  EXPECT_EQ(mask.next_border({0, 0, 0, 8, 0, 8, -2}), 2);
  EXPECT_EQ(mask.next_border({0, 0, 5, 8, 0, 8, 2}), 6);
}

TEST(Documents, VisibleKeysAreThoseOfTheDocumentThoughPaddingFollows) {
  std::vector<index_t> ids(1000, 0);
  for (index_t j = 0; j < 900; ++j) ids[static_cast<std::size_t>(j)] = 1 + j / 300;
  detail::problem call;
  call.batch_size = 1, call.num_heads = 1, call.seq_len_q = call.seq_len_kv = 1000;
  const documents rule{.ids = ids};
  std::vector<std::uint32_t> words(static_cast<std::size_t>(detail::document_words(rule, call).count()));
  const auto packed = detail::pack_documents(rule, call, words.data());
  const key_range middle = packed.visible_keys({0, 0, 350, 380, 0, 1000, 0});
  EXPECT_EQ(middle.begin, 300);
  EXPECT_EQ(middle.end, 600);
  const key_range padding = packed.visible_keys({0, 0, 950, 960, 0, 1000, 0});
  EXPECT_EQ(padding.begin, 900);
  EXPECT_EQ(padding.end, 1000);
}

}  // namespace
