#!/usr/bin/env python3
"""tilejit beside its peers on one GPU: correctness, speed in one interleaved run, cold starts. Attention beside cuDNN and
FlashAttention-2, matrix products beside cuBLAS (of e4m3: torch._scaled_mm), chunk output of the gated delta rule beside a copy, Triton and PyTorch.

    python3 tests/gpu/compare.py --op fmha --json out.json --markdown out.md
    python3 tests/gpu/compare.py --op gemm --json out.json --markdown out.md
    python3 tests/gpu/compare.py --op gemm --dtype e4m3 --json out.json --markdown out.md
    python3 tests/gpu/compare.py --op gemm --tile 128x256x64 --sizes 4096,64x7168x2048       (only that tile)
    python3 tests/gpu/compare.py --op chunk_o --json out.json --markdown out.md
    python3 tests/gpu/compare.py --self-test        (no GPU: the metric and the tables, with NumPy)

Needs libtilejit.so (--library, else the newest one below build/), PyTorch with CUDA, and a GPU. Exit codes: 0 done and
correct, 1 a result was wrong, 2 bad use, 77 something that is needed is missing. Times never decide the exit code.
"""
import argparse
import datetime
import glob
import json
import os
import platform
import secrets
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "c_api")]
import binding  # noqa: E402
import chunk_check  # noqa: E402
import chunk_speed  # noqa: E402
import fmha_check  # noqa: E402
import gemm_check  # noqa: E402
import gemm_speed  # noqa: E402
import timing  # noqa: E402

SKIPPED = 77
CHECKS, SPEEDS = {"fmha": fmha_check, "gemm": gemm_check, "chunk_o": chunk_check}, {"gemm": gemm_speed, "chunk_o": chunk_speed}
WANTED_RATIO = {"causal": 1.0, "full": 1.03}  # over cuDNN, geometric mean


def missing(text):
    print(f"compare.py: {text}", file=sys.stderr)
    sys.exit(SKIPPED)


def find_library(given):
    if given:
        return given
    built = sorted(glob.glob(os.path.join(ROOT, "build", "*", "lib", "libtilejit.so")), key=os.path.getmtime)
    if not built:
        missing("no libtilejit.so below build/; build the library (cmake --preset release && cmake --build --preset release) or name one with --library")
    return built[-1]


def find_torch():
    try:
        import torch
    except ImportError:
        missing("PyTorch is not installed; correctness and speed need it (pip install torch). --self-test runs without")
    if not torch.cuda.is_available():
        missing("PyTorch sees no CUDA device; correctness and speed need a GPU. --self-test runs without")
    return torch


def machine(torch, library):
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        driver = "unknown"
    return {"gpu": torch.cuda.get_device_name(0), "driver": driver, "cuda": torch.version.cuda, "pytorch": torch.__version__,
            "cudnn": str(torch.backends.cudnn.version()), "python": platform.python_version(),
            "tilejit": library.c.tj_version().decode(), "build_id": library.c.tj_build_id().decode()}


# ---- speed -------------------------------------------------------------------------------------------------------------
def peers(torch, q, k, v, causal):
    """name -> function; a backend that refuses the problem is left out, with the reason."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
    grouped = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    found, refused = {}, {}
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("fa2", SDPBackend.FLASH_ATTENTION)):
        def run(backend=backend):
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, is_causal=causal, **grouped)
        try:
            run()
            found[name] = run
        except RuntimeError as error:
            refused[name] = str(error).splitlines()[0]
    return found, refused


def time_problem(torch, runtime, device, options, seq, causal, generator):
    dtype, code = (torch.float16, binding.F16) if options.dtype == "f16" else (torch.bfloat16, binding.BF16)
    shape = [options.batch, options.heads, seq, options.head_dim]
    kv_shape = [options.batch, options.kv_heads or options.heads, seq, options.head_dim]
    q, k, v = (torch.randn(s, generator=generator, device="cuda").to(dtype) for s in (shape, kv_shape, kv_shape))
    o = torch.full_like(q, float("nan"))
    bound = [binding.tensor(t.data_ptr(), device, code, list(t.shape)) for t in (q, k, v, o)]
    runtime.prepare(device, dtype=code, head_dim=options.head_dim, causal=causal)
    stream = torch.cuda.current_stream().cuda_stream
    candidates = {"tilejit": lambda: runtime.fmha(*bound, causal=causal, stream=stream)}
    others, refused = peers(torch, q, k, v, causal)
    candidates.update(others)
    times = timing.time_side_by_side(torch, candidates, options.rounds, options.runs)
    operations = fmha_check.flops(options.batch, options.heads, seq, seq, options.head_dim, causal)
    row = {"mask": "causal" if causal else "full", "seq": seq, "refused": refused,
           **{name: timing.summary(values, operations) for name, values in times.items()}}
    for name in others:
        row[f"over_{name}"] = row[name]["median_ms"] / row["tilejit"]["median_ms"]
        peer = others[name]()
        row[f"difference_{name}"] = float((o.float() - peer.float()).norm() / peer.float().norm())
    return row


def run_speed(torch, runtime, _, device, options):
    seed = options.seed
    generator = torch.Generator(device="cuda").manual_seed(seed)
    rows = []
    for causal in options.masks:
        for seq in options.seq:
            rows.append(time_problem(torch, runtime, device, options, seq, causal, generator))
            print(speed_line(rows[-1]), flush=True)
    means = {mask: {name: timing.geometric_mean(r[f"over_{name}"] for r in rows if r["mask"] == mask and f"over_{name}" in r)
                    for name in ("cudnn", "fa2")} for mask in sorted({r["mask"] for r in rows})}
    return {"seed": seed, "problem": {"batch": options.batch, "heads": options.heads, "kv_heads": options.kv_heads or options.heads,
                                      "head_dim": options.head_dim, "dtype": options.dtype},
            "rounds": options.rounds, "runs_a_round": options.runs, "rows": rows, "geometric_means": means, "wanted_over_cudnn": WANTED_RATIO}


def speed_line(row):
    text = f"{row['mask']:6} S {row['seq']:6}"
    for name in ("tilejit", "cudnn", "fa2"):
        text += f"  {name} {row[name]['tflops']:6.1f} TFLOP/s" if name in row else f"  {name} -"
    return text + "".join(f"  x{row['over_' + n]:.3f} {n}" for n in ("cudnn", "fa2") if f"over_{n}" in row)


# ---- the report --------------------------------------------------------------------------------------------------------
def markdown(document):
    m = document["machine"]
    lines = ["# tilejit beside its peers", "",
             f"{m['gpu']}, driver {m['driver']}, CUDA {m['cuda']}, PyTorch {m['pytorch']}, cuDNN {m['cudnn']}, tilejit {m['tilejit']} "
             f"({m['build_id'][:12]}), {document['date']}.", "", f"`{document['command']}`", ""]
    if "correctness" in document:
        c = document["correctness"]
        w = c["worst_error"]
        worst = ", ".join(f"{name} {w[name]:.2e} (limit {c['limits'][name]:.0e})" for name in w)
        lines += ["## Correctness against f64", "",
                  f"{c['cases']} random shapes (seed {c['seed']}), {c['failed']} failed. Worst relative error: {worst}. "
                  "Outputs poisoned, guard bands checked." + chunk_check.largest_text(c), ""]
    if "speed" in document and document["what"] in SPEEDS:
        lines += SPEEDS[document["what"]].markdown(document["speed"])
    elif "speed" in document:
        s = document["speed"]
        p = s["problem"]
        lines += ["## Speed", "",
                  f"{p['dtype']} B{p['batch']} H{p['heads']}/{p['kv_heads']} D{p['head_dim']}, normal random data (seed {s['seed']}), TFLOP/s from the median of "
                  f"{s['rounds']} x {s['runs_a_round']} event-timed single runs, cache flushed before each, candidates interleaved in one run.", "",
                  "| mask | S | tilejit | cuDNN | FA2 | over cuDNN | over FA2 |", "|---|---|---|---|---|---|---|"]
        for row in s["rows"]:
            cells = [f"{row[n]['tflops']:.1f}" if n in row else "-" for n in ("tilejit", "cudnn", "fa2")]
            cells += [f"{row['over_' + n]:.3f}" if f"over_{n}" in row else "-" for n in ("cudnn", "fa2")]
            lines.append(f"| {row['mask']} | {row['seq']} | " + " | ".join(cells) + " |")
        for mask, mean in s["geometric_means"].items():
            cells = [f"{mean[n]:.3f}" if mean[n] else "-" for n in ("cudnn", "fa2")]
            lines.append(f"| {mask} | geometric mean | | | | " + " | ".join(cells) + " |")
        lines.append("")
    if "cold" in document:
        lines += ["## Cold starts", ""]
        if "error" in document["cold"]:
            lines += [f"Not measured: {document['cold']['error']}", ""]
        else:
            lines += ["CUDA's own start excluded; milliseconds, medians.", "",
                      "| process | origin | prepare | schedule | source | compiler | load | NVRTC opened |", "|---|---|---|---|---|---|---|---|"]
            for name, r in document["cold"].items():
                lines.append(f"| {name} | {', '.join(r['origin'])} | {r['wall_ms']:.1f} | {r['schedule_ms']:.1f} | {r['codegen_ms']:.1f} | {r['compile_ms']:.1f} | "
                             f"{r['load_ms']:.1f} | {'yes' if r['nvrtc_opened'] else 'no'} |")
            lines.append("")
    return "\n".join(lines)


def self_test():
    try:
        import numpy
    except ImportError:
        missing("NumPy is not installed (Debian: python3-numpy)")
    fmha_check.self_test(numpy)
    gemm_check.self_test(numpy)
    gemm_speed.self_test()
    chunk_check.self_test(numpy)
    chunk_speed.self_test()
    assert abs(timing.geometric_mean([1.0, 4.0]) - 2.0) < 1e-12 and timing.geometric_mean([]) is None
    timed = timing.summary([1.0, 2.0, 9.0], 4e9)
    assert timed["median_ms"] == 2.0 and timed["tflops"] == 2.0, timed
    row = {"mask": "causal", "seq": 4096, "refused": {"fa2": "no"}, "tilejit": timed, "cudnn": timed, "over_cudnn": 1.0}
    text = markdown({"what": "fmha", "machine": {k: "x" for k in ("gpu", "driver", "cuda", "pytorch", "cudnn", "tilejit", "build_id")}, "date": "d", "command": "c",
                     "correctness": {"seed": 1, "cases": 2, "failed": 0, "worst_error": {"f16": 1e-4, "bf16": 0, "lse": 0},
                                     "limits": {"f16": 6e-4, "bf16": 5e-3, "lse": 1e-3}},
                     "speed": {"seed": 1, "problem": {"batch": 4, "heads": 32, "kv_heads": 32, "head_dim": 128, "dtype": "f16"}, "rounds": 1, "runs_a_round": 3,
                               "rows": [row], "geometric_means": {"causal": {"cudnn": 1.0, "fa2": None}}},
                     "cold": {"first": {"origin": ["compiled"], "wall_ms": 1, "schedule_ms": 1, "codegen_ms": 1, "compile_ms": 1, "load_ms": 1, "nvrtc_opened": True}}})
    assert "| causal | 4096 | 2.0 | 2.0 | - | 1.000 | - |" in text and "| first | compiled |" in text, text
    print("self-test passed")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(word) for word in text.split(",")]  # noqa: E731
    parser.add_argument("--op", "--what", dest="what", choices=sorted(CHECKS), default="fmha")
    parser.add_argument("--library", help="libtilejit.so; default: the newest below build/")
    parser.add_argument("--shapes", type=int, help="random shapes of the correctness part, 200 by default (chunk_o: 100); 0 leaves it out")
    parser.add_argument("--seed", type=int, help="default: fresh, and printed")
    parser.add_argument("--sizes", type=gemm_speed.parse_shapes, dest="gemm_shapes", metavar="S,MxNxK,...",
                        help="gemm: problems of the speed part")
    parser.add_argument("--seq", type=numbers, default=[4096, 16384], help="lengths of the speed part, separated by commas")
    parser.add_argument("--chunk-heads", type=chunk_speed.parse_heads, default=chunk_speed.HEADS, metavar="H/HV,...", help="chunk_o: heads of the speed part")
    parser.add_argument("--chunk-tokens", type=numbers, default=chunk_speed.TOKENS, help="chunk_o: tokens of the speed part")
    parser.add_argument("--skip-triton", action="store_true", help="chunk_o: leave Triton's kernel out")
    parser.add_argument("--causal", choices=["true", "false", "both"], default="both")
    for name, value in (("--batch", 4), ("--heads", 32), ("--kv-heads", 0), ("--head-dim", 128)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--dtype", choices=["f16", "bf16", "e4m3"], help="default: f16 for attention, f16 and bf16 for products; e4m3: products alone")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each candidate in a round")
    parser.add_argument("--cold", type=int, default=3, help="repetitions of the cold-start part; 0 leaves it out")
    parser.add_argument("--skip-speed", action="store_true")
    parser.add_argument("--tile", help="gemm: only this tile, such as 128x256x64, in the speed part (correctness is left out)")
    parser.add_argument("--tune", action="store_true", help="gemm: tj-warm --tune chooses before the speed part, in a cache of its own")
    parser.add_argument("--cache-dir", help="default: the library's own")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--markdown", metavar="FILE")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--cold-child", metavar="CACHE_DIR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.masks = {"true": [True], "false": [False], "both": [True, False]}[options.causal]
    if options.shapes is None:
        options.shapes = 100 if options.what == "chunk_o" else 200
    if options.what == "chunk_o" and (options.dtype or "bf16") != "bf16":
        parser.error("--dtype of chunk_o: allowed is bf16")
    if any(tokens < 1 or tokens % (chunk_speed.SEQUENCES * chunk_speed.CHUNK) for tokens in options.chunk_tokens):
        parser.error(f"--chunk-tokens: allowed are multiples of {chunk_speed.SEQUENCES * chunk_speed.CHUNK}")
    if options.what == "chunk_o":
        options.dtype = "bf16"
    options.dtypes = [options.dtype] if options.dtype else ["f16", "bf16"]
    options.dtype = options.dtypes[0]
    options.unserved = {}
    if options.dtype == "e4m3" and options.what != "gemm":
        parser.error("--dtype e4m3 belongs to --op gemm")
    if options.gemm_shapes is None:
        options.gemm_shapes = gemm_speed.SHAPES_OF.get(options.dtype, gemm_speed.SHAPES)
    if options.dtype == "e4m3" and any(n % 16 or k % 16 for _, n, k in options.gemm_shapes):
        parser.error("--sizes of e4m3: allowed are N and K that are multiples of 16")
    if (options.tile or options.tune) and (options.what != "gemm" or (options.tile and options.tune)):
        parser.error("--tile and --tune belong to --op gemm, one of them at a time")
    if options.tile:
        options.shapes = 0
    if options.seed is None:
        options.seed = secrets.randbits(31)
    return options


def command_line():
    """What was run, from the repository's root, without this machine's folders."""
    words = [os.path.basename(word) if os.path.isabs(word) else word for word in sys.argv[1:]]
    return shlex.join(["python3", os.path.relpath(os.path.abspath(__file__), ROOT), *words])


def cold_words(options):
    """What tells a child process the kernel of the cold-start part."""
    words = ["--op", options.what, "--dtype", options.dtype]
    if options.what == "fmha":
        words += ["--head-dim", str(options.head_dim), "--causal", "true" if options.masks[0] else "false"]
    return words


def cold_fields(options):
    """The same as fields of tj_kernel_config; products at 4096^3."""
    code = gemm_speed.code_of(binding, options.dtype)
    if options.what == "gemm":
        return {"op": b"gemm", "dtype": code, "out": gemm_speed.code_of(binding, gemm_speed.out_of(options.dtype)), "m": 4096, "n": 4096, "k": 4096}
    if options.what == "chunk_o":
        return {"op": b"chunk_o", "dtype": code}
    return {"dtype": code, "head_dim": options.head_dim, "causal": options.masks[0]}


def main():
    options = parse()
    if options.self_test:
        self_test()
        return 0
    path = find_library(options.library)
    if options.cold_child:
        timing.cold_child(binding, path, options.cold_child, cold_fields(options))
        return 0
    torch = find_torch()
    library = binding.Library(path)
    print(f"seed {options.seed}", flush=True)
    document = {"what": options.what, "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
                "command": command_line(), "machine": machine(torch, library)}
    own_cache = None
    if options.tile or options.tune:
        own_cache = tempfile.TemporaryDirectory()
        options.cache_dir = options.cache_dir or own_cache.name
        options.unserved = gemm_speed.measure_choices(path, options.cache_dir, options)
    with binding.Runtime(library, **({"cache_dir": options.cache_dir} if options.cache_dir else {})) as runtime:
        device = binding.Device(binding.CUDA, 0)
        if options.shapes > 0:
            more = {"dtypes": ["e4m3"] if options.dtype == "e4m3" else ["f16", "bf16"]} if options.what == "gemm" else {}
            document["correctness"] = CHECKS[options.what].run_correctness(torch, runtime, binding, device, options.shapes, options.seed, print, **more)
        if not options.skip_speed:
            speed = SPEEDS[options.what].run if options.what in SPEEDS else run_speed
            document["speed"] = speed(torch, runtime, binding, device, options)
    if own_cache:
        own_cache.cleanup()
    if options.cold > 0:
        document["cold"] = timing.cold_starts(os.path.abspath(__file__), path, options.cold, cold_words(options))
    text = markdown(document)
    print(text)
    for file_name, content in ((options.json, json.dumps(document, indent=2) + "\n"), (options.markdown, text + "\n")):
        if file_name:
            with open(file_name, "w", encoding="utf-8") as file:
                file.write(content)
    return 1 if document.get("correctness", {}).get("failed", 0) + document.get("speed", {}).get("wrong", 0) > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
