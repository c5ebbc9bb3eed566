#!/usr/bin/env bash
# Installs, builds and runs every test that this machine can run; says what it skipped and why, and where the time went.
#
#   bash tests/run.sh           everything: g++ release, clang's warnings, address and thread sanitizers, fuzz targets, known mutants
#   bash tests/run.sh --quick   the release build and its tests only
#   bash tests/run.sh --full    everything, with the sets that are too long for each change
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
  --full) export TJ_TEST_FULL=1 ;;  # tests/support/full.hpp says what it means
  --setup) tj_setup; tj_setup_hip; tj_setup_disassembler; tj_setup_formatter; tj_setup_python; tj_setup_torch; tj_say "everything is installed; NVRTC: $tj_nvrtc_dir"; exit 0 ;;
  *) tj_fail "unknown argument \"$1\"; allowed: --quick, --full, --setup" ;;
esac

passed=0 failed=0 skipped=0
skips="" failures="" spent="" results=()

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

fail_stage() { # stage, what failed, log
  failed=$((failed + 1)); failures="$failures  $1: $2 (see $3)"$'\n'
}

cpu_ms() { # of all commands that this script has waited for; sets cpu
  times >build/times.txt
  cpu="$(awk 'NR == 2 { for (i = 1; i <= 2; ++i) { split($i, part, /[ms]/); sum += part[1] * 60000 + part[2] * 1000 } printf "%d", sum }' build/times.txt)"
}

timed() { # stage, kind, command...: runs it, and notes what it took
  local stage="$1" kind="$2" start status before; shift 2
  start="$(date +%s%N)"; cpu_ms; before="$cpu"
  "$@"; status=$?
  cpu_ms
  spent="$spent$stage $kind $((($(date +%s%N) - start) / 1000000)) $((cpu - before))"$'\n'
  return $status
}

build() { # stage, compiler, target, cmake arguments...
  local stage="$1" compiler="$2" target="$3" log="build/$1.log" objects; shift 3
  tj_say "$stage: building with $compiler"
  if timed "$stage" configure cmake -S . -B "build/$stage" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DTJ_WERROR=ON \
       -DTJ_TEST_CACHE="$tj_root/build/test_cache" "$@" >"$log" 2>&1; then
    # Objects first, so that the table tells compiling from linking; a ninja that cannot list them does both at once.
    objects="$(ninja -C "build/$stage" -t inputs "$target" 2>/dev/null | grep -E '\.o$')"
    # shellcheck disable=SC2086 -- a list of files
    if { [ -z "$objects" ] || timed "$stage" compile ninja -C "build/$stage" -j "$(nproc)" $objects >>"$log" 2>&1; } &&
       timed "$stage" link ninja -C "build/$stage" -j "$(nproc)" "$target" >>"$log" 2>&1; then
      passed=$((passed + 1))
      return 0
    fi
  fi
  grep -E -A 5 'error|Error|FAILED|warning' "$log" | head -n 60
  fail_stage "$stage" build "$log"
  return 1
}

run_tests() { # stage, ctest arguments...
  local stage="$1" file="build/$1/results.xml"; shift
  tj_say "$stage: running tests"
  rm -f "$file"
  timed "$stage" run ctest --test-dir "build/$stage" -j "$(nproc)" --output-on-failure --no-tests=error --output-junit results.xml "$@" >"build/$stage/ctest.log" 2>&1
  if [ ! -s "$file" ]; then
    tail -n 20 "build/$stage/ctest.log"
    fail_stage "$stage" "ctest did not run" "build/$stage/ctest.log"
    return
  fi
  results+=("$stage=$file")
  count "$stage" "$file"
}

check_fuzz() { # readers of what lies in a cache, over their corpora and over drawn bytes: a number of runs, whatever they take
  local log=build/fuzz.log reader runs=20000 readers=(entry alias pack remote manifest tuning) wrong=0
  [ -z "${TJ_TEST_FULL:-}" ] || runs=2000000
  tj_say "fuzz: $runs runs of each reader"
  if ! timed fuzz compile ninja -C build/asan -j "$(nproc)" "${readers[@]/%/_fuzz}" >"$log" 2>&1; then wrong=1; fi
  for reader in "${readers[@]}"; do
    [ $wrong = 0 ] || break
    mkdir -p "build/corpus/$reader"  # what is new goes there, and what breaks a promise
    timed fuzz run "build/asan/tests/${reader}_fuzz" -runs=$runs -artifact_prefix="build/corpus/" "build/corpus/$reader" "tests/cache/corpus/$reader" >>"$log" 2>&1 || wrong=1
  done
  if [ $wrong = 0 ]; then passed=$((passed + 1)); return; fi
  tail -n 40 "$log"
  fail_stage fuzz "a reader breaks a promise" "$log"
}

check_syntax() { # what clang++ says of everything that the sanitizers' builds leave out
  local log=build/clang.log
  tj_say "clang: warnings of what the sanitizers' builds leave out"
  if timed clang configure cmake -S . -B build/clang -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DTJ_WERROR=ON -DTJ_PCH=ON -DTJ_UNITY=all -DCMAKE_BUILD_TYPE=Debug >"$log" 2>&1 &&
     timed clang compile python3 tests/syntax.py build/clang build/asan build/tsan >>"$log" 2>&1; then
    passed=$((passed + 1))
    return
  fi
  grep -E -A 5 'error|Error|warning' "$log" | head -n 60
  fail_stage clang "clang++ refuses something" "$log"
}

check_mutants() { # mutants of host code that a test is known to find
  local log=build/mutants.log
  tj_say "mutants: are known ones still found?"
  if timed mutants run python3 tests/mutate.py --check >"$log" 2>&1; then
    passed=$((passed + 1))
    return
  fi
  tail -n 40 "$log"
  fail_stage mutants "a mutant that was found is no more" "$log"
}

check_full() { # what takes hours: every mutant of every kernel's synchronisation, 200 orders of events, random mutants of host code
  local check=build/release/bin/tj-check what
  for what in "--all --mutate" "--all --seeds 200"; do
    tj_say "full: tj-check $what"
    # shellcheck disable=SC2086 -- words
    if timed full run "$check" $what --cache-dir build/test_cache >>build/full.log 2>&1; then passed=$((passed + 1)); else fail_stage full "tj-check $what" build/full.log; fi
  done
  tj_say "full: 10,000 rounds of eight processes that are killed at any moment"
  if TJ_TEST_ROUNDS=10000 timed full run build/release/tests/tests.cache --source-file='*killed_test.cpp' >>build/full.log 2>&1; then passed=$((passed + 1)); else fail_stage full "killed processes" build/full.log; fi
  tj_say "full: random mutants of host code"
  if timed full run python3 tests/mutate.py --count 200 --jobs "$(nproc)" >>build/full.log 2>&1; then passed=$((passed + 1)); else fail_stage full mutate.py build/full.log; fi
  tail -n 12 build/full.log
}

mkdir -p build
tj_setup
tj_setup_hip
tj_setup_disassembler
tj_setup_formatter
tj_setup_python
tj_setup_torch & torch=$!  # some 4 GB, while the library is compiled
if gpu="$(tj_gpu)"; then tj_say "GPU: $gpu"; else tj_say "no GPU: tests labelled gpu are skipped"; fi

# What was installed above lies on the disk; compilers and tests have their temporary files in memory where there is enough.
if memory="$(tj_memory_folder)"; then
  trap 'rm -rf "$memory"' EXIT
  export TMPDIR="$memory"
fi

# Each run makes its kernels anew, but once: the sanitizers' builds are of the same sources, and find there what release has made.
rm -rf build/test_cache
if build release g++ all --preset release -DTJ_UNITY=all; then wait "$torch"; run_tests release; fi

if [ $quick = 0 ]; then
  # The sanitizers' builds are linked for a test's sake; the release build above has the system's own linker.
  linker=()
  if flags="$(tj_lld_flags)"; then linker=(-DCMAKE_{EXE,SHARED,MODULE}_LINKER_FLAGS="$flags"); fi
  for sanitizer in asan tsan; do
    if build $sanitizer clang++ tj_tests --preset $sanitizer -DTJ_PCH=ON -DTJ_UNITY=all -DTJ_FUZZ=ON ${linker[@]+"${linker[@]}"}; then
      run_tests $sanitizer
      [ $sanitizer != asan ] || check_fuzz
    fi
  done
  check_syntax
  check_mutants
  if [ -n "${TJ_TEST_FULL:-}" ]; then rm -f build/full.log; check_full; fi
fi

python3 tests/summary.py --times "$spent" ${results[@]+"${results[@]}"}
[ -z "$skips" ] || printf '\nSkipped:\n%s' "$skips"
[ -z "$failures" ] || printf '\nFailed:\n%s' "$failures"
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
