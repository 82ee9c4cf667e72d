// The accuracy rule on the inputs it names, to the letter: at most twice the error of a plain loop in the accumulate
// type, the largest over a tensor with rows enough that it is no lottery.
#include <gtest/gtest.h>

#include <cmath>

#include "support/run_scenario.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// HEED_ORACLE_SEED tries other numbers of the same kinds.
std::uint64_t seed_of(std::uint64_t seed) {
  char const* const text = std::getenv("HEED_ORACLE_SEED");
  return text == nullptr ? seed : seed + 100 * std::strtoull(text, nullptr, 10);
}

template <class T>
void check_accuracy(data_kind data, std::optional<double> scale, rule_kind rule, index_t rows, index_t keys,
                    std::uint64_t seed) {
  if (thinned > 1 && (keys > 1000 || rule != rule_kind::none || !std::is_same_v<T, float>)) return;  // too slow there
  scenario s;
  s.seed = seed;
  s.heads = s.kv_heads = keys > 1000 ? 1 : 4;
  s.rows = rows, s.keys = keys, s.dim = 64, s.value_dim = 64;
  s.data = data, s.scale = scale, s.rule = rule;
  s.threads = 0;
  s.garbage = false;
  s.how = strictness::plain_loop;
  run_scenario<T, T, T, T, rules::few>(s);
}

template <class T>
class Accuracy : public testing::Test {};
using types = testing::Types<float, double, half, bfloat16>;
struct names {
  template <class T>
  static std::string GetName(int) {
    return type_name<T>();
  }
};
TYPED_TEST_SUITE(Accuracy, types, names);

TYPED_TEST(Accuracy, NormalNumbers) {
  check_accuracy<TypeParam>(data_kind::normal, std::nullopt, rule_kind::none, 192, 300, seed_of(1));
  check_accuracy<TypeParam>(data_kind::normal, std::nullopt, rule_kind::everything, 192, 300, seed_of(2));
}
TYPED_TEST(Accuracy, LogitsNearTenThousand) {
  check_accuracy<TypeParam>(data_kind::far_logits, 156.25, rule_kind::none, 192, 300, seed_of(3));
  check_accuracy<TypeParam>(data_kind::far_logits, -156.25, rule_kind::none, 192, 300, seed_of(4));
}
TYPED_TEST(Accuracy, Outliers) {
  check_accuracy<TypeParam>(data_kind::outliers, std::nullopt, rule_kind::none, 256, 300, seed_of(5));
}
TYPED_TEST(Accuracy, MaximaThatComeLast) {
  check_accuracy<TypeParam>(data_kind::rising, std::nullopt, rule_kind::none, 192, 600, seed_of(6));
  check_accuracy<TypeParam>(data_kind::rising, std::nullopt, rule_kind::everything, 192, 600, seed_of(7));
}
TYPED_TEST(Accuracy, ScaleNegativeZeroAndOne) {
  check_accuracy<TypeParam>(data_kind::normal, -0.125, rule_kind::none, 192, 200, seed_of(8));
  check_accuracy<TypeParam>(data_kind::normal, 0.0, rule_kind::none, 192, 200, seed_of(9));
  check_accuracy<TypeParam>(data_kind::normal, 1.0, rule_kind::none, 256, 200, seed_of(10));
}
TYPED_TEST(Accuracy, LongRows) {
  check_accuracy<TypeParam>(data_kind::normal, std::nullopt, rule_kind::none, 32, 16384, seed_of(11));
  check_accuracy<TypeParam>(data_kind::outliers, std::nullopt, rule_kind::none, 32, 16384, seed_of(12));
}

/// Sums of equal weights that do not round to either side alike: the longer the chain, the further it drifts.
TYPED_TEST(Accuracy, EvenWeights) {
  for (const index_t rows : {1, 3, 8, 32, 49}) {
    for (const index_t keys : {600, 1025, 16384}) {
      check_accuracy<TypeParam>(data_kind::even, 1.0, rule_kind::none, rows, keys, seed_of(14));
    }
  }
}

/// One key of weight 1 and all others of a little less than half a unit in its last place: a sum that has the large one
/// gains nothing from any of them, and together they are much. Where all values are the same, so is the output: what it
/// is divided by must have lost what it has lost. On tiles, by few rows, and by few rows in splits of the keys.
template <class T>
void check_small_weights(index_t rows, index_t keys, index_t large, int threads) {
  SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(keys) + " keys, " + std::to_string(large));
  using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const index_t heads = 2, dim = 7, value_dim = 37;
  const T logit = static_cast<T>((std::is_same_v<T, double> ? -53.3 : -24.3) * std::log(2.0));
  tensor<T, 4> q({1, heads, rows, dim}), k({1, 1, keys, dim}), v({1, 1, keys, value_dim}),
      out({1, heads, rows, value_dim}), again({1, heads, rows, value_dim});
  for (index_t i = 0; i < q.size(); ++i) q.data()[i] = static_cast<T>(i % dim == 0 ? 1.0f : 0.0f);
  for (index_t i = 0; i < keys; ++i) k(0, 0, i, 0) = i == large ? static_cast<T>(0.0f) : logit;
  for (index_t i = 0; i < v.size(); ++i) v.data()[i] = static_cast<T>(1.0f);
  tensor<Real, 3> lse({1, heads, rows});
  tensor<Real, 4> weights({1, heads, rows, keys});
  const attention_options options{.scale = 1.0, .threads = threads};
  attention(q, k, v, into(out).lse(lse).weights(weights), options);
  attention(q, k, v, again, options);  // nobody asks for more
  for (index_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(static_cast<double>(out.data()[i]), 1.0) << i;
    ASSERT_EQ(static_cast<double>(again.data()[i]), 1.0) << i;
  }
  // Sums are of blocks of at most 128 keys: no more than one loses its part, and each is rounded once.
  const double weight = std::exp(static_cast<double>(logit)), others = static_cast<double>(keys - 1) * weight;
  const double eps = static_cast<double>(std::numeric_limits<Real>::epsilon());
  const double near = 128 * weight + (4 + static_cast<double>(keys) / 128) * eps;
  for (index_t i = 0; i < lse.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(lse.data()[i]), std::log1p(others), near) << i;
    ASSERT_NEAR(static_cast<double>(weights.data()[i * keys + large]), 1 / (1 + others), near) << i;
  }
}
TYPED_TEST(Accuracy, SmallWeightsBehindALargeOne) {
  for (const index_t keys : {129, 1025, 16384}) {
    if (thinned > 1 && keys > 2000) continue;
    for (const index_t large : {index_t{0}, index_t{67}, keys - 1}) {
      for (const index_t rows : {1, 3, 8, 32, 49}) {
        for (const int threads : {1, 3}) check_small_weights<TypeParam>(rows, keys, large, threads);
      }
    }
  }
}

/// Whatever its weight was rounded to on the way: a single visible key has weight 1.
TYPED_TEST(Accuracy, ARowThatSeesOneKeyReturnsItsValueExactly) {
  using T = TypeParam;
  random_source random(13);
  for (const double scale : {0.1, 1.0, -3.0, 700.0, 0.0}) {
    const index_t rows = 70, keys = 70, dim = 33, value_dim = 37;
    tensor<T, 2> q({rows, dim}), k({keys, dim}), v({keys, value_dim}), out({rows, value_dim});
    for (auto* filled : {&q, &k, &v}) {
      for (index_t i = 0; i < filled->size(); ++i) filled->data()[i] = static_cast<T>(random.normal());
    }
    tensor<bool, 2> keep({rows, keys});
    for (index_t i = 0; i < rows; ++i) keep(i, (i * 29) % keys) = true;
    attention(q, k, v, out, keep_mask(keep), {.scale = scale});
    for (index_t i = 0; i < rows; ++i) {
      for (index_t d = 0; d < value_dim; ++d) {
        ASSERT_EQ(static_cast<double>(out(i, d)), static_cast<double>(v((i * 29) % keys, d))) << i << " " << d;
      }
    }
    tensor<T, 2> row({1, value_dim});
    const tensor_view<T const, 2> first_k(k.data(), {1, dim}), first_v(v.data(), {1, value_dim}),
        first_q(q.data(), {1, dim});
    attention(first_q, first_k, first_v, row, {.scale = scale});
    for (index_t d = 0; d < value_dim; ++d) {
      ASSERT_EQ(static_cast<double>(row(0, d)), static_cast<double>(v(0, d)));
    }
  }
}

}  // namespace
