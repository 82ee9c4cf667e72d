// The same file for every refused platform: what differs are the compiler's flags.
#include <heed/heed.hpp>

int main() {}
