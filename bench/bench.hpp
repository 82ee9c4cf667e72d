// Everything a bench needs: the peak and the sampler, shapes and operands, the table.
#pragma once

#include "bench/machine.hpp"
#include "bench/operands.hpp"
#include "bench/peak.hpp"
#include "bench/report.hpp"
#include "bench/sample.hpp"
#include "bench/shapes.hpp"
