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

TEST(Golden, LengthsOfJax) {
  const golden known("jax_lengths");
  const std::vector<index_t> query = known.lengths_of("query_lengths"), key = known.lengths_of("key_lengths");
  check(known, lengths{.query = query, .key = key}, {}, 2e-6);
}

}  // namespace
