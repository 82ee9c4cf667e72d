// relative_bias: a learned term for each bucket of distances and each query head, as in T5.
#pragma once

#include "heed/mask/strip.hpp"
#include "heed/view/tensor.hpp"

namespace heed {

/// score + table[bucket(j - (i + off)), head].
///
/// Shapes: table [buckets, num_heads] (query heads), floats, any strides: a tensor<float, 2> or a tensor_view of it. It
///   must outlive the call. At least 2 buckets; anything else is errc::table_wrong_shape.
/// bidirectional: keys behind the row (j > i + off) have the upper half of the buckets, those before it, and its own,
/// the
///   lower half (the last bucket of an odd number stays unused). Otherwise all buckets are for keys before the row, and
///   keys behind it share bucket 0.
/// Of a direction's n buckets the first n / 2 stand for one distance each; the rest widen logarithmically up to
///   max_distance, and the last one takes all that is farther:
///   bucket(d) = d < n / 2 ? d : least(n - 1, n / 2 + floor(log(d / (n / 2)) / log(max_distance / (n / 2)) * (n - n /
///   2)))
/// max_distance: greater than n / 2, otherwise errc::bad_max_distance.
/// Cost: at most 12 % of a call; a table by distance is made once per call.
/// Source: Raffel et al., "Exploring the Limits of Transfer Learning" (2020), as computed by Hugging Face Transformers
///   (T5Attention, with relative_attention_num_buckets and relative_attention_max_distance).
/// Example: `attention(q, k, v, out, relative_bias{.table = table, .max_distance = 128}, {.scale = 1.0})`
struct relative_bias {
  tensor_view<float const, 2> table{};
  bool bidirectional = true;
  index_t max_distance = 128;

  static constexpr bool is_stage = true;

  /// Buckets of one direction, and those of them that stand for one distance.
  [[nodiscard]] HEED_FN constexpr index_t buckets_per_direction() const noexcept {
    return bidirectional ? table.extent(0) / 2 : table.extent(0);
  }
  [[nodiscard]] HEED_FN constexpr index_t exact_buckets() const noexcept { return buckets_per_direction() / 2; }

  /// The bucket of a key that lies `ahead` (j - (i + off)) of its row.
  [[nodiscard]] HEED_FN index_t bucket(index_t ahead) const noexcept {
    const index_t count = buckets_per_direction(), exact = exact_buckets();
    const index_t first = bidirectional && ahead > 0 ? count : 0;
    const index_t away = bidirectional ? detail::magnitude(ahead) : ahead > 0 ? 0 : detail::magnitude(ahead);
    if (away < exact) return first + away;
    if (away >= max_distance || exact == 0) return first + count - 1;
    // In float, as the models were trained.
    const float ratio =
        __builtin_logf(static_cast<float>(away) / static_cast<float>(exact)) /
        static_cast<float>(__builtin_log(static_cast<double>(max_distance) / static_cast<double>(exact)));
    const index_t wide = exact + static_cast<index_t>(ratio * static_cast<float>(count - exact));
    return first + detail::lesser(count - 1, wide);
  }

  template <class Real>
  [[nodiscard]] HEED_FN Real adjusted(Real score, position const& at) const noexcept {
    const index_t ahead = detail::saturating_sub(at.key - at.query, at.offset);
    return score + static_cast<Real>(table(bucket(ahead), at.head));
  }
};

namespace detail {
template <>
inline constexpr int differentiable_stages<relative_bias> = 1;
}  // namespace detail
}  // namespace heed
