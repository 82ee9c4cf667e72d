// Document ids in the form that the kernels read: halves of ids side by side for the rows of a strip, and the range of
// ids of every few keys.
#pragma once

#include "heed/mask/documents.hpp"
#include "heed/view/problem.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

struct packed_documents {
  static constexpr index_t keys_per_range = 64;
  // A strip may begin so far before the first place, and end so far behind the last one.
  static constexpr index_t margin = 16;

  document_ids plain;
  std::uint32_t const* halves;  // [batch, low and high, margin + places + margin], of the ids that rows have
  index_t half_step;            // from low to high ones
  index_t batch_step;
  index_t places;  // keys, or rows where they have ids of their own
  bool rows_have_ids;
  char const* ranges;  // id_range [batch, keys / keys_per_range]
  index_t range_step;

  struct lanes {
    std::uint32_t const* low;
    std::uint32_t const* high;
    std::uint32_t key_low, key_high;
    lane_range there;
    [[nodiscard]] HEED_FN bool allows(int lane) const noexcept {
      return (low[lane] == key_low) & (high[lane] == key_high) & there.allows(lane);
    }
  };
  template <class Real>
  [[nodiscard]] HEED_FN lanes on(strip<Real> const& rows) const noexcept {
    const index_t place = rows_have_ids ? rows.query : clamped_add(rows.query, rows.offset);
    const index_t first = lesser(greater(place, -margin), places);
    const std::uint64_t id = static_cast<std::uint64_t>(plain.key_ids[rows.batch * plain.key_step + rows.key]);
    std::uint32_t const* const low = halves + rows.batch * batch_step + margin + first;
    return {low, low + half_step, static_cast<std::uint32_t>(id), static_cast<std::uint32_t>(id >> 32),
            lane_range{static_cast<int>(-first > 0 ? -first : 0), lane_of(places - first)}};
  }
  [[nodiscard]] HEED_FN bool allows(position const& at) const noexcept { return plain.allows(at); }
  [[nodiscard]] HEED_FN cover covers(block const& area) const noexcept { return plain.covers(area); }
  [[nodiscard]] HEED_FN index_t next_border(block const& area) const noexcept { return plain.next_border(area); }

  /// From the first to the last key whose id lies among those of the rows: exact where ids rise, whatever lies behind.
  [[nodiscard]] HEED_FN key_range visible_keys(block const& area) const noexcept {
    const document_ids::rows_there there = plain.rows_of(area);
    if (there.begin >= there.end) return {area.key_begin, area.key_begin};
    const id_range rows(there.ids, there.begin + there.shift, there.end + there.shift);
    index_t const* const ids = plain.key_ids + area.batch * plain.key_step;
    char const* const first_range = ranges + area.batch * range_step;
    const auto is_hidden = [&](index_t range) {
      index_t bounds[2];
      __builtin_memcpy(bounds, first_range + range * static_cast<index_t>(sizeof bounds), sizeof bounds);
      return bounds[0] > rows.most || bounds[1] < rows.least;
    };
    index_t begin = area.key_begin, end = area.key_end;
    while (begin < end && is_hidden(begin / keys_per_range)) begin = (begin / keys_per_range + 1) * keys_per_range;
    while (begin < end && is_hidden((end - 1) / keys_per_range)) end = (end - 1) / keys_per_range * keys_per_range;
    while (begin < end && !rows.has(ids[begin])) ++begin;
    while (begin < end && !rows.has(ids[end - 1])) --end;
    return {lesser(begin, area.key_end), begin < end ? end : lesser(begin, area.key_end)};
  }
};

/// Sizes of what packed_documents reads, in words.
struct document_words {
  index_t batches, places, ranges;
  index_t range_batches;

  document_words(documents const& rule, problem const& call) noexcept
      : batches(greater(1, (rule.query_ids.given() ? rule.query_ids.size() : rule.ids.size()) /
                               greater(1, rule.query_ids.given() ? call.seq_len_q : call.seq_len_kv))),
        places(rule.query_ids.given() ? call.seq_len_q : call.seq_len_kv),
        ranges(ceil_div(call.seq_len_kv, packed_documents::keys_per_range)),
        range_batches(greater(1, rule.ids.size() / greater(1, call.seq_len_kv))) {}
  [[nodiscard]] index_t per_half() const noexcept { return places + 2 * packed_documents::margin; }
  [[nodiscard]] index_t halves() const noexcept { return batches * 2 * per_half(); }
  [[nodiscard]] index_t count() const noexcept { return halves() + range_batches * ranges * 4; }
};

/// Packs ids into `to`, of document_words::count words.
[[nodiscard]] inline packed_documents pack_documents(documents const& rule, problem const& call,
                                                     std::uint32_t* to) noexcept {
  const document_words size(rule, call);
  const document_ids plain(rule, call.seq_len_q, call.seq_len_kv);
  const bool rows_have_ids = rule.query_ids.given();
  for (index_t word = 0; word < size.halves(); ++word) to[word] = 0;
  for (index_t batch = 0; batch < size.batches; ++batch) {
    index_t const* const ids = (rows_have_ids ? rule.query_ids : rule.ids).data() + batch * size.places;
    std::uint32_t* const low = to + batch * 2 * size.per_half() + packed_documents::margin;
    for (index_t place = 0; place < size.places; ++place) {
      const std::uint64_t id = static_cast<std::uint64_t>(ids[place]);
      low[place] = static_cast<std::uint32_t>(id);
      low[size.per_half() + place] = static_cast<std::uint32_t>(id >> 32);
    }
  }
  char* const ranges = reinterpret_cast<char*>(to + size.halves());
  for (index_t item = 0; item < size.range_batches * size.ranges; ++item) {
    const index_t begin = item % size.ranges * packed_documents::keys_per_range;
    const id_range range(rule.ids.data() + item / size.ranges * call.seq_len_kv, begin,
                         lesser(begin + packed_documents::keys_per_range, call.seq_len_kv));
    const index_t bounds[2] = {range.least, range.most};
    __builtin_memcpy(ranges + item * static_cast<index_t>(sizeof bounds), bounds, sizeof bounds);
  }
  return {plain,           to,
          size.per_half(), size.batches == 1 ? 0 : 2 * size.per_half(),
          size.places,     rows_have_ids,
          ranges,          size.range_batches == 1 ? 0 : size.ranges * static_cast<index_t>(2 * sizeof(index_t))};
}

}  // namespace HEED_ABI
}  // namespace heed::detail
