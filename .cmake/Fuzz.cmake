# Fuzz targets, only with -DTJ_FUZZ=ON: tests/<folder>/<name>_fuzz.cpp -> tests/<name>_fuzz, for libFuzzer.
#
# Decides how they are instrumented. A reader's own sources are built with each target, because those must be instrumented; the rest is the
# library's archive. The same entries are called by ordinary tests (tests/support/fuzz.hpp), so that every build compiles them.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "TJ_FUZZ needs clang++: -DCMAKE_CXX_COMPILER=clang++")
endif()
file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/*/*_fuzz.cpp)
file(GLOB fuzzed_json_fuzz CONFIGURE_DEPENDS src/graph/*.cpp src/support/error.cpp src/support/fail.cpp)
file(GLOB fuzzed_entry_fuzz CONFIGURE_DEPENDS cache/entry.cpp)
file(GLOB fuzzed_pack_fuzz CONFIGURE_DEPENDS cache/pack_format.cpp)
file(GLOB fuzzed_remote_fuzz CONFIGURE_DEPENDS cache/remote_format.cpp)
file(GLOB fuzzed_manifest_fuzz CONFIGURE_DEPENDS src/manifest.cpp)
file(GLOB fuzzed_alias_fuzz CONFIGURE_DEPENDS cache/entry.cpp)
file(GLOB fuzzed_tuning_fuzz CONFIGURE_DEPENDS src/tuning/tunings.cpp)
foreach(source IN LISTS fuzz_sources)
  get_filename_component(target "${source}" NAME_WE)
  add_executable(${target} EXCLUDE_FROM_ALL "${source}" ${fuzzed_${target}})
  target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_link_libraries(${target} PRIVATE $<IF:$<STREQUAL:${target},json_fuzz>,tj_settings,tilejit_core>)
  target_compile_definitions(${target} PRIVATE TJ_FUZZING)
  target_compile_options(${target} PRIVATE -g1 -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
  # Where TJ_UNITY makes groups of the library's sources, a group has the reader's again. The first, the instrumented one, is taken.
  target_link_options(${target} PRIVATE -fsanitize=fuzzer,address,undefined -Wl,--allow-multiple-definition)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
endforeach()
