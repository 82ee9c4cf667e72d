// Everything of heed that runs on the CPU, from one include. No Eigen, MPI or CUDA header stands behind it.
#pragma once

#include "heed/attention.hpp"
#include "heed/base/config.hpp"  // first: it says what is needed where something is missing
#include "heed/explain.hpp"
