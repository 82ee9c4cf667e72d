// Recorded tensors of two language models (examples/data): every layer within 2e-6 and 2e-5 of 1 + |value|.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "heed/heed.hpp"
#include "heed/interop/npy.hpp"

namespace {

using namespace heed;

std::string folder(std::string const& name) { return std::string(HEED_SOURCE_DIR) + "/examples/data/" + name + "/"; }

template <class T, std::size_t R>
void expect_near(tensor<T, R> const& found, tensor<double, R> const& expected, double tolerance, char const* what) {
  ASSERT_EQ(found.size(), expected.size());
  double worst = 0;
  for (index_t i = 0; i < expected.size(); ++i) {
    const double error =
        std::fabs(static_cast<double>(found.data()[i]) - expected.data()[i]) / (1 + std::fabs(expected.data()[i]));
    worst = error > worst || std::isnan(error) ? error : worst;
  }
  EXPECT_LE(worst, tolerance) << what;
}

class MiniLm : public testing::TestWithParam<char const*> {};
TEST_P(MiniLm, PaddedBatchOfTwelveHeads) {
  const std::string from = folder(std::string("minilm/") + GetParam());
  const auto query = load_npy(from + "query.npy").as<float, 3>(), key = load_npy(from + "key.npy").as<float, 3>(),
             value = load_npy(from + "value.npy").as<float, 3>();
  const auto counts = load_npy(folder("minilm") + "lengths.npy").as<index_t, 1>();
  const std::vector<index_t> key_lengths(counts.data(), counts.data() + counts.size());
  tensor<float, 3> out({query.extent(0), query.extent(1), query.extent(2)}), lse({3, 12, 16});
  tensor<float, 4> weights({3, 12, 16, 16});
  attention(split_heads(query, 12), split_heads(key, 12), split_heads(value, 12),
            into(split_heads(out, 12)).lse(lse).weights(weights), lengths{.key = key_lengths});
  expect_near(out, load_npy(from + "out.npy").as<double, 3>(), 2e-6, "out");
  expect_near(lse, load_npy(from + "lse.npy").as<double, 3>(), 2e-6, "lse");
  expect_near(weights, load_npy(from + "weights.npy").as<double, 4>(), 2e-6, "weights");
}
INSTANTIATE_TEST_SUITE_P(Layers, MiniLm, testing::Values("layer0/", "layer4/"));

class SmolLm2 : public testing::TestWithParam<char const*> {};
TEST_P(SmolLm2, CausalNineHeadsOverThree) {
  const std::string from = folder(std::string("smollm2/") + GetParam());
  const auto query = load_npy(from + "query.npy").as<float, 4>(), key = load_npy(from + "key.npy").as<float, 4>(),
             value = load_npy(from + "value.npy").as<float, 4>();
  tensor<float, 4> out({1, 9, 50, 64});
  tensor<float, 3> lse({1, 9, 50});
  attention(query, key, value, into(out).lse(lse), causal{});
  expect_near(out, load_npy(from + "out.npy").as<double, 4>(), 2e-5, "out");
  expect_near(lse, load_npy(from + "lse.npy").as<double, 3>(), 2e-5, "lse");
}
INSTANTIATE_TEST_SUITE_P(Layers, SmolLm2, testing::Values("layer0/", "layer12/", "layer29/"));

}  // namespace
