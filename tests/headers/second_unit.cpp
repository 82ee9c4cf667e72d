#include "everything/reversed.hpp"
#include "headers/use_everything.hpp"

double second_unit() { return use_everything(); }
