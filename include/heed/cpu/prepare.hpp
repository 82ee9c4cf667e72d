// A rule as the kernels take it: what it holds in a form that is slow to read is brought, once per call, to one that is
// fast.
#pragma once

#include <type_traits>

#include "heed/base/scratch.hpp"
#include "heed/cpu/distance_table.hpp"
#include "heed/cpu/packed_blocks.hpp"
#include "heed/cpu/packed_documents.hpp"
#include "heed/cpu/packed_mask.hpp"
#include "heed/mask/combine.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// A rule that cannot be copied byte by byte, with the caller's functor in it: used where it is.
template <class Rule>
struct rule_reference {
  Rule const* rule;

  static constexpr bool is_stage = !mask_type<Rule>;
  template <class Real>
  [[nodiscard]] HEED_FN constexpr auto on(strip<Real> const& rows) const {
    return detail::on(*rule, rows);
  }
  [[nodiscard]] HEED_FN constexpr bool allows(position const& at) const { return is_allowed(*rule, at); }
  [[nodiscard]] HEED_FN constexpr cover covers(block const& area) const { return detail::covers(*rule, area); }
  [[nodiscard]] HEED_FN constexpr key_range visible_keys(block const& area) const {
    return detail::visible_keys(*rule, area);
  }
  HEED_FN constexpr void narrow(index_t batch, sequence& seq) const { detail::narrow(*rule, batch, seq); }
};

/// What becomes of a rule, and the words of memory that it takes. Most stay as they are.
template <class Rule>
struct preparation {
  using type = std::conditional_t<std::is_trivially_copyable_v<Rule>, Rule, rule_reference<Rule>>;
  static constexpr bool needs_room = false;
  [[nodiscard]] static index_t words(Rule const&, problem const&) noexcept { return 0; }
  [[nodiscard]] static type prepared(Rule const& rule, problem const&, std::uint32_t*) {
    if constexpr (std::is_trivially_copyable_v<Rule>) {
      return rule;
    } else {
      return {&rule};
    }
  }
};

template <bool Keep>
struct preparation<dense_mask<Keep>> {
  using type = packed_mask;
  static constexpr bool needs_room = true;
  [[nodiscard]] static index_t words(dense_mask<Keep> const& mask, problem const&) noexcept {
    return mask_words(mask).count();
  }
  [[nodiscard]] static type prepared(dense_mask<Keep> const& mask, problem const& call, std::uint32_t* memory) {
    return pack_mask(mask, call, memory);
  }
};

template <>
struct preparation<relative_bias> {
  using type = distance_table;
  static constexpr bool needs_room = true;
  [[nodiscard]] static index_t words(relative_bias const& rule, problem const& call) noexcept {
    return distance_range(rule, call).words();
  }
  [[nodiscard]] static type prepared(relative_bias const& rule, problem const& call, std::uint32_t* memory) {
    return tabulate(rule, call, memory);
  }
};

template <>
struct preparation<block_sparse> {
  using type = packed_blocks;
  static constexpr bool needs_room = true;
  [[nodiscard]] static index_t words(block_sparse const& mask, problem const& call) noexcept {
    return block_words(mask, call).count();
  }
  [[nodiscard]] static type prepared(block_sparse const& mask, problem const& call, std::uint32_t* memory) noexcept {
    return pack_blocks(mask, call, memory);
  }
};

template <>
struct preparation<documents> {
  using type = packed_documents;
  static constexpr bool needs_room = true;
  [[nodiscard]] static index_t words(documents const& rule, problem const& call) noexcept {
    return document_words(rule, call).count();
  }
  [[nodiscard]] static type prepared(documents const& rule, problem const& call, std::uint32_t* memory) noexcept {
    return pack_documents(rule, call, memory);
  }
};

template <class First, class Second>
struct preparation<both<First, Second>> {
  using first = preparation<First>;
  using second = preparation<Second>;
  using type = both<typename first::type, typename second::type>;
  static constexpr bool needs_room = first::needs_room || second::needs_room;
  [[nodiscard]] static index_t words(both<First, Second> const& rule, problem const& call) noexcept {
    return first::words(rule.first, call) + second::words(rule.second, call);
  }
  [[nodiscard]] static type prepared(both<First, Second> const& rule, problem const& call, std::uint32_t* memory) {
    return {first::prepared(rule.first, call, memory),
            second::prepared(rule.second, call, memory + first::words(rule.first, call))};
  }
};

/// A rule ready for the kernels, and the memory that it reads.
template <class Rule>
class prepared_rule {
 public:
  using type = typename preparation<Rule>::type;

  prepared_rule(Rule const& rule, problem const& call)
      : memory_(preparation<Rule>::words(rule, call)),
        rule_(preparation<Rule>::prepared(rule, call, memory_.words())) {}

  [[nodiscard]] type const& rule() const noexcept { return rule_; }

 private:
  struct room {
    scratch memory;
    explicit room(index_t words) : memory(static_cast<std::size_t>(words) * sizeof(std::uint32_t), scratch_use::rule) {}
    [[nodiscard]] std::uint32_t* words() const noexcept { return reinterpret_cast<std::uint32_t*>(memory.data()); }
  };
  struct no_room {
    explicit no_room(index_t) noexcept {}
    [[nodiscard]] static std::uint32_t* words() noexcept { return nullptr; }
  };

  std::conditional_t<preparation<Rule>::needs_room, room, no_room> memory_;
  type rule_;
};

}  // namespace HEED_ABI

template <class Rule>
inline constexpr bool bends<rule_reference<Rule>> = bends<Rule>;

}  // namespace heed::detail
