# Tests, found by name.
#
# tests/<folder>/<name>_test.cpp -> ctest entry <folder>.<name>, a process of its own of the folder's one executable, tests.<folder>,
#   which runs the cases of that file. The end of <name> gives the label: _gpu -> gpu, _compile -> compile, _model -> model, anything
#   else -> unit. tests/<folder>/<part>/<name>_test.cpp -> <folder>.<part>_<name>, in the same executable.
# tests/<folder>/<name>_test.py  -> the same, run by python3.
# tests/fakes/<name>_fake.cpp    -> TJ_FAKES_DIR/<name>.so.1, a stand-in for a library that is opened at run time;
# tests/fakes/<name>-<n>_fake.cpp -> <name>.so.<n>.
# tests/<folder>/<name>_bench.cpp -> executable <folder>.<name>_bench, which prints times and is no test; one is started by a test.
# Other .cpp files below tests/<folder>/ are helpers that every test may use. Exit status 77 means skipped.
file(GLOB test_sources CONFIGURE_DEPENDS tests/*/*_test.cpp tests/*/*/*_test.cpp)
file(GLOB test_scripts CONFIGURE_DEPENDS tests/*/*_test.py)
file(GLOB fake_sources CONFIGURE_DEPENDS tests/fakes/*_fake.cpp)
file(GLOB bench_sources CONFIGURE_DEPENDS tests/*/*_bench.cpp)
file(GLOB helper_sources CONFIGURE_DEPENDS tests/*/*.cpp tests/*/*/*.cpp)
list(REMOVE_ITEM helper_sources "" ${test_sources} ${fake_sources} ${bench_sources})
list(FILTER helper_sources EXCLUDE REGEX "/tests/package/|/tests/support/allocations.cpp$")

add_library(tj_test_main STATIC tests/main.cpp ${helper_sources})
target_link_libraries(tj_test_main PUBLIC tj_doctest tj_settings tj_cuda_headers)
target_include_directories(tj_test_main PUBLIC "${CMAKE_SOURCE_DIR}/tests" "${CMAKE_SOURCE_DIR}/samples" "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include")
target_compile_definitions(tj_test_main PUBLIC
  "TJ_REPO_DIR=\"${CMAKE_SOURCE_DIR}\"" "TJ_BUILD_DIR=\"${CMAKE_BINARY_DIR}\"" "TJ_BIN_DIR=\"${CMAKE_BINARY_DIR}/bin\""
  "TJ_FAKES_DIR=\"${CMAKE_BINARY_DIR}/tests/fakes\"" "TJ_LIBRARY=\"$<TARGET_FILE:tilejit>\"")

# Tests check the library: a test's own text is compiled fast, and what tests share, such as references, runs fast. With the sanitizers' own
# checks a test's text compiles three times as long. Threads' checks must see all of it.
set(tj_test_options $<$<NOT:$<CONFIG:Debug>>:-O1>)
set(tj_runner_options $<$<NOT:$<CONFIG:Debug>>:-O0>)
if(TJ_SANITIZE AND NOT TJ_SANITIZE MATCHES "thread")
  foreach(options IN ITEMS tj_test_options tj_runner_options)
    list(APPEND ${options} -fno-sanitize=all -DTJ_SANITIZED)  # by which tests that wait for the library do less
  endforeach()
endif()
# Nothing but executables links it, and what is precompiled is for code of one kind.
target_compile_options(tj_test_main PRIVATE ${tj_test_options} -fPIE)
tj_precompile(tj_test_main <doctest/doctest.h>)
tj_as_few(tj_test_main "tests/(model|ops)/")  # what these need is linked with all that want one of them

# Replaces new and delete, so the address sanitizer cannot pair them any more: for the folders that ask for it alone.
add_library(tj_test_allocations STATIC tests/support/allocations.cpp)
target_include_directories(tj_test_allocations PRIVATE "${CMAKE_SOURCE_DIR}/tests")
target_compile_options(tj_test_allocations PRIVATE ${tj_test_options} -fPIE)
if(TJ_SANITIZE MATCHES "thread")  # whose run-time library has its own, and clang links that whole
  target_compile_definitions(tj_test_allocations PRIVATE TJ_OWN_NEW=0)
endif()

function(tj_split_test_name file folder_out name_out label_out)
  file(RELATIVE_PATH name "${CMAKE_SOURCE_DIR}/tests" "${file}")
  string(REGEX REPLACE "^([^/]+)/(.*)\\.[a-z]+$" "\\1;\\2" name "${name}")
  list(GET name 0 folder)
  list(GET name 1 name)
  string(REPLACE "/" "_" name "${name}")
  string(REGEX REPLACE "_test$" "" name "${name}")
  set(label unit)
  if(folder MATCHES "^(gpu|package)$")
    set(label "${folder}")
  elseif(name MATCHES "_(gpu|compile|model)$")
    set(label "${CMAKE_MATCH_1}")
  endif()
  set(${folder_out} "${folder}" PARENT_SCOPE)
  set(${name_out} "${name}" PARENT_SCOPE)
  set(${label_out} "${label}" PARENT_SCOPE)
endfunction()

# A cache of its own keeps the user's out of it; builds of the same sources may share one, and then make each kernel once. A toolkit's NVRTC is
# found by the library itself, one from wheels below .deps/ through the loader's path.
set(TJ_TEST_CACHE "${CMAKE_BINARY_DIR}/tests/cache" CACHE PATH "Where tests keep the kernels that they make")
mark_as_advanced(TJ_TEST_CACHE)
function(tj_test_properties test label)
  set(modify "TJ_CACHE_DIR=set:${TJ_TEST_CACHE}")
  if(TJ_NVRTC_DIR MATCHES "/\\.deps/")
    list(APPEND modify "LD_LIBRARY_PATH=path_list_append:${TJ_NVRTC_DIR}")
  endif()
  if(TJ_SANITIZE MATCHES "thread")  # children of tests start threads of their own
    list(APPEND modify "TSAN_OPTIONS=set:die_after_fork=0")
  endif()
  # Twenty times what the slowest of a label takes on two idle cores, but a hang never costs more than a few minutes. ctest's own --timeout
  # would not override these. The slow kinds begin first, so that none of them runs alone at the end.
  set(limit_s 120)
  set(cost 1)
  if(label MATCHES "^(model|compile|gpu|sample)$" OR "${test}" STREQUAL "runtime.tune")
    set(limit_s 240)
    set(cost 10)
  elseif(label STREQUAL "package")
    set(limit_s 300)
    set(cost 100)
  endif()
  set_tests_properties(${test} PROPERTIES LABELS "${label}" SKIP_RETURN_CODE 77 TIMEOUT ${limit_s} COST ${cost}
    ENVIRONMENT_MODIFICATION "${modify}")
endfunction()

foreach(source IN LISTS fake_sources)
  get_filename_component(target "${source}" NAME_WE)
  string(REGEX REPLACE "_fake$" "" name "${target}")
  set(version 1)
  if(name MATCHES "^(.*)-([0-9]+)$")
    set(name "${CMAKE_MATCH_1}")
    set(version "${CMAKE_MATCH_2}")
  endif()
  add_library(${target} MODULE "${source}")
  target_link_libraries(${target} PRIVATE tj_cuda_headers tj_json)
  target_link_options(${target} PRIVATE -Wl,-soname,${name}.so.${version})
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME "${name}" SUFFIX ".so.${version}"
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests/fakes" CXX_VISIBILITY_PRESET default)
  add_dependencies(tj_test_main ${target})
endforeach()

foreach(source IN LISTS bench_sources)
  tj_split_test_name("${source}" folder name label)
  add_executable(${folder}.${name} "${source}")
  target_link_libraries(${folder}.${name} PRIVATE tilejit_core)
  set_target_properties(${folder}.${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
endforeach()

# The sanitizers run unit tests and those of the model. The tools are left out: option parsing takes a third of the build and touches no
# memory by hand. So are tests that run the kernels of others again and again, with a barrier less, as a ladder's steps, at another arch's
# shapes or with its instructions: the library's code is the same, and what the model has of its own for an arch is launch's to test.
# Of attention and of products those stay whose host code is most: lists of sequences, parts of K, groups; of chunks, those whose keys are solved.
# What stays runs a share of its cases there (tests/support/full.hpp).
# The threads' checks run those tests of the cache and the runtime that share something, and none that reads bytes or texts alone.
# Calls that are hot are counted in allocations, which the thread sanitizer's own operator new hides. Tuning is one thread's, and so is a choice.
# The release build says what is right about schedules and about numbers.
# The model spreads blocks over threads and switches fibers in them: two of its tests stand for that under the thread sanitizer.
function(tj_is_for_sanitizer result folder name label)
  set(wanted OFF)
  if(TJ_SANITIZE MATCHES "thread")
    set(alone "hot_call|tune|tune_call|tune_record|pipeline|no_memory|cancel|.*mutation|corpus|bad_input|key|entry|pack|trust|artifact|manifest|dump|flags|target_options")
    set(alone "${alone}|tensor_targets|c_results|log_lines")
    if((label STREQUAL "unit" AND NOT name MATCHES "^(${alone})$" AND
        "${folder}.${name}" MATCHES "^cache\\.|^runtime\\.|^support\\.workers$|thread") OR "${folder}.${name}" MATCHES "^model\\.(barriers|driver)_model$")
      set(wanted ON)
    endif()
  elseif(label MATCHES "^(unit|model)$" AND NOT folder MATCHES "^(check|tools|samples)$" AND
         NOT "_${name}" MATCHES "_(sites|schedules|steps|rungs|shapes|lists|peaked|devices|families|(channel|no_delta)_chunks)_model$|^_(gemm|fmha)_(amd|warps|warps_e4m3|e4m3|parts|wide|slices|mods|end_text|tensor|decode|pages|pieces|scales)_model$" AND
         NOT "${folder}.${name}" MATCHES "^codegen\\.barriers_model$|^ops\\.(fmha_tensor|numerics_model)$|^sched\\.(oracle_.*|.*brute_force|rediscovery)$")
    set(wanted ON)
  endif()
  set(${result} ${wanted} PARENT_SCOPE)
endfunction()

# One executable a folder: 20 links instead of 200, and each of them reads the same archives.
set(test_folders "")
foreach(source IN LISTS test_sources)
  tj_split_test_name("${source}" folder name label)
  if(TJ_SANITIZE)
    tj_is_for_sanitizer(wanted "${folder}" "${name}" "${label}")
    if(NOT wanted)
      continue()
    endif()
  endif()
  list(APPEND test_folders "${folder}")
  file(RELATIVE_PATH path "${CMAKE_SOURCE_DIR}" "${source}")
  list(APPEND runner_sources_${folder} "${source}")
  add_test(NAME ${folder}.${name} COMMAND tests.${folder} "--source-file=*${path}")
  tj_test_properties(${folder}.${name} ${label})
endforeach()
list(REMOVE_DUPLICATES test_folders)

# With TJ_UNITY a folder's tests become few files, each of which has many tests in namespaces of their own. Headers took a third of their compilation.
function(tj_enclosed result folder)
  if(TJ_UNITY AND TJ_PYTHON)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN} .cmake/group_sources.py)
    execute_process(COMMAND "${TJ_PYTHON}" -B .cmake/group_sources.py --enclose "${CMAKE_BINARY_DIR}/Unity/unity_${folder}" ${ARGN}
      WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE written OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    string(REPLACE "\n" ";" written "${written}")
    set(${result} "${written}" PARENT_SCOPE)
  else()
    set(${result} "${ARGN}" PARENT_SCOPE)
  endif()
endfunction()

foreach(folder IN LISTS test_folders)
  set(runner tests.${folder})
  tj_enclosed(sources ${folder} ${runner_sources_${folder}})
  add_executable(${runner} ${sources})
  if(folder MATCHES "^(support|cache)$")
    target_link_libraries(${runner} PRIVATE tj_test_main tilejit_${folder})
  else()
    set(parts $<TARGET_NAME_IF_EXISTS:tj_sample_common> tilejit_core)
    if(folder MATCHES "^(check|tools)$")
      list(PREPEND parts tj_tools)
    elseif(folder STREQUAL "sched")  # its oracles
      list(APPEND parts tj_z3)
    elseif(folder STREQUAL "ffi")
      list(APPEND parts tj_ffi_headers)
      target_compile_options(${runner} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpermissive>)  # as src/ffi
    elseif(folder MATCHES "^(dist|launch|model|ops|runtime)$")
      list(PREPEND parts tj_test_allocations)
    endif()
    target_link_libraries(${runner} PRIVATE tj_test_main ${parts})
  endif()
  # Enumerations and formulas, by which schedules are judged, are in the scheduler's tests themselves. The sanitizers run none of these.
  if(folder STREQUAL "sched" AND NOT TJ_SANITIZE)
    target_compile_options(${runner} PRIVATE ${tj_test_options})
    tj_precompile(${runner} REUSE_FROM tj_test_main)
  elseif(NOT DEFINED first_runner)  # what is precompiled is for one level of optimization
    set(first_runner ${runner})
    target_compile_options(${runner} PRIVATE ${tj_runner_options})
    tj_precompile(${runner} <doctest/doctest.h>)
  else()
    target_compile_options(${runner} PRIVATE ${tj_runner_options})
    tj_precompile(${runner} REUSE_FROM ${first_runner})
  endif()
  set_target_properties(${runner} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
endforeach()

# Without TJ_UNITY: files that are compiled as one, as headers take a second of each. Rows of patterns below tests/, all of one folder. In a row names
# in unnamed namespaces differ. A case knows the file that it is written in, whatever it was compiled with.
set(tj_test_groups
  "arch/*" "cache/*" "check/*" "compile/compile_log compile/hip* compile/library_search compile/nvrtc* compile/p*" "custom/*" "samples/*" "support/*"
  "codegen/*_model"
  "ops/*_model" "ops/fmha/*_compile" "ops/gemm/*_compile"
  "sched/*pictures sched/trace_events sched/text sched/verify*"
  "tools/bench*" "tools/schedule* tools/graph_file tools/pictures" "tools/timeline* tools/check*" "tools/warm*")
foreach(row IN LISTS tj_test_groups)
  string(REGEX MATCH "^[^/]+" folder "${row}")
  string(MAKE_C_IDENTIFIER "${row}" group)
  string(REPLACE " " ";" patterns "${row}")
  list(TRANSFORM patterns REPLACE "(.+)" "tests/\\1_test.cpp")
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(TARGET tests.${folder} AND NOT (TJ_UNITY AND TJ_PYTHON))
    tj_as_one(tests.${folder} ${group} ${sources})
  endif()
endforeach()

add_custom_target(tj_tests)  # every runner, and nothing that no test needs
foreach(folder IN LISTS test_folders)
  add_dependencies(tj_tests tests.${folder})
endforeach()
if(NOT TJ_SANITIZE)  # it goes through every op's candidates, and schedules one of them
  add_dependencies(tj_tests sched.search_bench)
  add_test(NAME sched.search_bench COMMAND sched.search_bench 1000 fmha_f16_d64_128x80_4warps)
  set_tests_properties(sched.search_bench PROPERTIES LABELS unit TIMEOUT 120 PASS_REGULAR_EXPRESSION "shipped tiles, with roles: [1-9]")
  add_test(NAME sched.search_bench_status COMMAND sched.search_bench 1000 fmha_f16_d64_128x80_4warps)  # an expression hides it
  set_tests_properties(sched.search_bench_status PROPERTIES LABELS unit TIMEOUT 120)
endif()
if(TJ_SANITIZE)  # an interpreter without the sanitizer cannot open a library that was built with it
  return()
endif()

if(TJ_PYTHON)
  foreach(script IN LISTS test_scripts)
    tj_split_test_name("${script}" folder name label)
    set(test "${folder}.${name}")
    add_test(NAME ${test} COMMAND "${TJ_PYTHON}" -B "${script}")
    tj_test_properties(${test} ${label})
    set_property(TEST ${test} PROPERTY ENVIRONMENT "TJ_TEST_REPO_DIR=${CMAKE_SOURCE_DIR}"
      "TJ_TEST_BUILD_DIR=${CMAKE_BINARY_DIR}" "TJ_TEST_LIBRARY=$<TARGET_FILE:tilejit>")
  endforeach()
endif()

foreach(sample IN LISTS tj_installed_samples)
  add_test(NAME samples.${sample} COMMAND ${sample})
  tj_test_properties(samples.${sample} sample)
endforeach()
