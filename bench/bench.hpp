// Everything a bench needs: shapes and calls, yardsticks and the sampler, cells and the table.
#pragma once

#include "bench/call.hpp"
#include "bench/cells.hpp"
#include "bench/machine.hpp"
#include "bench/memory.hpp"
#include "bench/peak.hpp"
#include "bench/report.hpp"
#include "bench/sample.hpp"
#include "bench/shapes.hpp"
