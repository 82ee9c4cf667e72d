// attention_options: the scalars of a call.
#pragma once

#include <optional>

#include "heed/base/executor.hpp"
#include "heed/view/dropout.hpp"
#include "heed/view/sequence.hpp"

namespace heed {

/// Written as a braced list: `{.scale = 0.125, .threads = 1}`.
struct attention_options {
  /// Factor on q.k before anything else; absent: 1 / sqrt(head_dim_qk). Zero and negative are legal, NaN and Inf are
  /// not.
  std::optional<double> scale{};
  /// score = softcap * tanh(score / softcap), after scale and before every stage and mask; absent: none. Must be finite
  /// and greater than 0. Source: Gemma 2 (2024).
  std::optional<double> softcap{};
  /// Where the query block sits on the key axis, for every positional rule.
  heed::anchor anchor = bottom_right;
  /// Which probabilities are dropped; absent: none. Written as `.drop = {.p = 0.1, .seed = 7}`.
  dropout drop{};
  /// Keep probabilities in the accumulate type, and in a backward pass the gradients of scores. Otherwise they are
  /// rounded to bfloat16 where query, key, value and out (d_out and their gradients) all are, on processors whose bf16
  /// dot product is faster than their float FMA (AMD since Zen 4; Intel since Sapphire Rapids, on AMX tiles).
  bool precise = false;
  /// 0: as many as the affinity mask (or the executor) allows and the work repays; 1: this thread only; n: at most n.
  /// Never changes a bit.
  int threads = 0;
  /// Whose threads: a reference to anything with a parallel-for (see executor_type); absent: the library's own pool.
  /// It is given at most `threads` tasks at a time, and not asked where one thread does. Never changes a bit.
  executor_ref executor{};
};

}  // namespace heed
