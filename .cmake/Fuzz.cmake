# Fuzz targets, only with -DTJ_FUZZ=ON: tests/<folder>/<name>_fuzz.cpp -> tests/<name>_fuzz, for libFuzzer.
#
# Decides how they are instrumented. Each is built from the sources that it runs, because those must be instrumented too;
# the same entries are called by ordinary tests, so that every build compiles them.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "TJ_FUZZ needs clang++: -DCMAKE_CXX_COMPILER=clang++")
endif()
file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/*/*_fuzz.cpp)
file(GLOB fuzzed_sources CONFIGURE_DEPENDS src/graph/*.cpp src/support/error.cpp src/support/fail.cpp)
foreach(source IN LISTS fuzz_sources)
  get_filename_component(target "${source}" NAME_WE)
  add_executable(${target} EXCLUDE_FROM_ALL "${source}" ${fuzzed_sources})
  target_link_libraries(${target} PRIVATE tj_settings)
  target_compile_options(${target} PRIVATE -g1 -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer,address,undefined)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
endforeach()
