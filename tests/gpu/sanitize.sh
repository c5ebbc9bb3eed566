#!/usr/bin/env bash
# Runs attention, matrix products and chunk output on small shapes under compute-sanitizer: memcheck, racecheck, synccheck, and initcheck
# for products and lists of chunks, whose tests fill every byte that a kernel may read.
#
#   bash tests/gpu/sanitize.sh [build folder with samples/ and tests/, default build/release] [fmha|gemm|chunk]
#
# Exit status: 0 clean, 1 findings or a wrong result, 77 when there is no GPU or no compute-sanitizer.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
folder="${1:-build/release}"
what="${2:-fmha gemm chunk}"
fmha="$folder/samples/01_fmha"
tests="$folder/tests/tests.gpu"
chunk="$folder/samples/03_chunk_o"
sanitizer="$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)" || sanitizer=""
if [ -z "$sanitizer" ]; then echo "skipped: compute-sanitizer was not found on PATH or in /usr/local/cuda/bin"; exit 77; fi
if ! nvidia-smi -L >/dev/null 2>&1; then echo "skipped: no NVIDIA GPU"; exit 77; fi

status=0
needs() {
  [ -x "$1" ] && return 0
  echo "$1 does not exist; build it: cmake --preset release && cmake --build build/release"
  exit 1
}
# sanitize <name> <tools> <program> <argument>...: runs it once by itself, which also fills the cache, then under each tool.
sanitize() {
  local name="$1" tools="$2" tool out
  shift 2
  "$@" >/dev/null || { echo "wrong result: $name"; status=1; }
  for tool in $tools; do
    if out="$("$sanitizer" --tool "$tool" --error-exitcode 9 "$@" 2>&1)"; then
      echo "clean: $tool, $name"
    else
      status=1
      echo "findings: $tool, $name"
      echo "$out" | tail -n 30
    fi
  done
}

case " $what " in *" fmha "*)
  needs "$fmha"
  for shape in "--seq-q 300 --seq-k 333 --causal" "--seq-q 300 --seq-k 333" "--seq-q 200 --seq-k 417 --head-dim 64 --dtype bf16"; do
    # shellcheck disable=SC2086
    sanitize "attention $shape" "memcheck racecheck synccheck" "$fmha" --heads 2 $shape --iterations 1
  done ;;
esac
case " $what " in *" gemm "*)
  needs "$tests"
  for cases in "shapes at the edges*" "epilogues*" "e4m3*" "rows off their lines*" "in parts of K*"; do
    sanitize "products, $cases" "memcheck racecheck synccheck initcheck" \
      "$tests" "--source-file=*/gemm_gpu_test.cpp" "--test-case=$cases"
  done
  # Tuning measures on memory that it fills itself: initcheck has nothing to say there. racecheck has some gigabytes for each launch of
  # shared tiles, and was killed at 96 GB.
  sanitize "products, shared and swapped tiles" "memcheck synccheck" \
    "$tests" "--source-file=*/tune_gpu_test.cpp" "--test-case=tiles that blocks share*" ;;
esac
case " $what " in *" chunk "*)
  needs "$tests"
  needs "$chunk"
  sanitize "lists of chunks" "memcheck racecheck synccheck initcheck" \
    "$tests" "--source-file=*/chunk_indices_gpu_test.cpp" "--test-case=too little room*"
  for problem in "--lengths 64,1,0,65,130 --heads 2" "--lengths 63,200,2 --heads 1 --v-heads 3" "--lengths 300 --heads 2 --v-heads 2"; do
    # shellcheck disable=SC2086
    sanitize "chunk output $problem" "memcheck racecheck synccheck" "$chunk" $problem --iterations 1
  done ;;
esac
exit $status
