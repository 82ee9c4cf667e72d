// Whether strided boxes of memory share an element.
#pragma once

#include "heed/view/operand.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// `unknown`: the strides are too tangled to decide; the byte ranges do meet.
enum class overlap : unsigned char { no, yes, unknown };

// Is there an integer point with lo_i <= x_i <= hi_i and least <= sum x_i * stride_i <= most? Axes are sorted by
// falling stride, so that each axis leaves only the few values that the smaller axes can still correct: for nested
// boxes one or two. `budget` ends the search on strides that are not nested.
class lattice_search {
 public:
  static constexpr int max_axes = 8;
  struct axis {
    __extension__ typedef __int128 wide;
    wide stride, lo, hi;
  };
  using wide = axis::wide;

  void add(index_t stride, index_t lo, index_t hi) noexcept {
    axis fresh{stride, lo, hi};
    if (stride < 0) fresh = {-wide{stride}, -wide{hi}, -wide{lo}};
    if (fresh.stride == 0) return;
    int at = count_;
    for (; at > 0 && axes_[at - 1].stride <= fresh.stride; --at) {
      if (axes_[at - 1].stride == fresh.stride) {
        axes_[at - 1].lo += fresh.lo;
        axes_[at - 1].hi += fresh.hi;
        return;
      }
    }
    for (int i = count_; i > at; --i) axes_[i] = axes_[i - 1];
    axes_[at] = fresh;
    ++count_;
  }

  [[nodiscard]] overlap find(wide least, wide most) noexcept {
    budget_ = 20000;
    return step(0, least, most);
  }

  /// The same, leaving out the point 0. By symmetry the first axis that is not 0 may be taken as positive.
  [[nodiscard]] overlap find_nonzero(wide least, wide most) noexcept {
    budget_ = 20000;
    overlap worst = overlap::no;
    for (int first = 0; first < count_; ++first) {
      const axis whole = axes_[first];
      if (whole.hi < 1) continue;
      axes_[first].lo = 1;
      const overlap found = step(first, least, most);
      axes_[first] = whole;
      if (found == overlap::yes) return found;
      if (found == overlap::unknown) worst = found;
    }
    return worst;
  }

 private:
  static wide floor_div(wide a, wide b) noexcept { return a / b - (a % b < 0); }

  // Not inlined into itself, which compilers would do many times over.
  [[gnu::noinline]] overlap step(int from, wide least, wide most) noexcept {
    if (from == count_) return least <= 0 && most >= 0 ? overlap::yes : overlap::no;
    if (--budget_ < 0) return overlap::unknown;
    wide reach_lo = 0, reach_hi = 0;
    for (int i = from + 1; i < count_; ++i) {
      reach_lo += axes_[i].stride * axes_[i].lo;
      reach_hi += axes_[i].stride * axes_[i].hi;
    }
    axis const& here = axes_[from];
    wide lo = -floor_div(-(least - reach_hi), here.stride);
    wide hi = floor_div(most - reach_lo, here.stride);
    if (lo < here.lo) lo = here.lo;
    if (hi > here.hi) hi = here.hi;
    overlap worst = overlap::no;
    for (wide x = lo; x <= hi; ++x) {
      const overlap found = step(from + 1, least - x * here.stride, most - x * here.stride);
      if (found == overlap::yes) return found;
      if (found == overlap::unknown) return found;
    }
    return worst;
  }

  axis axes_[max_axes] = {};
  int count_ = 0;
  int budget_ = 0;
};

/// Each axis steps over all that the axes behind it reach: row-major, perhaps with gaps. The common case, decided
/// quickly.
[[nodiscard]] inline bool is_nested(operand const& box) noexcept {
  index_t reach = 0;
  for (int axis = 3; axis >= 0; --axis) {
    if (box.extents[axis] <= 1) continue;
    const index_t stride = magnitude(box.strides[axis]);
    if (stride <= reach) return false;
    reach += stride * (box.extents[axis] - 1);
  }
  return true;
}

/// The bytes from the first to the last element, whatever the signs of the strides.
struct byte_range {
  index_t begin;
  index_t end;
};
[[nodiscard]] inline byte_range range_of(operand const& box) noexcept {
  index_t before = 0, behind = 0;  // the first element, in elements
  HEED_UNROLL
  for (int axis = 0; axis < 4; ++axis) {
    const index_t reach = (box.extents[axis] - 1) * box.strides[axis];
    before += lesser(reach, 0);
    behind += greater(reach, 0);
  }
  const index_t bytes = element_size(box.kind), first = reinterpret_cast<index_t>(box.data);
  return {first + before * bytes, first + (behind + 1) * bytes};
}

/// Whether two indices of one operand name the same bytes. Sizes are known to fit (check_memory).
[[nodiscard]] inline overlap overlaps_itself(operand const& box) noexcept {
  if (!box.given() || box.empty() || is_nested(box)) return overlap::no;
  lattice_search search;
  const index_t bytes = element_size(box.kind);
  for (int axis = 0; axis < 4; ++axis) {
    if (box.extents[axis] <= 1) continue;
    if (box.strides[axis] == 0) return overlap::yes;
    for (int other = 0; other < axis; ++other) {  // a step along one axis undoes a step along the other
      if (box.extents[other] > 1 && magnitude(box.strides[other]) == magnitude(box.strides[axis])) return overlap::yes;
    }
    search.add(box.strides[axis] * bytes, 1 - box.extents[axis], box.extents[axis] - 1);
  }
  return search.find_nonzero(1 - bytes, bytes - 1);
}

/// Whether an operand has no byte in a range: it may be absent or empty.
[[nodiscard]] inline bool lies_outside(operand const& box, byte_range const& range) noexcept {
  if (!box.given() || box.empty()) return true;
  const byte_range own = range_of(box);
  return own.end <= range.begin || range.end <= own.begin;
}

/// Whether two operands share a byte. Sizes are known to fit.
[[nodiscard]] inline overlap overlaps(operand const& one, operand const& other) noexcept {
  if (!one.given() || one.empty() || lies_outside(other, range_of(one))) return overlap::no;
  lattice_search search;
  const index_t one_bytes = element_size(one.kind);
  const index_t other_bytes = element_size(other.kind);
  for (int axis = 0; axis < 4; ++axis) {
    search.add(one.strides[axis] * one_bytes, 0, one.extents[axis] - 1);
    search.add(-other.strides[axis] * other_bytes, 0, other.extents[axis] - 1);
  }
  // An element of `one` at `a` meets one of `other` at `b` iff -one_bytes < a - b < other_bytes.
  const lattice_search::wide apart = lattice_search::wide{reinterpret_cast<index_t>(other.data)} -
                                     lattice_search::wide{reinterpret_cast<index_t>(one.data)};
  return search.find(apart + 1 - one_bytes, apart + other_bytes - 1);
}

}  // namespace HEED_ABI
}  // namespace heed::detail
