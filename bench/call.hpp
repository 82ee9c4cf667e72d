// A call of heed on operands of its own. Compiled once, in parts/call.cpp, for all benches: attention for four element
// types and two masks is most of what there is to compile.
#pragma once

#include <memory>
#include <string_view>

#include "bench/shapes.hpp"

namespace bench {

/// Operands from N(0, 1) with a fixed seed, every page touched, and the call on them.
class call {
 public:
  call() = default;
  call(call const&) = delete;
  call& operator=(call const&) = delete;
  virtual ~call() = default;

  /// heed::attention on at most as many threads.
  virtual void run(int threads) = 0;
  /// The largest |out - exact| over some rows of every head, the exact value in double. NaN where out has one.
  virtual double largest_error() = 0;
  /// What heed::explain says of it.
  virtual double scratch_bytes(int threads) = 0;

  /// For whoever else computes on the same operands.
  struct pointers {
    void const *query, *key, *value;
    void* out;
  };
  virtual pointers data() = 0;
};

std::unique_ptr<call> make_call(shape const& at);

/// Above this a result is wrong, not rounded.
double error_limit(shape const& at);

/// The instruction set that heed runs on.
std::string_view level();

}  // namespace bench
