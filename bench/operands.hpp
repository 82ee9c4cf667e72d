// The operands of a measured call: filled and touched beforehand, and compared with the reference afterwards.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "bench/shapes.hpp"
#include "heed/reference/forward.hpp"
#include "heed/view/layout.hpp"

namespace bench {

/// Query, key, value from the normal distribution N(0, 1), and an out whose pages are there.
template <class T>
class operands {
 public:
  explicit operands(shape const& at) : shape_(at) {
    query_ = heed::tensor<T, 4>(extents(at.num_heads, at.queries()));
    key_ = heed::tensor<T, 4>(extents(at.kv_heads(), at.seq_len));
    value_ = heed::tensor<T, 4>(extents(at.kv_heads(), at.seq_len));
    out_ = heed::tensor<T, 4>(extents(at.num_heads, at.queries()));
    std::mt19937 generator(20240607);
    fill(query_, generator, static_cast<float>(at.query_scale));
    fill(key_, generator, 1);
    fill(value_, generator, 1);
  }

  heed::tensor_view<T, 4> query() { return view(query_, shape_.num_heads, shape_.queries()); }
  heed::tensor_view<T, 4> key() { return view(key_, shape_.kv_heads(), shape_.seq_len); }
  heed::tensor_view<T, 4> value() { return view(value_, shape_.kv_heads(), shape_.seq_len); }
  heed::tensor_view<T, 4> out() { return view(out_, shape_.num_heads, shape_.queries()); }

  /// The largest |out - exact|, the exact value in double, over some rows of every head. NaN where out has one.
  template <class Rule>
  double largest_error(Rule const& rule) {
    const auto all = query();
    const heed::index_t last = shape_.queries() - 1;
    const heed::index_t offset = shape_.seq_len - shape_.queries();
    constexpr heed::index_t one = 1;
    double largest = 0;
    for (heed::index_t row :
         std::set<heed::index_t>{0, (std::min)(last, one), last / 3, last / 2, last - (std::min)(last, one), last}) {
      const heed::tensor_view<T, 4> one_row(&all(0, 0, row, 0), {all.extent(0), all.extent(1), 1, all.extent(3)},
                                            {all.stride(0), all.stride(1), all.stride(2), all.stride(3)});
      const auto exact =
          heed::reference::solve(one_row, key(), value(), rule, {.anchor = heed::at_offset(row + offset)}, false).out;
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
  heed::axes<4> extents(heed::index_t heads, heed::index_t rows) const {
    if (shape_.layout == layout::bshd) return {shape_.batch_size, rows, heads, shape_.head_dim};
    return {shape_.batch_size, heads, rows, shape_.head_dim};
  }
  heed::tensor_view<T, 4> view(heed::tensor<T, 4>& box, heed::index_t heads, heed::index_t rows) const {
    if (shape_.layout == layout::bshd) {
      return heed::bshd(box.data(), shape_.batch_size, rows, heads, shape_.head_dim);
    }
    return heed::bhsd(box.data(), shape_.batch_size, heads, rows, shape_.head_dim);
  }
  static void fill(heed::tensor<T, 4>& box, std::mt19937& generator, float scale) {
    std::normal_distribution<float> normal;
    for (heed::index_t i = 0; i < box.size(); ++i) box.data()[i] = static_cast<T>(normal(generator) * scale);
  }

  shape shape_;
  heed::tensor<T, 4> query_, key_, value_, out_;
};

}  // namespace bench
