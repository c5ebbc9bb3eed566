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

# Man pages, made by running the tools that were built. A build for another machine cannot run them, one with sanitizers is not installed.
if(CMAKE_CROSSCOMPILING AND tj_installed_tools)
  message(STATUS "No man pages: they are made by running the tools, and this build is for another machine")
elseif(NOT TJ_SANITIZE)
  set(tj_man_pages "")
  string(REPLACE ";" "," others "${tj_installed_tools}")
  foreach(tool IN LISTS tj_installed_tools)
    set(page "${CMAKE_BINARY_DIR}/man/${tool}.1")
    add_custom_command(OUTPUT "${page}"
      COMMAND "${CMAKE_COMMAND}" "-DTOOL=$<TARGET_FILE:${tool}>" "-DOTHERS=${others}" "-DVERSION=${PROJECT_VERSION}"
              "-DOUTPUT=${page}" -P "${CMAKE_SOURCE_DIR}/.cmake/ManPage.cmake"
      DEPENDS ${tool} .cmake/ManPage.cmake
      COMMENT "Writing the man page of ${tool}" VERBATIM)
    list(APPEND tj_man_pages "${page}")
  endforeach()
  add_custom_target(tj_man ALL DEPENDS ${tj_man_pages})
  install(FILES ${tj_man_pages} DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT tools)
endif()

# Documents keep their places to each other, so that headers, help texts and the documents themselves lead to them by one name.
file(GLOB_RECURSE tj_documents CONFIGURE_DEPENDS RELATIVE "${CMAKE_SOURCE_DIR}" src/*.md cache/*.md kernel_templates/*.md samples/*.md tests/gpu/*.md)
foreach(document IN ITEMS README.md CHANGELOG.md CONTRIBUTING.md LICENSE ${tj_documents})
  get_filename_component(folder "${document}" DIRECTORY)
  install(FILES "${document}" DESTINATION "${CMAKE_INSTALL_DOCDIR}/${folder}" COMPONENT library)
endforeach()
# The samples' sources, which a user builds beside the installed library: cmake -S share/doc/tilejit/samples -B <folder>
install(DIRECTORY samples DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT library
  FILES_MATCHING PATTERN "CMakeLists.txt" PATTERN "*.cpp" PATTERN "*.hpp" PATTERN "*.c" PATTERN "*.py" PATTERN "*.json" PATTERN "*.cuh")

# Licences that go with the library when it is given to others.
foreach(licence IN LISTS tj_licences)
  string(REPLACE "|" ";" licence "${licence}")
  list(POP_FRONT licence name)
  set(text "")
  foreach(file IN LISTS licence)
    if(EXISTS "${file}")
      file(READ "${file}" part)
      string(APPEND text "${part}\n")
    else()
      set(text "")
      message(WARNING "The licence of ${name} will not be installed: ${file} is not here. Give the installed tree to nobody without it")
      break()
    endif()
  endforeach()
  if(NOT text STREQUAL "")
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/package/licences/${name}" CONTENT "@text@" @ONLY)
    install(FILES "${CMAKE_BINARY_DIR}/package/licences/${name}" DESTINATION "${CMAKE_INSTALL_DOCDIR}/licences" COMPONENT library)
  endif()
endforeach()

# Programs of the samples are not installed unless asked for: cmake --install <build> --component samples
if(tj_installed_samples)
  install(TARGETS ${tj_installed_samples} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT samples EXCLUDE_FROM_ALL)
  foreach(sample IN LISTS tj_samples_with_resources)
    install(DIRECTORY "samples/${sample}" DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/tilejit/samples" COMPONENT samples EXCLUDE_FROM_ALL
      FILES_MATCHING PATTERN "*.json" PATTERN "*.cuh" PATTERN "*.py")
  endforeach()
endif()

configure_package_config_file(.cmake/tilejitConfig.cmake.in "${CMAKE_BINARY_DIR}/package/tilejitConfig.cmake"
  INSTALL_DESTINATION "${tj_cmake_dir}" NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/package/tilejitConfigVersion.cmake" COMPATIBILITY SameMajorVersion)
file(READ "${CMAKE_BINARY_DIR}/package/tilejitConfigVersion.cmake" text)
file(WRITE "${CMAKE_BINARY_DIR}/package/tilejitConfigVersion.cmake" "# Versions before the last break had other calls.
if(PACKAGE_FIND_VERSION AND PACKAGE_FIND_VERSION VERSION_LESS \"${tj_last_break}\")
  set(PACKAGE_VERSION_UNSUITABLE TRUE)
endif()
${text}")
file(RELATIVE_PATH tj_pc_to_prefix "/${tj_pkgconfig_dir}" "/")
string(REGEX REPLACE "/$" "" tj_pc_to_prefix "${tj_pc_to_prefix}")
configure_file(.cmake/tilejit.pc.in "${CMAKE_BINARY_DIR}/package/tilejit.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/package/tilejitConfig.cmake" "${CMAKE_BINARY_DIR}/package/tilejitConfigVersion.cmake"
  DESTINATION "${tj_cmake_dir}" COMPONENT library)
install(FILES "${CMAKE_BINARY_DIR}/package/tilejit.pc" DESTINATION "${tj_pkgconfig_dir}" COMPONENT library)
