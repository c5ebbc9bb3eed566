# Finds third-party code and gives each piece an interface target.
#
# Everything is either header-only or a static archive, because the result must run where none of it is installed.
# Invariant: a missing piece ends the configuration with the Debian package that provides it.
find_package(Threads REQUIRED)

# Licences of what ends up in the library and the tools, as <name>|<file>[|<file>]: Package.cmake installs them below these names.
set(tj_licences "")
function(tj_licence name) # files that make up the text
  string(JOIN "|" licence "${name}" ${ARGN})
  list(APPEND tj_licences "${licence}")
  set(tj_licences "${tj_licences}" PARENT_SCOPE)
endfunction()

# The system's interpreter comes first: it is the one that python3-numpy belongs to. Tests want it, and TJ_UNITY.
find_program(TJ_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(TJ_PYTHON python3)
mark_as_advanced(TJ_PYTHON)

function(tj_find_header target header package)
  find_path(${target}_INCLUDE_DIR "${header}" PATH_SUFFIXES ${ARGN})
  mark_as_advanced(${target}_INCLUDE_DIR)
  if(NOT ${target}_INCLUDE_DIR)
    message(FATAL_ERROR "${header} was not found. Install ${package} (Debian), or run: bash tests/run.sh --setup")
  endif()
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE "${${target}_INCLUDE_DIR}")
endfunction()

function(tj_find_archive target archive package)
  find_library(${target}_ARCHIVE "${archive}")
  mark_as_advanced(${target}_ARCHIVE)
  if(NOT ${target}_ARCHIVE)
    message(FATAL_ERROR "${archive} was not found. Install ${package} (Debian), or run: bash tests/run.sh --setup")
  endif()
  target_link_libraries(${target} INTERFACE "${${target}_ARCHIVE}")
endfunction()

# Header-only, with Debian's separate fmt: its shared libraries would have to be installed wherever tilejit runs.
tj_find_header(tj_fmt fmt/format.h libfmt-dev)
tj_find_header(tj_spdlog spdlog/spdlog.h libspdlog-dev)
target_compile_definitions(tj_spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
target_link_libraries(tj_spdlog INTERFACE tj_fmt)
tj_licence(fmt /usr/share/doc/libfmt-dev/copyright)
tj_licence(spdlog /usr/share/doc/libspdlog-dev/copyright)

tj_find_header(tj_json nlohmann/json.hpp nlohmann-json3-dev)
tj_licence(nlohmann-json /usr/share/doc/nlohmann-json3-dev/copyright)
tj_find_header(tj_cli CLI/CLI.hpp libcli11-dev)
tj_licence(cli11 /usr/share/doc/libcli11-dev/copyright)
if(TJ_TESTS)
  tj_find_header(tj_doctest doctest/doctest.h doctest-dev)
  # The oracles of the scheduler's tests, and nothing else; without it they skip themselves.
  find_path(TJ_Z3_INCLUDE_DIR z3++.h PATH_SUFFIXES z3)
  find_library(TJ_Z3_LIBRARY z3)
  mark_as_advanced(TJ_Z3_INCLUDE_DIR TJ_Z3_LIBRARY)
  add_library(tj_z3 INTERFACE)
  if(TJ_Z3_INCLUDE_DIR AND TJ_Z3_LIBRARY)
    target_include_directories(tj_z3 SYSTEM INTERFACE "${TJ_Z3_INCLUDE_DIR}")
    target_link_libraries(tj_z3 INTERFACE "${TJ_Z3_LIBRARY}")
    target_compile_definitions(tj_z3 INTERFACE TJ_HAS_Z3=1)
  else()
    target_compile_definitions(tj_z3 INTERFACE TJ_HAS_Z3=0)
  endif()
endif()

# Only the three assembler objects (make_, jump_, ontop_fcontext) may be used: they are position independent. The fourth
# object of the archive, stack_traits, is not: whoever makes fibers brings stacks of its own, and never names a stack
# class of Boost's. A use of it would fail to link, not misbehave.
tj_find_header(tj_boost_context boost/context/detail/fcontext.hpp libboost-context-dev)
tj_find_archive(tj_boost_context libboost_context.a libboost-context-dev)
tj_licence(boost-context "${CMAKE_CURRENT_LIST_DIR}/licences/boost-context")  # Debian's file is of all of Boost, 2 MB

# SHA-256 only, through the low-level calls: they add 30 KB, where the EVP interface pulls in 3.8 MB of providers.
tj_find_header(tj_crypto openssl/sha.h libssl-dev)
tj_find_archive(tj_crypto libcrypto.a libssl-dev)
tj_licence(openssl /usr/share/doc/libssl-dev/copyright /usr/share/common-licenses/Apache-2.0)

# Ed25519 alone, which needs neither random numbers nor an initialisation here.
tj_find_header(tj_sodium sodium/crypto_sign_ed25519.h libsodium-dev)
tj_find_archive(tj_sodium libsodium.a libsodium-dev)
tj_licence(libsodium /usr/share/doc/libsodium-dev/copyright)

# cuda.h and nvrtc.h, never a library: a toolkit's, else those of NVIDIA's wheels below .deps/.
set(tj_wheels "${CMAKE_SOURCE_DIR}/.deps/nvidia/cu13")
set(tj_toolkits "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" /usr/local/cuda /opt/cuda "${tj_wheels}")
find_path(TJ_CUDA_INCLUDE_DIR cuda.h HINTS ${tj_toolkits} PATH_SUFFIXES include targets/x86_64-linux/include)
find_path(TJ_NVRTC_INCLUDE_DIR nvrtc.h HINTS ${tj_toolkits} PATH_SUFFIXES include targets/x86_64-linux/include)
if(NOT TJ_CUDA_INCLUDE_DIR OR NOT TJ_NVRTC_INCLUDE_DIR)
  message(FATAL_ERROR "cuda.h and nvrtc.h were not found. Install the CUDA toolkit and set CUDA_HOME, or fetch NVIDIA's "
    "wheels with: bash tests/run.sh --setup")
endif()
add_library(tj_cuda_headers INTERFACE)
target_include_directories(tj_cuda_headers SYSTEM INTERFACE "${TJ_CUDA_INCLUDE_DIR}" "${TJ_NVRTC_INCLUDE_DIR}")

# NVTX's ranges are functions of headers that lie beside cuda.h; a toolkit without them gives a library without ranges.
find_path(TJ_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h PATHS "${TJ_CUDA_INCLUDE_DIR}" "${TJ_NVRTC_INCLUDE_DIR}" NO_DEFAULT_PATH)
mark_as_advanced(TJ_NVTX_INCLUDE_DIR)
if(TJ_NVTX_INCLUDE_DIR)
  tj_licence(nvtx "${CMAKE_CURRENT_LIST_DIR}/licences/nvtx" /usr/share/common-licenses/Apache-2.0)
else()
  message(STATUS "No ranges for tools' timelines: nvtx3/nvToolsExt.h was not found beside cuda.h")
endif()

# The folder of NVRTC, for the tests: the library itself finds a toolkit's, but not one that is only below .deps/.
find_path(TJ_NVRTC_DIR NAMES libnvrtc.so.13 libnvrtc.so.12 HINTS ${tj_toolkits}
  PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib)
mark_as_advanced(TJ_CUDA_INCLUDE_DIR TJ_NVRTC_INCLUDE_DIR TJ_NVRTC_DIR)

# Headers in C of what frameworks call kernels by, never a library. They are those of the wheels of tests, or of folders that the two variables
# name. Without them the library lacks the functions for that framework, and nothing else.
add_library(tj_ffi_headers INTERFACE)
set(tj_ffi_left_out "")  # sources
function(tj_find_ffi_headers variable header framework folder symbols) # sources that include them
  find_path(${variable} "${header}" HINTS "${CMAKE_SOURCE_DIR}/.deps/${folder}" NO_DEFAULT_PATH)
  mark_as_advanced(${variable})
  if(${variable})
    target_include_directories(tj_ffi_headers SYSTEM INTERFACE "${${variable}}")
  else()
    message(STATUS "No functions for ${framework}: ${header} was not found, so the library is built without ${symbols}. Fetch the header with "
      "bash tests/run.sh --setup, or name its folder by ${variable}")
    set(tj_ffi_left_out ${tj_ffi_left_out} ${ARGN} PARENT_SCOPE)
  endif()
endfunction()
tj_find_ffi_headers(TJ_TVM_FFI_INCLUDE_DIR tvm/ffi/c_api.h tvm-ffi tvm_ffi/tvm_ffi/include __tvm_ffi_*
  src/ffi/dlpack.cpp src/ffi/tvm_api.cpp src/ffi/tvm_functions.cpp)
if(TJ_TVM_FFI_INCLUDE_DIR)
  tj_licence(tvm-ffi "${CMAKE_CURRENT_LIST_DIR}/licences/tvm-ffi" /usr/share/common-licenses/Apache-2.0)
  tj_licence(dlpack "${CMAKE_CURRENT_LIST_DIR}/licences/dlpack" /usr/share/common-licenses/Apache-2.0)
endif()
tj_find_ffi_headers(TJ_XLA_INCLUDE_DIR xla/ffi/api/c_api.h JAX jax/jaxlib/include tj_xla_* src/ffi/xla_handlers.cpp)
if(TJ_XLA_INCLUDE_DIR)
  tj_licence(xla "${CMAKE_CURRENT_LIST_DIR}/licences/xla" /usr/share/common-licenses/Apache-2.0)
endif()
