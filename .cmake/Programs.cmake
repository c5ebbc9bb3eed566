# Tools and samples.
#
# src/tools/<tool>_main.cpp -> tj-<tool>, over the internal archive, because they show what the public headers do not;
# the other files of src/tools/, and src/check/, are shared by them and by the tests. samples/<dir>/main.cpp -> <dir>, over the shared
# library, as a user would link it.
file(GLOB tool_mains CONFIGURE_DEPENDS src/tools/*_main.cpp)
file(GLOB tool_sources CONFIGURE_DEPENDS src/tools/*.cpp src/check/*.cpp)
list(REMOVE_ITEM tool_sources "" ${tool_mains})
set(tj_installed_tools "")
set(tj_installed_samples "")
set(tj_samples_with_resources "")

add_library(tj_tools STATIC ${tool_sources})
target_link_libraries(tj_tools PUBLIC tilejit_core tj_cli)
# Nothing hot is in here, and CLI11 takes half a minute a file at -O3.
target_compile_options(tj_tools PRIVATE $<$<CONFIG:Release>:-O1>)
foreach(tool IN ITEMS bench check timeline warm)
  file(GLOB sources CONFIGURE_DEPENDS src/tools/${tool}*.cpp)
  list(REMOVE_ITEM sources ${tool_mains})
  tj_as_one(tj_tools ${tool} ${sources})
endforeach()

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

# Does not name the library it calls: samples bring the shared one, tests the internal archive.
file(GLOB sample_common CONFIGURE_DEPENDS samples/common/*.cpp)
if(sample_common)
  add_library(tj_sample_common STATIC ${sample_common})
  target_include_directories(tj_sample_common PUBLIC "${CMAKE_SOURCE_DIR}/include" "${CMAKE_SOURCE_DIR}/samples")
  target_link_libraries(tj_sample_common PUBLIC Threads::Threads PRIVATE tj_json)
  file(GLOB sources CONFIGURE_DEPENDS samples/common/*_report.cpp samples/common/schedule_*.cpp)
  tj_as_one(tj_sample_common reports ${sources})
  tj_precompile(tj_sample_common)
  if(TJ_SANITIZE)
    target_compile_options(tj_sample_common PRIVATE -O1)  # its references are what tests wait for
  endif()
endif()

if(TJ_SAMPLES)
  file(GLOB sample_mains CONFIGURE_DEPENDS samples/*/main.cpp)
  foreach(main IN LISTS sample_mains)
    get_filename_component(folder "${main}" DIRECTORY)
    get_filename_component(sample "${folder}" NAME)
    add_executable(${sample} "${main}")
    target_link_libraries(${sample} PRIVATE $<TARGET_NAME_IF_EXISTS:tj_sample_common> tilejit)
    set_target_properties(${sample} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/samples")
    list(APPEND tj_installed_samples ${sample})
    # What a sample reads when it runs lies in the same place beside the programs of a build and of an installation.
    file(GLOB resources CONFIGURE_DEPENDS "${folder}/*.json" "${folder}/*.cuh")
    foreach(resource IN LISTS resources)
      get_filename_component(name "${resource}" NAME)
      configure_file("${resource}" "${CMAKE_BINARY_DIR}/share/tilejit/samples/${sample}/${name}" COPYONLY)
    endforeach()
    if(resources)
      list(APPEND tj_samples_with_resources ${sample})
    endif()
  endforeach()
endif()
