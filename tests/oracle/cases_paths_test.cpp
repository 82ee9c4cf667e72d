// Public fault reports once more, at sizes where the forward pass takes its other ways: strided K and V packed once for
// all rows, pairs of bfloat16, elements far apart, blocks cut into stretches. explain makes sure of the way.
#include <gtest/gtest.h>

#include <type_traits>

#include "heed/reference/forward.hpp"
#include "heed/view/layout.hpp"
#include "support/cases.hpp"
#include "support/guarded_memory.hpp"
#include "support/judge.hpp"
#include "support/paths.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr index_t many = 401;  // rows that one piece of work does not hold: what is strided is packed once

/// [B, H, S, D] seen through [B, S, H, D] memory that holds the same numbers.
template <class T>
struct interleaved {
  std::vector<T> memory;
  tensor_view<T const, 4> view;

  explicit interleaved(tensor<T, 4> const& from) : memory(static_cast<std::size_t>(from.size())) {
    const auto to = bshd(memory.data(), from.extent(0), from.extent(2), from.extent(1), from.extent(3));
    for (index_t i = 0; i < from.size(); ++i) {
      const index_t d = i % from.extent(3), row = i / from.extent(3);
      const index_t s = row % from.extent(2), head = row / from.extent(2);
      to(head / from.extent(1), head % from.extent(1), s, d) = from.data()[i];
    }
    view = to;
  }
};

TEST(CasesPaths, A10_G11_what_is_hidden_or_not_a_number_where_keys_are_packed_once) {
  for_each_type([]<class T>(T) {
    const index_t dim = 24, keys = 700;
    const auto q = random_tensor<T>({1, 2, many, dim}, 1), k = random_tensor<T>({1, 2, keys, dim}, 2);
    const std::vector<index_t> there{keys - 5}, from{3};
    const auto rule = causal{} & lengths{.key = there, .key_start = from};
    const interleaved<T> plain(k);
    const std::string text = explain(q, plain.view, plain.view, rule);
    EXPECT_TRUE(is_packed_once(text)) << text;
    EXPECT_TRUE(is_on_the_fast_dot<T>(text));
    const auto clean = attend(q, plain.view, plain.view, rule);
    EXPECT_TRUE(same_bits(clean.out, attend(q, k, k, rule).out));
    auto dirty = k;
    for (index_t h = 0; h < 2; ++h) {
      for (index_t j = 0; j < keys; ++j) {
        for (index_t d = 0; d < dim && (j < 3 || j >= keys - 5); ++d) dirty(0, h, j, d) = static_cast<T>(not_a_number);
      }
    }
    const interleaved<T> garbage(dirty);
    const auto found = attend(q, garbage.view, garbage.view, rule);
    EXPECT_TRUE(same_bits(clean.out, found.out));
    EXPECT_TRUE(same_bits(clean.lse, found.lse));
    const index_t bad = keys - 100;  // seen from row bad - (keys - 5 - many) on
    auto poisoned = k;
    poisoned(0, 1, bad, 3) = static_cast<T>(not_a_number);
    const interleaved<T> values(poisoned);
    const auto out = attend(q, plain.view, values.view, rule).out;
    for (index_t row = 0; row < many; ++row) {
      const bool sees = bad <= row + keys - 5 - many;
      ASSERT_EQ(std::isnan(static_cast<double>(out(0, 1, row, 3))), sees) << row;
      ASSERT_EQ(static_cast<double>(out(0, 1, row, 4)), static_cast<double>(clean.out(0, 1, row, 4))) << row;
      ASSERT_EQ(static_cast<double>(out(0, 0, row, 3)), static_cast<double>(clean.out(0, 0, row, 3))) << row;
    }
  });
}

TEST(CasesPaths, C8_one_more_future_key_changes_no_earlier_row) {
  for_each_type([]<class T>(T) {
    for (index_t length : {386, 513, 1025}) {
      const interleaved<T> q(pattern<T>(31, 1, {1, 2, length, 20}, 3)), k(pattern<T>(5, 20, {1, 2, length, 20}, 3)),
          v(pattern<T>(7, 30, {1, 2, length, 20}));
      const attention_options options{.anchor = top_left};
      EXPECT_TRUE(is_packed_once(explain(q.view, k.view, v.view, causal{}, options)));
      const auto head = [&](tensor_view<T const, 4> const& x) {
        return tensor_view<T const, 4>(x.data(), {1, 2, length - 1, 20},
                                       {x.stride(0), x.stride(1), x.stride(2), x.stride(3)});
      };
      const auto whole = attend(q.view, k.view, v.view, causal{}, options);
      const auto shorter = attend(head(q.view), head(k.view), head(v.view), causal{}, options);
      EXPECT_TRUE(same_bits(head(whole.out), shorter.out.view())) << length;
    }
  });
}

TEST(CasesPaths, D13_products_beyond_half_in_pairs_of_bfloat16) {
  const auto check = []<class T>(T) {
    for (double size : {32.0, 256.0}) {
      tensor<T, 4> q({1, 1, 50, 128}), k({1, 1, 2, 128});
      for (index_t i = 0; i < q.size(); ++i) q.data()[i] = static_cast<T>(size);
      for (index_t i = 0; i < k.size(); ++i) k.data()[i] = static_cast<T>(i < 128 ? size : -size);
      const auto v = values_of<T>({1, 2});
      EXPECT_TRUE(is_on_the_fast_dot<T>(explain(q, k, v)));
      const auto found = attend(q, k, v);
      const double logit = size * size * std::sqrt(128.0);
      for (index_t row = 0; row < 50; ++row) {
        ASSERT_EQ(static_cast<double>(found.out(0, 0, row, 0)), 1);
        ASSERT_NEAR(static_cast<double>(found.lse(0, 0, row)), logit, logit * 1e-6);
      }
    }
  };
  check(bfloat16{});
  check(half{});
}

TEST(CasesPaths, E3_slices_of_a_packed_buffer_equal_copies_bit_for_bit) {
  for_each_type([]<class T>(T) {
    const index_t b = 2, s = many, h = 3;
    for (index_t d : {7, 32}) {
      for (index_t rows : {index_t{2}, s}) {  // the last rows: few, and all
        const auto buffer = random_tensor<T>({b, s, 3, h * d}, 3);
        const auto slice = [&](index_t which, index_t count) {
          return tensor_view<T const, 4>(buffer.data() + which * h * d + (s - count) * 3 * h * d, {b, h, count, d},
                                         {s * 3 * h * d, d, 3 * h * d, index_t{1}});
        };
        const auto copy = [&](index_t which, index_t count) {
          tensor<T, 4> filled({b, h, count, d});
          const auto from = slice(which, count);
          for (index_t i = 0; i < filled.size(); ++i) {
            filled.data()[i] = from(i / (h * count * d), i / (count * d) % h, i / d % count, i % d);
          }
          return filled;
        };
        const std::string text = explain(slice(0, rows), slice(1, s), slice(2, s), causal{});
        EXPECT_TRUE(rows == 2 ? is_decoded(text) : is_packed_once(text)) << text;
        const auto packed = attend(slice(0, rows), slice(1, s), slice(2, s), causal{});
        const auto plain = attend(copy(0, rows), copy(1, s), copy(2, s), causal{});
        EXPECT_TRUE(same_bits(packed.out, plain.out)) << rows;
        EXPECT_TRUE(same_bits(packed.lse, plain.lse)) << rows;
      }
    }
  });
}

TEST(CasesPaths, E4_heads_expanded_with_stride_zero) {
  for_each_type([]<class T>(T) {
    for (index_t dim : {8, 64}) {
      for (index_t keys : {33, 97, 1025, 2049}) {
        const auto one = random_tensor<T>({1, 1, keys, dim}, 4);
        tensor<T, 4> copies({1, 4, keys, dim});
        for (index_t i = 0; i < copies.size(); ++i) copies.data()[i] = one.data()[i % one.size()];
        const tensor_view<T const, 4> expanded(one.data(), {1, 4, keys, dim}, {0, 0, dim, 1});
        for (index_t rows : {index_t{1}, index_t{4}, index_t{7}, keys < 1000 ? many : index_t{9}}) {
          const auto q = random_tensor<T>({1, 4, rows, dim}, 5);
          const auto found = attend(q, expanded, expanded, causal{}, {.threads = 3}),
                     right = attend(q, copies, copies, causal{}, {.threads = 3});
          EXPECT_TRUE(same_bits(found.out, right.out)) << rows << " x " << keys << " x " << dim;
          EXPECT_TRUE(same_bits(found.lse, right.lse)) << rows << " x " << keys << " x " << dim;
        }
      }
    }
  });
}

/// One key and value for all positions, with stride 0 over the keys.
TEST(CasesPaths, E4_keys_expanded_with_stride_zero) {
  for_each_type([]<class T>(T) {
    for (index_t dim : {8, 64}) {
      const auto one = pattern<T>(31, 10, {1, 2, 1, dim});
      const tensor_view<T const, 4> expanded(one.data(), {1, 2, 1500, dim}, {0, dim, 0, 1});
      for (index_t rows : {index_t{1}, index_t{4}, index_t{9}, many}) {
        const auto q = random_tensor<T>({1, 2, rows, dim}, 11);
        for (int threads : {1, 3}) {
          const auto out = attend(q, expanded, expanded, no_mask{}, {.threads = threads}).out;
          for (index_t i = 0; i < out.size(); ++i) {
            const double right = static_cast<double>(one.data()[i / (rows * dim) * dim + i % dim]);
            ASSERT_NEAR(static_cast<double>(out.data()[i]), right, tolerance<T>() * (1 + std::fabs(right))) << rows;
          }
        }
      }
    }
  });
}

TEST(CasesPaths, F15_a_bigger_buffer_changes_no_bit_where_keys_are_packed_once) {
  for_each_type([]<class T>(T) {
    const std::vector<index_t> used{300};
    const auto q = random_tensor<T>({1, 2, many, 16}, 6), k = random_tensor<T>({1, 2, 300, 16}, 7);
    const auto alone = attend(q, k, k, causal{});
    for (index_t capacity : {300, 301, 512, 4096}) {
      tensor<T, 4> buffer({1, 2, capacity, 16});
      for (index_t i = 0; i < buffer.size(); ++i) buffer.data()[i] = static_cast<T>(not_a_number);
      for (index_t i = 0; i < k.size(); ++i) buffer(0, i / 4800, i / 16 % 300, i % 16) = k.data()[i];
      const interleaved<T> cache(buffer);
      const auto rule = lengths{.key = used} & causal{};
      EXPECT_TRUE(is_packed_once(explain(q, cache.view, cache.view, rule)));
      const auto found = attend(q, cache.view, cache.view, rule);
      EXPECT_TRUE(same_bits(found.out, alone.out)) << capacity;
      EXPECT_TRUE(same_bits(found.lse, alone.lse)) << capacity;
    }
  });
}

TEST(CasesPaths, G13_long_rows_of_ones_are_one) {
  const auto check = []<class T>(T) {
    const index_t keys = 4096;
    tensor<T, 4> ones({1, 2, keys, 16});
    for (index_t i = 0; i < ones.size(); ++i) ones.data()[i] = static_cast<T>(1);
    const interleaved<T> strided(ones);
    for (index_t rows : {index_t{9}, many}) {
      const tensor<T, 4> q({1, 2, rows, 16});
      const std::string text = explain(q, strided.view, strided.view);
      EXPECT_TRUE(is_on_the_fast_dot<T>(text));
      EXPECT_TRUE(rows < many || is_packed_once(text)) << text;
      const auto found = attend(q, strided.view, strided.view).out;
      for (index_t i = 0; i < found.size(); ++i) ASSERT_EQ(static_cast<double>(found.data()[i]), 1) << i;
    }
  };
  check(half{});
  check(bfloat16{});
}

TEST(CasesPaths, G15_bfloat16_is_judged_on_its_rounded_inputs_where_keys_are_packed_once) {
  const auto q = pattern<bfloat16>(31, 1, {1, 2, many, 16}, 5), k = pattern<bfloat16>(5, 20, {1, 2, many, 16}, 5),
             v = pattern<bfloat16>(7, 30, {1, 2, many, 16}, 5);
  const interleaved<bfloat16> strided_k(k), strided_v(v);
  const std::string text = explain(q, strided_k.view, strided_v.view, causal{});
  EXPECT_TRUE(is_packed_once(text)) << text;
  EXPECT_TRUE(is_on_the_fast_dot<bfloat16>(text));
  const auto exact = [](tensor<bfloat16, 4> const& x) {
    tensor<double, 4> exactly({x.extent(0), x.extent(1), x.extent(2), x.extent(3)});
    for (index_t i = 0; i < x.size(); ++i) exactly.data()[i] = static_cast<double>(x.data()[i]);
    return exactly;
  };
  const verdict<float> judge(exact(q), exact(k), exact(v), causal{}, {}, strictness::plain_loop);
  EXPECT_TRUE(judge.out(attend(q, strided_k.view, strided_v.view, causal{}).out.view()));
}

#define HEED_SKIP_UNLESS_RESERVED(memory) \
  if (!(memory).reserved()) GTEST_SKIP() << "this system does not reserve that much address space"

/// Tokens, and heads, beyond two to the 31 elements apart, in rows that are read where they lie, and packed ones.
TEST(CasesPaths, H5_H9_strides_beyond_two_to_the_31_on_every_path) {
  const auto check = []<class T>(T) {
    constexpr index_t dim = 64;
    const index_t stride = (index_t{1} << 31) + 16;
    sparse_memory memory(static_cast<std::size_t>(stride + dim) * sizeof(T));
    HEED_SKIP_UNLESS_RESERVED(memory);
    T* const base = memory.as<T>();
    for (index_t d = 0; d < dim; ++d) base[d] = static_cast<T>(1), base[stride + d] = static_cast<T>(3);
    for (index_t rows : {1, 4, 9, 100, 401}) {
      const tensor<T, 4> q({1, 1, rows, dim}), q_heads({1, 4, rows, dim});
      const tensor_view<T const, 4> tokens(base, {1, 1, 2, dim}, {0, 0, stride, 1});
      const tensor_view<T const, 4> backwards(base + stride, {1, 1, 2, dim}, {0, 0, -stride, 1});
      const std::string text = explain(q, tokens, tokens);
      EXPECT_TRUE(rows > 4 || is_decoded(text));
      EXPECT_TRUE(rows < 400 || is_packed_once(text)) << text;
      const std::size_t count = static_cast<std::size_t>(q.size());
      expect_values(attend(q, tokens, tokens).out, std::vector<double>(count, 2));
      const auto back = attend(q, backwards, backwards, causal{}, {.anchor = top_left}).out;
      for (index_t i = 0; i < back.size(); ++i) {
        ASSERT_EQ(static_cast<double>(back.data()[i]), i < dim ? 3 : 2) << i;  // the first row sees the first token
      }
      const tensor_view<T const, 4> heads(base, {1, 2, 1, dim}, {0, stride, 0, 1});
      const auto of_heads = attend(q_heads, heads, heads).out;
      for (index_t i = 0; i < of_heads.size(); ++i) {
        ASSERT_EQ(static_cast<double>(of_heads.data()[i]), i < of_heads.size() / 2 ? 1 : 3) << i;
      }
    }
  };
  check(float{});
  check(double{});
  check(half{});
  check(bfloat16{});
}

/// The same over more than a block of keys, each read at its own address.
TEST(CasesPaths, H5_rows_of_a_long_sequence_beyond_two_to_the_31) {
  const auto check = []<class T>(T) {
    constexpr index_t dim = 64, keys = 150;
    const index_t stride = (index_t{1} << 24) + 16;
    sparse_memory memory(static_cast<std::size_t>((keys - 1) * stride + dim) * sizeof(T));
    HEED_SKIP_UNLESS_RESERVED(memory);
    T* const base = memory.as<T>();
    for (index_t j = 0; j < keys; ++j) {
      for (index_t d = 0; d < dim; ++d) base[j * stride + d] = static_cast<T>(static_cast<double>(j % 3));
    }
    const tensor_view<T const, 4> far_apart(base, {1, 1, keys, dim}, {0, 0, stride, 1});
    const std::vector<index_t> last{keys - 1}, second_block{129};
    for (index_t rows : {1, 4, 9, 100, 401}) {
      const tensor<T, 4> q({1, 1, rows, dim});
      const std::string text = explain(q, far_apart, far_apart);
      EXPECT_TRUE(rows > 4 || is_decoded(text));
      EXPECT_TRUE(rows < 400 || is_packed_once(text)) << text;
      const std::size_t count = static_cast<std::size_t>(q.size());
      const auto ones = attend(q, far_apart, far_apart).out;
      expect_values(ones, std::vector<double>(count, 1));
      expect_values(attend(q, far_apart, far_apart, lengths{.key_start = second_block}).out,
                    std::vector<double>(count, 1));
      expect_values(attend(q, far_apart, far_apart, lengths{.key_start = last}).out, std::vector<double>(count, 2));
    }
  };
  check(float{});
  check(double{});
  check(half{});
  check(bfloat16{});
}

TEST(CasesPaths, J5_addresses_are_aligned_for_the_element_only) {
  for_each_type([]<class T>(T) {
    for (index_t dim : {16, 33}) {
      const auto q = random_tensor<T>({1, 2, many, dim}, 8), k = random_tensor<T>({1, 2, 150, dim}, 9);
      const auto aligned = attend(q, k, k, causal{});
      const interleaved<T> strided(k);
      for (index_t shift = 1; shift < 8; ++shift) {
        const auto shifted = [&](T const* from, index_t size, std::vector<T>& memory, index_t by) {
          memory.assign(static_cast<std::size_t>(size + by), static_cast<T>(not_a_number));
          for (index_t i = 0; i < size; ++i) memory[static_cast<std::size_t>(i + by)] = from[i];
          return memory.data() + by;
        };
        std::vector<T> q_memory, k_memory, v_memory, out_memory;
        T* const key = shifted(strided.view.data(), k.size(), k_memory, 8 - shift);
        T* const value = shifted(strided.view.data(), k.size(), v_memory, shift);
        T* const query = shifted(q.data(), q.size(), q_memory, shift);
        const tensor_view<T, 4> out(shifted(q.data(), q.size(), out_memory, shift), {1, 2, many, dim});
        attention(bhsd(query, 1, 2, many, dim), bshd(key, 1, 150, 2, dim), bshd(value, 1, 150, 2, dim), out, causal{});
        EXPECT_TRUE(same_bits(aligned.out.view(), tensor_view<T const, 4>(out))) << dim << " " << shift;
        T* const in_place = shifted(k.data(), k.size(), k_memory, shift);
        attention(bhsd(query, 1, 2, many, dim), bhsd(in_place, 1, 2, 150, dim), k, out, causal{});
        EXPECT_TRUE(same_bits(aligned.out.view(), tensor_view<T const, 4>(out))) << dim << " " << shift;
      }
    }
  });
}

/// A dry run reads nothing: operands of any size, nowhere.
template <class T>
std::string told_of(index_t heads, index_t kv_heads, index_t rows, index_t keys, index_t dim, bool strided,
                    auto const& rule, int threads) {
  T* const nowhere = reinterpret_cast<T*>(64);
  const auto box = [&](index_t count, index_t length, index_t place) {
    T* const data = nowhere + place * (index_t{1} << 40);
    return strided ? bshd(data, 1, length, count, dim) : bhsd(data, 1, count, length, dim);
  };
  return explain(box(heads, rows, 0), box(kv_heads, keys, 1), box(kv_heads, keys, 2), box(heads, rows, 3), rule,
                 {.threads = threads});
}

TEST(CasesPaths, L1_no_mask_changes_what_memory_a_call_takes) {
  tensor<bool, 1> keep({8192});
  for (index_t j = 0; j < 8192; ++j) keep(j) = j % 3 != 0;
  for_each_type([&]<class T>(T) {
    for (bool strided : {false, true}) {
      for (index_t rows : {index_t{1}, index_t{8192}}) {
        const auto scratch = [&](auto const& rule) {
          return number_of(told_of<T>(8, 2, rows, 8192, 64, strided, rule, 2), "scratch");
        };
        EXPECT_GT(scratch(no_mask{}), 0);
        EXPECT_LT(scratch(no_mask{}), 2 * 1024 * 1024 + (rows > 1 ? 16 * 1024 * 1024 : 0));
        EXPECT_EQ(scratch(keep_mask(keep)), scratch(no_mask{}));
        EXPECT_EQ(scratch(causal{} & keep_mask(keep)), scratch(no_mask{}));
      }
    }
    EXPECT_LT(number_of(told_of<T>(8, 2, 8192, 8192, 64, false, keep_mask(keep), 1), "scratch"), 16 * 1024 * 1024);
  });
}

TEST(CasesPaths, L4_decoding_is_shared_over_the_keys) {
  for_each_type([]<class T>(T) {
    const std::string text = told_of<T>(2, 2, 1, 65536, 128, false, no_mask{}, 16);
    EXPECT_TRUE(is_decoded(text));
    if (active_isa() == "v1") return;
    EXPECT_TRUE(has_line(text, "threads: 16")) << text;
    EXPECT_GE(number_of(text, "splits"), 64) << text;
    double threads = 1;
    for (index_t keys = 1000; keys <= 9000; keys += 500) {  // and no zigzag with the context
      const double now = number_of(told_of<T>(2, 2, 1, keys, 128, false, no_mask{}, 16), "threads");
      EXPECT_GE(now, threads) << keys;
      threads = now;
    }
  });
}

TEST(CasesPaths, L6_hidden_blocks_are_skipped_not_computed_and_masked) {
  for_each_type([]<class T>(T) {
    const auto flops = [](index_t rows, index_t keys, auto const& rule) {
      return number_of(told_of<T>(1, 1, rows, keys, 64, false, rule, 1), "flops");
    };
    const double full = flops(8192, 8192, no_mask{});
    EXPECT_EQ(full, 4.0 * 8192 * 8192 * 64);
    EXPECT_LE(flops(8192, 8192, causal{}), 0.51 * full);
    const std::vector<index_t> some{500}, start{8000};
    EXPECT_EQ(flops(1, 8192, lengths{.key = some}), 4.0 * 500 * 64);
    EXPECT_EQ(flops(1, 8192, lengths{.key_start = start}), 4.0 * 192 * 64);
  });
  const index_t n = 2048;
  tensor<bool, 2> band({n, n});
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = i < 127 ? 0 : i - 127; j <= i; ++j) band(i, j) = true;
  }
  const std::string text = told_of<float>(1, 1, n, n, 64, false, keep_mask(band), 1);
  EXPECT_LE(number_of(text, "flops"), 4.0 * n * 64 * (128 + 2 * 48)) << "a tile's rows more than the band, no blocks";
  EXPECT_LE(number_of(text, "elements evaluated"), n * 4.0 * 48) << text;
}

}  // namespace
