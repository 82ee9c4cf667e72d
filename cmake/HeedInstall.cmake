# Headers, the CMake package and the pkg-config file. All of them sit where the pointer size does not matter
# (include/ and share/): a header-only package is the same for every architecture.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(HEED_INSTALL_CMAKEDIR "${CMAKE_INSTALL_DATADIR}/cmake/heed" CACHE STRING "Where heedConfig.cmake goes")
set(HEED_INSTALL_PKGCONFIGDIR "${CMAKE_INSTALL_DATADIR}/pkgconfig" CACHE STRING "Where heed.pc goes")
mark_as_advanced(HEED_INSTALL_CMAKEDIR HEED_INSTALL_PKGCONFIGDIR)

install(
  DIRECTORY include/heed
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING
  PATTERN "*.hpp"
  PATTERN "*.cuh"
  PATTERN "*.md")

install(TARGETS heed EXPORT heedTargets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT heedTargets NAMESPACE heed:: DESTINATION "${HEED_INSTALL_CMAKEDIR}")

configure_package_config_file(cmake/heedConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/package/heedConfig.cmake"
                              INSTALL_DESTINATION "${HEED_INSTALL_CMAKEDIR}" NO_SET_AND_CHECK_MACRO)
# Below 1.0 a minor version may change the interface, so only the same minor version is compatible.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/package/heedConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/package/heedConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/package/heedConfigVersion.cmake" DESTINATION "${HEED_INSTALL_CMAKEDIR}")

# heed.pc finds the prefix from its own place, so an installed tree may be moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(HEED_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(HEED_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
if(IS_ABSOLUTE "${HEED_INSTALL_PKGCONFIGDIR}")
  set(HEED_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH up "/${HEED_INSTALL_PKGCONFIGDIR}" "/")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(HEED_PC_PREFIX "\${pcfiledir}/${up}")
endif()
configure_file(cmake/heed.pc.in "${CMAKE_CURRENT_BINARY_DIR}/package/heed.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/package/heed.pc" DESTINATION "${HEED_INSTALL_PKGCONFIGDIR}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/heed")
