# Sourced by tests/run.sh and samples/run.sh: installs what building and testing need, and nothing that is there already.
#
# Decides by what a program or header can be found as, not by package names, so that tools installed in another way count.
# Invariant: after tj_setup the project configures, and NVRTC can be opened by programs that the caller starts.
tj_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

tj_say() { printf '== %s\n' "$*"; }
tj_fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

tj_header() { # header: is it in a place that compilers search?
  local folder
  for folder in /usr/include /usr/local/include ${CPLUS_INCLUDE_PATH:+${CPLUS_INCLUDE_PATH//:/ }}; do
    [ -e "$folder/$1" ] && return 0
  done
  return 1
}

tj_archive() { # file: a static library in the usual places
  local folder
  for folder in /usr/lib /usr/lib64 /usr/local/lib /usr/local/lib64 "/usr/lib/$(uname -m)-linux-gnu"; do
    [ -e "$folder/$1" ] && return 0
  done
  return 1
}

tj_command() { command -v "$1" >/dev/null 2>&1; }

tj_cmake_is_new() {
  tj_command cmake || return 1
  local found; found="$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')"
  [ "$(printf '%s\n3.25\n' "$found" | sort -V | head -n 1)" = 3.25 ]
}

tj_python_has() { [ -x /usr/bin/python3 ] && /usr/bin/python3 -c "import $1" >/dev/null 2>&1 || python3 -c "import $1" >/dev/null 2>&1; }

tj_clang_runtime() { # prints the package of clang's sanitizers where they are not there; clang itself may only be recommended to have them
  local version folder
  tj_command clang++ || { echo libclang-rt-dev; return; }
  folder="$(clang++ -print-resource-dir)"
  [ -n "$(find "$folder/lib" -name 'libclang_rt.asan*.a' 2>/dev/null | head -n 1)" ] && return
  version="$(basename "$folder")"
  echo "libclang-rt-${version%%.*}-dev"
}

tj_missing_packages() {
  tj_command g++ || echo g++
  tj_command clang++ || echo clang
  tj_clang_runtime
  tj_command cmake || echo cmake
  tj_command ninja || echo ninja-build
  tj_command pkg-config || echo pkg-config
  tj_command git || echo git
  tj_command nm || echo binutils
  tj_command python3 || echo python3
  tj_python_has numpy || echo python3-numpy
  [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] || echo ca-certificates
  tj_header fmt/format.h || echo libfmt-dev
  tj_header spdlog/spdlog.h || echo libspdlog-dev
  tj_header doctest/doctest.h || echo doctest-dev
  tj_header CLI/CLI.hpp || echo libcli11-dev
  tj_header nlohmann/json.hpp || echo nlohmann-json3-dev
  tj_header boost/context/detail/fcontext.hpp && tj_archive libboost_context.a || echo libboost-context-dev
  tj_header openssl/sha.h && tj_archive libcrypto.a || echo libssl-dev
  tj_header sodium/crypto_sign_ed25519.h && tj_archive libsodium.a || echo libsodium-dev
  tj_header z3++.h || echo libz3-dev
  tj_command redis-server || echo redis-server
  { tj_find_cuda && tj_find_cmake; } || tj_pip >/dev/null || echo python3-pip
}

# The tools that compile for AMD GPUs and read their code back: a clang with its lld and llvm-objdump for all of them, and Debian's hiprtc, which knows gfx90a. Tests that want
# them skip themselves, so a distribution that does not have them is no failure.
tj_missing_hip_packages() {
  local version
  for version in 22 21 20 19; do
    tj_command "clang-$version" && tj_command "ld.lld-$version" && tj_command "llvm-objdump-$version" && break
    [ "$version" = 19 ] && echo clang-19 lld-19 llvm-19
  done
  tj_hiprtc || echo libamdhip64-5
}

tj_rocm_library() { # name: prints a ROCm library that programs find; false without one
  local folder library listed
  IFS=: read -r -a listed <<<"${LD_LIBRARY_PATH:-}"
  for folder in ${ROCM_PATH:+"$ROCM_PATH/lib" "$ROCM_PATH/lib64"} ${HIP_PATH:+"$HIP_PATH/lib" "$HIP_PATH/lib64"} ${listed[@]+"${listed[@]}"} \
                /opt/rocm*/lib /opt/rocm*/lib64 /opt/rocm/core*/lib "/usr/lib/$(uname -m)-linux-gnu" /usr/lib64; do
    for library in "$folder/$1".so.[0-9]*; do
      [ -e "$library" ] && { echo "$library"; return 0; }
    done
  done
  return 1
}

tj_hiprtc() { # early releases have it in the runtime
  tj_rocm_library libhiprtc >/dev/null || case "$(tj_rocm_library libamdhip64)" in *.so.5*) ;; *) false ;; esac
}

tj_setup_hip() {
  local package wanted="" missing
  missing="$(tj_missing_hip_packages | tr '\n' ' ')"
  [ -n "${missing// /}" ] || return 0
  # shellcheck disable=SC2086 -- a list of words
  tj_have_packages $missing || $(tj_as_root) apt-get update -qq 2>/dev/null || true  # fresh containers have no lists
  for package in $missing; do
    if tj_have_packages "$package"; then
      wanted="$wanted $package"
    else
      tj_say "not installed, and no package here: $package; tests that compile for AMD GPUs skip what needs it"
    fi
  done
  # shellcheck disable=SC2086 -- a list of words
  [ -z "$wanted" ] || tj_install_packages $wanted
}

tj_pip() { # prints a python3 that has pip
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -m pip --version >/dev/null 2>&1 && { echo "$python"; return 0; }
  done
  return 1
}

tj_numpy() { # prints a python3 that has numpy
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -c "import numpy" 2>/dev/null && { echo "$python"; return 0; }
  done
  tj_fail "no python3 here has numpy: install python3-numpy"
}

tj_find_cuda() { # sets tj_nvrtc_dir; true when cuda.h, nvrtc.h and libnvrtc are all there
  local root library
  for root in ${CUDA_HOME:+"$CUDA_HOME"} ${CUDA_PATH:+"$CUDA_PATH"} /usr/local/cuda /opt/cuda "$tj_root/.deps/nvidia/cu13"; do
    [ -e "$root/include/cuda.h" ] && [ -e "$root/include/nvrtc.h" ] || continue
    for library in "$root"/lib64/libnvrtc.so.1[23] "$root"/lib/libnvrtc.so.1[23]; do
      [ -e "$library" ] && { tj_nvrtc_dir="$(dirname "$library")"; return 0; }
    done
  done
  return 1
}

tj_have_packages() { tj_command apt-cache && apt-cache show "$@" >/dev/null 2>&1; } # package...: does apt know them all?

tj_as_root() { # prints what a command has to begin with; nothing where it helps or is not needed
  if [ "$(id -u)" != 0 ] && tj_command sudo && sudo -n true 2>/dev/null; then echo "sudo -n"; fi
}

tj_install_packages() { # package...
  local as_root; as_root="$(tj_as_root)"
  if ! tj_command apt-get || { [ "$(id -u)" != 0 ] && [ -z "$as_root" ]; }; then
    tj_fail "missing, by their Debian names: $*. Install them (as root: apt-get install $*) and run this again"
  fi
  tj_say "installing $*"
  $as_root apt-get update -qq || tj_say "apt-get update failed; trying with the lists that are there"
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
    tj_fail "apt-get could not install: $*"
}

tj_install_wheels() { # list of wheels below .cmake/, the folder that they bring, what else would do, what it is called below .deps/ (else as it is)
  local python staging="$tj_root/.deps/staging.$$"
  python="$(tj_pip)" || tj_fail "python3 -m pip is missing: install python3-pip, or $3"
  mkdir -p "$tj_root/.deps"
  "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --require-hashes \
    --only-binary :all: --target "$staging" -r "$tj_root/.cmake/$1" ||
    { rm -rf "$staging"; tj_fail "the wheels of .cmake/$1 could not be installed; or $3"; }
  rm -rf "$tj_root/.deps/${4:-$2}"
  mv "$staging/$2" "$tj_root/.deps/${4:-$2}"
  rm -rf "$staging"
}

tj_install_cuda_wheels() {
  tj_say "no CUDA toolkit here: fetching nvrtc and cuda.h from NVIDIA's wheels into .deps/"
  tj_install_wheels cuda-wheels.txt nvidia "install a CUDA toolkit and set CUDA_HOME"
}

# The layout of the text is one version's of clang-format. It is no condition: its test skips itself without it.
tj_setup_formatter() {
  [ -x "$tj_root/.deps/clang-format/data/bin/clang-format" ] && return 0
  tj_pip >/dev/null || { tj_say "no pip to fetch clang-format with: the test of the text's layout is skipped"; return 0; }
  tj_say "fetching clang-format's wheel into .deps/"
  (tj_install_wheels clang-format-wheel.txt clang_format "do without" clang-format) ||
    tj_say "clang-format was not fetched: the test of the text's layout is skipped"
}

# Packages that tests skip themselves without: builders and checkers of the Python wheel, numpy's bf16, JAX with its own numpy, tvm-ffi. Headers of
# the last two are compiled in, too.
tj_setup_python() {
  local python
  for python in /usr/bin/python3 python3; do "$python" -m pip --version >/dev/null 2>&1 && break; done
  tj_setup_wheels "$python" python wheel-wheels.txt ml-dtypes-wheel.txt
  tj_setup_wheels "$python" jax jax-wheels.txt
  tj_setup_wheels "$python" tvm_ffi tvm-ffi-wheels.txt
}

tj_setup_wheels() { # python, folder below .deps/, lists: once, also where some cannot be fetched
  local python="$1" folder="$tj_root/.deps/$2" list; shift 2
  [ -d "$folder" ] && return 0
  rm -rf "$folder.part"; mkdir -p "$folder.part"
  for list in "$@"; do
    "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --require-hashes --only-binary :all: \
      --target "$folder.part" -r "$tj_root/.cmake/$list" || tj_say "the wheels of .cmake/$list were not fetched: tests that need them are skipped"
  done
  mv "$folder.part" "$folder"
}

# torch for tests alone: 3.9 GB, so not where the disk is short, and not for longer than five minutes. Without it they skip themselves and say why.
tj_setup_torch() {
  local python folder="$tj_root/.deps/torch" free why=""
  for python in /usr/bin/python3 python3; do
    "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null && return 0
  done
  [ -d "$folder" ] && return 0  # fetched, or tried
  for python in /usr/bin/python3 python3; do "$python" -m pip --version >/dev/null 2>&1 && break; done
  mkdir -p "$tj_root/.deps"
  free="$(df -Pk "$tj_root/.deps" | awk 'NR == 2 { print int($4 / 1024 / 1024) }')"
  if [ "$free" -lt 12 ]; then
    why="the disk has $free GB free, and fetching PyTorch wants 12"
  else
    tj_say "fetching PyTorch's wheels into .deps/"
    why="$(tj_fetch_torch "$python" "$folder.part")"
    rm -rf "$folder.part/tmp"; mkdir -p "$folder.part"; mv "$folder.part" "$folder"
  fi
  printf '%s\n' "$why" >"$folder.why"
  [ -z "$why" ] || { tj_say "no PyTorch: $why; tests that need it are skipped"; rm -rf "${folder:?}"/*; }
}

tj_fetch_torch() { # python, folder: prints why it could not. The import shows that the wheels suffice, and leaves compiled modules to the tests
  local log="$2/tmp/log" status
  rm -rf "$2"; mkdir -p "$2/tmp"
  TMPDIR="$2/tmp" timeout 300 "$1" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-cache-dir --no-compile --no-deps \
    --require-hashes --only-binary :all: --target "$2" -r "$tj_root/.cmake/torch-wheels.txt" >"$log" 2>&1
  status=$?
  if [ $status = 124 ]; then
    echo "its wheels did not arrive within 300 s"
  elif [ $status != 0 ]; then
    echo "the wheels of .cmake/torch-wheels.txt were not fetched: $({ grep -m 1 '^ERROR' "$log" || tail -n 1 "$log"; } | cut -c -200)"
  else
    PYTHONDONTWRITEBYTECODE="" PYTHONPATH="$2" timeout 100 "$1" -c "import torch, torch._dynamo, torch._inductor.compile_fx, torch.export" >"$log" 2>&1 ||
      echo "its wheels were fetched, and it cannot be imported: $(tail -n 1 "$log" | cut -c -200)"
  fi
}

tj_find_disassembler() { # in a toolkit, or below .deps/ of an earlier call
  [ -x "$tj_root/.deps/nvdisasm/bin/nvdisasm" ] && export PATH="$PATH:$tj_root/.deps/nvdisasm/bin"
  tj_command nvdisasm || [ -x /usr/local/cuda/bin/nvdisasm ] || [ -x /opt/cuda/bin/nvdisasm ]
}

# Reads what was compiled for NVIDIA GPUs. The test that wants it skips itself, so where it cannot be fetched is no failure.
tj_setup_disassembler() {
  tj_find_disassembler && return 0
  tj_pip >/dev/null || { tj_say "no nvdisasm here, and no pip to fetch it with: the test that reads machine code is skipped"; return 0; }
  tj_say "no nvdisasm here: fetching NVIDIA's wheel into .deps/"
  (tj_install_wheels nvdisasm-wheel.txt nvidia/cu13 "put nvdisasm on the PATH" nvdisasm) && tj_find_disassembler ||
    tj_say "nvdisasm was not fetched: the test that reads machine code is skipped"
}

tj_lld_flags() { # prints what compilers want to hear to link by lld, which takes a third of the time; false without one
  local folder
  tj_command ld.lld && { echo "-fuse-ld=lld"; return 0; }
  for folder in /usr/lib/llvm-{22,21,20,19}/bin; do
    [ -x "$folder/ld.lld" ] && { echo "-fuse-ld=lld -B$folder"; return 0; }
  done
  return 1
}

# Tests of the CPU model write and remove some 25 files for each kernel that they compile. With a disk's ext4 that took a
# quarter of their time: it looks at every file that was removed in the last minutes before it makes one.
tj_memory_folder() { # prints a new folder below /dev/shm; false where that has no room, or runs no programs
  local folder room
  room="$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')"
  [ "${room:-0}" -ge $((4 << 20)) ] || return 1
  room="$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null)"
  [ "${room:-0}" -ge $((8 << 20)) ] || return 1
  folder="$(mktemp -d /dev/shm/tilejit-XXXXXX 2>/dev/null)" || return 1
  chmod 1777 "$folder"  # as /tmp: tests have programs of other users
  if printf '#!/bin/sh\n' >"$folder/run" && chmod +x "$folder/run" && "$folder/run" 2>/dev/null && rm "$folder/run"; then
    echo "$folder"
    return 0
  fi
  rm -rf "$folder"
  return 1
}

tj_find_cmake() { # a newer one than the distribution's, of an earlier call
  [ -x "$tj_root/.deps/cmake/data/bin/cmake" ] && export PATH="$tj_root/.deps/cmake/data/bin:$PATH"
  tj_cmake_is_new
}

tj_setup() {
  local missing
  missing="$(tj_missing_packages | sort -u | tr '\n' ' ')"
  # shellcheck disable=SC2086 -- a list of words
  [ -z "${missing// /}" ] || tj_install_packages $missing
  if ! tj_cmake_is_new && ! tj_find_cmake; then
    tj_say "CMake 3.25 or newer is needed, and here is $(cmake --version 2>/dev/null | head -n 1): fetching one into .deps/"
    tj_install_wheels cmake-wheel.txt cmake "install CMake 3.25 or newer"
    tj_find_cmake || tj_fail "the CMake of .cmake/cmake-wheel.txt does not run here; install CMake 3.25 or newer"
  fi
  tj_find_cuda || tj_install_cuda_wheels
  tj_find_cuda || tj_fail "cuda.h, nvrtc.h and libnvrtc were not found, not even below .deps/ after installing the wheels"
  # A toolkit's NVRTC is found by the library itself; one that lies only below .deps/ is not.
  case "$tj_nvrtc_dir" in
    "$tj_root/.deps/"*) export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$tj_nvrtc_dir" ;;
  esac
}

tj_nvidia_gpu() { # prints the first one's name; false without one
  local node
  for node in /dev/nvidia[0-9]* /dev/dxg; do
    [ -e "$node" ] || continue
    if tj_command nvidia-smi; then
      nvidia-smi -L 2>/dev/null | sed -n '1s/ (UUID.*//p' | grep . && return 0
      return 1
    fi
    echo "GPU at $node"; return 0
  done
  return 1
}

tj_amd_gpu() { # [root of the file system]: prints the first one that kernels are for; false without one, or, with a word, where HIP could not use it
  local node version name=""
  for node in "${1:-}"/sys/class/kfd/kfd/topology/nodes/*/properties; do
    version="$(sed -n 's/^gfx_target_version //p' "$node" 2>/dev/null)"
    version="${version:-0}"  # 0: the CPU
    name="$(printf 'gfx%d%d%x' $((version / 10000)) $((version / 100 % 100)) $((version % 100)))"
    case "$name" in gfx110[0-3]|gfx115[01]|gfx120[01]|gfx90a|gfx942|gfx950) break ;; *) name="" ;; esac  # not a processor's own, of before
  done
  [ -n "$name" ] || return 1
  if ! tj_rocm_library libamdhip64 >/dev/null; then
    tj_say "the AMD GPU $name is not used: there is no HIP runtime here (libamdhip64); install ROCm 6 or newer, or set ROCM_PATH" >&2
  elif ! [ -r "${1:-}/dev/kfd" ] || ! [ -w "${1:-}/dev/kfd" ]; then
    tj_say "the AMD GPU $name is not used: $(id -un) may not open /dev/kfd; be a member of the groups render and video" >&2
  else
    echo "AMD GPU, $name"; return 0
  fi
  return 1
}

tj_gpu() { # prints the first GPU; false without one
  tj_nvidia_gpu || tj_amd_gpu
}
