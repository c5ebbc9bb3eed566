#!/usr/bin/env python3
"""tilejit beside its peers on one GPU, on problems drawn from a seed: each checked against f64, timed both ways in one interleaved run. Attention beside
cuDNN and FlashAttention-2 (and 3, with --fa3), products beside cuBLAS (of e4m3: torch._scaled_mm), chunk output of the gated delta rule beside
a copy, Triton and PyTorch.

    python3 tests/gpu/compare.py --op gemm --count 40 --json out.json          (a fresh seed, printed)
    python3 tests/gpu/compare.py --op gemm --seed 7 --slice 1/2 --json a.json  (half of a table; --slice 2/2 is the other)
    python3 tests/gpu/compare.py --merge a.json b.json --record                (no GPU: one table, into RESULTS.md)
    python3 tests/gpu/compare.py --op fmha --seed 7 --list                     (no GPU: the problems)
    python3 tests/gpu/compare.py --op gemm --sizes fixed                       (the fixed list; or --sizes 4096,64x7168x2048)
    python3 tests/gpu/compare.py --self-test                                   (no GPU: references and metrics, with NumPy)

README.md beside this script says more. Needs libtilejit.so (--library, else the newest one below build/), PyTorch with CUDA, and a GPU. Exit codes:
0 done and correct, 1 a result was wrong, 2 bad use, 77 something that is needed is missing. Times never decide the exit code.
"""
import datetime
import glob
import json
import os
import platform
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
import compare_options  # noqa: E402
import drawing  # noqa: E402
import fa3_peer  # noqa: E402
import fmha_check  # noqa: E402
import gemm_check  # noqa: E402
import gemm_speed  # noqa: E402
import record  # noqa: E402
import report  # noqa: E402
import speed  # noqa: E402
import timing  # noqa: E402
import tuning  # noqa: E402

SKIPPED, BAD_USE = 77, 2
CHECKS = {"fmha": fmha_check, "gemm": gemm_check, "chunk_o": chunk_check}


def stop(text, status=SKIPPED):
    print(f"compare.py: {text}", file=sys.stderr)
    sys.exit(status)


def find_library(given):
    if given:
        return given
    built = sorted(glob.glob(os.path.join(ROOT, "build", "*", "lib", "libtilejit.so")), key=os.path.getmtime)
    if not built:
        stop("no libtilejit.so below build/; build the library (cmake --preset release && cmake --build --preset release) or name one with --library")
    return built[-1]


def find_torch():
    try:
        import torch
    except ImportError:
        stop("PyTorch is not installed; correctness and speed need it (pip install torch). --self-test, --list and --merge run without")
    if not torch.cuda.is_available():
        stop("PyTorch sees no CUDA device; correctness and speed need a GPU. --self-test, --list and --merge run without")
    return torch


# ---- what a document says of where it was made -------------------------------------------------------------------------
def said(*words):
    """The output of a program; empty when there is no such program, or when it fails."""
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def commit_of(given):
    """The given one, since a library may have been built elsewhere; else that of this checkout."""
    if given:
        return given
    if os.path.realpath(said("git", "-C", ROOT, "rev-parse", "--show-toplevel") or "/") != os.path.realpath(ROOT):
        return "unknown"
    changed = said("git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!tests/gpu/RESULTS.md")
    return said("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")


def machine(torch, library, runtime, device, options):
    driver = said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split()
    try:
        import triton
        triton_version = triton.__version__
    except ImportError:
        triton_version = "unknown"
    return {"gpu": torch.cuda.get_device_name(0), "driver": driver[0] if driver else "unknown", "cuda": torch.version.cuda, "pytorch": torch.__version__,
            "cudnn": str(torch.backends.cudnn.version()), "triton": triton_version, "python": platform.python_version(), "target": runtime.target_of(device),
            "tilejit": library.c.tj_version().decode(), "build_id": library.c.tj_build_id().decode(), "commit": commit_of(options.commit)}


def command_line():
    """The command that was run, from the repository's root, without this machine's folders."""
    words = [os.path.basename(word) if os.path.isabs(word) else word for word in sys.argv[1:]]
    return shlex.join(["python3", os.path.relpath(os.path.abspath(__file__), ROOT), *words])


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


# ---- parts of a run ----------------------------------------------------------------------------------------------------
def read_documents(names):
    documents = []
    for name in names:
        try:
            with open(name, encoding="utf-8") as file:
                documents.append(json.load(file))
        except (OSError, ValueError) as error:
            stop(f"'{name}' cannot be read as a JSON document of this script: {error}", BAD_USE)
        if not isinstance(documents[-1], dict) or not {"draw", "rows", "machine", "parts"} <= set(documents[-1]):
            stop(f"'{name}' is no JSON document of this script", BAD_USE)
    return documents


def save(document, options):
    """The files that were asked for, but the record."""
    for name, text_of in ((options.json, lambda: json.dumps(document) + "\n"), (options.markdown, lambda: report.markdown(document))):
        if name:
            part = f"{name}.{os.getpid()}"
            with open(part, "w", encoding="utf-8") as file:
                file.write(text_of())
            os.replace(part, name)


def finish(document, options):
    print("\n".join(["", report.title(document), report.machine_text(document["machine"]), "", *report.short(document)]))
    save(document, options)
    if options.record:
        record.write(options.record, document)
        print(f"recorded in {os.path.relpath(options.record)}")
    wrong = sum(row.get("wrong", False) for row in document["rows"]) + document.get("correctness", {}).get("failed", 0)
    return 1 if wrong or "failed" in document else 0


def measure_choices(library, options, problems):
    """Before any runtime: one tile becomes the choice for every product, or the fastest of all. Returns number -> why not."""
    unserved = {}
    for problem in problems:
        shape, words = (problem["m"], problem["n"], problem["k"]), gemm_speed.tune_words(problem)
        if options.tile:
            refused = tuning.choose_tile(library, options.cache_dir, problem["dtype"], [shape], options.tile, words)
            unserved.update({problem["number"]: why for why in refused.values()})
        elif options.tune:
            tuning.tune(library, options.cache_dir, problem["dtype"], [shape], options=words)
    return unserved


def time_problems(torch, runtime, device, options, problems, document, limit):
    """Fills the document's rows; its "missing" are the problems that there was no time for, or no memory."""
    left, too_large = [problem["number"] for problem in problems], []
    for problem in problems:
        document["missing"] = too_large + left
        if not limit.enough():
            print(f"time limit: {len(left)} problems are missing: {report.numbers_text(left)}", flush=True)
            break
        limit.start()
        try:
            row = speed.measure(torch, runtime, device, problem, options, limit)
        except torch.cuda.OutOfMemoryError:
            row = None
        except (RuntimeError, binding.TilejitError) as error:  # a kernel that failed takes the context with it
            document["failed"] = f"problem {problem['number']}, {drawing.title(problem)}: {timing.first_line(error)}"
            print(f"FAILED: {document['failed']}", flush=True)
            break
        limit.stop()
        torch.cuda.empty_cache()
        left = left[1:]
        if row is None:
            too_large.append(problem["number"])
            print(f"{problem['number']:4}  {drawing.title(problem)}: left out, as the GPU's memory is too small for it", flush=True)
            continue
        document["rows"].append(row)
        document["missing"] = too_large + left
        print(speed.line(row, drawing.title(problem)), flush=True)
        save(document, options)


def cold_words(options):
    """Flags that tell a child process the kernel of the cold-start part."""
    words = ["--op", options.what, "--dtype", options.types[0]]
    if options.what == "fmha":
        words += ["--head-dim", str(options.dims[-1]), "--causal", "true" if options.masks[0] else "false"]
    return words


def cold_fields(options):
    """The same as fields of binding.flags(); products at 4096^3."""
    code = gemm_speed.code_of(binding, options.types[0])
    if options.what == "gemm":
        out = "bf16" if options.types[0] == "e4m3" else options.types[0]
        return {"op": b"gemm", "dtype": code, "out": gemm_speed.code_of(binding, out), "m": 4096, "n": 4096, "k": 4096}
    if options.what == "chunk_o":
        return {"op": b"chunk_o", "dtype": code}
    return {"dtype": code, "head_dim": options.dims[-1], "causal": options.masks[0]}


def run(options, problems, every, limit):
    torch = find_torch()
    if options.tiles:
        tuning.tool(options.library, "tj-warm")  # missing: said before anything is timed
    library = binding.Library(options.library)
    options.unserved = measure_choices(options.library, options, problems) if options.tile or options.tune else {}
    options.triton_peer, options.no_triton = chunk_speed.find_peer(options.skip_triton) if options.what == "chunk_o" else (None, None)
    settings = {"cache_dir": options.cache_dir} if options.cache_dir else {}
    if options.tiles and not options.tune:
        settings["use_tuning"] = 0  # what is timed of all tiles stays apart from what is predicted
    with binding.Runtime(library, **settings) as runtime:
        device = binding.Device(binding.CUDA, 0)
        document = {"date": now(), "draw": compare_options.draw_of(options, every), "machine": machine(torch, library, runtime, device, options), "rows": [],
                    "missing": [], "parts": [{"command": command_line(), "date": now()}]}
        if not options.skip_speed:
            time_problems(torch, runtime, device, options, problems, document, limit)
        if options.shapes > 0 and limit.enough() and "failed" not in document:
            more = {"dtypes": ["e4m3"] if "e4m3" in options.types else ["f16", "bf16"]} if options.what == "gemm" else {}
            document["correctness"] = CHECKS[options.what].run_correctness(torch, runtime, binding, device, options.shapes, options.seed, print, **more)
    if options.cold > 0 and limit.enough():
        document["cold"] = timing.cold_starts(os.path.abspath(__file__), options.library, options.cold, cold_words(options))
    return document


def self_test():
    try:
        import numpy
    except ImportError:
        stop("NumPy is not installed (Debian: python3-numpy)")
    fmha_check.self_test(numpy)
    gemm_check.self_test(numpy)
    gemm_speed.self_test(numpy)
    chunk_check.self_test(numpy)
    chunk_speed.self_test()
    print("self-test passed")
    return 0


def main(words=None):
    """The exit code; `words` in place of the command line."""
    try:
        return obey(compare_options.parse(__doc__, words))
    except (record.RecordError, fa3_peer.Fa3Error, tuning.ToolError) as error:
        stop(error, BAD_USE)


def obey(options):
    limit = speed.Limit(options.time_limit)
    if options.self_test:
        return self_test()
    if options.merge:
        return finish(record.merge(read_documents(options.merge), options.merge), options)
    done = {row["number"] for document in read_documents(options.without) for row in document["rows"]}
    every = compare_options.all_problems(options)
    problems = [problem for problem in drawing.slice_of(every, options.slice) if problem["number"] not in done]
    print(f"seed {options.seed} ({compare_options.repeat_words(options)})", flush=True)
    if options.list:
        print("\n".join(f"{problem['number']:4}  {drawing.title(problem)}  ({problem['source']})" for problem in problems))
        return 0
    options.fa3_library = fa3_peer.opened(options.fa3) if options.fa3 else None
    options.library = find_library(options.library)
    if options.cold_child:
        timing.cold_child(binding, options.library, options.cold_child, cold_fields(options))
        return 0
    if options.cache_dir or not (options.tile or options.tune or options.tiles):
        return finish(run(options, problems, every, limit), options)
    with tempfile.TemporaryDirectory(prefix="tilejit_compare_") as options.cache_dir:
        return finish(run(options, problems, every, limit), options)


if __name__ == "__main__":
    sys.exit(main())
