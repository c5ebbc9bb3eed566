"""From a dependence graph to a result, in Python: a loop is scheduled, its picture is written, a kernel is made and called.

    python main.py [--graph NAME] [--machine NAME] [--tma-cycles N] [--gemm-cycles N] [--exp-cycles N] [--tmem-cycles N]
                   [--load-cycles N] [--compute-cycles N] [--sub-tiles N] [--output-dir FOLDER]

First the loops of 06_graphs, with the same parameters: they run no kernel. Then attention, and D = GELU(A B^T + bias) of 05_custom_gemm from
its graph and node bodies, on the CPU model, against f64. Needs numpy; no GPU. Exits 0 when all schedules are proven and all results are right,
1 when not.
"""
import argparse
import ctypes
import inspect
import sys
from pathlib import Path

import numpy

import tilejit
from tilejit import graphs
from tilejit.graph import Graph, Machine

BLOCK_M, BLOCK_N, BLOCK_K = 128, 256, 64  # as gemm_gelu.json
MAX_ERROR = 6e-4


def own_loop():
    """D = scale(A B), with both operands copied, on a machine of its own."""
    copy = {"cycles": 1, "fu": "TMA", "variable_latency": True, "streaming": True, "memory": {"SMEM": 16384}}
    machine = Machine({"TMA": 1, "TC": 1, "ALU": 2}, {"SMEM": 65536})
    return graphs.custom_kernel(machine, [
        {"name": "load_a", **copy},
        {"name": "load_b", **copy},
        {"name": "mma", "cycles": 4, "fu": "TC"},
        {"name": "scale", "cycles": 3, "fu": "ALU"},
    ], [
        {"src": "load_a", "dst": "mma", "delay": 1},
        {"src": "load_b", "dst": "mma", "delay": 1},
        {"src": "mma", "dst": "scale", "delay": 4},
        {"src": "mma", "dst": "mma", "delay": 4, "delta": 1},
    ], name="own_kernel")


LOOPS = {"simplified_fa": graphs.flash_attention_forward_simplified, "fa_hopper": graphs.flash_attention_forward_hopper,
         "fa_blackwell": graphs.flash_attention_forward_blackwell, "simple_gemm": graphs.simple_gemm_pipeline, "own_kernel": own_loop}


def show(schedule):
    print(f"{schedule.graph} on {schedule.machine}: II {schedule.ii} (units allow {schedule.resource_bound}, recurrences "
          f"{schedule.recurrence_bound}), an iteration takes {schedule.length}, {schedule.stages} in flight")
    print(f"  why: {schedule.certificate}")
    for role in schedule.roles:
        print(f"  role {role.name}, {role.warps} warps: " + ", ".join(f"{name} at {schedule.node(name).cycle}" for name in role.nodes))
    return schedule.proven_ii and schedule.proven_length and not schedule.verify()


def loops(given, folder):
    """Schedules each loop; writes graph, schedule, picture and trace."""
    good = True
    for name, make in LOOPS.items():
        names = set(inspect.signature(make).parameters)
        if given["graph"] is None and "tmem_cycles" in names:
            names.discard("machine")  # not every machine has tensor memory
        if given["graph"] not in (None, name):
            continue
        graph = make(**{each: given[each] for each in names if given[each] is not None})
        schedule = tilejit.schedule(graph)
        good = show(schedule) and good
        texts = {".json": graph.json(), ".schedule.json": schedule.json(), ".svg": schedule.svg(), ".trace.json": schedule.trace()}
        for ending, text in texts.items() if folder else ():
            (folder / (graph.name + ending)).write_text(text, encoding="utf-8")
    return good


def error_of(found, wanted):
    return float(numpy.linalg.norm(found - wanted) / numpy.linalg.norm(wanted))


def attention(runtime, random):
    q, k, v = (random.standard_normal((1, 2, 200, 64)).astype(numpy.float16) for _ in range(3))
    o = runtime.fmha(q, k, v, causal=True)
    q, k, v = (each.astype(numpy.float64) for each in (q, k, v))
    scores = numpy.where(numpy.tri(200, dtype=bool), q @ k.swapaxes(-1, -2) / 8, -numpy.inf)
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return error_of(o, weights / weights.sum(-1, keepdims=True) @ v)


class Params(ctypes.Structure):
    """05_custom_gemm/gemm_gelu_params.cuh; tensor maps first, as they stand at multiples of 64."""

    _fields_ = [("a", ctypes.c_char * 128), ("b", ctypes.c_char * 128), ("bias", ctypes.c_void_p), ("d", ctypes.c_void_p),
                ("m", ctypes.c_int), ("n", ctypes.c_int), ("k", ctypes.c_int), ("row_blocks", ctypes.c_int), ("tiles", ctypes.c_int),
                ("padding", ctypes.c_char * 28)]


def own_kernel(runtime, random, m=300, n=200, k=136):
    folder = Path(__file__).resolve().parent.parent / "05_custom_gemm"
    graph = Graph.parse((folder / "gemm_gelu.json").read_text(encoding="utf-8"), "gemm_gelu")
    kernel = tilejit.custom.Kernel("gemm_gelu", graph, folder, runtime=runtime)
    a, b = (random.standard_normal((1, 1, rows, k)).astype(numpy.float16) for rows in (m, n))
    bias, d = random.standard_normal(n).astype(numpy.float32), numpy.full((m, n), numpy.nan, numpy.float16)
    params = Params(bias=bias.ctypes.data, d=d.ctypes.data, m=m, n=n, k=k, row_blocks=-(-m // BLOCK_M))
    for name, tensor, rows in (("a", a, BLOCK_M), ("b", b, BLOCK_N)):
        ctypes.memmove(ctypes.addressof(params) + getattr(Params, name).offset, kernel.tensor_map(tensor, (1, 1, rows, BLOCK_K)), 128)
    params.tiles = params.row_blocks * -(-n // BLOCK_N)
    kernel.launch(params, min(params.tiles, kernel.sm_count("cpu")), device="cpu")
    x = a[0, 0].astype(numpy.float64) @ b[0, 0].T.astype(numpy.float64) + bias
    return error_of(d, 0.5 * x * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x ** 3))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graph", choices=LOOPS)
    parser.add_argument("--machine")
    for name in ("tma", "gemm", "exp", "tmem", "load", "compute"):
        parser.add_argument(f"--{name}-cycles", type=int)
    parser.add_argument("--sub-tiles", type=int)
    parser.add_argument("--output-dir", type=Path)
    given = parser.parse_args()
    if given.output_dir:
        given.output_dir.mkdir(parents=True, exist_ok=True)
    good = loops(vars(given), given.output_dir)
    random = numpy.random.default_rng()
    with tilejit.Runtime(target="model:sm_90a") as runtime:
        for name, run in (("attention", attention), ("GELU(A B^T + bias)", own_kernel)):
            error = run(runtime, random)
            good = good and error <= MAX_ERROR
            print(f"{name} on {runtime.target_of('cpu')}: error {error:.1e} against f64 (limit {MAX_ERROR:.1e})")
    print("check    " + ("ok: schedules are proven and verified, results are right" if good else "WRONG"))
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except tilejit.Error as error:
        sys.exit(f"07_python: {error}")
