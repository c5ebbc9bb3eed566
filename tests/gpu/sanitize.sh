#!/usr/bin/env bash
# Runs attention on small shapes under compute-sanitizer: memcheck, racecheck, synccheck.
#
#   bash tests/gpu/sanitize.sh [folder with 01_fmha, default build/release/samples]
#
# Exit status: 0 clean, 1 findings or a wrong result, 77 when there is no GPU or no compute-sanitizer.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
program="${1:-build/release/samples}/01_fmha"
sanitizer="$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)" || sanitizer=""
if [ -z "$sanitizer" ]; then echo "skipped: compute-sanitizer was not found on PATH or in /usr/local/cuda/bin"; exit 77; fi
if ! nvidia-smi -L >/dev/null 2>&1; then echo "skipped: no NVIDIA GPU"; exit 77; fi
if [ ! -x "$program" ]; then echo "$program does not exist; build it: cmake --preset release && cmake --build build/release"; exit 1; fi

status=0
for shape in "--seq-q 300 --seq-k 333 --causal" "--seq-q 300 --seq-k 333" "--seq-q 200 --seq-k 417 --head-dim 64 --dtype bf16"; do
  "$program" --heads 2 $shape --iterations 1 >/dev/null || { echo "wrong result: $shape"; status=1; }  # also fills the cache
  for tool in memcheck racecheck synccheck; do
    if out="$("$sanitizer" --tool "$tool" --error-exitcode 9 "$program" --heads 2 $shape --iterations 1 2>&1)"; then
      echo "clean: $tool, $shape"
    else
      status=1
      echo "findings: $tool, $shape"
      echo "$out" | tail -n 30
    fi
  done
done
exit $status
