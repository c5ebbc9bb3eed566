#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: attention on the GPU, or on the CPU model where there is none.
#
#   bash samples/run.sh [arguments of the sample]
#   SAMPLE=00_hello bash samples/run.sh
#   SAMPLE=02_gemm_ladder bash samples/run.sh --markdown ladder.md
#   SAMPLE=03_chunk_o bash samples/run.sh --lengths 4096,0,65
#   SAMPLE=04_fmha_ladder bash samples/run.sh --seq-len 1024,4096 --output-dir steps
#   SAMPLE=05_custom_gemm bash samples/run.sh --m 1000 --n 500 --k 800
#   SAMPLE=06_graphs bash samples/run.sh --output-dir schedules
#   SAMPLE=07_python bash samples/run.sh --output-dir schedules
#   SAMPLE=09_rmsnorm_gemm bash samples/run.sh --m 1000 --n 512 --k 800
#   SAMPLE=10_context_parallel bash samples/run.sh --split striped
set -eu -o pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../tests/setup.sh"
sample="${SAMPLE:-01_fmha}"

tj_setup
target="$sample"
[ ! -e "$tj_root/samples/$sample/main.py" ] || target=tilejit  # which Python opens
tj_say "building $target (release)"
mkdir -p "$tj_root/build"
log="$tj_root/build/samples.log"
if ! { (cd "$tj_root" && cmake --preset release) && cmake --build "$tj_root/build/release" --target "$target"; } >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  tj_fail "the build failed; the whole log is $log"
fi

if [ "$target" = tilejit ]; then
  export PYTHONPATH="$tj_root/src/python${PYTHONPATH:+:$PYTHONPATH}" LD_LIBRARY_PATH="$tj_root/build/release/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  exec "$(tj_numpy)" "$tj_root/samples/$sample/main.py" "$@"
fi
if [ -n "${TJ_TARGET:-}" ]; then
  tj_say "target from TJ_TARGET: $TJ_TARGET"
elif gpu="$(tj_gpu)"; then
  case "$gpu" in
    "AMD GPU"*)
      tj_hiprtc || tj_setup_hip
      export TJ_TARGET="${gpu##* }" ;;  # where HIP cannot use it, the sample says why, and does not run on the CPU's model instead
  esac
  tj_say "running on $gpu"
else
  export TJ_TARGET=model:sm_90a
  [ "$sample" != 04_fmha_ladder ] || export TJ_TARGET=model:sm_120a  # its steps are for archs whose products are a warp's
  tj_say "no GPU here: running on the CPU model ($TJ_TARGET), which is exact and slow, with a small size"
fi
exec "$tj_root/build/release/samples/$sample" "$@"
