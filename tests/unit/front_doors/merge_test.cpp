// merge: results over parts of the keys against one call over all of them, by hand, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "heed/heed.hpp"
#include "support/bits.hpp"
#include "support/elements.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

struct pair_of {
  double out, lse;
};

/// Merges single numbers.
template <class... Part>
pair_of merged(Part... given) {
  const pair_of parts[] = {given...};
  constexpr std::size_t count = sizeof...(Part);
  tensor<double, 2> outs({count, 1});
  tensor<double, 1> lses({static_cast<index_t>(count)});
  for (std::size_t i = 0; i < count; ++i) {
    outs.data()[i] = parts[i].out;
    lses.data()[i] = parts[i].lse;
  }
  tensor<double, 2> out({1, 1});
  tensor<double, 1> lse({1});
  const auto part = [&](std::size_t i) {
    return partial(tensor_view<double, 2>(outs.data() + i, {1, 1}), tensor_view<double, 1>(lses.data() + i, {1}));
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) { merge(into(out).lse(lse), part(I)...); }
  (std::make_index_sequence<count>{});
  return {out(0, 0), lse(0)};
}

void expect_pair(pair_of found, pair_of right) {
  const auto same = [](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || a == b || std::fabs(a - b) <= 1e-15 * std::fabs(b);
  };
  EXPECT_TRUE(same(found.out, right.out)) << found.out << " and " << right.out;
  EXPECT_TRUE(same(found.lse, right.lse)) << found.lse << " and " << right.lse;
}

TEST(Merge, G7_empty_parts_are_the_identity) {
  expect_pair(merged(pair_of{0, -infinite}, pair_of{0, -infinite}), {0, -infinite});
  expect_pair(merged(pair_of{0, -infinite}, pair_of{5, 1.25}), {5, 1.25});
  expect_pair(merged(pair_of{1, 0}, pair_of{3, 0}), {2, std::log(2.0)});
  expect_pair(merged(pair_of{1, 0}, pair_of{3, 1000}), {3, 1000});
  for (double garbage : {not_a_number, infinite, -7.0}) {
    expect_pair(merged(pair_of{garbage, -infinite}), {0, -infinite});
    expect_pair(merged(pair_of{garbage, -infinite}, pair_of{garbage, -infinite}), {0, -infinite});
    expect_pair(merged(pair_of{garbage, -infinite}, pair_of{5, 1.25}, pair_of{garbage, -infinite}), {5, 1.25});
    expect_pair(merged(pair_of{garbage, -infinite}, pair_of{1, 0}, pair_of{3, 0}), {2, std::log(2.0)});
  }
}

TEST(Merge, ByHand) {
  const double a = std::exp(-1.0), b = std::exp(-2.0), sum = 1 + a + b;
  expect_pair(merged(pair_of{2, 7}, pair_of{4, 6}, pair_of{8, 5}), {(2 + 4 * a + 8 * b) / sum, 7 + std::log(sum)});
  expect_pair(merged(pair_of{8, 5}, pair_of{2, 7}, pair_of{4, 6}), {(2 + 4 * a + 8 * b) / sum, 7 + std::log(sum)});
  expect_pair(merged(pair_of{1, -10000}, pair_of{3, -10000}), {2, -10000 + std::log(2.0)});
  // A visible NaN or infinity stays visible.
  expect_pair(merged(pair_of{1, not_a_number}), {1, not_a_number});
  expect_pair(merged(pair_of{1, not_a_number}, pair_of{2, 0}), {not_a_number, not_a_number});
  expect_pair(merged(pair_of{2, 0}, pair_of{1, not_a_number}, pair_of{1, infinite}), {not_a_number, not_a_number});
  expect_pair(merged(pair_of{2, 0}, pair_of{1, infinite}), {not_a_number, not_a_number});
  expect_pair(merged(pair_of{7, -infinite}, pair_of{1, infinite}), {1, infinite});
  expect_pair(merged(pair_of{infinite, 0}, pair_of{1, 0}), {infinite, std::log(2.0)});
  expect_pair(merged(pair_of{not_a_number, -50}, pair_of{1, 0}), {not_a_number, 0});
}

/// The mean of the largest numbers is not infinite.
TEST(Merge, FiniteNumbersHaveAFiniteMean) {
  tensor<float, 4> out({1, 1, 40, 5}), one = out, other = out, third = out;
  tensor<float, 3> lse({1, 1, 40}), one_lse = lse, other_lse = lse, third_lse = lse;
  for (index_t i = 0; i < 40; ++i) {
    for (index_t d = 0; d < 5; ++d) {
      one(0, 0, i, d) = other(0, 0, i, d) = third(0, 0, i, d) = (d % 2 == 0 ? 1 : -1) * 3.4028234e38f;
    }
    one_lse(0, 0, i) = 0.1f * static_cast<float>(i);
    other_lse(0, 0, i) = 1.7f - 0.03f * static_cast<float>(i);
    third_lse(0, 0, i) = 0.9f;
  }
  merge(into(out).lse(lse), partial(one, one_lse), partial(other, other_lse), partial(third, third_lse));
  for (index_t i = 0; i < out.size(); ++i) EXPECT_NEAR(std::fabs(out.data()[i]) / 3.4028234e38f, 1, 1e-6) << i;
}

/// The result over keys [begin, end) of a call.
template <class T>
struct part_of {
  tensor<T, 4> out;
  tensor<accumulate_of<T>, 3> lse;
};

template <class T>
class split_call {
 public:
  static constexpr index_t rows = 37, keys = 150, dim = 21;

  split_call() {
    random_source random(5);
    for (auto* filled : {&q_, &k_, &v_}) {
      for (index_t i = 0; i < filled->size(); ++i) filled->data()[i] = static_cast<T>(random.normal());
    }
  }

  template <class Rule>
  part_of<T> attend(index_t begin, index_t end, Rule const& rule) const {
    part_of<T> found{tensor<T, 4>({2, 4, rows, dim}), tensor<accumulate_of<T>, 3>({2, 4, rows})};
    const auto some = [&](tensor<T, 4> const& from) {
      return tensor_view<T const, 4>(from.data() + begin * dim, {2, 2, end - begin, dim},
                                     {from.stride(0), from.stride(1), from.stride(2), 1});
    };
    // Row i stands where it stood: its place counts from the first key of the part.
    attention(q_, some(k_), some(v_), into(found.out).lse(found.lse), rule, {.anchor = at_offset(keys - rows - begin)});
    return found;
  }

  template <class Rule>
  void check(Rule const& rule, double bound) const {
    const part_of<T> whole = attend(0, keys, rule);
    const part_of<T> a = attend(0, 1, rule), b = attend(1, 64, rule), c = attend(64, 140, rule),
                     d = attend(140, keys, rule), abc = attend(0, 140, rule), bc = attend(1, 140, rule);
    const auto part = [](part_of<T> const& one) { return partial(one.out, one.lse); };
    part_of<T> found = whole;
    const auto expect_whole = [&] {
      for (index_t i = 0; i < found.out.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(found.out.data()[i]), static_cast<double>(whole.out.data()[i]), bound) << i;
      }
      for (index_t i = 0; i < found.lse.size(); ++i) {
        if (found.lse.data()[i] == whole.lse.data()[i]) continue;
        ASSERT_NEAR(static_cast<double>(found.lse.data()[i]), static_cast<double>(whole.lse.data()[i]), 1e-5) << i;
      }
      for (index_t i = 0; i < found.out.size(); ++i) found.out.data()[i] = static_cast<T>(77);
    };
    const auto to = [&] { return into(found.out).lse(found.lse); };
    merge(to(), part(whole));
    EXPECT_TRUE(same_bits(found.out, whole.out));
    EXPECT_TRUE(same_bits(found.lse, whole.lse));
    merge(to(), part(abc), part(d));
    expect_whole();
    merge(to(), part(d), part(abc));
    expect_whole();
    merge(to(), part(d), part(a), part(bc));
    expect_whole();
    merge(to(), part(a), part(b), part(c), part(d));
    expect_whole();
    merge(to(), part(c), part(d), part(b), part(a));
    expect_whole();
    merge(into(found.out), part(d), part(c), part(a), part(b));
    expect_whole();
    // Into an input, one part after the other, as a ring of machines does it.
    found = c;
    merge(to(), part(found), part(a));
    merge(to(), part(d), part(found));
    merge(to(), part(found), part(b));
    expect_whole();
  }

  tensor<T, 4> q_{{2, 4, rows, dim}}, k_{{2, 2, keys, dim}}, v_{{2, 2, keys, dim}};
};

TEST(Merge, OfPartsIsTheWhole) {
  split_call<float>().check(no_mask{}, 2e-6);
  split_call<float>().check(causal{}, 2e-6);
  split_call<double>().check(causal{}, 4e-15);
  split_call<half>().check(causal{}, 4e-3);
  split_call<bfloat16>().check(causal{}, 4e-2);
}

/// A sink is the part of one of the shards, or a part of its own.
TEST(Merge, ASinkIsAPart) {
  const std::vector<float> logits(4, 1.5f);
  const split_call<float> call;
  const auto whole = call.attend(0, 150, sink{logits} & causal{});
  const auto first = call.attend(0, 80, causal{}), second = call.attend(80, 150, causal{});
  const auto sunk = call.attend(80, 150, sink{logits} & causal{});
  part_of<float> found = whole, alone = whole;
  for (index_t i = 0; i < alone.out.size(); ++i) alone.out.data()[i] = 0;
  for (index_t i = 0; i < alone.lse.size(); ++i) alone.lse.data()[i] = 1.5f;
  const auto expect_whole = [&] {
    for (index_t i = 0; i < found.out.size(); ++i) ASSERT_NEAR(found.out.data()[i], whole.out.data()[i], 2e-6);
    for (index_t i = 0; i < found.lse.size(); ++i) ASSERT_NEAR(found.lse.data()[i], whole.lse.data()[i], 2e-6);
  };
  merge(into(found.out).lse(found.lse), partial(first.out, first.lse), partial(sunk.out, sunk.lse));
  expect_whole();
  merge(into(found.out).lse(found.lse), partial(first.out, first.lse), partial(alone.out, alone.lse),
        partial(second.out, second.lse));
  expect_whole();
}

/// Any types and strides, any rank; numbers that only one part has are not touched.
TEST(Merge, OfAnyTypesAndStrides) {
  const index_t rows = 33, dim = 7;
  random_source random(9);
  tensor<half, 2> one({rows, dim});
  tensor<double, 2> other({dim, rows});  // columns outside, rows backwards
  tensor<float, 1> one_lse({2 * rows});
  tensor<double, 1> other_lse({rows});
  tensor<bfloat16, 2> out({rows, dim + 2});
  tensor<float, 1> lse({3 * rows});
  for (index_t i = 0; i < rows; ++i) {
    for (index_t d = 0; d < dim; ++d) {
      one(i, d) = half(random.normal());
      other(d, i) = random.normal();
    }
    one_lse(2 * i) = i % 5 == 1 ? -std::numeric_limits<float>::infinity() : static_cast<float>(random.normal());
    other_lse(i) = i % 3 == 1 ? -infinite : random.normal();
    for (index_t d = 0; d < dim + 2; ++d) out(i, d) = bfloat16(77);
    for (index_t d = 0; d < 3; ++d) lse(3 * i + d) = 77;
  }
  merge(into(tensor_view<bfloat16, 2>(out.data() + 1, {rows, dim}, {dim + 2, 1}))
            .lse(tensor_view<float, 1>(lse.data() + 1, {rows}, {3})),
        partial(one, tensor_view<float, 1>(one_lse.data(), {rows}, {2})),
        partial(tensor_view<double, 2>(&other(0, rows - 1), {rows, dim}, {-1, rows}),
                tensor_view<double, 1>(&other_lse(rows - 1), {rows}, {-1})));
  for (index_t i = 0; i < rows; ++i) {
    const double first = one_lse(2 * i), second = other_lse(rows - 1 - i), most = std::fmax(first, second);
    const double sum = most == -infinite ? 0 : std::exp(first - most) + std::exp(second - most);
    for (index_t d = 0; d < dim; ++d) {
      double right = 0;
      if (first != -infinite) right += std::exp(first - most) / sum * static_cast<double>(one(i, d));
      if (second != -infinite) right += std::exp(second - most) / sum * other(d, rows - 1 - i);
      EXPECT_NEAR(static_cast<double>(out(i, d + 1)), right, 4e-3 * std::fabs(right) + 1e-30);
    }
    if (sum == 0) {
      EXPECT_EQ(lse(3 * i + 1), -infinite);
    } else {
      EXPECT_NEAR(lse(3 * i + 1), most + std::log(sum), 1e-6);
    }
    EXPECT_EQ(static_cast<float>(out(i, 0)), 77);
    EXPECT_EQ(static_cast<float>(out(i, dim + 1)), 77);
    EXPECT_EQ(lse(3 * i), 77);
    EXPECT_EQ(lse(3 * i + 2), 77);
  }
}

/// What one part has alone is its own to the bit: subnormal numbers, the sign of a zero, which NaN it is.
TEST(Merge, OfOnePartIsThatPartToTheBit) {
  tensor<float, 4> one({1, 1, 20, 4}), other = one, out = one;
  tensor<float, 3> one_lse({1, 1, 20}), other_lse = one_lse, lse = one_lse;
  for (index_t i = 0; i < 20; ++i) {
    one(0, 0, i, 0) = 1e-40f;
    one(0, 0, i, 1) = -0.0f;
    one(0, 0, i, 2) = -std::numeric_limits<float>::quiet_NaN();
    one(0, 0, i, 3) = std::numeric_limits<float>::infinity();
    one_lse(0, 0, i) = i == 3 ? std::numeric_limits<float>::infinity() : i == 4 ? 1e-40f : 3.0f;
    other_lse(0, 0, i) = -std::numeric_limits<float>::infinity();
  }
  merge(into(out).lse(lse), partial(other, other_lse), partial(one, one_lse));
  EXPECT_TRUE(same_bits(out, one));
  EXPECT_TRUE(same_bits(lse, one_lse));
  merge(into(one).lse(one_lse), partial(one, one_lse));
  EXPECT_TRUE(same_bits(out, one));
  EXPECT_TRUE(same_bits(lse, one_lse));
}

TEST(Merge, OfNothingIsNothing) {
  tensor<float, 4> none({2, 0, 3, 4});
  tensor<float, 3> none_lse({2, 0, 3});
  merge(into(none).lse(none_lse), partial(none, none_lse), partial(none, none_lse));
}

class MergeErrors : public testing::Test {
 protected:
  /// validate says so, and merge throws, naming `parts`, before it writes anything.
  template <class... Part>
  void refused(errc code, std::vector<std::string> const& texts, outputs const& to, Part const&... parts) {
    EXPECT_EQ(validate(to, parts...), code);
    for (index_t i = 0; i < memory_.size(); ++i) memory_(i) = 77;
#if HEED_EXCEPTIONS
    try {
      merge(to, parts...);
      ADD_FAILURE() << "not refused";
    } catch (error const& refusal) {
      EXPECT_EQ(refusal.code(), code) << refusal.what();
      const std::string what = refusal.what();
      EXPECT_EQ(what.find("heed::merge: "), 0u) << what;
      for (std::string const& text : texts) EXPECT_NE(what.find(text), std::string::npos) << what;
    }
#else
    (void)texts;
#endif
    for (index_t i = 0; i < memory_.size(); ++i) EXPECT_EQ(memory_(i), 77);
  }
  [[nodiscard]] tensor_view<float, 4> box(index_t place, axes<4> extents) { return {memory_.data() + place, extents}; }
  [[nodiscard]] tensor_view<float, 3> rows(index_t place, axes<3> extents) { return {memory_.data() + place, extents}; }

  tensor<float, 1> memory_{axes<1>(1000)};
};

TEST_F(MergeErrors, NameTheArgumentAndTheRule) {
  const auto out = box(0, {2, 3, 4, 5}), one = box(200, {2, 3, 4, 5});
  const auto lse = rows(150, {2, 3, 4}), one_lse = rows(350, {2, 3, 4});
  const auto good = partial(one, one_lse);
  EXPECT_EQ(validate(into(out).lse(lse), good), errc::ok);
  EXPECT_EQ(validate(out, good, good, good), errc::ok);
  const outputs named = into(out).lse(lse);
  EXPECT_EQ(validate(named, good, good), errc::ok);
  refused(errc::wrong_rank, {"out of partial 2 has rank 3", "rank 4"}, into(out).lse(lse), good,
          partial(rows(200, {3, 4, 5}), one_lse));
  refused(errc::wrong_rank, {"lse of partial 1 has rank 2", "rank 3", "without head_dim"}, into(out).lse(lse),
          partial(one, tensor_view<float, 2>(memory_.data() + 350, {3, 4})), good);
  refused(errc::wrong_rank, {"lse has rank 2"}, into(out).lse(tensor_view<float, 2>(memory_.data(), {3, 4})), good);
  refused(errc::wrong_rank, {"out has rank 1"}, into(memory_), good);
  refused(errc::batch_size_mismatch, {"out of partial 1 must be [batch_size=2", "got [1, 3, 4, 5]"}, into(out),
          partial(box(200, {1, 3, 4, 5}), one_lse));
  refused(errc::num_heads_mismatch, {"lse of partial 2"}, into(out), good, partial(one, rows(350, {2, 2, 4})));
  refused(errc::seq_len_mismatch, {"lse must be", "[2, 3, 5]"}, into(out).lse(rows(150, {2, 3, 5})), good);
  refused(errc::head_dim_mismatch, {"head_dim_v=5", "[2, 3, 4, 4]"}, into(out),
          partial(box(200, {2, 3, 4, 4}), one_lse));
  refused(errc::zero_head_dim, {"head_dim 0"}, into(box(0, {2, 3, 4, 0})), partial(box(200, {2, 3, 4, 0}), one_lse));
  refused(errc::null_data, {"lse of partial 1", "null"}, into(out),
          partial(one, tensor_view<float, 3>(nullptr, {2, 3, 4})));
  refused(errc::unused_output, {"weights"}, into(out).weights(box(400, {2, 3, 4, 4})), good);
  refused(errc::unused_output, {"scores"}, into(out).scores(box(400, {2, 3, 4, 4}), score_stage::raw), good);
}

TEST_F(MergeErrors, AnOutputMayBeAnInputButNotOverlapOne) {
  const auto out = box(0, {2, 3, 4, 5}), one = box(200, {2, 3, 4, 5});
  const auto lse = rows(150, {2, 3, 4}), one_lse = rows(350, {2, 3, 4});
  const auto good = partial(one, one_lse);
  EXPECT_EQ(validate(into(out).lse(lse), good, partial(out, lse)), errc::ok);
  EXPECT_EQ(validate(into(out).lse(lse), partial(out, one_lse), partial(one, lse)), errc::ok);
  refused(errc::output_overlaps_input, {"out and out of partial 2", "share an element", "or exactly the view"},
          into(out).lse(lse), good, partial(box(20, {2, 3, 4, 5}), one_lse));
  refused(errc::output_overlaps_input, {"out and out of partial 1"}, into(out),
          partial(tensor_view<float, 4>(memory_.data(), {2, 3, 4, 5}, {20, 40, 5, 1}), one_lse));
  refused(errc::output_overlaps_input, {"lse and lse of partial 1"}, into(out).lse(lse),
          partial(one, rows(151, {2, 3, 4})));
  refused(errc::output_overlaps_input, {"out and lse of partial 1"}, into(out), partial(one, rows(3, {2, 3, 4})));
  refused(errc::output_overlaps_input, {"lse and out of partial 1"}, into(out).lse(rows(200, {2, 3, 4})), good);
  refused(errc::output_overlaps_output, {"lse and out"}, into(out).lse(rows(100, {2, 3, 4})), good);
  refused(errc::output_overlaps_itself, {"out"},
          into(tensor_view<float, 4>(memory_.data(), {2, 3, 4, 5}, {60, 20, 0, 1})), good);
}

}  // namespace
