// Partial results of attention over disjoint keys, merged row by row.
#pragma once

#include "heed/base/scratch.hpp"
#include "heed/cpu/packing.hpp"
#include "heed/softmax/math.hpp"
#include "heed/view/partial.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// A checked call of merge.
struct merge_call {
  operand out, lse;  // the latter may be absent
  partial_result const* parts = nullptr;
  index_t count = 0;
};

/// The elements of one row of `from`, to the same row of `to`: of one kind, bit for bit, and perhaps the same elements.
inline void copy_row(operand const& from, operand const& to, index_t batch, index_t head, index_t row) noexcept {
  with_element(to.kind, [&](auto element) {
    using element_type = decltype(element);
    element_type const* const source = static_cast<element_type const*>(from.row(batch, head, row));
    element_type* const target = static_cast<element_type*>(to.row(batch, head, row));
    for (index_t i = 0; i < to.extents[3]; ++i) target[i * to.strides[3]] = source[i * from.strides[3]];
  });
}

/// Some rows at a time, summed in vectors of 16 bytes, which outrun the memory that the partial results come from.
template <class Real>
class merger {
 public:
  explicit merger(merge_call const& call) noexcept
      : call_(call), verb_(verbs_of<Real, false>(false)), columns_(call.out.extents[3]) {}

  void run() {
    carver count(nullptr);
    carve(count);
    const scratch memory(count.used() + 64);
    carver from(memory.data());
    carve(from);
    operand const& out = call_.out;
    for (batch_ = 0; batch_ < out.extents[0]; ++batch_) {
      for (head_ = 0; head_ < out.extents[1]; ++head_) {
        for (first_ = 0; first_ < out.extents[2]; first_ += together) {
          merge_rows(lesser(together, out.extents[2] - first_));
        }
      }
    }
  }

 private:
  static constexpr index_t together = 16;
  static constexpr double unseen = -1;                 // the share of a partial result that saw no key
  static constexpr index_t nobody = -1, several = -2;  // in place of the only partial result that saw one
  using wide = simd<Real, 16 / static_cast<int>(sizeof(Real))>;

  void carve(carver& from) noexcept {
    sum_ = from.template take<Real>(static_cast<std::size_t>(together * columns_));
    packed_ = from.template take<Real>(static_cast<std::size_t>(together * columns_));
    shares_ = from.template take<double>(static_cast<std::size_t>(together * call_.count));
  }

  void merge_rows(index_t rows) noexcept {
    share_out(rows);
    for (index_t i = 0; i < rows * columns_; ++i) sum_[i] = Real(0);
    for (index_t i = 0; i < call_.count; ++i) add(i, rows);
    for (index_t r = 0; r < rows; ++r) {
      if (!is_finite(r)) sum_halves(r);
    }
    // Written last: an output may be an input.
    operand const& out = call_.out;
    for (index_t r = 0; r < rows;) {
      const index_t begin = r;
      while (r < rows && !is_copied(r, &partial_result::out, out)) ++r;
      if (begin < r) {
        verb_.unpack_rows(sum_ + begin * columns_, r - begin, columns_, out.row(batch_, head_, first_ + begin),
                          out.kind, out.strides[2], out.strides[3]);
      }
      for (; r < rows && is_copied(r, &partial_result::out, out); ++r) {
        copy_row(call_.parts[only_[r]].out, out, batch_, head_, first_ + r);
      }
    }
    for (index_t r = 0; call_.lse.given() && r < rows; ++r) write_lse(r);
  }

  /// A row that a single partial result saw keys of stays as it is, to the bit.
  [[nodiscard]] bool is_copied(index_t r, operand partial_result::*member, operand const& to) const noexcept {
    return only_[r] >= 0 && (call_.parts[only_[r]].*member).kind == to.kind;
  }

  /// Which part of each row each partial result is. Loops over all rows of the fixed number, so that they are vectors.
  void share_out(index_t rows) noexcept {
    double largest[together], sum[together];
    for (index_t r = 0; r < together; ++r) {
      largest[r] = -infinity<double>;
      sum[r] = 0;
      only_[r] = nobody;
    }
    for (index_t i = 0; i < call_.count; ++i) {
      operand const& lse = call_.parts[i].lse;
      double* const shares = shares_ + i * together;
      with_element(lse.kind, [&](auto element) {
        auto const* line = static_cast<decltype(element) const*>(lse.row(batch_, head_, first_));
        for (index_t r = 0; r < rows; ++r) shares[r] = static_cast<double>(line[r * lse.strides[2]]);
      });
      for (index_t r = rows; r < together; ++r) shares[r] = -infinity<double>;
      for (index_t r = 0; r < together; ++r) {
        largest[r] = shares[r] <= largest[r] ? largest[r] : shares[r];  // a NaN, once met, goes no more
        if (shares[r] != -infinity<double>) only_[r] = only_[r] == nobody ? i : several;
      }
    }
    for (index_t i = 0; i < call_.count; ++i) {
      double* const shares = shares_ + i * together;
      for (index_t r = 0; r < together; ++r) {
        const bool sees = shares[r] != -infinity<double>;
        const double part = heed::exp(shares[r] - largest[r]);
        shares[r] = heed::select(sees, part, unseen);
        sum[r] += heed::select(sees, part, 0.0);
      }
    }
    for (index_t r = 0; r < together; ++r) lse_[r] = largest[r] + heed::log(sum[r]);
    for (index_t i = 0; i < call_.count; ++i) {
      double* const shares = shares_ + i * together;
      for (index_t r = 0; r < together; ++r) {
        shares[r] = shares[r] == unseen ? unseen : only_[r] == i ? 1.0 : shares[r] / sum[r];
      }
    }
    for (index_t r = 0; r < together; ++r) {
      if (only_[r] != several) lse_[r] = largest[r];
    }
  }

  /// sum += share * out of one partial result, for the rows of which it saw keys.
  void add(index_t part, index_t rows) noexcept {
    operand const& box = call_.parts[part].out;
    void const* const corner = box.row(batch_, head_, first_);
    Real const* line = static_cast<Real const*>(corner);
    index_t stride = box.strides[2];
    if (!has_plain_rows<Real>(box)) {
      verb_.pack_rows(corner, box.kind, box.strides[2], box.strides[3], rows, columns_, packed_);
      line = packed_;
      stride = columns_;
    }
    for (index_t r = 0; r < rows; ++r, line += stride) {
      const double share = shares_[part * together + r];
      if (share == unseen) continue;
      const Real factor = static_cast<Real>(share);
      Real* const sum = sum_ + r * columns_;
      typename wide::vector times, value, total;
      times = factor - typename wide::vector{};
      index_t column = 0;
      for (; column + wide::lanes <= columns_; column += wide::lanes) {
        wide::load_unaligned(value, line + column);
        wide::load_unaligned(total, sum + column);
        total += times * value;
        wide::store_unaligned(sum + column, total);
      }
      for (; column < columns_; ++column) sum[column] += factor * line[column];
    }
  }

  [[nodiscard]] static bool is_finite(Real value) noexcept { return value - value == Real(0); }
  [[nodiscard]] bool is_finite(index_t r) const noexcept {
    Real const* const sum = sum_ + r * columns_;
    typename wide::vector value, poison{};  // 0, or NaN once an infinity or a NaN has been met
    index_t column = 0;
    for (; column + wide::lanes <= columns_; column += wide::lanes) {
      wide::load_unaligned(value, sum + column);
      poison += value * Real(0);
    }
    Real rest(0);
    for (; column < columns_; ++column) rest += sum[column] * Real(0);
    for (int lane = 0; lane < wide::lanes; ++lane) rest += poison[lane];
    return rest == Real(0);
  }

  /// Shares that round to a little over 1 in sum must not push a mean of the largest numbers to infinity: half of it.
  void sum_halves(index_t r) noexcept {
    constexpr Real most = sizeof(Real) == 4 ? Real(__FLT_MAX__) : Real(__DBL_MAX__);
    for (index_t column = 0; column < columns_; ++column) {
      Real& sum = sum_[r * columns_ + column];
      if (is_finite(sum)) continue;
      Real half_sum(0);
      for (index_t i = 0; i < call_.count; ++i) {
        const double share = shares_[i * together + r];
        if (share == unseen) continue;
        operand const& box = call_.parts[i].out;
        with_element(box.kind, [&](auto element) {
          auto const* const line = static_cast<decltype(element) const*>(box.row(batch_, head_, first_ + r));
          half_sum += static_cast<Real>(share * 0.5) * static_cast<Real>(line[column * box.strides[3]]);
        });
      }
      const bool overflows = is_finite(half_sum) && !is_finite(half_sum * Real(2));
      sum = !overflows ? half_sum * Real(2) : half_sum > Real(0) ? most : -most;
    }
  }

  void write_lse(index_t r) const noexcept {
    const index_t row = first_ + r;
    if (is_copied(r, &partial_result::lse, call_.lse)) {
      return copy_row(call_.parts[only_[r]].lse, call_.lse, batch_, head_, row);
    }
    with_element(call_.lse.kind, [&](auto element) {
      using element_type = decltype(element);
      *static_cast<element_type*>(call_.lse.row(batch_, head_, row)) = static_cast<element_type>(lse_[r]);
    });
  }

  merge_call const& call_;
  verbs<Real> const& verb_;
  index_t columns_;
  index_t batch_ = 0, head_ = 0, first_ = 0;
  index_t only_[together];
  double lse_[together];
  Real *sum_ = nullptr, *packed_ = nullptr;  // [together, columns]
  double* shares_ = nullptr;                 // [count, together]
};

}  // namespace HEED_ABI
}  // namespace heed::detail
