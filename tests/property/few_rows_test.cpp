// Few query rows and many keys: what may not change a single bit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "heed/heed.hpp"
#include "support/all_layouts.hpp"
#include "support/cases.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

template <class T>
tensor<T, 4> random_tensor(axes<4> extents, std::uint64_t seed, double size = 1) {
  random_source random(seed);
  tensor<T, 4> filled(extents);
  for (index_t i = 0; i < filled.size(); ++i) filled.data()[i] = static_cast<T>(size * random.normal());
  return filled;
}

/// Heads [first, first + count) of batch item b, and its rows from `row` on.
template <class T>
tensor_view<T const, 4> part(tensor<T, 4> const& x, index_t b, index_t first, index_t count, index_t row,
                             index_t rows) {
  return {&x(b, first, row, 0),
          {index_t{1}, count, rows, x.extent(3)},
          {x.stride(0), x.stride(1), x.stride(2), x.stride(3)}};
}

TEST(FewRows, ThreadsChangeNothing) {
  for_each_type([]<class T>(T) {
    const std::vector<index_t> key_lengths{5000, 0, 1025}, query_lengths{2, 2, 1}, starts{1500, 0, 3};
    for (index_t group : {1, 3}) {
      const auto q = random_tensor<T>({3, 2 * group, 2, 64}, 1), k = random_tensor<T>({3, 2, 5000, 64}, 2),
                 v = random_tensor<T>({3, 2, 5000, 40}, 3);
      const auto rule = causal{} & lengths{.query = query_lengths, .key = key_lengths, .key_start = starts};
      const auto one = attend(q, k, v, rule, {.threads = 1});
      for (int threads : {0, 2, 3, 7, 64}) {
        const auto several = attend(q, k, v, rule, {.threads = threads});
        EXPECT_TRUE(same_bits(one.out, several.out)) << threads;
        EXPECT_TRUE(same_bits(one.lse, several.lse)) << threads;
      }
    }
  });
}

/// More splits than may wait for their merge at a time.
TEST(FewRows, ThreadsChangeNothingInSeveralWaves) {
  const auto q = random_tensor<float>({1, 8, 1, 2048}, 4, 0.1), k = random_tensor<float>({1, 1, 4100, 2048}, 5, 0.1);
  const auto one = attend(q, k, k, no_mask{}, {.threads = 1});
  for (int threads : {2, 3, 7}) {
    const auto several = attend(q, k, k, no_mask{}, {.threads = threads});
    EXPECT_TRUE(same_bits(one.out, several.out)) << threads;
    EXPECT_TRUE(same_bits(one.lse, several.lse)) << threads;
  }
}

/// States so large that those of one unit wait at a time, and the next unit's take their place.
TEST(FewRows, ThreadsChangeNothingWhereUnitsTakeTurns) {
  const auto q = random_tensor<float>({1, 128, 1, 16}, 6), k = random_tensor<float>({1, 2, 8192, 16}, 7),
             v = random_tensor<float>({1, 2, 8192, 256}, 8);
  const auto one = attend(q, k, v, no_mask{}, {.threads = 1}), two = attend(q, k, v, no_mask{}, {.threads = 2});
  EXPECT_TRUE(same_bits(one.out, two.out));
  EXPECT_TRUE(same_bits(one.lse, two.lse));
}

TEST(FewRows, BatchItemsHeadsAndRowsDoNotKnowOfEachOther) {
  for_each_type([]<class T>(T) {
    for (index_t dim : {20, 64, 129}) {
      const index_t keys = dim == 64 ? 2300 : 150, rows = 2;
      auto q = random_tensor<T>({2, 8, rows, dim}, 6), k = random_tensor<T>({2, 2, keys, dim}, 7),
           v = random_tensor<T>({2, 2, keys, dim}, 8);
      for (index_t d = 0; d < dim; ++d) k(1, 0, 7, d) = static_cast<T>(30 * static_cast<double>(k(1, 0, 7, d)));
      // Each head sees keys of its own, and blocks are hidden from heads between those that see them.
      const auto keep = bools({1, 8, rows, keys}, [&](index_t, index_t h, index_t i, index_t j) {
        return h == 0 || ((j / 40 + h + i) % 4 != 0 && (j / 128 + h) % 3 != 0);
      });
      const auto whole = attend(q, k, v, keep_mask(keep));
      for (index_t b = 0; b < 2; ++b) {
        for (index_t h = 0; h < 8; ++h) {
          for (index_t i = 0; i < rows; ++i) {
            const auto one_keep =
                bools({1, 1, 1, keys}, [&](index_t, index_t, index_t, index_t j) { return keep(0, h, i, j); });
            const auto alone = attend(part(q, b, h, 1, i, 1), part(k, b, h / 4, 1, 0, keys),
                                      part(v, b, h / 4, 1, 0, keys), keep_mask(one_keep));
            EXPECT_TRUE(same_bits(part(whole.out, b, h, 1, i, 1), alone.out.view())) << b << " " << h << " " << i;
            EXPECT_EQ(whole.lse(b, h, i), alone.lse(0, 0, 0));
          }
        }
      }
    }
  });
}

TEST(FewRows, LayoutsChangeNothing) {
  for_each_type([]<class T>(T) {
    for (const index_t dim : {3, 24, 64}) expect_same_bits_in_all_layouts<T>({2, 6, 2, 2, 1100, dim});
  });
}

TEST(FewRows, WhatElseIsAskedForChangesNothing) {
  for_each_type([]<class T>(T) {
    const index_t keys = 1500;
    const auto q = random_tensor<T>({2, 4, 3, 32}, 15), k = random_tensor<T>({2, 2, keys, 32}, 16);
    const auto keep =
        bools({1, 1, 3, keys}, [](index_t, index_t, index_t i, index_t j) { return (i * 7 + j) % 5 != 0; });
    const auto rule = keep_mask(keep) & causal{};
    const auto plain = attention(q, k, k, rule);
    EXPECT_TRUE(same_bits(plain, attend(q, k, k, rule).out));
    EXPECT_TRUE(same_bits(plain, attention_with_weights(q, k, k, rule).out));
    EXPECT_TRUE(same_bits(plain, attention(q, k, k, causal{} & keep_mask(keep), {.precise = true})));
  });
}

/// Many rows take other kernels; they agree within rounding.
TEST(FewRows, AgreeWithManyRows) {
  for_each_type([]<class T>(T) {
    const auto q = random_tensor<T>({1, 2, 40, 48}, 17), k = random_tensor<T>({1, 1, 1300, 48}, 18);
    const auto whole = attend(q, k, k, causal{}, {.anchor = at_offset(1000)});
    for (index_t row : {0, 17, 39}) {
      const auto one = attend(part(q, 0, 0, 2, row, 1), k, k, causal{}, {.anchor = at_offset(1000 + row)});
      for (index_t h = 0; h < 2; ++h) {
        EXPECT_NEAR(whole.lse(0, h, row), one.lse(0, h, 0), 1e-5);
        for (index_t d = 0; d < 48; ++d) {
          EXPECT_NEAR(static_cast<double>(whole.out(0, h, row, d)), static_cast<double>(one.out(0, h, 0, d)),
                      tolerance<T>());
        }
      }
    }
  });
}

/// The sum of the values overflows before it is divided, their mean does not; in the columns beside it nothing changes.
TEST(FewRows, AMeanOfHugeValuesIsFinite) {
  for (const float huge : {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(), 3e37f}) {
    for (index_t keys : {2, 300, 2500}) {
      tensor<float, 4> q({1, 3, 1, 16}), k({1, 1, keys, 16}), v({1, 1, keys, 20});
      for (index_t j = 0; j < keys; ++j) {
        for (index_t d = 0; d < 20; ++d) v(0, 0, j, d) = d == 18 ? huge : 0.5f;
      }
      for (int threads : {1, 3}) {
        const auto out = attention(q, k, v, {.threads = threads});
        for (index_t h = 0; h < 3; ++h) {
          EXPECT_NEAR(out(0, h, 0, 18) / huge, 1, 1e-4);
          EXPECT_EQ(out(0, h, 0, 17), 0.5f);
          EXPECT_EQ(out(0, h, 0, 19), 0.5f);
        }
      }
    }
  }
}

/// Bits follow the positions of the keys, not the size of the buffer.
TEST(FewRows, ALargerBufferChangesNothing) {
  for_each_type([]<class T>(T) {
    const auto q = random_tensor<T>({1, 4, 1, 64}, 19), k = random_tensor<T>({1, 2, 6000, 64}, 20);
    for (index_t length : {1, 1000, 1024, 1025, 3000}) {
      const std::vector<index_t> lengths_of{length};
      const auto within = attend(q, k, k, lengths{.key = lengths_of});
      const tensor_view<T const, 4> shorter(k.data(), {index_t{1}, index_t{2}, length, index_t{64}},
                                            {k.stride(0), k.stride(1), k.stride(2), k.stride(3)});
      const auto alone = attend(q, shorter, shorter);
      EXPECT_TRUE(same_bits(within.out, alone.out)) << length;
      EXPECT_TRUE(same_bits(within.lse, alone.lse)) << length;
    }
  });
}

/// Stepping through a sequence with a cache gives a prefix's rows, whatever came after.
TEST(FewRows, OneStepOfSeveralRowsIsThatOfEachRow) {
  for_each_type([]<class T>(T) {
    const auto q = random_tensor<T>({1, 1, 4, 80}, 21), k = random_tensor<T>({1, 1, 1036, 80}, 22);
    const auto whole = attend(q, k, k, causal{}, {.anchor = at_offset(1022)});
    for (index_t rows = 1; rows < 4; ++rows) {
      const auto first = attend(part(q, 0, 0, 1, 0, rows), k, k, causal{}, {.anchor = at_offset(1022)});
      EXPECT_TRUE(same_bits(part(whole.out, 0, 0, 1, 0, rows), first.out.view())) << rows;
    }
  });
}

/// The last vector of a key reaches back into the one before it: what it sees twice counts once, also where it is not
/// finite.
TEST(FewRows, AnInfinityCountsOnceInWhateverColumn) {
  for_each_type([]<class T>(T) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    for (index_t dim : {15, 16, 17, 20, 23, 24, 31, 33, 63}) {
      for (index_t heads : {1, 4}) {  // one row at a time, and four
        auto q = random_tensor<T>({1, heads, 1, dim}, 23);
        auto k = random_tensor<T>({1, 1, 40, dim}, 24);
        for (index_t i = 0; i < q.size(); ++i)
          q.data()[i] = static_cast<T>(std::fabs(static_cast<double>(q.data()[i])) + 0.1);
        for (index_t i = 0; i < k.size(); ++i)
          k.data()[i] = static_cast<T>(std::fabs(static_cast<double>(k.data()[i])) + 0.1);
        tensor<bool, 1> drop({40});
        drop(21) = true;
        const auto v = random_tensor<T>({1, 1, 40, 32}, 25);
        const auto without = attend(q, k, v, drop_mask(drop));
        for (index_t column = 0; column < dim; ++column) {
          auto bad_k = k;
          bad_k(0, 0, 21, column) = static_cast<T>(-infinite);
          const auto found = attend(q, bad_k, v);
          EXPECT_TRUE(same_bits(without.out, found.out)) << column << " of " << dim;
          EXPECT_TRUE(same_bits(without.lse, found.lse)) << column << " of " << dim;
          auto bad_q = q;
          bad_q(0, heads - 1, 0, column) = static_cast<T>(-infinite);
          const auto nothing = attend(bad_q, k, v);
          EXPECT_EQ(static_cast<double>(nothing.lse(0, heads - 1, 0)), -infinite) << column << " of " << dim;
          EXPECT_EQ(static_cast<double>(nothing.out(0, heads - 1, 0, 31)), 0) << column << " of " << dim;
        }
      }
    }
  });
}

}  // namespace
