// Every rule joined with every other, as users write them: the types of the pairs, where combination has one type for
// all of them. Both must give the same bits. A pair costs the compiler a second, so that they are cut in three.
#pragma once

#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "support/bits.hpp"
#include "support/combination.hpp"

namespace heed::test {

/// Two calls of the same numbers.
template <std::size_t First, std::size_t Second, class Rules>
void check_pair_of(combination const& given, scenario_inputs<float, float, float> const& in, Rules const& rules) {
  SCOPED_TRACE(testing::Message() << given.these << "of " << given.sizes);
  scenario const& s = given.sizes;
  const auto run = [&](auto const& rule) {
    std::pair<tensor<float, 4>, tensor<float, 3>> found{tensor<float, 4>({s.batch, s.heads, s.rows, s.value_dim}),
                                                        tensor<float, 3>({s.batch, s.heads, s.rows})};
    attention(in.query.read_only(), in.key.read_only(), in.value.read_only(), into(found.first).lse(found.second), rule,
              given.options());
    return found;
  };
  const auto [out, lse] = run(std::get<First>(rules) & std::get<Second>(rules));
  const auto [same_out, same_lse] = run(given.joined());
  EXPECT_TRUE(same_bits(out, same_out));
  EXPECT_TRUE(same_bits(lse, same_lse));
}

inline constexpr std::size_t rule_count = 14;
/// In the order of combination::joined, in which stages apply.
inline constexpr part rule_parts[rule_count] = {
    part::alibi,    part::bias,         part::causal,  part::window, part::score_fn, part::prefix,  part::documents,
    part::relative, part::block_sparse, part::lengths, part::keep,   part::drop,     part::functor, part::sink};

template <std::size_t Third, std::size_t Pair>
void check_pair() {
  constexpr std::size_t first = Pair / rule_count, second = Pair % rule_count;
  if constexpr (first < second && (first + second) % 3 == Third) {
    parts these;
    these.add(static_cast<int>(rule_parts[first])), these.add(static_cast<int>(rule_parts[second]));
    for (std::uint64_t seed = 700000 + Pair * 8; seed < 700000 + Pair * 8 + 8; ++seed) {
      const combination given(these, seed);
      const scenario_inputs<float, float, float> in(given.sizes);
      check_pair_of<first, second>(
          given, in,
          std::make_tuple(alibi{given.data.stages.slopes}, given.data.stages.dense(), causal{}, given.data.around,
                          score_fn(bending{}), prefix{given.data.prefix_len}, given.data.packed(),
                          given.data.stages.relative(), given.data.sparse(), given.some(), given.data.dense<true>(),
                          given.more.dense<false>(), mask_fn(given.far, given.far), sink{given.data.stages.logits}));
      if (testing::Test::HasFailure()) return;
    }
  }
}

template <std::size_t Third, std::size_t... Pair>
void check_pairs(std::index_sequence<Pair...>) {
  (check_pair<Third, Pair>(), ...);
}
/// Those whose numbers have a sum that leaves `Third` when it is divided by three.
template <std::size_t Third>
void check_third_of_pairs() {
  check_pairs<Third>(std::make_index_sequence<rule_count * rule_count>());
}

}  // namespace heed::test
