// CMake wants a source beside headers that it precompiles.
#include "support/headers.hpp"
