"""tj-warm --tune from scripts: kernels timed for given sizes, or one tile made the choice in a cache of its own.

Decides how the tool is found and what its answers mean. Needs a GPU, no PyTorch. The tool must be of the library's build: records hold
for one build only.
"""
import json
import math
import os
import re
import subprocess


class ToolError(Exception):
    """A tool is missing or refused its words."""


def tool(library, name):
    """<prefix>/bin/<name> for <prefix>/lib/libtilejit.so."""
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(library))), "bin", name)
    if not os.path.exists(path):
        raise ToolError(f"{path} is missing; build the tools of the same build (cmake --build <folder> --target {name}), or for compare.py say --skip-tiles")
    return path


def run(words, seconds=None):
    """The tool's document. `seconds`: it is ended after so many, where there is a limit."""
    limit = None if seconds is None or math.isinf(seconds) else max(0.1, seconds)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise ToolError(f"{os.path.basename(words[0])} was ended after {limit:.0f} s, when the time limit was reached") from None
    if not done.stdout.strip():
        raise ToolError(f"{os.path.basename(words[0])} said: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return json.loads(done.stdout)


def sizes_text(sizes):
    return "x".join(str(size) for size in sizes)


def tune(library, cache_dir, dtype, shapes, only=None, rounds=None, options=(), seconds=None):
    """The tool's document: one entry of "problems" for each of the shapes (M, N, K), in their order."""
    words = [tool(library, "tj-warm"), "--tune", "--json", "--op", "gemm", "--cache-dir", cache_dir, "--dtype", dtype,
             "--sizes", ",".join(sizes_text(shape) for shape in shapes), *options]
    words += ["--tune-only", ",".join(only)] if only else []
    words += ["--tune-rounds", str(rounds)] if rounds else []
    return run(words, seconds)


def choose_tile(library, cache_dir, dtype, shapes, tile, options=()):
    """From now on runtimes with this cache take the tile for these shapes. Returns what does not: shape -> reason."""
    problems = tune(library, cache_dir, dtype, shapes, only=[tile], rounds=1, options=options)["problems"]
    return {shape: problem.get("error", "not kept") for shape, problem in zip(shapes, problems) if not problem["ok"]}


def all_tiles(library, dtype):
    """Every tile that takes the type, in the op's order: those that the tool allows and schedules."""
    done = subprocess.run([tool(library, "tj-schedule"), "--op", "gemm", "--tile", "none"], capture_output=True, text=True)
    allowed = re.search(r"allowed are (.*)", done.stderr)
    if not allowed:
        raise ToolError(f"tj-schedule named no tiles: {done.stderr.strip()}")
    names = [name.strip() for name in allowed.group(1).split(",")]
    return [name for name in names if schedules(library, dtype, name)]


def schedules(library, dtype, tile):
    try:
        return bool(schedule_of(library, dtype, tile))
    except ToolError:
        return False


def schedule_of(library, dtype, tile):
    """The tile's schedule: ii, length, certificate, ..."""
    return run([tool(library, "tj-schedule"), "--op", "gemm", "--target", "sm_90a", "--dtype", dtype, "--tile", tile, "--json"])
