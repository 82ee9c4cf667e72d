// The gradients that PyTorch and JAX found for the same numbers (tests/data/golden), in double and in float.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "heed/interop/npy.hpp"
#include "support/gradients.hpp"

namespace {

using namespace heed;
using namespace heed::test;

struct golden {
  std::string folder;
  tensor<double, 4> query, key, value, d_out, dq, dk, dv;

  explicit golden(std::string const& name)
      : folder(std::string(HEED_TEST_DATA_DIR) + "/golden/" + name + "/"),
        query(load("query")),
        key(load("key")),
        value(load("value")),
        d_out(load("d_out")),
        dq(load("dq")),
        dk(load("dk")),
        dv(load("dv")) {}

  [[nodiscard]] tensor<double, 4> load(char const* name) const {
    return load_npy(folder + name + ".npy").as<double, 4>();
  }
  [[nodiscard]] std::vector<index_t> lengths_of(char const* name) const {
    const auto numbers = load_npy(folder + name + ".npy").as<index_t, 1>();
    return {numbers.data(), numbers.data() + numbers.size()};
  }
  [[nodiscard]] std::vector<float> slopes() const {
    const auto numbers = load_npy(folder + "slopes.npy").as<float, 1>();
    return {numbers.data(), numbers.data() + numbers.size()};
  }
};

tensor<float, 4> narrow(tensor<double, 4> const& from) {
  tensor<float, 4> to({from.extent(0), from.extent(1), from.extent(2), from.extent(3)});
  for (index_t i = 0; i < from.size(); ++i) to.data()[i] = static_cast<float>(from.data()[i]);
  return to;
}

/// `tolerance` is for numbers of order 1.
template <class Found, class Expected>
void expect_near(Found const& found, Expected const& expected, double tolerance, std::string const& what) {
  ASSERT_EQ(found.size(), expected.size());
  double worst = 0, largest = 1;
  for (index_t i = 0; i < expected.size(); ++i) {
    const double error = std::fabs(static_cast<double>(found.data()[i]) - expected.data()[i]);
    worst = error > worst || std::isnan(error) ? error : worst;
    largest = std::fmax(largest, std::fabs(expected.data()[i]));
  }
  EXPECT_LE(worst, tolerance * largest) << what;
}
template <class Found>
void expect_golden(golden const& known, Found const& found, double tolerance, std::string const& who) {
  expect_near(found.dq, known.dq, tolerance, "dq of " + who);
  expect_near(found.dk, known.dk, tolerance, "dk of " + who);
  expect_near(found.dv, known.dv, tolerance, "dv of " + who);
}

/// The kernels in double and float, and the reference; returns what the three say of the rule's numbers.
template <class Rule>
struct three_answers {
  reference::gradient_answer<double> plain;
  differentiated<double> wide;
  differentiated<float> narrow;
};
template <class Rule>
three_answers<Rule> check(golden const& known, Rule const& rule, attention_options const& options = {},
                          double in_double = 1e-13) {
  SCOPED_TRACE(known.folder);
  const auto& [folder, q, k, v, d_out, dq, dk, dv] = known;
  three_answers<Rule> found{reference::solve_backward(q, k, v, d_out, rule, options),
                            differentiate(q, k, v, d_out, rule, options),
                            differentiate(narrow(q), narrow(k), narrow(v), narrow(d_out), rule, options)};
  expect_golden(known, found.plain, in_double, "the reference");
  expect_golden(known, found.wide, in_double, "double");
  expect_golden(known, found.narrow, 2e-6, "float");
  return found;
}

TEST(GoldenGradient, Plain) { check(golden("torch_plain"), no_mask{}); }
TEST(GoldenGradient, Scale) { check(golden("torch_scale"), no_mask{}, {.scale = 0.3}); }
TEST(GoldenGradient, ValueDim) { check(golden("torch_value_dim"), no_mask{}); }
TEST(GoldenGradient, ManyQueryHeadsOverOne) { check(golden("torch_mqa"), no_mask{}); }

TEST(GoldenGradient, Causal) {
  check(golden("torch_causal_square"), causal{});
  check(golden("torch_causal_wide"), causal{}, {.anchor = top_left});
  check(golden("torch_causal_tall"), causal{}, {.anchor = top_left});
  check(golden("torch_gqa_causal"), causal{}, {.anchor = top_left});
  check(golden("torch_long"), causal{});
  check(golden("jax_causal_wide"), causal{}, {.anchor = top_left}, 2e-6);
}

template <std::size_t R>
void check_keep(char const* name) {
  const golden known(name);
  const auto keep = load_npy(known.folder + "keep.npy").as<bool, R>();
  check(known, keep_mask(keep));
}
TEST(GoldenGradient, KeepMasks) {
  check_keep<4>("torch_keep_full");
  check_keep<2>("torch_keep_row");
  check_keep<4>("torch_keep_batch");
  check_keep<4>("torch_keep_head");
  check_keep<4>("torch_keep_key");
  check_keep<2>("torch_keep_empty_rows");
}

template <std::size_t R>
void check_bias(char const* name) {
  const golden known(name);
  const double tolerance = 1e-13;
  const auto terms = load_npy(known.folder + "bias.npy").as<double, R>();
  const auto right = load_npy(known.folder + "dbias.npy").as<double, R>();
  const auto found = check(known, bias(terms), {}, tolerance);
  SCOPED_TRACE(known.folder);
  expect_near(found.plain.biases[0], right, tolerance, "dbias of the reference");
  expect_near(found.wide.biases[0], right, tolerance, "dbias of double");
  expect_near(found.narrow.biases[0], right, 2e-6, "dbias of float");
}
TEST(GoldenGradient, Biases) {
  check_bias<4>("torch_bias_full");
  check_bias<2>("torch_bias_row");
  check_bias<4>("torch_bias_batch");
  check_bias<4>("torch_bias_head");
  check_bias<4>("torch_bias_key");
  check_bias<4>("torch_bias_minus_inf");
  const golden grouped("jax_bias_gqa");
  const auto terms = load_npy(grouped.folder + "bias.npy").as<double, 4>();
  check(grouped, bias(terms), {}, 2e-6);
}

TEST(GoldenGradient, Alibi) {
  const golden known("flex_alibi");
  const std::vector<float> slopes = known.slopes();
  check(known, alibi{.slopes = slopes});
  check(known, score_fn([&](auto score, position at) {
          const auto away = heed::abs(static_cast<double>(at.query + at.offset - at.key));
          return score - static_cast<double>(slopes[static_cast<std::size_t>(at.head)]) * away;
        }));
}
TEST(GoldenGradient, SoftCap) {
  check(golden("flex_softcap"), no_mask{}, {.softcap = 2.5});
  check(golden("flex_softcap"), score_fn([](auto score, position) { return 2.5f * heed::tanh(score / 2.5f); }), {},
        1e-10);  // the reference has its derivative by differences
}
TEST(GoldenGradient, SoftCapThenAlibiCausal) {
  const golden known("flex_softcap_then_alibi_causal");
  const std::vector<float> slopes = known.slopes();
  check(known, alibi{.slopes = slopes} & causal{}, {.softcap = 3.0});
}

// Buckets of one distance each, as far as the rows reach, and a last one for the rest (see the forward test).
TEST(GoldenGradient, RelativeTable) {
  const golden known("flex_relative_table");
  const auto by_distance = load_npy(known.folder + "table.npy").as<float, 2>();
  tensor<float, 2> table({124, 2});
  for (index_t head = 0; head < 2; ++head) {
    for (index_t away = 0; away < 62; ++away) {
      table(away, head) = by_distance(head, 31 - (away < 31 ? away : 31));
      table(62 + away, head) = by_distance(head, 31 + (away < 31 ? away : 31));
    }
  }
  check(known, relative_bias{.table = table, .max_distance = INT64_MAX}, {}, 1e-7);  // the table of the file is double
}

TEST(GoldenGradient, WindowsPrefixDocumentsLengths) {
  check(golden("flex_window"), causal{} & window{.left = 7});
  check(golden("flex_window_two_sided"), window{.left = 3, .right = 5});
  check(golden("jax_window_causal"), causal{} & window{.left = 4}, {.anchor = top_left}, 2e-6);
  const golden prefixed("flex_prefix"), packed("flex_documents"), padded("jax_lengths");
  const std::vector<index_t> visible = prefixed.lengths_of("prefix"), ids = packed.lengths_of("documents"),
                             query = padded.lengths_of("query_lengths"), key = padded.lengths_of("key_lengths");
  check(prefixed, prefix{.lengths = visible});
  check(packed, documents{.ids = ids} & causal{});
  check(padded, lengths{.query = query, .key = key}, {}, 2e-6);
}

}  // namespace
