// Public fault reports about heads, head dimensions, strides, addresses and sizes, with the value that is right.
#include <gtest/gtest.h>

#include "heed/reference/forward.hpp"
#include "heed/view/layout.hpp"
#include "support/cases.hpp"
#include "support/guarded_memory.hpp"
#include "support/stored.hpp"

namespace {

using namespace heed;
using namespace heed::test;

TEST(Cases, C1_query_heads_share_in_groups_of_neighbours) {
  for_each_type([]<class T>(T) {
    tensor<T, 4> v({1, 2, 1, 1});
    v(0, 0, 0, 0) = static_cast<T>(1), v(0, 1, 0, 0) = static_cast<T>(2);
    expect_values(means<T>(4, 1, v).out, {1, 1, 2, 2});
    expect_values(means<T>(6, 1, v).out, {1, 1, 1, 2, 2, 2});
    expect_values(means<T>(2, 1, v).out, {1, 2});
    tensor<T, 4> three({1, 3, 1, 1});
    for (index_t h = 0; h < 3; ++h) three(0, h, 0, 0) = static_cast<T>(static_cast<double>(h));
    expect_values(means<T>(21, 1, three).out, {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2});
  });
}

TEST(Cases, C3_masks_are_per_query_head) {
  for_each_type([]<class T>(T) {
    tensor<T, 4> v({1, 2, 4, 1});
    for (index_t h = 0; h < 2; ++h) {
      for (index_t j = 0; j < 4; ++j) v(0, h, j, 0) = static_cast<T>(static_cast<double>(10 * h + j));
    }
    const auto keep = bools({1, 4, 1, 4}, [](index_t, index_t h, index_t, index_t j) { return h == j; });
    expect_values(means<T>(4, 1, v, keep_mask(keep)).out, {0, 1, 12, 13});
    expect_values(means<T>(4, 1, v, keep_mask(tensor_view<bool const, 3>(keep.data(), {4, 1, 4}))).out, {0, 1, 12, 13});
  });
}

TEST(Cases, C4_a_group_is_causal_row_by_row) {
  for_each_type([]<class T>(T) {
    expect_values(means<T>(2, 2, values_of<T>({1, 3}), causal{}).out, {1, 2, 1, 2});
    const double a = 7.0 / 3, b = 3.75, c = 6.2;
    expect_values(means<T>(4, 3, values_of<T>({1, 2, 4, 8, 16}), causal{}).out, {a, b, c, a, b, c, a, b, c, a, b, c});
  });
}

TEST(Cases, C5_the_default_scale_is_of_the_caller_s_head_dim) {
  for_each_type([]<class T>(T) {
    for (index_t dim : {3, 5, 7, 9, 17, 20, 33, 80, 96}) {
      tensor<T, 4> q({1, 1, 1, dim}), k({1, 1, 2, dim});
      for (index_t d = 0; d < dim; ++d) q.data()[d] = k.data()[d] = static_cast<T>(1);
      const double expected = 1 / (1 + std::exp(-std::sqrt(static_cast<double>(dim))));
      expect_values(attend(q, k, values_of<T>({1, 0})).out, {expected});
      if (dim == 3) expect_values(attend(q, k, values_of<T>({1, 0})).out, {0.8496746}, 1e-7);
    }
  });
}

TEST(Cases, C6_head_dims_of_query_and_value_may_differ) {
  for_each_type([]<class T>(T) {
    const double digits = 5e-8;
    auto found = attend(pattern<T>(31, 1, {1, 2, 3, 4}), pattern<T>(5, 20, {1, 2, 5, 4}),
                        pattern<T>(7, 30, {1, 2, 5, 2}), no_mask{}, {.scale = 2.0});
    EXPECT_NEAR(s7(found.out), 0.268594716, tolerance<T>() * 50 + 5e-10);
    EXPECT_NEAR(s7(found.lse), 36.1976785, 2e-5);
    tensor<T, 1> first({4});
    for (index_t i = 0; i < 4; ++i) first(i) = found.out.data()[i];
    expect_values(first, {0.1560676, 0.2654426, 0.158863, 0.268238}, digits);
    found = attend(pattern<T>(31, 1, {1, 2, 3, 2}), pattern<T>(5, 20, {1, 2, 5, 2}), pattern<T>(7, 30, {1, 2, 5, 5}),
                   no_mask{}, {.scale = 2.0});
    EXPECT_NEAR(s7(found.out), 4.05976548, tolerance<T>() * 100 + 5e-9);
    EXPECT_NEAR(s7(found.lse), 36.8213344, 2e-5);
    for (index_t i = 0; i < 4; ++i) first(i) = found.out.data()[i];
    expect_values(first, {-0.1396106, -0.0302356, 0.0791394, 0.1885144}, digits);
  });
}

TEST(Cases, C8_one_more_future_key_changes_no_earlier_row) {
  for_each_type([]<class T>(T) {
    for (index_t length : {17, 65, 129, 257}) {
      const auto q = pattern<T>(31, 1, {1, 1, length, 20}, 3), k = pattern<T>(5, 20, {1, 1, length, 20}, 3),
                 v = pattern<T>(7, 30, {1, 1, length, 20});
      const auto whole = attend(q, k, v, causal{}, {.anchor = top_left});
      const auto head = [&](tensor<T, 4> const& x) {
        return tensor_view<T const, 4>(x.data(), {1, 1, length - 1, 20});
      };
      const auto shorter = attend(head(q), head(k), head(v), causal{}, {.anchor = top_left});
      EXPECT_TRUE(same_bits(head(whole.out), shorter.out.view())) << length;
      EXPECT_TRUE(same_bits(tensor_view<accumulate_of<T> const, 3>(whole.lse.data(), {1, 1, length - 1}),
                            tensor_view<accumulate_of<T> const, 3>(shorter.lse.data(), {1, 1, length - 1})));
    }
  });
}

TEST(Cases, C9_strides_of_axes_of_one_are_ignored) {
  for_each_type([]<class T>(T) {
    T q[] = {static_cast<T>(1), static_cast<T>(2)}, one[] = {static_cast<T>(1)};
    for (index_t wild : {index_t{999}, index_t{-999}, index_t{0}, INT64_MAX, INT64_MIN, index_t{1} << 61}) {
      T out[] = {static_cast<T>(0), static_cast<T>(0)};
      accumulate_of<T> lse[] = {0, 0};
      T weights[] = {static_cast<T>(0), static_cast<T>(0)};
      attention(tensor_view<T const, 4>(q, {1, 1, 2, 1}, {wild, wild, index_t{1}, wild}),
                tensor_view<T const, 4>(one, {1, 1, 1, 1}, {wild, wild, wild, wild}),
                tensor_view<T const, 4>(one, {1, 1, 1, 1}, {wild, wild, wild, wild}),
                into(tensor_view<T, 4>(out, {1, 1, 2, 1}, {wild, wild, index_t{1}, wild}))
                    .lse(tensor_view<accumulate_of<T>, 3>(lse, {1, 1, 2}, {wild, wild, index_t{1}}))
                    .weights(tensor_view<T, 4>(weights, {1, 1, 2, 1}, {wild, wild, index_t{1}, wild})));
      EXPECT_EQ(static_cast<double>(out[0]), 1);
      EXPECT_EQ(static_cast<double>(out[1]), 1);
      EXPECT_EQ(static_cast<double>(lse[1]), 2);
      EXPECT_EQ(static_cast<double>(weights[1]), 1);
    }
  });
}

/// The data of entry E1 in any layout.
template <class T>
struct canon {
  stored<T> q, k, v, out;

  explicit canon(layout inputs, layout output = layout::contiguous)
      : q({2, 3, 5, 7}, inputs), k({2, 3, 6, 7}, inputs), v({2, 3, 6, 4}, inputs), out({2, 3, 5, 4}, output) {
    const auto copy = [](stored<T> const& to, tensor<double, 4> const& from) {
      for (index_t b = 0; b < 2; ++b) {
        for (index_t h = 0; h < 3; ++h) {
          for (index_t s = 0; s < from.extent(2); ++s) {
            for (index_t d = 0; d < from.extent(3); ++d) to.view()(b, h, s, d) = static_cast<T>(from(b, h, s, d));
          }
        }
      }
    };
    copy(q, pattern<double>(31, 1, {2, 3, 5, 7}));
    copy(k, pattern<double>(5, 20, {2, 3, 6, 7}));
    copy(v, pattern<double>(7, 30, {2, 3, 6, 4}));
  }
  void check() {
    tensor<accumulate_of<T>, 3> lse({2, 3, 5});
    attention(q.view(), k.view(), v.view(), into(out.view()).lse(lse));
    EXPECT_NEAR(s7(out.view()), 2.56222726, tolerance<T>() * 200 + 5e-9);
    EXPECT_NEAR(s7(lse), 207.42406, 1e-4);
    EXPECT_NEAR(static_cast<double>(out.view()(0, 0, 0, 1)), 0.1138299, tolerance<T>() + 5e-8);
    EXPECT_NEAR(static_cast<double>(out.view()(1, 2, 4, 3)), -0.1138005, tolerance<T>() + 5e-8);
    EXPECT_TRUE(out.gaps_intact());
    attention(q.view(), k.view(), v.view(), into(out.view()).lse(lse), causal{});
    EXPECT_NEAR(s7(out.view()), -1.06359697, tolerance<T>() * 200 + 5e-9);
    EXPECT_NEAR(s7(lse), 149.809613, 1e-4);
  }
};

TEST(Cases, E1_inner_strides_of_any_kind) {
  for_each_type([]<class T>(T) {
    for (layout kind : output_layouts) {
      SCOPED_TRACE(name_of(kind));
      canon<T>(kind).check();
    }
  });
}

TEST(Cases, E3_slices_of_a_packed_buffer_equal_copies_bit_for_bit) {
  for_each_type([]<class T>(T) {
    const index_t b = 2, s = 5, h = 3, d = 7;
    const auto buffer = pattern<T>(31, 1, {b * s, 3, h, d});
    const auto slice = [&](index_t which) {
      return tensor_view<T const, 4>(buffer.data() + which * h * d, {b, h, s, d},
                                     {s * 3 * h * d, d, 3 * h * d, index_t{1}});
    };
    const auto copy = [&](index_t which) {
      tensor<T, 4> filled({b, h, s, d});
      const auto from = slice(which);
      for (index_t i = 0; i < filled.size(); ++i) {
        filled.data()[i] = from(i / (h * s * d), i / (s * d) % h, i / d % s, i % d);
      }
      return filled;
    };
    const auto packed = attend(slice(0), slice(1), slice(2));
    const auto plain = attend(copy(0), copy(1), copy(2));
    EXPECT_TRUE(same_bits(packed.out, plain.out));
    EXPECT_TRUE(same_bits(packed.lse, plain.lse));
  });
}

TEST(Cases, E4_heads_expanded_with_stride_zero) {
  const auto check = []<class T>(T) {
    for (index_t dim : {8, 512}) {
      for (index_t keys : {31, 32, 33, 34, 64, 65, 97}) {
        std::vector<T> k(static_cast<std::size_t>(keys * dim), static_cast<T>(1)), v(k.size());
        for (index_t i = 0; i < keys * dim; ++i) {
          v[static_cast<std::size_t>(i)] = static_cast<T>(static_cast<double>(i / dim));
        }
        const auto expanded = [&](std::vector<T> const& x) {
          return tensor_view<T const, 4>(x.data(), {1, 4, keys, dim}, {index_t{0}, index_t{0}, dim, index_t{1}});
        };
        const auto keep = bools({1, 1, 3, keys}, [](auto...) { return true; });
        const tensor<T, 4> q({1, 4, 3, dim});
        const auto found = attend(q, expanded(k), expanded(v), keep_mask(keep));
        for (index_t i = 0; i < found.out.size(); ++i) {
          ASSERT_NEAR(static_cast<double>(found.out.data()[i]), static_cast<double>(keys - 1) / 2,
                      tolerance<T>() * static_cast<double>(keys) / 2)
              << "keys " << keys << " dim " << dim;
        }
      }
    }
  };
  check(float{});
  check(bfloat16{});
}

TEST(Cases, E6_gaps_between_output_rows_stay) {
  for_each_type([]<class T>(T) {
    const index_t width = 4 + 3;
    std::vector<T> memory(static_cast<std::size_t>(2 * 5 * 3 * width), static_cast<T>(777));
    const tensor_view<T, 4> out(memory.data(), {2, 3, 5, 4}, {5 * 3 * width, width, 3 * width, index_t{1}});
    for (int threads : {1, 2, 3}) {
      const canon<T> in(layout::contiguous);
      attention(in.q.view(), in.k.view(), in.v.view(), out, {.threads = threads});
      EXPECT_NEAR(s7(out), 2.56222726, tolerance<T>() * 200 + 5e-9);
      for (std::size_t i = 0; i < memory.size(); ++i) {
        if (i % static_cast<std::size_t>(width) >= 4) {
          ASSERT_EQ(static_cast<double>(memory[i]), static_cast<double>(static_cast<T>(777)));
        }
      }
    }
  });
}

TEST(Cases, E8_the_layout_is_spelled_by_name) {
  // The same memory means different tensors; both are what they say.
  std::vector<float> memory(1 * 4 * 32 * 8);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>((31 * i + 1) % 97) / 64;
  const auto one = bhsd(memory.data(), 1, 4, 32, 8), other = bshd(memory.data(), 1, 32, 4, 8);
  tensor<float, 4> first({1, 4, 32, 8}), second({1, 4, 32, 8});
  attention(one, one, one, first, causal{});
  attention(other, other, other, second, causal{});
  const auto one_expected = reference::solve(one, one, one, causal{}),
             other_expected = reference::solve(other, other, other, causal{});
  for (index_t i = 0; i < first.size(); ++i) {
    ASSERT_NEAR(first.data()[i], one_expected.out.data()[i], 1e-5);
    ASSERT_NEAR(second.data()[i], other_expected.out.data()[i], 1e-5);
  }
}

TEST(Cases, F15_a_bigger_buffer_changes_no_bit) {
  for_each_type([]<class T>(T) {
    const std::vector<index_t> used{300};
    const auto q = pattern<T>(31, 1, {1, 2, 3, 16}, 2);
    attended<T> first;
    for (index_t capacity : {300, 301, 512, 4096}) {
      tensor<T, 4> k({1, 2, capacity, 16}), v({1, 2, capacity, 16});
      const auto k_used = pattern<T>(5, 20, {1, 2, 300, 16}, 2), v_used = pattern<T>(7, 30, {1, 2, 300, 16});
      for (index_t i = 0; i < k.size(); ++i) k.data()[i] = v.data()[i] = static_cast<T>(not_a_number);
      for (index_t h = 0; h < 2; ++h) {
        for (index_t j = 0; j < 300; ++j) {
          for (index_t d = 0; d < 16; ++d) k(0, h, j, d) = k_used(0, h, j, d), v(0, h, j, d) = v_used(0, h, j, d);
        }
      }
      auto found = attend(q, k, v, lengths{.key = used} & causal{});
      if (capacity == 300) {
        EXPECT_TRUE(same_bits(found.out, attend(q, k, v, causal{}).out));
        first = std::move(found);
      } else {
        EXPECT_TRUE(same_bits(found.out, first.out)) << capacity;
        EXPECT_TRUE(same_bits(found.lse, first.lse)) << capacity;
      }
    }
  });
}

#define HEED_SKIP_UNLESS_RESERVED(memory) \
  if (!(memory).reserved()) GTEST_SKIP() << "this system does not reserve that much address space"

TEST(Cases, H1_mask_rows_beyond_two_to_the_31) {
  const index_t step = index_t{1} << 31;
  for (index_t stride : {step, step + 16, 2 * step}) {
    sparse_memory memory(static_cast<std::size_t>(2 * stride + 16));
    HEED_SKIP_UNLESS_RESERVED(memory);
    bool* const bits = memory.as<bool>();
    const bool rows[3][2] = {{true, false}, {false, true}, {false, true}};
    for (index_t i = 0; i < 3; ++i) {
      for (index_t j = 0; j < 2; ++j) bits[i * stride + j] = rows[i][j];
    }
    const auto keep = keep_mask(tensor_view<bool const, 2>(bits, {3, 2}, {stride, index_t{1}}));
    expect_values(means<float>(1, 3, values_of<float>({1, 3}), keep).out, {1, 3, 3});
    expect_values(means<double>(1, 3, values_of<double>({1, 3}), keep & causal{}, {.anchor = at_offset(9)}).out,
                  {1, 3, 3});
  }
}

TEST(Cases, H5_token_strides_beyond_two_to_the_31) {
  const auto check = []<class T>(T) {
    const index_t stride = (index_t{1} << 31) + 16;
    sparse_memory memory(static_cast<std::size_t>(stride + 64) * sizeof(T));
    HEED_SKIP_UNLESS_RESERVED(memory);
    T* const base = memory.as<T>();
    // K at the even elements, V at the odd ones, and once with the second token in front (a negative stride).
    base[0] = base[stride] = static_cast<T>(0.25);
    base[1] = static_cast<T>(1), base[stride + 1] = static_cast<T>(3);
    const tensor<T, 2> q({1, 1});
    tensor<T, 2> out({1, 1});
    attention(q, tensor_view<T const, 2>(base, {2, 1}, {stride, index_t{1}}),
              tensor_view<T const, 2>(base + 1, {2, 1}, {stride, index_t{1}}), out);
    expect_values(out, {2});
    attention(q, tensor_view<T const, 2>(base + stride, {2, 1}, {-stride, index_t{1}}),
              tensor_view<T const, 2>(base + stride + 1, {2, 1}, {-stride, index_t{1}}), out, causal{},
              {.anchor = top_left});
    expect_values(out, {3});
  };
  check(half{});
  check(float{});
}

TEST(Cases, H5_query_and_output_strides_beyond_two_to_the_32) {
  const index_t stride = (index_t{1} << 32) + 8;
  sparse_memory memory(static_cast<std::size_t>(2 * stride + 64) * sizeof(half));
  HEED_SKIP_UNLESS_RESERVED(memory);
  half* const base = memory.as<half>();
  for (index_t i = 0; i < 3; ++i) base[i * stride] = half(static_cast<double>(i));
  const half keys[] = {half(0), half(1)}, values[] = {half(1), half(3)};
  attention(tensor_view<half const, 2>(base, {3, 1}, {stride, index_t{1}}), tensor_view<half const, 2>(keys, {2, 1}),
            tensor_view<half const, 2>(values, {2, 1}), tensor_view<half, 2>(base + 4, {3, 1}, {stride, index_t{1}}),
            {.scale = 1.0});
  for (index_t i = 0; i < 3; ++i) {
    const double e = std::exp(static_cast<double>(i));
    EXPECT_NEAR(static_cast<double>(base[i * stride + 4]), (1 + 3 * e) / (1 + e), 2e-3);
  }
}

TEST(Cases, H7_batch_and_head_strides_beyond_two_to_the_31) {
  const index_t stride = index_t{1} << 31;
  sparse_memory memory(static_cast<std::size_t>(3 * stride + 64));
  HEED_SKIP_UNLESS_RESERVED(memory);
  bool* const bits = memory.as<bool>();
  bits[0] = true, bits[1] = false, bits[stride] = false, bits[stride + 1] = true;
  tensor<float, 4> v({2, 1, 2, 1});
  v(0, 0, 0, 0) = v(1, 0, 0, 0) = 1, v(0, 0, 1, 0) = v(1, 0, 1, 0) = 3;
  const tensor_view<bool const, 4> batches(bits, {2, 1, 1, 2}, {stride, index_t{1}, index_t{1}, index_t{1}});
  expect_values(means<float>(1, 1, v, keep_mask(batches)).out, {1, 3});
  const tensor_view<bool const, 3> heads(bits, {2, 1, 2}, {stride, index_t{1}, index_t{1}});
  expect_values(means<float>(2, 1, v, keep_mask(heads)).out, {1, 3, 1, 3});
}

TEST(Cases, H9_key_heads_and_batches_far_apart) {
  const index_t stride = (index_t{1} << 31) + 4;
  sparse_memory memory(static_cast<std::size_t>(3 * stride + 64) * sizeof(bfloat16));
  HEED_SKIP_UNLESS_RESERVED(memory);
  bfloat16* const base = memory.as<bfloat16>();
  for (index_t i = 0; i < 4; ++i) {
    base[i * stride + 0] = bfloat16(static_cast<double>(i));
    base[i * stride + 1] = bfloat16(static_cast<double>(i + 10));
  }
  const tensor_view<bfloat16 const, 4> v(base, {2, 2, 2, 1}, {2 * stride, stride, index_t{1}, index_t{1}});
  const tensor<bfloat16, 4> q({2, 4, 1, 1});
  expect_values(attend(q, v, v).out, {5, 5, 6, 6, 7, 7, 8, 8});
}

TEST(Cases, J1_no_heads_at_all_is_an_empty_call) {
  tensor<float, 4> none({2, 0, 3, 4}), out({2, 0, 3, 4});
  attention(none, none, none, out);
  EXPECT_EQ(attention(none, none, none).size(), 0);
  EXPECT_EQ(validate(none, none, none, out), errc::ok);
}

TEST(Cases, J2_zero_lengths) {
  for_each_type([]<class T>(T) {
    const tensor<T, 4> nothing({7, 7, 0, 7});
    expect_values(attend(nothing, nothing, nothing).out, {});
    expect_values(attend(nothing, nothing, nothing, causal{}).out, {});
    const tensor<T, 4> three({1, 1, 3, 7}), none({1, 1, 0, 7});
    expect_values(attend(none, three, three).out, {});
    const tensor<T, 4> no_values({1, 1, 0, 2});
    for (auto const& found :
         {attend(three, none, no_values), attend(three, none, no_values, causal{}),
          attend(three, none, no_values, lengths{}), attend(three, none, no_values, no_mask{}, {.anchor = top_left})}) {
      expect_values(found.out, {0, 0, 0, 0, 0, 0});
      expect_values(found.lse, {-infinity, -infinity, -infinity});
    }
    // No batch items, and null views where there is nothing to read.
    const tensor<T, 4> no_batch({0, 2, 3, 7});
    expect_values(attend(no_batch, no_batch, no_batch).out, {});
    tensor<T, 2> out({2, 5});
    for (index_t i = 0; i < 10; ++i) out.data()[i] = static_cast<T>(777);
    const tensor<T, 2> q({2, 3});
    attention(q, tensor_view<T const, 2>(nullptr, {0, 3}), tensor_view<T const, 2>(nullptr, {0, 5}), out);
    expect_values(out, std::vector<double>(10, 0.0));
  });
}

TEST(Cases, J2_a_mask_of_no_keys_has_no_address) {
  constexpr index_t rows = 70;
  tensor<float, 4> q({1, 2, rows, 16}), k({1, 2, 0, 16}), out({1, 2, rows, 16});
  out(0, 1, rows - 1, 15) = 1;
  bool const* const nothing = nullptr;
  const tensor_view<bool const, 4> mask(nothing, {1, 2, rows, 0}, {-8, -4, -2, 1});
  attention(q, k, k, out, keep_mask(mask));
  EXPECT_EQ(out(0, 1, rows - 1, 15), 0);
}

TEST(Cases, J5_addresses_are_aligned_for_the_element_only) {
  for_each_type([]<class T>(T) {
    for (index_t dim : {7, 16, 64}) {
      const auto q = pattern<T>(31, 1, {2, 3, 5, dim}), k = pattern<T>(5, 20, {2, 3, 40, dim}),
                 v = pattern<T>(7, 30, {2, 3, 40, dim});
      const auto aligned = attend(q, k, v, causal{});
      for (index_t shift = 1; shift < 8; ++shift) {
        const auto shifted = [&](tensor<T, 4> const& from, std::vector<T>& memory, index_t by) {
          memory.assign(static_cast<std::size_t>(from.size() + by), static_cast<T>(not_a_number));
          for (index_t i = 0; i < from.size(); ++i) memory[static_cast<std::size_t>(i + by)] = from.data()[i];
          return tensor_view<T, 4>(memory.data() + by, {2, 3, from.extent(2), dim});
        };
        std::vector<T> q_memory, k_memory, v_memory, out_memory;
        const auto out = shifted(q, out_memory, shift);
        attention(shifted(q, q_memory, shift), shifted(k, k_memory, 8 - shift), shifted(v, v_memory, shift), out,
                  causal{});
        EXPECT_TRUE(same_bits(aligned.out.view(), tensor_view<T const, 4>(out))) << dim << " " << shift;
      }
    }
  });
}

TEST(Cases, J7_nothing_is_written_behind_the_last_row) {
  const auto q = pattern<float>(31, 1, {1, 1, 1, 32}), k = pattern<float>(5, 20, {1, 1, 257, 32}),
             v = pattern<float>(7, 30, {1, 1, 257, 32});
  const auto found = attend(q, k, v);
  const double expected[] = {0.001571247, -0.003860101, -0.009604434, -0.002028203};
  for (index_t d = 0; d < 4; ++d) EXPECT_NEAR(found.out(0, 0, 0, d), expected[d], 1e-7);
  EXPECT_NEAR(found.lse(0, 0, 0), 5.566607523, 2e-6);
  for (int threads : {1, 2, 5}) {  // guard pages and bytes behind 15 single rows
    const auto q15 = pattern<float>(31, 1, {3, 5, 1, 32}), k15 = pattern<float>(5, 20, {3, 5, 257, 32});
    stored<float> out({3, 5, 1, 32}, layout::contiguous), lse({3, 5, 1, 1}, layout::contiguous);
    attention(q15, k15, k15, into(out.view()).lse(lse.lse3()), {.threads = threads});
    const auto expected15 = reference::solve(q15, k15, k15);
    for (index_t b = 0; b < 3; ++b) EXPECT_NEAR(out.view()(b, 4, 0, 31), expected15.out(b, 4, 0, 31), 2e-6);
  }
}

TEST(Cases, J9_one_row_over_a_long_cache_for_every_thread_count) {
  const auto q = pattern<float>(31, 1, {1, 32, 1, 128}), k = pattern<float>(5, 20, {1, 8, 2048, 128}),
             v = pattern<float>(7, 30, {1, 8, 2048, 128});
  const auto first = attend(q, k, v, no_mask{}, {.threads = 1});
  for (int threads : {0, 2, 3, 5, 8, 13, 32, 64, 96}) {
    const auto found = attend(q, k, v, no_mask{}, {.threads = threads});
    EXPECT_TRUE(same_bits(found.out, first.out)) << threads;
    EXPECT_TRUE(same_bits(found.lse, first.lse)) << threads;
  }
}

}  // namespace
