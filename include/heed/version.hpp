// The version of heed, in this one place: the preprocessor reads it, and so does CMake.
#pragma once

#define HEED_VERSION_MAJOR 0
#define HEED_VERSION_MINOR 1
#define HEED_VERSION_PATCH 0
