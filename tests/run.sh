#!/usr/bin/env bash
# Installs, builds and runs every test that this machine can run; says what it skipped and why.
#
#   bash tests/run.sh           everything: g++ release, clang, address and thread sanitizers
#   bash tests/run.sh --quick   the release build and its tests only
#   bash tests/run.sh --setup   only installs
#
# Warnings are errors throughout. The last line is "N passed, N failed, N skipped"; the exit status is 0 only without a
# failure. Build folders are kept below build/, so that a second run is short.
set -u -o pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$tj_root" || exit 1

quick=0
case "${1:-}" in
  "") ;;
  --quick) quick=1 ;;
  --setup) tj_setup; tj_setup_hip; tj_setup_disassembler; tj_say "everything is installed; NVRTC: $tj_nvrtc_dir"; exit 0 ;;
  *) tj_fail "unknown argument \"$1\"; allowed: --quick, --setup" ;;
esac

passed=0 failed=0 skipped=0
skips="" failures=""

count() { # stage, result file of ctest: adds up, and keeps names and reasons
  local line kind rest
  while IFS= read -r line; do
    kind="${line%% *}" rest="${line#* }"
    case "$kind" in
      passed) passed=$((passed + 1)) ;;
      failed) failed=$((failed + 1)); failures="$failures  $1: $rest"$'\n' ;;
      skipped) skipped=$((skipped + 1)); skips="$skips  $1: $rest"$'\n' ;;
    esac
  done < <(python3 tests/summary.py "$2")
}

build() { # stage, compiler, targets or "all", cmake arguments...
  local stage="$1" compiler="$2" targets="$3" log="build/$1.log"; shift 3
  tj_say "$stage: building with $compiler"
  mkdir -p build
  # shellcheck disable=SC2086 -- a list of targets
  if cmake -S . -B "build/$stage" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DTJ_WERROR=ON "$@" >"$log" 2>&1 &&
     cmake --build "build/$stage" --target $targets -j "$(nproc)" >>"$log" 2>&1; then
    passed=$((passed + 1))
    return 0
  fi
  grep -E -A 5 'error|Error|FAILED|warning' "$log" | head -n 60
  failed=$((failed + 1)); failures="$failures  $stage: build (see $log)"$'\n'
  return 1
}

run_tests() { # stage, ctest arguments...
  local stage="$1" results="build/$1/results.xml"; shift
  tj_say "$stage: running tests"
  rm -rf "build/$stage/tests/cache" "$results"
  ctest --test-dir "build/$stage" -j 2 --output-on-failure --no-tests=error --output-junit results.xml "$@" >"build/$stage/ctest.log" 2>&1
  if [ ! -s "$results" ]; then
    tail -n 20 "build/$stage/ctest.log"
    failed=$((failed + 1)); failures="$failures  $stage: ctest did not run"$'\n'
    return
  fi
  count "$stage" "$results"
}

tj_setup
tj_setup_hip
tj_setup_disassembler
if gpu="$(tj_gpu)"; then tj_say "GPU: $gpu"; else tj_say "no GPU: tests labelled gpu are skipped"; fi

if build release g++ all --preset release; then run_tests release; fi

if [ $quick = 0 ]; then
  # What is linked here is linked for a test's sake; the release build above has the system's own linker.
  linker=()
  if flags="$(tj_lld_flags)"; then linker=(-DCMAKE_{EXE,SHARED,MODULE}_LINKER_FLAGS="$flags"); fi
  # Nothing of it is run: without debug information it takes a third less to link.
  build clang clang++ all -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG= -DTJ_PCH=ON ${linker[@]+"${linker[@]}"}
  # What runs under the sanitizers is bounded, so that the whole stays short: no GPU, no NVRTC, a part of the model.
  if build asan g++ tj_asan_tests --preset asan ${linker[@]+"${linker[@]}"}; then run_tests asan -L asan --timeout 240; fi
  if build tsan g++ tj_tsan_tests --preset tsan ${linker[@]+"${linker[@]}"}; then run_tests tsan -L tsan --timeout 240; fi
fi

[ -z "$skips" ] || printf '\nSkipped:\n%s' "$skips"
[ -z "$failures" ] || printf '\nFailed:\n%s' "$failures"
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
