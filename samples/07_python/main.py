"""From a dependence graph to a result, in Python: a loop is scheduled, its picture is written, a kernel is made and called.

    python main.py [--graph NAME] [--machine NAME] [--tma-cycles N] [--gemm-cycles N] [--exp-cycles N] [--tmem-cycles N]
                   [--load-cycles N] [--compute-cycles N] [--output-dir FOLDER]

First the loops of 06_graphs, with the same parameters: they run no kernel. Then attention, and D = GELU(A B^T + bias) of 05_custom_gemm from
its graph and node bodies, on the CPU model, against f64. Needs numpy; no GPU. Exits 0 when all schedules are proven and all results are right,
1 when not.
"""
import argparse
import ctypes
import sys
from pathlib import Path

import numpy

import tilejit
from tilejit.graph import Edge, Graph, Instruction

TILE_BYTES, SCORE_BYTES = 128 * 128 * 2, 128 * 128 * 4  # of f16, and of f32 sums
BLOCK_M, BLOCK_N, BLOCK_K = 128, 256, 64  # as gemm_gelu.json
MAX_ERROR = 6e-4


def load(name, cycles, **memory):
    return Instruction(name, cycles, "TMA", variable_latency=True, streaming=True, memory=memory)


def simplified_fa(machine="hopper", gemm_cycles=1, exp_cycles=1):
    """S = Q K^T, P = exp(S), O += P V, with everything in place already."""
    return Graph("simplified_fa", machine, [
        Instruction("S", gemm_cycles, "TC"),
        Instruction("P", exp_cycles, "EXP"),
        Instruction("O", gemm_cycles, "TC"),
    ], [
        Edge("S", "P", gemm_cycles),
        Edge("P", "O", exp_cycles),
        Edge("O", "O", gemm_cycles, delta=1),
    ])


def fa_hopper(tma_cycles=1, gemm_cycles=2, exp_cycles=2):
    """The same with copies of K and V from global memory."""
    return Graph("fa_hopper", "hopper", [
        load("K_load", tma_cycles, SMEM=TILE_BYTES),
        load("V_load", tma_cycles, SMEM=TILE_BYTES),
        Instruction("S", gemm_cycles, "TC"),
        Instruction("P", exp_cycles, "EXP"),
        Instruction("O", gemm_cycles, "TC"),
    ], [
        Edge("K_load", "S", tma_cycles),
        Edge("V_load", "O", tma_cycles),
        Edge("S", "P", gemm_cycles),
        Edge("P", "O", exp_cycles),
        Edge("O", "O", gemm_cycles, delta=1),
    ])


def fa_blackwell(tma_cycles=1, gemm_cycles=1, exp_cycles=2, tmem_cycles=1):
    """Products twice as fast, with their results in tensor memory: scores are read from there, weights written back."""
    return Graph("fa_blackwell", "blackwell", [
        load("K_load", tma_cycles, SMEM=TILE_BYTES),
        load("V_load", tma_cycles, SMEM=TILE_BYTES),
        Instruction("S", gemm_cycles, "TC", memory={"TMEM": SCORE_BYTES}),
        Instruction("S_read", tmem_cycles, "TMEM"),
        Instruction("P", exp_cycles, "EXP"),
        Instruction("P_write", tmem_cycles, "TMEM"),
        Instruction("O", gemm_cycles, "TC"),
    ], [
        Edge("K_load", "S", tma_cycles),
        Edge("S", "S_read", gemm_cycles),
        Edge("S_read", "P", tmem_cycles),
        Edge("P", "P_write", exp_cycles),
        Edge("P_write", "O", tmem_cycles),
        Edge("V_load", "O", tma_cycles),
        Edge("O", "O", gemm_cycles, delta=1),
    ])


def simple_gemm(machine="hopper", load_cycles=1, compute_cycles=2):
    """C += A B with copies of both operands."""
    return Graph("simple_gemm", machine, [
        load("A_load", load_cycles),
        load("B_load", load_cycles),
        Instruction("C", compute_cycles, "TC"),
    ], [
        Edge("A_load", "C", load_cycles),
        Edge("B_load", "C", load_cycles),
        Edge("C", "C", compute_cycles, delta=1),
    ])


LOOPS = (simplified_fa, fa_hopper, fa_blackwell, simple_gemm)


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
    for make in LOOPS:
        names = make.__code__.co_varnames[:make.__code__.co_argcount]
        if given["graph"] not in (None, make.__name__):
            continue
        graph = make(**{name: given[name] for name in names if given[name] is not None})
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
    parser.add_argument("--graph", choices=[make.__name__ for make in LOOPS])
    parser.add_argument("--machine")
    for name in ("tma", "gemm", "exp", "tmem", "load", "compute"):
        parser.add_argument(f"--{name}-cycles", type=int)
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
