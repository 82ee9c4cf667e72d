#include "unit.hpp"

double unit_baseline() { return work(); }
