// Everything of heed that runs on the CPU, from one include. No Eigen, MPI or CUDA header stands behind it.
#pragma once

// clang-format off: the first of them says what is needed where something is missing
#include "heed/base/config.hpp"
// clang-format on
#include "heed/attention.hpp"
#include "heed/attention_backward.hpp"
#include "heed/attention_merge.hpp"
#include "heed/explain.hpp"
#include "heed/mask/block_sparse_patterns.hpp"
#include "heed/mask/custom.hpp"
#include "heed/mask/prefix.hpp"
#include "heed/mask/window.hpp"
#include "heed/score/alibi.hpp"
#include "heed/score/bias.hpp"
#include "heed/score/custom.hpp"
#include "heed/score/relative.hpp"
#include "heed/score/sink.hpp"
#include "heed/softmax/math.hpp"
