#!/usr/bin/env python3
"""The kernel of sample 09_rmsnorm_gemm beside PyTorch's three calls: a norm, a product, an addition.

    python3 tests/gpu/rmsnorm_gemm.py --sizes 4096,64x7168x2048
    PYTHONPATH=.deps/torch python3 tests/gpu/rmsnorm_gemm.py --model --sizes 130x264x72      # no GPU: the check alone

Decides what is compared and how. Each size is checked against f64, then both are recorded as graphs of so many calls, whose replays take turns
(timing.py). The number of a row is PyTorch's time over the kernel's. Without a GPU of NVIDIA or PyTorch it says so, and the exit status is 77; a wrong result
is 1.
"""
import argparse
import pathlib
import struct
import sys

import timing
from python_calls import open_package, skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "09_rmsnorm_gemm"
DEPTH = 64  # of a tile, as sm90.json says it
EPSILON = 1e-6
MAX_ERROR = 6e-4


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libtilejit.so; the newest below build/ without it")
    parser.add_argument("--sizes", default="4096,2048,8192x4096x4096,512x4096x4096", help="S or MxNxK, separated by commas")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5, help="replays of a round")
    parser.add_argument("--calls", type=int, default=20, help="of a graph")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--form", default="", help="of the graph: wide, middle, low or small, in the place of the predicted one")
    parser.add_argument("--model", action="store_true", help="check on the CPU model, and time nothing")
    return parser.parse_args()


class Work:
    def __init__(self, torch, tilejit, runtime, device, size, seed, form):
        self.torch, self.device, (self.m, self.n, self.k) = torch, device, size
        generator = torch.Generator().manual_seed(seed)
        normal = [torch.randn(shape, generator=generator) for shape in ((self.m, self.k), (self.n, self.k), (self.m, self.n))]
        scales = torch.exp2(torch.arange(self.m) % 7 - 3.0)[:, None]  # rows of other sizes: else a wrong norm would hardly show
        self.x, self.w, self.residual = (each.to(torch.float16).to(device) for each in (normal[0] * scales, normal[1] / self.k ** 0.5, normal[2]))
        self.d = torch.empty_like(self.residual)
        graph = tilejit.Graph.parse((SAMPLE / "sm90.json").read_text(encoding="utf-8"))
        self.kernel = tilejit.custom.Kernel("rmsnorm_gemm", graph.json(), str(SAMPLE), runtime=runtime)
        self.form, height, columns = self.form_of(graph, form)
        self.kernel = tilejit.custom.Kernel("rmsnorm_gemm", graph.resolved("", self.form).json(), str(SAMPLE), runtime=runtime)
        maps = [self.kernel.tensor_map(each[None, None], (1, 1, rows, DEPTH)) for each, rows in ((self.x, height), (self.w, columns))]
        down, across = -(-self.m // height), -(-self.n // columns)
        places = [each.data_ptr() for each in (self.x, self.w, self.residual, self.d)]
        self.params = struct.pack("128s128s4Q3i2f2i4x", *maps, *places, self.m, self.n, self.k, 1 / self.k, EPSILON, down, down * across)
        self.blocks = min(down * across, self.kernel.sm_count(device))

    def form_of(self, graph, wanted):
        """(name, rows and columns of a tile) of the form that the sample takes too: whose waves of tiles end first."""
        sms, found = self.kernel.sm_count(self.device), []
        for each in graph.candidates:
            rows, columns = (int(each.parameters[name]) for name in ("block_m", "block_n"))
            schedule = graph.resolved("", each.name).schedule()
            waves = -(-(-(-self.m // rows) * -(-self.n // columns)) // sms)
            found.append((waves * (-(-self.k // DEPTH) * schedule.ii + schedule.length), each.name, rows, columns))
        chosen = [each for each in found if each[1] == wanted] if wanted else [min(found, key=lambda each: each[0])]
        if not chosen:
            raise SystemExit(f"--form {wanted}: there are {', '.join(each[1] for each in found)}")
        return chosen[0][1:]

    def ours(self):
        stream = self.torch.cuda.current_stream().cuda_stream if self.device != "cpu" else 0
        self.kernel.launch(self.params, self.blocks, device=self.device, stream=stream)

    def torchs(self):
        torch = self.torch
        return torch.add(torch.nn.functional.rms_norm(self.x, (self.k,), None, EPSILON) @ self.w.T, self.residual)

    def error(self):
        """Of the kernel's result against f64 on the same rounded inputs."""
        self.d.fill_(float("nan"))
        self.ours()
        x, w, residual = (each.double() for each in (self.x, self.w, self.residual))
        wanted = x / (x.square().mean(-1, keepdim=True) + EPSILON).sqrt() @ w.T + residual
        return float((self.d.double() - wanted).norm() / wanted.norm())


def size_of(text):
    sizes = tuple(map(int, text.split("x")))
    return sizes * 3 if len(sizes) == 1 else sizes


def main():
    options = options_of()
    try:
        import torch
    except ImportError as error:
        skip(f"{error}; PyTorch is needed")
    if not options.model and (not torch.cuda.is_available() or torch.version.hip or torch.cuda.get_device_capability() != (9, 0)):
        skip("the rows are of a Hopper GPU; --model checks on the CPU model")
    tilejit = open_package(options.library)
    runtime = tilejit.Runtime(target="model:sm_90a" if options.model else "")
    right = True
    for text in options.sizes.split(","):
        work = Work(torch, tilejit, runtime, "cpu" if options.model else "cuda:0", size_of(text), options.seed, options.form)
        error = work.error()
        right = right and error <= MAX_ERROR  # false for NaN
        line = f"M {work.m} N {work.n} K {work.k} {work.form}: error {error:.1e} (limit {MAX_ERROR:.0e})"
        if not options.model:
            graphs, refused = timing.graphs_of(torch, {"ours": work.ours, "torch": work.torchs}, options.calls)
            times = {name: timing.summary(each)["median_us"] for name, each in timing.time_graphs(torch, graphs, options.calls, options.rounds, options.runs).items()}
            line += f"; {refused}" if refused else f"; {times['ours']:.1f} us, PyTorch's three calls {times['torch']:.1f} us, {times['torch'] / times['ours']:.2f}"
        print(line, flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
