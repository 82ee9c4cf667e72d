# The version lives in include/heed/version.hpp alone; this reads it.

set(HEED_VERSION_FILE "${CMAKE_CURRENT_LIST_DIR}/../include/heed/version.hpp")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${HEED_VERSION_FILE}")

file(READ "${HEED_VERSION_FILE}" version_text)
set(version_numbers "")
foreach(part MAJOR MINOR PATCH)
  if(NOT version_text MATCHES "#define HEED_VERSION_${part} ([0-9]+)")
    message(FATAL_ERROR "heed: include/heed/version.hpp does not define HEED_VERSION_${part}")
  endif()
  list(APPEND version_numbers "${CMAKE_MATCH_1}")
endforeach()
list(JOIN version_numbers "." HEED_VERSION)
unset(version_text)
unset(version_numbers)
