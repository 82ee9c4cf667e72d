# cmake -DCOMPILER= -DINCLUDE=<folder>[;<folder>] -DSOURCE= -DMESSAGE=<regular expression> [-DFLAGS=] [-DMISUSE_FLAGS=]
#   [-DONLY_MISUSE=ON] -P check.cmake

list(TRANSFORM INCLUDE PREPEND -I)
set(command "${COMPILER}" -std=c++20 -fsyntax-only ${INCLUDE} ${FLAGS} "${SOURCE}")

if(NOT ONLY_MISUSE)
  execute_process(COMMAND ${command} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "the right way does not compile:\n${output}")
  endif()
endif()

execute_process(COMMAND ${command} -DHEED_MISUSE ${MISUSE_FLAGS} RESULT_VARIABLE result OUTPUT_VARIABLE output
                ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "the wrong way compiles")
endif()
string(REGEX MATCHALL "[^\n]*error:[^\n]*" errors "${output}")
list(JOIN errors "\n" errors)
if(NOT errors MATCHES "${MESSAGE}")
  message(FATAL_ERROR "no error says \"${MESSAGE}\"; the errors are:\n${errors}")
endif()
message(STATUS "${CMAKE_MATCH_0}")
