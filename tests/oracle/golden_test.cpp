// What PyTorch and JAX computed for the same numbers (tests/data/golden), in double and in float.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "heed/heed.hpp"
#include "heed/interop/npy.hpp"
#include "heed/reference/forward.hpp"

namespace {

using namespace heed;

struct golden {
  std::string folder;
  tensor<double, 4> query, key, value, out;

  explicit golden(std::string const& name)
      : folder(std::string(HEED_TEST_DATA_DIR) + "/golden/" + name + "/"),
        query(load("query")),
        key(load("key")),
        value(load("value")),
        out(load("out")) {}

  [[nodiscard]] tensor<double, 4> load(char const* name) const {
    return load_npy(folder + name + ".npy").as<double, 4>();
  }
  [[nodiscard]] std::vector<index_t> lengths_of(char const* name) const {
    const auto numbers = load_npy(folder + name + ".npy").as<index_t, 1>();
    return {numbers.data(), numbers.data() + numbers.size()};
  }
};

template <class T>
tensor<T, 4> converted(tensor<double, 4> const& from) {
  tensor<T, 4> to({from.extent(0), from.extent(1), from.extent(2), from.extent(3)});
  for (index_t i = 0; i < from.size(); ++i) to.data()[i] = static_cast<T>(from.data()[i]);
  return to;
}

template <class T>
void expect_near(tensor<T, 4> const& found, tensor<double, 4> const& expected, double tolerance, char const* what) {
  ASSERT_EQ(found.size(), expected.size());
  double worst = 0;
  for (index_t i = 0; i < expected.size(); ++i) {
    const double error = std::fabs(static_cast<double>(found.data()[i]) - expected.data()[i]);
    worst = error > worst || std::isnan(error) ? error : worst;
  }
  EXPECT_LE(worst, tolerance) << what;
}

/// The kernels in double and float, and the reference, against the other program's result.
template <class Rule>
void check(golden const& known, Rule const& rule, attention_options const& options = {}, double in_double = 1e-13) {
  SCOPED_TRACE(known.folder);
  expect_near(reference::solve(known.query, known.key, known.value, rule, options).out, known.out, in_double,
              "reference");
  expect_near(attention(known.query, known.key, known.value, rule, options), known.out, in_double, "double");
  expect_near(attention(converted<float>(known.query), converted<float>(known.key), converted<float>(known.value), rule,
                        options),
              known.out, 2e-6, "float");
}

TEST(Golden, Plain) { check(golden("torch_plain"), no_mask{}); }
TEST(Golden, Scale) { check(golden("torch_scale"), no_mask{}, {.scale = 0.3}); }
TEST(Golden, ValueDim) { check(golden("torch_value_dim"), no_mask{}); }
TEST(Golden, ManyQueryHeadsOverOne) { check(golden("torch_mqa"), no_mask{}); }

TEST(Golden, CausalSquareHasOneCornerOnly) {
  const golden known("torch_causal_square");
  check(known, causal{});
  check(known, causal{}, {.anchor = top_left});
  check(known, causal{}, {.anchor = at_offset(0)});
}
TEST(Golden, CausalWide) { check(golden("torch_causal_wide"), causal{}, {.anchor = top_left}); }
TEST(Golden, CausalTall) { check(golden("torch_causal_tall"), causal{}, {.anchor = top_left}); }
TEST(Golden, GroupedHeadsCausal) { check(golden("torch_gqa_causal"), causal{}, {.anchor = top_left}); }
TEST(Golden, Long) { check(golden("torch_long"), causal{}); }
TEST(Golden, CausalWideOfJax) { check(golden("jax_causal_wide"), causal{}, {.anchor = top_left}, 2e-6); }

template <std::size_t R>
void check_keep(char const* name) {
  const golden known(name);
  const auto keep = load_npy(known.folder + "keep.npy").as<bool, R>();
  check(known, keep_mask(keep));
  tensor<bool, R> drop = keep;
  for (index_t i = 0; i < drop.size(); ++i) drop.data()[i] = !drop.data()[i];
  check(known, drop_mask(drop));
}
TEST(Golden, KeepFull) { check_keep<4>("torch_keep_full"); }
TEST(Golden, KeepRow) { check_keep<2>("torch_keep_row"); }
TEST(Golden, KeepBatch) { check_keep<4>("torch_keep_batch"); }
TEST(Golden, KeepHead) { check_keep<4>("torch_keep_head"); }
TEST(Golden, KeepKey) { check_keep<4>("torch_keep_key"); }
TEST(Golden, KeepEmptyRows) { check_keep<2>("torch_keep_empty_rows"); }

template <std::size_t R>
void check_bias(char const* name, double tolerance = 1e-13) {
  const golden known(name);
  const auto terms = load_npy(known.folder + "bias.npy").as<double, R>();
  check(known, bias(terms), {}, tolerance);
  tensor<float, R> narrow = load_npy(known.folder + "bias.npy").as<float, R>();
  check(known, bias(narrow), {}, 2e-6);
}
TEST(Golden, BiasFull) { check_bias<4>("torch_bias_full"); }
TEST(Golden, BiasRow) { check_bias<2>("torch_bias_row"); }
TEST(Golden, BiasBatch) { check_bias<4>("torch_bias_batch"); }
TEST(Golden, BiasHead) { check_bias<4>("torch_bias_head"); }
TEST(Golden, BiasKey) { check_bias<4>("torch_bias_key"); }
TEST(Golden, BiasMinusInf) { check_bias<4>("torch_bias_minus_inf"); }
TEST(Golden, BiasGroupedHeadsOfJax) { check_bias<4>("jax_bias_gqa", 2e-6); }

/// lse of the kernels in double.
template <class Rule>
void check_lse(golden const& known, Rule const& rule, attention_options const& options = {}, double tolerance = 1e-12) {
  const auto expected = load_npy(known.folder + "lse.npy").as<double, 3>();
  tensor<double, 4> out({known.out.extent(0), known.out.extent(1), known.out.extent(2), known.out.extent(3)});
  tensor<double, 3> lse({expected.extent(0), expected.extent(1), expected.extent(2)});
  attention(known.query, known.key, known.value, into(out).lse(lse), rule, options);
  for (index_t i = 0; i < lse.size(); ++i)
    ASSERT_NEAR(lse.data()[i], expected.data()[i], tolerance) << known.folder << i;
}

TEST(Golden, Alibi) {
  const golden known("flex_alibi");
  const auto numbers = load_npy(known.folder + "slopes.npy").as<float, 1>();
  const std::vector<float> slopes(numbers.data(), numbers.data() + numbers.size());
  check(known, alibi{.slopes = slopes});
  check_lse(known, alibi{.slopes = slopes});
  check(known, score_fn([&](auto score, position at) {
          using number = decltype(score);
          return score - number(slopes[static_cast<std::size_t>(at.head)]) *
                             heed::abs(static_cast<number>(at.query + at.offset - at.key));
        }));
}
TEST(Golden, SoftCap) {
  check(golden("flex_softcap"), no_mask{}, {.softcap = 2.5});
  check_lse(golden("flex_softcap"), no_mask{}, {.softcap = 2.5});
  check(golden("flex_softcap"), score_fn([](auto score, position) { return 2.5f * heed::tanh(score / 2.5f); }));
}
TEST(Golden, SoftCapThenAlibiCausal) {
  const golden known("flex_softcap_then_alibi_causal");
  const auto numbers = load_npy(known.folder + "slopes.npy").as<float, 1>();
  const std::vector<float> slopes(numbers.data(), numbers.data() + numbers.size());
  check(known, alibi{.slopes = slopes} & causal{}, {.softcap = 3.0});
  check(known, causal{} & alibi{.slopes = slopes}, {.softcap = 3.0});
  check_lse(known, causal{} & alibi{.slopes = slopes}, {.softcap = 3.0});
}

// table[head, clamp(j - i, -31, 31) + 31]: buckets of one distance each, as far as the rows reach, and a last one for
// the rest.
TEST(Golden, RelativeTable) {
  const golden known("flex_relative_table");
  const auto by_distance = load_npy(known.folder + "table.npy").as<float, 2>();
  tensor<float, 2> table({124, 2});
  for (index_t head = 0; head < 2; ++head) {
    for (index_t away = 0; away < 62; ++away) {
      table(away, head) = by_distance(head, 31 - (away < 31 ? away : 31));
      table(62 + away, head) = by_distance(head, 31 + (away < 31 ? away : 31));
    }
  }
  const double tolerance = 1e-7;  // the table of the file is double
  check(known, relative_bias{.table = table, .max_distance = INT64_MAX}, {}, tolerance);
  check_lse(known, relative_bias{.table = table, .max_distance = INT64_MAX}, {}, tolerance);
  const auto exactly = load_npy(known.folder + "table.npy").as<double, 2>();
  check(known, score_fn([&](auto score, position at) {
          return score + static_cast<decltype(score)>(exactly(at.head, heed::clamp(at.key - at.query, -31, 31) + 31));
        }));
}

TEST(Golden, Window) {
  const golden known("flex_window");
  check(known, causal{} & window{.left = 7});
  check(known, window{.left = 7, .right = 0});
  check_lse(known, causal{} & window{.left = 7});
}
TEST(Golden, WindowTwoSided) {
  check(golden("flex_window_two_sided"), window{.left = 3, .right = 5});
  check_lse(golden("flex_window_two_sided"), window{.left = 3, .right = 5});
}
TEST(Golden, WindowCausalOfJax) {
  const golden known("jax_window_causal");
  check(known, causal{} & window{.left = 4}, {.anchor = top_left}, 2e-6);
}
TEST(Golden, Prefix) {
  const golden known("flex_prefix");
  const std::vector<index_t> visible = known.lengths_of("prefix");
  check(known, prefix{.lengths = visible});
  check_lse(known, prefix{.lengths = visible});
}
TEST(Golden, Documents) {
  const golden known("flex_documents");
  const std::vector<index_t> ids = known.lengths_of("documents");
  check(known, documents{.ids = ids} & causal{});
  check(known, documents{.ids = ids, .query_ids = ids} & causal{});
  check_lse(known, documents{.ids = ids} & causal{});
}

TEST(Golden, LengthsOfJax) {
  const golden known("jax_lengths");
  const std::vector<index_t> query = known.lengths_of("query_lengths"), key = known.lengths_of("key_lengths");
  check(known, lengths{.query = query, .key = key}, {}, 2e-6);
}

}  // namespace
