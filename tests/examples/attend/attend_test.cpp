// The program attend from outside: what it computes, says and writes, and what it refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "heed/heed.hpp"
#include "heed/interop/npy.hpp"
#include "heed/reference/forward.hpp"
#include "support/program.hpp"

namespace {

using heed::index_t;
using heed::test::outcome;
using heed::test::workplace;
using words = std::vector<std::string>;

const std::string program = HEED_ATTEND_PROGRAM;
constexpr index_t batch_size = 2, num_heads = 4, num_kv_heads = 2, rows = 5, keys = 7, dim = 3, value_dim = 2;

float number(index_t i, int salt) { return std::sin(static_cast<float>(i * 7 + salt)) * 2; }

template <class T>
heed::tensor<T, 4> filled(index_t b, index_t h, index_t s, index_t d, int salt) {
  heed::tensor<T, 4> x({b, h, s, d});
  for (index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<T>(number(i, salt));
  return x;
}

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

class Attend : public testing::Test {
 protected:
  void SetUp() override {
    heed::save_npy(here.file("q.npy"), query);
    heed::save_npy(here.file("k.npy"), key);
    heed::save_npy(here.file("v.npy"), value);
    const index_t lengths[] = {7, 4};
    heed::save_npy(here.file("lengths.npy"), heed::tensor_view<index_t const, 1>(lengths, {2}));
    heed::tensor<bool, 2> mask({rows, keys});
    for (index_t i = 0; i < mask.size(); ++i) mask.data()[i] = i % 3 != 0;
    heed::save_npy(here.file("mask.npy"), mask);
    here.put("tokens.txt", "a b c d e f g\nh i j k\n");
  }

  words with_inputs(words more) const {
    words all = {"--query", "q.npy", "--key", "k.npy", "--value", "v.npy"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  outcome run(words const& more) const { return here.run(program, with_inputs(more)); }
  template <class T = float>
  heed::tensor<T, 4> load(std::string const& name) const {
    return heed::load_npy(here.file(name)).as<T, 4>();
  }

  template <class Rule>
  heed::tensor<double, 4> expected(Rule const& rule, heed::attention_options const& options = {}) const {
    return heed::reference::solve(query, key, value, rule, options).out;
  }

  const workplace here;
  const heed::tensor<float, 4> query = filled<float>(batch_size, num_heads, rows, dim, 1);
  const heed::tensor<float, 4> key = filled<float>(batch_size, num_kv_heads, keys, dim, 2);
  const heed::tensor<float, 4> value = filled<float>(batch_size, num_kv_heads, keys, value_dim, 3);
};

template <class Found, class Expected>
void expect_near(Found const& found, Expected const& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (index_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(found.data()[i]), static_cast<double>(expected.data()[i]), tolerance) << i;
  }
}

TEST_F(Attend, WritesOutWeightsAndLse) {
  const outcome done = run({"--out", "o.npy", "--weights", "w.npy", "--lse", "l.npy", "--check"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.err, "");
  const auto answer = heed::reference::solve(query, key, value, heed::no_mask{});
  expect_near(load("o.npy"), answer.out, 1e-6);
  expect_near(load("w.npy"), answer.weights, 1e-6);
  expect_near(heed::load_npy(here.file("l.npy")).as<float, 3>(), answer.lse, 1e-6);
  EXPECT_EQ(heed::load_npy(here.file("o.npy")).shape_text(), "(2, 4, 5, 2)");
  EXPECT_EQ(heed::load_npy(here.file("w.npy")).shape_text(), "(2, 4, 5, 7)");
  EXPECT_EQ(here.content().size(), 6u + 3u) << "something was left beside the outputs";
}

TEST_F(Attend, TellsWhatAPersonWantsToKnow) {
  const outcome done = run({"--tokens", "tokens.txt", "--check", "--key-lengths", "lengths.npy", "--batch", "1"});
  ASSERT_EQ(done.status, 0) << done.err;
  for (char const* part :
       {"[batch=2, heads=4, rows=5, dim=3]", "[batch=2, heads=2, rows=7, dim=3]", "key lengths 7 4", "skipped ",
        "GFLOP/s", "weights sum to ", "entropy", " bits (batch ", "check", "over 1 + |value|", ": ok\n", "links"}) {
    EXPECT_TRUE(has(done.out, part)) << part << " is not in\n" << done.out;
  }
  EXPECT_TRUE(has(done.out, std::string("ran       ") + std::string(heed::active_isa()))) << done.out;
  EXPECT_FALSE(has(done.out, "\r") || has(done.out, "\033")) << "no progress bar in a pipe";
}

TEST_F(Attend, NamesTheStrongestLinkOfEachToken) {
  const outcome done = run({"--tokens", "tokens.txt", "--head", "2", "--causal"});
  ASSERT_EQ(done.status, 0) << done.err;
  const auto answer = heed::reference::solve(query, key, value, heed::causal{});
  const std::string letters = "abcdefg";
  for (index_t i = 0; i < rows; ++i) {
    index_t best = 0;
    for (index_t j = 0; j < keys; ++j) {
      if (answer.weights(0, 2, i, j) > answer.weights(0, 2, i, best)) best = j;
    }
    char link[64];
    // Bottom-right: row i stands at key i + 2, and has that token.
    std::snprintf(link, sizeof(link), "%c -> %c %.2f", letters[static_cast<std::size_t>(i + keys - rows)],
                  letters[static_cast<std::size_t>(best)], answer.weights(0, 2, i, best));
    EXPECT_TRUE(has(done.out, link)) << link << " is not in\n" << done.out;
  }
}

TEST_F(Attend, NamesRowsOfPaddedSelfAttentionByTheirTokens) {
  heed::save_npy(here.file("q.npy"), filled<float>(batch_size, num_heads, keys, dim, 4));
  const outcome done = run({"--tokens", "tokens.txt", "--key-lengths", "lengths.npy", "--batch", "1"});
  ASSERT_EQ(done.status, 0) << done.err;
  for (char const* token : {"h -> ", "i -> ", "j -> ", "k -> "}) EXPECT_TRUE(has(done.out, token)) << done.out;
  EXPECT_FALSE(has(done.out, "(0)")) << done.out;
}

TEST_F(Attend, AppliesEveryRule) {
  const std::vector<index_t> lengths = {7, 4};
  const auto mask = heed::load_npy(here.file("mask.npy")).as<bool, 2>();
  struct {
    words flags;
    heed::tensor<double, 4> out;
  } const cases[] = {
      {{"--causal"}, expected(heed::causal{})},
      {{"--causal", "--anchor", "top-left"}, expected(heed::causal{}, {.anchor = heed::top_left})},
      {{"--causal", "--anchor", "-2"}, expected(heed::causal{}, {.anchor = heed::at_offset(-2)})},
      {{"--causal", "--anchor", "1"}, expected(heed::causal{}, {.anchor = heed::at_offset(1)})},
      {{"--key-lengths", "lengths.npy"}, expected(heed::lengths{.key = lengths})},
      {{"--keep", "mask.npy"}, expected(heed::keep_mask(mask))},
      {{"--drop", "mask.npy"}, expected(heed::drop_mask(mask))},
      {{"--scale", "-0.5"}, expected(heed::no_mask{}, {.scale = -0.5})},
      {{"--scale", "0", "--threads", "1"}, expected(heed::no_mask{}, {.scale = 0})},
      {{"--causal", "--drop", "mask.npy", "--key-lengths", "lengths.npy", "--scale", "2"},
       expected(heed::causal{} & heed::drop_mask(mask) & heed::lengths{.key = lengths}, {.scale = 2})},
  };
  for (auto const& one : cases) {
    words flags = one.flags;
    flags.insert(flags.end(), {"--out", "o.npy", "--check"});
    const outcome done = run(flags);
    ASSERT_EQ(done.status, 0) << done.err;
    EXPECT_FALSE(has(done.out, "FAILED")) << done.out;
    SCOPED_TRACE(one.flags[0] + " " + one.flags.back());
    expect_near(load("o.npy"), one.out, 2e-6);
  }
}

// The same tensors in each layout give the same numbers, laid out like the query.
TEST_F(Attend, ReadsEveryLayout) {
  const auto answer = expected(heed::no_mask{});
  const auto stored = [](heed::tensor<float, 4> const& x) {  // [B, S, H, D]
    heed::tensor<float, 4> y({x.extent(0), x.extent(2), x.extent(1), x.extent(3)});
    for (index_t b = 0; b < x.extent(0); ++b) {
      for (index_t h = 0; h < x.extent(1); ++h) {
        for (index_t s = 0; s < x.extent(2); ++s) {
          for (index_t d = 0; d < x.extent(3); ++d) y(b, s, h, d) = x(b, h, s, d);
        }
      }
    }
    return y;
  };
  const auto q = stored(query), k = stored(key), v = stored(value);
  for (std::string layout : {"bshd", "bsd", "sd"}) {
    const auto save = [&](char const* name, heed::tensor<float, 4> const& x) {
      const index_t packed = x.extent(2) * x.extent(3);
      if (layout == "bshd") heed::save_npy(here.file(name), x);
      if (layout == "bsd") {
        heed::save_npy(here.file(name),
                       heed::tensor_view<float const, 3>(x.data(), {x.extent(0), x.extent(1), packed}));
      }
      if (layout == "sd") {  // the first batch item
        heed::save_npy(here.file(name), heed::tensor_view<float const, 2>(x.data(), {x.extent(1), packed}));
      }
    };
    save("q.npy", q);
    save("k.npy", k);
    save("v.npy", v);
    words flags = {"--out", "o.npy", "--layout", layout};
    if (layout != "bshd") flags.insert(flags.end(), {"--heads", "4"});
    if (layout == "sd") flags.insert(flags.end(), {"--kv-heads", "2"});
    const outcome done = run(flags);
    ASSERT_EQ(done.status, 0) << layout << ": " << done.err;
    const auto array = heed::load_npy(here.file("o.npy"));
    EXPECT_EQ(array.rank(), layout == "bshd" ? 4u : layout == "bsd" ? 3u : 2u);
    heed::npy_array flat = array;
    flat.shape = {static_cast<index_t>(array.bytes.size() / 4)};
    const auto out = flat.as<float, 1>();
    ASSERT_EQ(out.size(), answer.size() / (layout == "sd" ? batch_size : 1));
    for (index_t i = 0; i < out.size(); ++i) {
      const index_t d = i % value_dim, h = i / value_dim % num_heads, s = i / value_dim / num_heads % rows;
      const index_t b = i / value_dim / num_heads / rows;
      ASSERT_NEAR(static_cast<double>(out(i)), answer(b, h, s, d), 1e-6) << layout << " " << i;
    }
  }
}

TEST_F(Attend, ComputesInTheTypeOfTheQuery) {
  heed::save_npy(here.file("q.npy"), filled<double>(batch_size, num_heads, rows, dim, 1), {.fortran_order = true});
  heed::save_npy(here.file("k.npy"), filled<heed::half>(batch_size, num_kv_heads, keys, dim, 2), {.big_endian = true});
  const outcome wide = run({"--out", "o.npy", "--lse", "l.npy", "--check"});
  ASSERT_EQ(wide.status, 0) << wide.err;
  EXPECT_TRUE(has(wide.out, "1e-12 allowed: ok"));
  EXPECT_STREQ(heed::load_npy(here.file("o.npy")).code(), "f8");
  EXPECT_STREQ(heed::load_npy(here.file("l.npy")).code(), "f8");

  heed::save_npy(here.file("q.npy"), filled<heed::half>(batch_size, num_heads, rows, dim, 1));
  const outcome narrow = run({"--out", "o.npy", "--lse", "l.npy", "--check"});
  ASSERT_EQ(narrow.status, 0) << narrow.err;
  EXPECT_STREQ(heed::load_npy(here.file("o.npy")).code(), "f2");
  EXPECT_STREQ(heed::load_npy(here.file("l.npy")).code(), "f4");
  expect_near(load<double>("o.npy"), expected(heed::no_mask{}), 4e-3);
}

TEST_F(Attend, DrawsOneHeadOrAllOfThem) {
  ASSERT_EQ(run({"--picture", "one.svg", "--head", "3", "--tokens", "tokens.txt"}).status, 0);
  const std::string one = here.text("one.svg");
  EXPECT_EQ(one.substr(0, 4), "<svg");
  EXPECT_TRUE(has(one, "q.npy, batch item 0, head 3") && has(one, ">g</text>"));
  EXPECT_FALSE(has(one, ">head 3</text>"));
  ASSERT_EQ(
      run({"--picture", "all.svg", "--batch", "1", "--tokens", "tokens.txt", "--key-lengths", "lengths.npy"}).status,
      0);
  const std::string all = here.text("all.svg");
  EXPECT_TRUE(has(all, ">head 0</text>") && has(all, ">head 3</text>") && has(all, ">k</text>"));
}

TEST_F(Attend, ExplainsAndHelps) {
  const outcome explained = run({"--explain"});
  EXPECT_EQ(explained.status, 0);
  for (char const* line : {"\nisa: ", "\ntile: ", "\nblocks: ", "\nthreads: ", "\nflops: "}) {
    EXPECT_TRUE(has(explained.out, line)) << line;
  }
  const outcome help = here.run(program, {"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.err, "");
  for (char const* flag :
       {"--query",       "--key",  "--value", "--layout", "--heads",   "--kv-heads", "--causal", "--anchor",
        "--key-lengths", "--keep", "--drop",  "--scale",  "--out",     "--weights",  "--lse",    "--picture",
        "--tokens",      "--head", "--batch", "--check",  "--threads", "--explain"}) {
    EXPECT_TRUE(has(help.out, flag)) << flag;
  }
}

TEST_F(Attend, TakesEmptyTensors) {
  heed::save_npy(here.file("k.npy"), heed::tensor<float, 4>({batch_size, num_kv_heads, 0, dim}));
  heed::save_npy(here.file("v.npy"), heed::tensor<float, 4>({batch_size, num_kv_heads, 0, value_dim}));
  const outcome no_keys =
      run({"--out", "o.npy", "--weights", "w.npy", "--lse", "l.npy", "--picture", "p.svg", "--check"});
  ASSERT_EQ(no_keys.status, 0) << no_keys.err;
  EXPECT_TRUE(has(no_keys.out, "40 see no key")) << no_keys.out;
  const auto out = load("o.npy");
  for (index_t i = 0; i < out.size(); ++i) EXPECT_EQ(out.data()[i], 0);
  heed::save_npy(here.file("q.npy"), heed::tensor<float, 4>({batch_size, num_heads, 0, dim}));
  EXPECT_EQ(run({"--out", "o.npy", "--picture", "p.svg", "--check"}).status, 0);
}

TEST_F(Attend, TellsOfNaNInsteadOfHidingIt) {
  auto broken = filled<float>(batch_size, num_heads, rows, dim, 1);
  broken(1, 2, 3, 0) = std::nanf("");
  heed::save_npy(here.file("q.npy"), broken);
  const outcome done = run({"--check"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(has(done.out, "1 hold NaN")) << done.out;
}

// Without arguments: the real data, checked, and two pictures.
TEST(AttendDemo, IsWholeAndRight) {
  const workplace here;
  const outcome done = here.run(program, {});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.err, "");
  EXPECT_TRUE(has(done.out, "it -> animal 0.22")) << done.out;
  EXPECT_FALSE(has(done.out, "FAILED")) << done.out;
  std::size_t recorded = 0;
  for (char const* layer : {"minilm/layer0", "minilm/layer4", "smollm2/layer0", "smollm2/layer12", "smollm2/layer29"}) {
    recorded += has(done.out, std::string(layer) + ": ") ? 1u : 0u;
  }
  EXPECT_EQ(recorded, 5u) << done.out;
  const auto files = here.content();
  EXPECT_EQ(files.size(), 2u);
  EXPECT_TRUE(has(files.at("attend-minilm.svg"), ">animal</text>"));
  EXPECT_TRUE(has(files.at("attend-smollm2.svg"), ">printing</text>"));
  EXPECT_TRUE(has(done.out, "attend-minilm.svg") && has(done.out, "attend-smollm2.svg"));
}

}  // namespace
