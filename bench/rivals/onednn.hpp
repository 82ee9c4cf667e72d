// Attention from oneDNN's primitives: matmul with a scale, softmax, matmul.
#pragma once

#include <functional>

#include "bench/baselines.hpp"

namespace bench {

/// A function that computes `on`; what it needs is made here, once. Rows are a multiple of 256, or at most 512.
std::function<void()> onednn_attention(head_block const& on);

}  // namespace bench
