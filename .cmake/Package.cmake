# cmake --install: a tree that works wherever it is moved.
#
# Invariant: no file of the tree contains its place; what needs the library finds it relative to itself.
set(CMAKE_INSTALL_LIBDIR lib CACHE STRING "Library folder below the prefix")
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(tj_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tilejit")
set(tj_pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(CMAKE_BUILD_TYPE STREQUAL "Release")
  install(CODE "set(CMAKE_INSTALL_DO_STRIP TRUE)" ALL_COMPONENTS)
endif()

file(RELATIVE_PATH tj_bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
set_target_properties(tilejit ${tj_installed_tools} ${tj_installed_samples} PROPERTIES
  INSTALL_RPATH "$ORIGIN;$ORIGIN/${tj_bin_to_lib}")
# One without a path would be filled up with colons, each of which means the folder that a program runs in.
set_target_properties(tilejit PROPERTIES BUILD_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)

install(DIRECTORY include/tilejit DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT library
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(TARGETS tilejit EXPORT tilejitTargets COMPONENT library
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT tilejitTargets NAMESPACE tilejit:: DESTINATION "${tj_cmake_dir}" COMPONENT library)
if(tj_installed_tools)
  install(TARGETS ${tj_installed_tools} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT tools)
endif()
# Not installed unless asked for: cmake --install <build> --component samples
if(tj_installed_samples)
  install(TARGETS ${tj_installed_samples} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT samples EXCLUDE_FROM_ALL)
  foreach(sample IN LISTS tj_samples_with_resources)
    install(DIRECTORY "samples/${sample}" DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/tilejit/samples" COMPONENT samples EXCLUDE_FROM_ALL
      FILES_MATCHING PATTERN "*.json" PATTERN "*.cuh")
  endforeach()
endif()

configure_package_config_file(.cmake/tilejitConfig.cmake.in "${CMAKE_BINARY_DIR}/package/tilejitConfig.cmake"
  INSTALL_DESTINATION "${tj_cmake_dir}" NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/package/tilejitConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH tj_pc_to_prefix "/${tj_pkgconfig_dir}" "/")
string(REGEX REPLACE "/$" "" tj_pc_to_prefix "${tj_pc_to_prefix}")
configure_file(.cmake/tilejit.pc.in "${CMAKE_BINARY_DIR}/package/tilejit.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/package/tilejitConfig.cmake" "${CMAKE_BINARY_DIR}/package/tilejitConfigVersion.cmake"
  DESTINATION "${tj_cmake_dir}" COMPONENT library)
install(FILES "${CMAKE_BINARY_DIR}/package/tilejit.pc" DESTINATION "${tj_pkgconfig_dir}" COMPONENT library)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/tilejit" COMPONENT library OPTIONAL)
