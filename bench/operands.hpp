// The operands of a measured call: filled and touched beforehand, and compared with the reference afterwards.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "bench/shapes.hpp"
#include "heed/reference/forward.hpp"

namespace bench {

/// Query, key, value from the normal distribution N(0, 1), and an out whose pages are there.
template <class T>
class operands {
 public:
  explicit operands(shape const& at) : shape_(at) {
    query_ = heed::tensor<T, 4>(extents(at.num_heads));
    key_ = heed::tensor<T, 4>(extents(at.num_kv_heads));
    value_ = heed::tensor<T, 4>(extents(at.num_kv_heads));
    out_ = heed::tensor<T, 4>(extents(at.num_heads));
    std::mt19937 generator(20240607);
    std::normal_distribution<float> normal;
    for (auto* box : {&query_, &key_, &value_}) {
      for (heed::index_t i = 0; i < box->size(); ++i) box->data()[i] = static_cast<T>(normal(generator));
    }
  }

  heed::tensor_view<T, 4> query() { return view(query_, shape_.num_heads); }
  heed::tensor_view<T, 4> key() { return view(key_, shape_.num_kv_heads); }
  heed::tensor_view<T, 4> value() { return view(value_, shape_.num_kv_heads); }
  heed::tensor_view<T, 4> out() { return view(out_, shape_.num_heads); }

  /// The largest |out - exact|, the exact value in double, over some rows of every head. NaN where out has one.
  template <class Rule>
  double largest_error(Rule const& rule) {
    const auto all = query();
    const heed::index_t last = shape_.seq_len - 1;
    double largest = 0;
    for (heed::index_t row : std::set<heed::index_t>{0, 1, last / 3, last / 2, last - 1, last}) {
      const heed::tensor_view<T, 4> one_row(&all(0, 0, row, 0), {all.extent(0), all.extent(1), 1, all.extent(3)},
                                            {all.stride(0), all.stride(1), all.stride(2), all.stride(3)});
      const auto exact =
          heed::reference::solve(one_row, key(), value(), rule, {.anchor = heed::at_offset(row)}, false).out;
      const auto found = out();
      for (heed::index_t batch = 0; batch < exact.extent(0); ++batch) {
        for (heed::index_t head = 0; head < exact.extent(1); ++head) {
          for (heed::index_t dim = 0; dim < exact.extent(3); ++dim) {
            const double error =
                std::abs(static_cast<double>(found(batch, head, row, dim)) - exact(batch, head, 0, dim));
            largest = error > largest || std::isnan(error) ? error : largest;
          }
        }
      }
    }
    return largest;
  }

 private:
  heed::axes<4> extents(heed::index_t heads) const {
    if (shape_.layout == layout::bshd) return {shape_.batch_size, shape_.seq_len, heads, shape_.head_dim};
    return {shape_.batch_size, heads, shape_.seq_len, shape_.head_dim};
  }
  heed::tensor_view<T, 4> view(heed::tensor<T, 4>& box, heed::index_t heads) const {
    if (shape_.layout == layout::bshd) {
      return heed::bshd(box.data(), shape_.batch_size, shape_.seq_len, heads, shape_.head_dim);
    }
    return heed::bhsd(box.data(), shape_.batch_size, heads, shape_.seq_len, shape_.head_dim);
  }

  shape shape_;
  heed::tensor<T, 4> query_, key_, value_, out_;
};

}  // namespace bench
