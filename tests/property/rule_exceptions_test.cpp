// What a rule of the caller's own throws comes back from the call, whichever question it throws at, alone or joined.
#include <gtest/gtest.h>

#include <string>

#include "heed/heed.hpp"
#include "support/bits.hpp"
#include "support/random.hpp"

namespace {

using namespace heed;
using heed::test::random_tensor;
using heed::test::same_bits;

enum class question { allows, covers, visible_keys, narrow, none };

struct failing_rule {
  question fails_at;

  [[nodiscard]] bool allows(position const&) const { return ask(question::allows), true; }
  [[nodiscard]] cover covers(block const&) const { return ask(question::covers), cover::partial; }
  [[nodiscard]] key_range visible_keys(block const& area) const {
    ask(question::visible_keys);
    return {area.key_begin, area.key_end};
  }
  void narrow(index_t, sequence&) const { ask(question::narrow); }

 private:
  void ask(question asked) const {
    if (asked == fails_at) throw std::string("from a rule");
  }
};

TEST(RuleExceptions, ComeBackFromEveryQuestion) {
  const auto query = random_tensor<half>({2, 4, 220, 8}, 1), key = random_tensor<half>({2, 2, 300, 8}, 2);
  const auto wanted = attention(query, key, key, causal{});
  for (question asked : {question::allows, question::covers, question::visible_keys, question::narrow}) {
    for (int threads : {1, 3}) {
      const failing_rule rule{asked};
      const attention_options options{.threads = threads};
      EXPECT_THROW((void)attention(query, key, key, rule, options), std::string);
      EXPECT_THROW((void)attention(query, key, key, causal{} & rule, options), std::string);
      EXPECT_THROW((void)attention(query, key, key, rule & causal{}, options), std::string);
      const auto after = attention(query, key, key, causal{} & failing_rule{question::none}, options);
      EXPECT_TRUE(same_bits(wanted, after));
    }
  }
}

TEST(RuleExceptions, ComeBackFromABackwardPass) {
  const auto query = random_tensor<float>({1, 1, 300, 8}, 1), key = random_tensor<float>({1, 1, 700, 8}, 2);
  const auto terms = random_tensor<float>({1, 1, 300, 700}, 3);
  tensor<float, 4> out({1, 1, 300, 8}), dq({1, 1, 300, 8}), dk({1, 1, 700, 8}), dv({1, 1, 700, 8});
  tensor<float, 4> d_terms({1, 1, 300, 700}), wanted({1, 1, 300, 8});
  tensor<float, 3> lse({1, 1, 300});
  attention(query, key, key, into(out).lse(lse), bias(terms));
  const auto run = [&](auto const& rule, int threads) {
    attention_backward(query, key, key, saved(out, lse), query, gradients(dq, dk, dv).bias(d_terms), rule,
                       {.threads = threads});
  };
  run(bias(terms), 1);
  for (index_t i = 0; i < dq.size(); ++i) wanted.data()[i] = dq.data()[i];
  for (question asked : {question::allows, question::covers, question::visible_keys, question::narrow}) {
    for (int threads : {1, 3}) {
      EXPECT_THROW(run(failing_rule{asked} & bias(terms), threads), std::string);
      run(failing_rule{question::none} & bias(terms), threads);
      EXPECT_TRUE(same_bits(wanted, dq));
    }
  }
}

}  // namespace
