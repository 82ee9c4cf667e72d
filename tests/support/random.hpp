// Random numbers that are the same on every platform and library: the standard distributions are not.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "heed/view/tensor.hpp"

namespace heed::test {

class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u) {}

  std::uint64_t bits() {  // splitmix64
    std::uint64_t mixed = (state_ += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
  }
  /// In [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  bool chance(double probability) { return uniform() < probability; }
  /// In [least, most].
  index_t between(index_t least, index_t most) {
    return least + static_cast<index_t>(bits() % static_cast<std::uint64_t>(most - least + 1));
  }
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[bits() % choices.size()];
  }

 private:
  std::uint64_t state_;
};

/// Numbers from N(0, size^2), rounded to T.
template <class T>
tensor<T, 4> random_tensor(axes<4> extents, std::uint64_t seed, double size = 1) {
  random_source random(seed);
  tensor<T, 4> filled(extents);
  for (index_t i = 0; i < filled.size(); ++i) filled.data()[i] = static_cast<T>(size * random.normal());
  return filled;
}

}  // namespace heed::test
