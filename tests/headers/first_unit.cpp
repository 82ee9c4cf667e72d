#include "everything/in_order.hpp"
#include "headers/use_everything.hpp"

double first_unit() { return use_everything(); }
