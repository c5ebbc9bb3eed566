# Tools and samples.
#
# src/tools/<tool>_main.cpp -> tj-<tool>, over the internal archive, because they show what the public headers do not;
# the other files of src/tools/, and src/check/, are shared by them and by the tests. samples/CMakeLists.txt says what becomes a sample.
file(GLOB tool_mains CONFIGURE_DEPENDS src/tools/*_main.cpp)
file(GLOB tool_sources CONFIGURE_DEPENDS src/tools/*.cpp src/check/*.cpp)
list(REMOVE_ITEM tool_sources "" ${tool_mains})
set(tj_installed_tools "")

add_library(tj_tools STATIC ${tool_sources})
target_link_libraries(tj_tools PUBLIC tilejit_core tj_cli)
# Nothing hot is in here, and CLI11 takes half a minute a file at -O3.
target_compile_options(tj_tools PRIVATE $<$<CONFIG:Release>:-O1>)
foreach(tool IN ITEMS bench check timeline warm)
  file(GLOB sources CONFIGURE_DEPENDS src/tools/${tool}*.cpp)
  list(REMOVE_ITEM sources ${tool_mains})
  tj_as_one(tj_tools ${tool} ${sources})
endforeach()
if(TJ_UNITY STREQUAL "all")
  tj_as_few(tj_tools)
endif()
tj_precompile(tj_tools <CLI/CLI.hpp>)

if(TJ_TOOLS)
  foreach(main IN LISTS tool_mains)
    get_filename_component(tool "${main}" NAME)
    string(REGEX REPLACE "_main\\.cpp$" "" tool "${tool}")
    string(REPLACE "_" "-" tool "${tool}")
    add_executable(tj-${tool} "${main}")
    target_link_libraries(tj-${tool} PRIVATE tj_tools)
    list(APPEND tj_installed_tools tj-${tool})
  endforeach()
endif()

# Compiled together, and with what else this project knows of its files.
add_subdirectory(samples)
file(GLOB sources CONFIGURE_DEPENDS samples/common/*_report.cpp samples/common/schedule_*.cpp)
set_source_files_properties(${sources} TARGET_DIRECTORY tj_sample_common PROPERTIES UNITY_GROUP reports)
set_target_properties(tj_sample_common PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
tj_precompile(tj_sample_common)
# References are what tests wait for; the rest is texts, and programs that call the library once.
target_compile_options(tj_sample_common PRIVATE $<$<CONFIG:Release>:-O1>)
file(GLOB sources CONFIGURE_DEPENDS samples/common/*_reference.cpp)
set(options $<$<CONFIG:Release>:-O3>)
if(TJ_SANITIZE)
  set(options -O1)
endif()
set_source_files_properties(${sources} TARGET_DIRECTORY tj_sample_common PROPERTIES COMPILE_OPTIONS "${options}"
  SKIP_PRECOMPILE_HEADERS ON)  # which are for code of one kind
foreach(sample IN LISTS tj_installed_samples)
  target_compile_options(${sample} PRIVATE $<$<CONFIG:Release>:-O1>)
endforeach()
