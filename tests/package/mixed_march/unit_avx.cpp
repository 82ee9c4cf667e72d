#include "unit.hpp"

double unit_avx() { return work(); }
