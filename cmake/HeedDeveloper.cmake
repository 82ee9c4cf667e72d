# What the project's own programs (tests, examples, benches) share, and nothing a user of heed::heed ever sees.

option(HEED_WERROR "Treat warnings of the project's own programs as errors" OFF)
option(HEED_REQUIRE_ALL "A missing package is an error instead of a skipped part" OFF)

add_library(heed_developer INTERFACE)
target_link_libraries(heed_developer INTERFACE heed::heed)
target_compile_options(heed_developer INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow
                                                $<$<BOOL:${HEED_WERROR}>:-Werror>)
target_compile_definitions(
  heed_developer
  INTERFACE HEED_SOURCE_DIR="${PROJECT_SOURCE_DIR}" HEED_TEST_DATA_DIR="${PROJECT_SOURCE_DIR}/tests/data"
            HEED_EXAMPLE_DATA_DIR="${PROJECT_SOURCE_DIR}/examples/data")

# A package that only the project's own programs need. Sets HEED_HAS_<package>; what needs a missing one is skipped
# with one line that says how to get it.
macro(heed_find package debian_package needed_for)
  find_package(${package} QUIET ${ARGN})
  set(HEED_HAS_${package} ${${package}_FOUND})
  if(NOT HEED_HAS_${package})
    if(HEED_REQUIRE_ALL)
      message(FATAL_ERROR "heed: ${needed_for} needs ${package}: apt-get install ${debian_package}")
    endif()
    message(STATUS "heed: ${package} not found, skipping ${needed_for} (to have it: apt-get install ${debian_package})")
  endif()
endmacro()

# heed_needs(<result> <source>...): the packages whose headers the sources include.
function(heed_needs result)
  set(needs "")
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" includes REGEX "^#include")
    if(includes MATCHES "[<\"]CLI/")
      list(APPEND needs CLI11)
    endif()
    if(includes MATCHES "[<\"](unsupported/)?Eigen/|heed/interop/eigen(_thread_pool)?.hpp")
      list(APPEND needs Eigen3)
    endif()
    if(includes MATCHES "heed/interop/openmp.hpp|<omp.h>")
      list(APPEND needs OpenMP)
    endif()
    if(includes MATCHES "heed/interop/tbb.hpp|<oneapi/tbb")
      list(APPEND needs TBB)
    endif()
    if(includes MATCHES "[<\"]benchmark/")
      list(APPEND needs benchmark)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES needs)
  set(${result} "${needs}" PARENT_SCOPE)
endfunction()

# heed_link_packages(<target> <package>...)
function(heed_link_packages target)
  set(target_of_CLI11 CLI11::CLI11)
  set(target_of_Eigen3 Eigen3::Eigen)
  set(target_of_benchmark benchmark::benchmark)
  set(target_of_OpenMP ${OpenMP_CXX_LIBRARIES}) # the flag is not for every source: see heed_openmp_sources
  set(target_of_TBB TBB::tbb)
  foreach(package IN LISTS ARGN)
    target_link_libraries(${target} PRIVATE ${target_of_${package}})
  endforeach()
endfunction()

# heed_openmp_sources(<source>...): the flag of OpenMP for the sources that include it, and for no other: it would change
# what Eigen does there.
function(heed_openmp_sources)
  foreach(source IN LISTS ARGN)
    heed_needs(needs "${source}")
    if("OpenMP" IN_LIST needs)
      separate_arguments(flags NATIVE_COMMAND "${OpenMP_CXX_FLAGS}")
      set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "${flags}")
    endif()
  endforeach()
endfunction()

# heed_program(<target> <source>...): one program of the project. Sets <target>_SKIPPED in the caller when a package is
# missing.
function(heed_program target)
  heed_needs(needs ${ARGN})
  foreach(package IN LISTS needs)
    if(NOT HEED_HAS_${package})
      message(STATUS "heed: skipping ${target} (needs ${package})")
      set(${target}_SKIPPED TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
  add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE heed_developer)
  heed_link_packages(${target} ${needs})
  heed_openmp_sources(${ARGN})
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  set(${target}_SKIPPED FALSE PARENT_SCOPE)
endfunction()
