// What users of other systems write, and the heed call that gives the number they had: the table "Dialects" of
// include/heed/README.md, a test for each row. The other side is written down here as that system defines it.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/cases.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr double hidden = -infinity;

/// out, lse and weights of plain loops in double, [B, H, S, ...]; `logit(b, h, i, j, q.k)` is what is softmaxed.
struct other_system {
  tensor<double, 4> out, weights;
  tensor<double, 3> lse;

  template <class T, class Logit>
  other_system(tensor<T, 4> const& q, tensor<T, 4> const& k, tensor<T, 4> const& v, Logit const& logit)
      : out({q.extent(0), q.extent(1), q.extent(2), v.extent(3)}),
        weights({q.extent(0), q.extent(1), q.extent(2), k.extent(2)}),
        lse({q.extent(0), q.extent(1), q.extent(2)}) {
    const index_t group = q.extent(1) / k.extent(1);
    for (index_t b = 0; b < q.extent(0); ++b) {
      for (index_t h = 0; h < q.extent(1); ++h) {
        for (index_t i = 0; i < q.extent(2); ++i) {
          std::vector<double> row;
          double highest = hidden, sum = 0;
          for (index_t j = 0; j < k.extent(2); ++j) {
            double dot = 0;
            for (index_t d = 0; d < q.extent(3); ++d) {
              dot += static_cast<double>(q(b, h, i, d)) * static_cast<double>(k(b, h / group, j, d));
            }
            row.push_back(logit(b, h, i, j, dot));
            highest = std::fmax(highest, row.back());
          }
          for (double each : row) sum += each == hidden ? 0 : std::exp(each - highest);
          lse(b, h, i) = sum == 0 ? hidden : highest + std::log(sum);
          for (index_t j = 0; j < k.extent(2); ++j) {
            const double each = row[static_cast<std::size_t>(j)];
            weights(b, h, i, j) = each == hidden ? 0 : std::exp(each - highest) / sum;
            for (index_t d = 0; d < v.extent(3); ++d) {
              out(b, h, i, d) += weights(b, h, i, j) * static_cast<double>(v(b, h / group, j, d));
            }
          }
        }
      }
    }
  }
};

template <class T, std::size_t R>
void expect_same(tensor<T, R> const& found, tensor<double, R> const& other) {
  ASSERT_EQ(found.size(), other.size());
  for (index_t i = 0; i < other.size(); ++i) {
    const double got = static_cast<double>(found.data()[i]);
    if (got == other.data()[i]) continue;
    ASSERT_NEAR(got, other.data()[i], tolerance<T>() * (1 + std::fabs(other.data()[i]))) << "element " << i;
  }
}

/// Two batch items, four query heads over two, 5 rows and 7 keys, in float and in double.
template <class T>
struct numbers {
  tensor<T, 4> q = random_tensor<T>({2, 4, 5, 3}, 1), k = random_tensor<T>({2, 2, 7, 3}, 2),
               v = random_tensor<T>({2, 2, 7, 2}, 3);
  double scale = 1 / std::sqrt(3.0);
};
template <class Check>
void in_float_and_double(Check const& check) {
  check(numbers<float>{});
  check(numbers<double>{});
}
tensor<bool, 2> some_bools(index_t rows, index_t keys) {
  tensor<bool, 2> bits({rows, keys});
  for (index_t i = 0; i < rows; ++i) {
    for (index_t j = 0; j < keys; ++j) bits(i, j) = (3 * i + 5 * j) % 4 == 1;
  }
  return bits;
}

// softmax(where(mask, -1e9, q k^T / sqrt(d))) v, returned with the weights; a row that sees nothing averages V.
TEST(Dialects, TheNumPyListing) {
  in_float_and_double([](auto const& in) {
    tensor<bool, 2> mask = some_bools(5, 7);
    const auto listing = [&](index_t, index_t, index_t i, index_t j, double dot) {
      return mask(i, j) ? -1e9 : in.scale * dot;
    };
    const auto [out, weights] = attention_with_weights(in.q, in.k, in.v, drop_mask(mask));
    const other_system other(in.q, in.k, in.v, listing);
    expect_same(out, other.out);
    expect_same(weights, other.weights);
    for (index_t j = 0; j < 7; ++j) mask(2, j) = true;
    EXPECT_EQ(attention(in.q, in.k, in.v, drop_mask(mask))(0, 0, 2, 0), 0);
    const auto view = mask.view();
    const auto averaged = attention(in.q, in.k, in.v, score_fn([view](auto s, position at) {
                                      return heed::select(view(at.query, at.key), decltype(s)(-1e9), s);
                                    }));
    expect_same(averaged, other_system(in.q, in.k, in.v, listing).out);
  });
}

// scaled_dot_product_attention: is_causal is tril(ones(L, S)); bool true = attend; a float mask is added.
TEST(Dialects, PyTorchSdpa) {
  in_float_and_double([](auto const& in) {
    expect_same(attention(in.q, in.k, in.v, causal{}, {.anchor = top_left}),
                other_system(in.q, in.k, in.v, [&](index_t, index_t, index_t i, index_t j, double dot) {
                  return j <= i ? in.scale * dot : hidden;
                }).out);
    const tensor<bool, 2> mask = some_bools(5, 7);
    expect_same(attention(in.q, in.k, in.v, keep_mask(mask), {.scale = 0.3}),
                other_system(in.q, in.k, in.v, [&](index_t, index_t, index_t i, index_t j, double dot) {
                  return mask(i, j) ? 0.3 * dot : hidden;
                }).out);
    const auto added = random_tensor<float>({2, 1, 5, 7}, 4);
    expect_same(attention(in.q, in.k, in.v, bias(added)),
                other_system(in.q, in.k, in.v, [&](index_t b, index_t, index_t i, index_t j, double dot) {
                  return in.scale * dot + static_cast<double>(added(b, 0, i, j));
                }).out);
  });
}

// dropout(attn_weight, dropout_p) @ value: zeros with probability dropout_p, all else times 1 / (1 - dropout_p).
TEST(Dialects, PyTorchDropout) {
  in_float_and_double([](auto const& in) {
    const dropout drop{.p = 0.25, .seed = 6};
    const other_system plain(in.q, in.k, in.v,
                             [&](index_t, index_t, index_t, index_t, double dot) { return in.scale * dot; });
    tensor<double, 4> out({2, 4, 5, 2});
    for (index_t b = 0; b < 2; ++b) {
      for (index_t h = 0; h < 4; ++h) {
        for (index_t i = 0; i < 5; ++i) {
          for (index_t j = 0; j < 7; ++j) {
            const double weight = dropout_keeps(drop, b, h, i, j) ? plain.weights(b, h, i, j) / 0.75 : 0;
            for (index_t d = 0; d < 2; ++d) out(b, h, i, d) += weight * static_cast<double>(in.v(b, h / 2, j, d));
          }
        }
      }
    }
    expect_same(attention(in.q, in.k, in.v, {.drop = drop}), out);
  });
}

// key_padding_mask [N, S] and attn_mask [N * num_heads, L, S]: true = hidden; weights are averaged over the heads.
TEST(Dialects, PyTorchMultiheadAttention) {
  in_float_and_double([](auto const& in) {
    const tensor<bool, 2> padding = some_bools(2, 7);
    tensor<bool, 3> mask({8, 5, 7});
    for (index_t i = 0; i < mask.size(); ++i) mask.data()[i] = i % 5 == 2;
    const tensor_view<bool const, 4> per_item(padding.data(), {2, 1, 1, 7}), per_head(mask.data(), {2, 4, 5, 7});
    const auto [out, weights] = attention_with_weights(in.q, in.k, in.v, drop_mask(per_item) & drop_mask(per_head));
    const other_system other(in.q, in.k, in.v, [&](index_t b, index_t h, index_t i, index_t j, double dot) {
      return padding(b, j) || mask(4 * b + h, i, j) ? hidden : in.scale * dot;
    });
    expect_same(out, other.out);
    expect_same(weights, other.weights);
  });
}

// jax.nn.dot_product_attention: [B, T, N, H]; corner top left; local_window_size (left, right), inclusive;
// key_value_seq_lengths; mask true = attend, hidden ones take a finite number, so that an empty row averages V.
TEST(Dialects, Jax) {
  in_float_and_double([](auto const& in) {
    using T = std::remove_cvref_t<decltype(in.q(0, 0, 0, 0))>;
    tensor<T, 4> tokens_first({2, 5, 4, 3}), out({2, 5, 4, 2});
    for (index_t b = 0; b < 2; ++b) {
      for (index_t h = 0; h < 4; ++h) {
        for (index_t i = 0; i < 5; ++i) {
          for (index_t d = 0; d < 3; ++d) tokens_first(b, i, h, d) = in.q(b, h, i, d);
        }
      }
    }
    const std::vector<index_t> lengths_of_keys = {7, 4};
    attention(bshd(tokens_first.data(), 2, 5, 4, 3), in.k, in.v, bshd(out.data(), 2, 5, 4, 2),
              causal{} & window{.left = 2, .right = 1} & lengths{.key = lengths_of_keys}, {.anchor = top_left});
    const other_system other(in.q, in.k, in.v, [&](index_t b, index_t, index_t i, index_t j, double dot) {
      return j <= i && j >= i - 2 && j <= i + 1 && j < lengths_of_keys[static_cast<std::size_t>(b)] ? in.scale * dot
                                                                                                    : hidden;
    });
    for (index_t i = 0; i < 5; ++i) {
      for (index_t h = 0; h < 4; ++h) EXPECT_NEAR(static_cast<double>(out(1, i, h, 1)), other.out(1, h, i, 1), 2e-6);
    }
    tensor<bool, 2> mask = some_bools(5, 7);
    for (index_t j = 0; j < 7; ++j) mask(3, j) = false;
    const auto view = mask.view();
    const double fill = -0.7 * static_cast<double>((std::numeric_limits<float>::max)());
    expect_same(attention(in.q, in.k, in.v, score_fn([view, fill](auto s, position at) {
                            return heed::select(view(at.query, at.key), s, static_cast<decltype(s)>(fill));
                          })),
                other_system(in.q, in.k, in.v, [&](index_t, index_t, index_t i, index_t j, double dot) {
                  return mask(i, j) ? in.scale * dot : fill;
                }).out);
  });
}

// Attention of opset 23 and later: causal and windows count from the past length, or from the end of the keys that are
// no padding; soft cap, then mask; a mask of rank 3 is [heads, q, kv]; keys that a short mask does not reach are
// hidden; the four outputs of the product.
TEST(Dialects, OnnxAttention) {
  in_float_and_double([](auto const& in) {
    using T = std::remove_cvref_t<decltype(in.q(0, 0, 0, 0))>;
    const index_t past = 2;
    const auto added = random_tensor<float>({1, 4, 5, 6}, 4);  // one key short
    const auto logit = [&](index_t, index_t h, index_t i, index_t j, double dot) {
      const double capped = 1.5 * std::tanh(in.scale * dot / 1.5);
      return j <= i + past && j < 6 ? capped + static_cast<double>(added(0, h, i, j)) : hidden;
    };
    tensor<float, 4> whole({1, 4, 5, 7});
    for (index_t h = 0; h < 4; ++h) {
      for (index_t i = 0; i < 5; ++i) {
        for (index_t j = 0; j < 7; ++j) {
          whole(0, h, i, j) = j < 6 ? added(0, h, i, j) : -static_cast<float>(infinity);
        }
      }
    }
    tensor<T, 4> out({2, 4, 5, 2}), raw({2, 4, 5, 7}), capped({2, 4, 5, 7}), biased({2, 4, 5, 7}),
        weights({2, 4, 5, 7});
    attention(in.q, in.k, in.v,
              into(out)
                  .scores(raw, score_stage::raw)
                  .scores(capped, score_stage::capped)
                  .scores(biased, score_stage::biased)
                  .weights(weights),
              causal{} & bias(whole), {.softcap = 1.5, .anchor = at_offset(past)});
    const other_system other(in.q, in.k, in.v, logit);
    expect_same(out, other.out);
    expect_same(weights, other.weights);
    const auto scores = [&](auto const& stage) {
      tensor<double, 4> all({2, 4, 5, 7});
      (void)other_system(in.q, in.k, in.v, [&](index_t b, index_t h, index_t i, index_t j, double dot) {
        return all(b, h, i, j) = stage(b, h, i, j, dot);
      });
      return all;
    };
    expect_same(raw, scores([&](auto, auto, auto, auto, double dot) { return in.scale * dot; }));
    expect_same(capped,
                scores([&](auto, auto, auto, auto, double dot) { return 1.5 * std::tanh(in.scale * dot / 1.5); }));
    expect_same(biased, scores(logit));
    // Without a past: from the corner top left.
    expect_same(attention(in.q, in.k, in.v, causal{}, {.anchor = at_offset(0)}),
                other_system(in.q, in.k, in.v, [&](index_t, index_t, index_t i, index_t j, double dot) {
                  return j <= i ? in.scale * dot : hidden;
                }).out);
    // left_window_size, right_window_size: around the same place.
    expect_same(attention(in.q, in.k, in.v, window{.left = 1, .right = 2}, {.anchor = at_offset(past)}),
                other_system(in.q, in.k, in.v, [&](index_t, index_t, index_t i, index_t j, double dot) {
                  return j >= i + past - 1 && j <= i + past + 2 ? in.scale * dot : hidden;
                }).out);
    // nonpad_kv_seqlen: the last row stands at the last key of each item, so that rows may come before all keys.
    const std::vector<index_t> nonpad = {6, 3};
    expect_same(attention(in.q, in.k, in.v, causal{} & window{.left = 2} & lengths{.key = nonpad}),
                other_system(in.q, in.k, in.v, [&](index_t b, index_t, index_t i, index_t j, double dot) {
                  const index_t keys = nonpad[static_cast<std::size_t>(b)], place = i + keys - 5;
                  return j < keys && j >= place - 2 && j <= place ? in.scale * dot : hidden;
                }).out);
  });
}

// flash_attn_func: [B, S, H, D]; causal and window_size end at the bottom right, -1 is no bound; alibi_slopes by
// distance from the row's own place; softcap before them.
TEST(Dialects, FlashAttention) {
  in_float_and_double([](auto const& in) {
    const std::vector<float> slopes = {0.5f, 0.25f, 0.125f, 0.0625f};
    const index_t off = 7 - 5;
    const auto found = attend(in.q, in.k, in.v, alibi{.slopes = slopes} & window{.left = 3, .right = 0},
                              {.softcap = 2.0});  // softcap=2, window_size=(3, 0)
    const other_system other(in.q, in.k, in.v, [&](index_t, index_t h, index_t i, index_t j, double dot) {
      const double away = static_cast<double>(j > i + off ? j - i - off : i + off - j);
      const double term = -static_cast<double>(slopes[static_cast<std::size_t>(h)]) * away;
      return j >= i + off - 3 && j <= i + off ? 2 * std::tanh(in.scale * dot / 2) + term : hidden;
    });
    expect_same(found.out, other.out);
    expect_same(found.lse, other.lse);
    expect_same(attention(in.q, in.k, in.v, window{.right = 0}),  // window_size=(-1, 0) is causal=True
                other_system(in.q, in.k, in.v, [&](index_t, index_t, index_t i, index_t j, double dot) {
                  return j <= i + off ? in.scale * dot : hidden;
                }).out);
    expect_same(attention(in.q, in.k, in.v, causal{}),
                other_system(in.q, in.k, in.v, [&](index_t, index_t, index_t i, index_t j, double dot) {
                  return j <= i + off ? in.scale * dot : hidden;
                }).out);
  });
  // More rows than keys: the first two see nothing, FlashAttention 2 says +inf for their lse.
  const auto tall = means<float>(1, 3, values_of<float>({4}), causal{});
  EXPECT_EQ(tall.lse(0, 0, 0), -static_cast<float>(infinity));
  expect_values(tall.out, {0, 0, 4});
}

// The scale is 1 unless given; the left bound counts the row's own key; lengths of padded batches.
TEST(Dialects, Cudnn) {
  in_float_and_double([](auto const& in) {
    const index_t left_bound = 3;
    const std::vector<index_t> seq_len_q = {5, 3}, seq_len_kv = {7, 6};
    expect_same(attention(in.q, in.k, in.v,
                          causal{} & window{.left = left_bound - 1} & lengths{.query = seq_len_q, .key = seq_len_kv},
                          {.scale = 1.0, .anchor = top_left}),
                other_system(in.q, in.k, in.v, [&](index_t b, index_t, index_t i, index_t j, double dot) {
                  const std::size_t item = static_cast<std::size_t>(b);
                  const bool exists = i < seq_len_q[item] && j < seq_len_kv[item];
                  return exists && j <= i && j > i - left_bound ? dot : hidden;
                }).out);
  });
}

// ggml_flash_attn_ext: scale, soft cap, then slope(max_bias) times an f16 mask; sinks per head; out is [B, L, H, D].
TEST(Dialects, Ggml) {
  in_float_and_double([](auto const& in) {
    using T = std::remove_cvref_t<decltype(in.q(0, 0, 0, 0))>;
    const double max_bias = 8;
    std::vector<float> slopes;
    for (int h = 0; h < 4; ++h) slopes.push_back(static_cast<float>(std::pow(2.0, -max_bias / 4 * (h + 1))));
    EXPECT_EQ(slopes, alibi_slopes(4));
    const std::vector<float> sinks = {0.5f, -1, 2, 0};
    tensor<half, 2> mask({5, 7});  // -|distance| where seen, as a caller with ALiBi makes it
    for (index_t i = 0; i < 5; ++i) {
      for (index_t j = 0; j < 7; ++j) {
        mask(i, j) = half(j <= i + 2 ? -static_cast<float>(i + 2 - j) : -static_cast<float>(infinity));
      }
    }
    const auto logit = [&](index_t, index_t h, index_t i, index_t j, double dot) {
      return 2 * std::tanh(in.scale * dot / 2) +
             static_cast<double>(slopes[static_cast<std::size_t>(h)]) * static_cast<double>(mask(i, j));
    };
    const other_system other(in.q, in.k, in.v, logit);
    tensor<T, 4> out({2, 5, 4, 2}), again({2, 5, 4, 2});
    attention(in.q, in.k, in.v, bshd(out.data(), 2, 5, 4, 2),
              alibi{.slopes = slopes} & causal{} & sink{.logits = sinks}, {.softcap = 2.0});
    float const* const slope = slopes.data();
    const auto view = mask.view();
    attention(in.q, in.k, in.v, bshd(again.data(), 2, 5, 4, 2),
              score_fn([=](auto s, position at) {
                using number = decltype(s);
                return s + number(slope[at.head]) * number(static_cast<float>(view(at.query, at.key)));
              }) & sink{.logits = sinks},
              {.softcap = 2.0});
    for (index_t b = 0; b < 2; ++b) {
      for (index_t h = 0; h < 4; ++h) {
        for (index_t i = 0; i < 5; ++i) {
          const double joined = std::exp(static_cast<double>(sinks[static_cast<std::size_t>(h)]) - other.lse(b, h, i));
          const double right = other.out(b, h, i, 1) / (1 + joined);
          EXPECT_NEAR(static_cast<double>(out(b, i, h, 1)), right, tolerance<T>() * (1 + std::fabs(right)));
          EXPECT_NEAR(static_cast<double>(again(b, i, h, 1)), right, tolerance<T>() * (1 + std::fabs(right)));
        }
      }
    }
  });
}

// lse to the base 2; slope * (j - i), signed, before the soft cap.
TEST(Dialects, FlashInfer) {
  in_float_and_double([](auto const& in) {
    const std::vector<float> slopes = alibi_slopes(4);
    float const* const slope = slopes.data();
    const auto found = attend(in.q, in.k, in.v, score_fn([slope](auto s, position at) {
                                using number = decltype(s);
                                const number ahead = static_cast<number>(at.key - at.query - at.offset);
                                return number(2) * heed::tanh((s + number(slope[at.head]) * ahead) / number(2));
                              }));
    const other_system other(in.q, in.k, in.v, [&](index_t, index_t h, index_t i, index_t j, double dot) {
      return 2 * std::tanh((in.scale * dot + static_cast<double>(slope[h]) * static_cast<double>(j - i - 2)) / 2);
    });
    expect_same(found.out, other.out);
    for (index_t i = 0; i < other.lse.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(found.lse.data()[i]) * 1.4426950408889634,
                  std::log2(std::exp(other.lse.data()[i])), 1e-5);
    }
    // Causal and without a cap, the signed distance is ALiBi's.
    expect_same(attention(in.q, in.k, in.v, alibi{.slopes = slopes} & causal{}),
                other_system(in.q, in.k, in.v, [&](index_t, index_t h, index_t i, index_t j, double dot) {
                  const double term = static_cast<double>(slope[h]) * static_cast<double>(j - i - 2);
                  return j <= i + 2 ? in.scale * dot + term : hidden;
                }).out);
  });
}

// GroupQueryAttention of ONNX Runtime: scale 0 is the default one; seqlens_k is the number of keys less one; smooth
// softmax adds 1 to exp(-max) in the sum: a sink of logit 0.
TEST(Dialects, OnnxRuntimeContrib) {
  in_float_and_double([](auto const& in) {
    const std::vector<int> seqlens_k = {6, 4};
    std::vector<index_t> keys;
    for (int last : seqlens_k) keys.push_back(last + 1);
    const std::vector<float> smooth(4, 0.0f);
    const auto found = attend(in.q, in.k, in.v, causal{} & lengths{.key = keys} & sink{.logits = smooth});
    const other_system other(in.q, in.k, in.v, [&](index_t b, index_t, index_t i, index_t j, double dot) {
      const index_t last = seqlens_k[static_cast<std::size_t>(b)];
      return j <= last && j <= i + last + 1 - 5 ? in.scale * dot : hidden;
    });
    for (index_t i = 0; i < other.out.size(); ++i) {
      const double right = other.out.data()[i] / (1 + std::exp(-other.lse.data()[i / 2]));
      EXPECT_NEAR(static_cast<double>(found.out.data()[i]), right, 1e-6);
    }
  });
}

}  // namespace
