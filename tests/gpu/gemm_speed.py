"""A matrix product beside cuBLAS: its operands, its candidates, its check against f64. speed.py times them.

Decides which call of PyTorch is the peer of which product. It is the fused one when cuBLASLt has the epilogue: bias, and bias with relu or
gelu. Both sides take the gelu by a hyperbolic tangent then (gelu_tanh), as cuBLASLt has no other. silu is a product and a second kernel. A matrix c is added in place on
both sides, with a beta below 1 so that replays do not grow.
"""
import math
import random

import gemm_check
import timing
from fmha_check import Guarded, double

PEERS = ["cublas", "cublas_fast", "deep_gemm"]
EPILOGUES = {"none": ("none", False, False), "bias": ("none", True, False), "bias_gelu": ("gelu_tanh", True, False), "bias_relu": ("relu", True, False),
             "silu": ("silu", False, False), "add": ("none", False, True)}  # activation, bias, c
PEER_CALLS = {"none": "matmul", "bias": "addmm", "bias_gelu": "_addmm_activation", "bias_relu": "_addmm_activation", "silu": "matmul, silu", "add": "addmm"}
BETA = 0.5
WHOLE = 1 << 35   # M * N * K up to which every element is checked; beyond, one row and one column of each band
BAND = 64         # rows or columns: the smallest side of a tile that serves large products
BLOCK_FACTOR = 4  # a block of a row may be so much further from f64 than the whole: one tile that is wrong does not move the whole
SCALES = (0.5, 2.0)
SCALED = 128  # elements of K, and of N in blocks, that one scale serves


def flops_of(problem):
    return 2.0 * problem["m"] * problem["n"] * problem["k"]


def calls_of(flops):
    """Calls in one graph: enough that starting it does not count."""
    return max(2, min(40, int(4e12 // flops)))


def code_of(binding, dtype):
    return {"f16": binding.F16, "bf16": binding.BF16, "f32": binding.F32, "e4m3": binding.E4M3}[dtype]


def fields_of(binding, problem):
    """The problem as fields of binding.flags()."""
    activation, bias, add = EPILOGUES[problem["epilogue"]]
    return {"dtype": code_of(binding, problem["dtype"]), "out": code_of(binding, problem["out"]), "m": problem["m"], "n": problem["n"], "k": problem["k"],
            "a_transposed": problem["a_transposed"], "b_transposed": problem["b_transposed"], "bias": bias, "add_c": add,
            "activation": gemm_check.ACTIVATIONS.index(activation), "scales": problem.get("scales")}


def tune_words(problem):
    """The problem's kind as flags of tj-warm --tune, without its sizes."""
    activation, bias, add = EPILOGUES[problem["epilogue"]]
    flag = lambda value: "true" if value else "false"  # noqa: E731
    return ["--out", problem["out"], "--a-major", "m" if problem["a_transposed"] else "k", "--b-major", "n" if problem["b_transposed"] else "k",
            "--bias", flag(bias), "--add-c", flag(add), "--activation", activation] + (["--scales", problem["scales"]] if "scales" in problem else [])


def one_of_each_band(size, draw):
    """A place in each BAND places that follow each other: no tile is left out."""
    return [begin + int(draw() * min(BAND, size - begin)) for begin in range(0, size, BAND)]


def block_error(xp, d, wanted):
    """The worst ||d - wanted|| / ||wanted|| of BAND elements of a row that follow each other; what is left of a row counts to its last block."""
    blocks = max(1, d.shape[-1] // BAND)
    worst = 0.0
    for begin, end, count in ((0, (blocks - 1) * BAND, blocks - 1), ((blocks - 1) * BAND, d.shape[-1], 1)):
        if count == 0:
            continue
        of = lambda t: (t[..., begin:end] ** 2).reshape(-1, (end - begin) // count).sum(-1)  # noqa: E731, B023
        difference, norm = of(d - wanted), of(wanted)
        error = xp.where(difference == 0, 0.0 * norm, difference / norm)  # 0 / 0 is right
        largest = float(error.max())
        worst = max(worst, math.sqrt(largest) if math.isfinite(largest) else math.inf)
    return worst


def moved(guarded, first):
    """How far what it holds is from what it held, relative."""
    if bool((guarded.bits == first.view(guarded.bits.dtype)).all()):
        return 0.0
    return gemm_check.relative_error(guarded.view.float(), first.float())


class Work:
    """One product on the GPU. candidates: name -> function that enqueues one call; refused: name -> why there is none."""

    def __init__(self, torch, runtime, binding, device, problem, options):
        self.torch, self.runtime, self.binding, self.device, self.problem = torch, runtime, binding, device, problem
        self.peers, self.flops = PEERS[:2 if problem["dtype"] == "e4m3" and "scales" not in problem else 1], flops_of(problem)
        self.by_ratio = {"deep_gemm": ("cublas", problem["deep_gemm"])} if "deep_gemm" in problem else {}  # of graph replays
        self.peers += list(self.by_ratio)
        self.calls = calls_of(self.flops)
        self.generator = torch.Generator(device="cuda").manual_seed(options.seed % (1 << 31) + problem["number"])
        self.make()
        self.candidates, self.refused = {"tilejit": self.ours}, {}
        if problem["number"] in options.unserved:
            self.refused["tilejit"] = options.unserved[problem["number"]]
            del self.candidates["tilejit"]
        for name, call in self.peer_calls().items():
            try:
                call()
                torch.cuda.synchronize()
                self.candidates[name] = call
            except (RuntimeError, TypeError, ValueError, AttributeError) as error:  # AttributeError: this PyTorch has no such function
                self.refused[name] = timing.first_line(error)

    def normal(self, rows, columns, dtype, transposed=False):
        shape = (columns, rows) if transposed else (rows, columns)
        value = self.torch.randn(shape, generator=self.generator, device="cuda").to(gemm_check.torch_type(self.torch, dtype))
        return value.t() if transposed else value

    def make(self):
        torch, p = self.torch, self.problem
        self.activation, bias, self.add = EPILOGUES[p["epilogue"]]
        out = gemm_check.torch_type(torch, p["out"])
        self.a = self.normal(p["m"], p["k"], p["dtype"], p["a_transposed"])
        self.b = self.normal(p["n"], p["k"], p["dtype"], p["b_transposed"])
        self.bias = self.normal(1, p["n"], p["out"])[0] if bias else None
        self.c = self.normal(p["m"], p["n"], p["out"]) if self.add else None
        self.d = Guarded(torch, out, [p["m"], p["n"]], [p["n"], 1], p["m"] * p["n"])
        self.peer = torch.empty((p["m"], p["n"]), dtype=out, device="cuda")
        self.scales = [] if p["dtype"] != "e4m3" else self.block_scales() if "scales" in p else [torch.tensor(each, dtype=torch.float32, device="cuda") for each in SCALES]
        bound = lambda t, dtype: self.binding.tensor(t.data_ptr(), self.device, code_of(self.binding, dtype), list(t.shape), list(t.stride()))  # noqa: E731
        self.bound = [bound(self.a, p["dtype"]), bound(self.b, p["dtype"]), bound(self.d.view, p["out"])]
        self.more = {"activation": gemm_check.ACTIVATIONS.index(self.activation)}
        if self.bias is not None:
            self.more["bias"] = bound(self.bias, p["out"])
        if self.add:
            self.more.update(c=self.bound[2], beta=BETA)
        if self.scales:
            self.more.update({name: bound(scale, "f32") for name, scale in zip(("scale_a", "scale_b"), self.scales)})

    def block_scales(self):
        """Of a [M, K / 128], M contiguous; of b [N / 128, K / 128], K contiguous, or [N, K / 128], N contiguous. Rows begin at multiples of 16 bytes."""
        blocks = lambda size: (size + SCALED - 1) // SCALED  # noqa: E731

        def positive(outer, inner):
            pitch = (inner + 3) // 4 * 4
            return (self.torch.rand((outer, pitch), generator=self.generator, device="cuda") + 0.5)[:, :inner]

        p, depth = self.problem, blocks(self.problem["k"])
        return [positive(depth, p["m"]).t(), positive(blocks(p["n"]), depth) if p["scales"] == "block" else positive(depth, p["n"]).t()]

    def in_f64(self, operand, scale, rows):
        """Rows of an operand, times the scales of their blocks. A scale serves one row, or SCALED of them."""
        numbers = self.torch.arange(operand.shape[0], device="cuda")[rows]
        values = double(self.torch, operand.view(self.torch.uint8)[rows].view(operand.dtype))
        if "scales" not in self.problem:
            return values
        of_rows = numbers if scale.shape[0] == operand.shape[0] else numbers // SCALED
        return values * double(self.torch, scale)[of_rows].repeat_interleave(SCALED, 1)[:, :operand.shape[1]]

    def ours(self):
        self.runtime.gemm(*self.bound, stream=self.torch.cuda.current_stream().cuda_stream, **self.more)

    def peer_calls(self):
        torch, a, b, out, p = self.torch, self.a, self.b.t(), self.peer, self.problem
        if "scales" in p:
            return {"cublas": self.scaled_peer(a, b, out.dtype)}
        if p["dtype"] == "e4m3":
            scaled = lambda fast: lambda: torch._scaled_mm(a, b, scale_a=self.scales[0], scale_b=self.scales[1], out_dtype=out.dtype, use_fast_accum=fast)  # noqa: E731
            return {"cublas": scaled(False), "cublas_fast": scaled(True)}
        if p["out"] != p["dtype"]:
            return {"cublas": lambda: torch.mm(a, b, out_dtype=out.dtype)}
        calls = {"none": lambda: torch.matmul(a, b, out=out), "bias": lambda: torch.addmm(self.bias, a, b, out=out),
                 "bias_gelu": lambda: torch._addmm_activation(self.bias, a, b, use_gelu=True, out=out),
                 "bias_relu": lambda: torch._addmm_activation(self.bias, a, b, use_gelu=False, out=out),
                 "silu": lambda: torch.nn.functional.silu(torch.matmul(a, b, out=out), inplace=True),
                 "add": lambda: torch.addmm(out, a, b, beta=BETA, out=out)}
        if self.add:
            out.copy_(self.c)
        return {"cublas": calls[p["epilogue"]]}

    def scaled_peer(self, a, b, out):
        """cuBLASLt's product with scales of blocks, told which they are: torch._scaled_mm guesses that by strides, and refuses most. It wants a pitch of
        M or N where these are contiguous, and multiples of four where K is."""
        def call():
            kinds = torch.nn.functional.ScalingType
            of_b = kinds.BlockWise128x128 if blocks else kinds.BlockWise1x128
            return torch.nn.functional.scaled_mm(a, b, scale_a, kinds.BlockWise1x128, scale_b, of_b, output_dtype=out)

        torch, blocks = self.torch, self.problem["scales"] == "block"
        scale_a = self.scales[0].t().contiguous().t()
        scale_b = self.scales[1].t() if blocks else self.scales[1].t().contiguous()
        return call

    def describe(self):
        """The kernel that ran, and what the peer is."""
        report = self.runtime.prepare(self.device, op=b"gemm", **fields_of(self.binding, self.problem))
        return {"kernel": report.name.decode(), "peer_call": "scaled_mm" if "scales" in self.problem else "_scaled_mm" if self.scales else PEER_CALLS[self.problem["epilogue"]]}

    # ---- the check -----------------------------------------------------------------------------------------------------
    def check(self):
        """Runs once into poisoned memory; figures against f64."""
        draw = random.Random(self.problem["number"]).random
        if self.add:
            self.d.view.copy_(self.c)
        self.ours()
        self.torch.cuda.synchronize()
        self.first = self.d.view.clone()
        p, everything = self.problem, slice(None)
        parts = [(everything, everything)]
        if p["m"] * p["n"] * p["k"] > WHOLE:
            places = lambda size: self.torch.tensor(one_of_each_band(size, draw), device="cuda")  # noqa: E731
            parts = [(places(p["m"]), everything), (everything, places(p["n"]))]
        errors = [self.errors_of(rows, columns) for rows, columns in parts]
        error, block = (max(values) for values in zip(*errors))
        limit = gemm_check.limit_of(p)
        unwritten = 0 if self.add else self.d.unwritten()
        outside = self.d.written_outside()
        return {"error": error, "limit": limit, "block_error": block, "unwritten": unwritten, "written_outside": outside, "whole": len(parts) == 1,
                "ok": error <= limit and block <= BLOCK_FACTOR * limit and unwritten == 0 and outside == 0}

    def errors_of(self, rows, columns):
        """The errors of these rows and columns together, and of their worst block: along rows, or along columns when these are chosen."""
        case = {"alpha": 1.0, "beta": BETA if self.add else 0.0, "activation": self.activation, "scales": SCALES if self.scales and "scales" not in self.problem else []}
        part = lambda t: None if t is None else t[rows][:, columns]  # noqa: E731
        a, b = ((self.in_f64(self.a, self.scales[0], rows), self.in_f64(self.b, self.scales[1], columns)) if self.scales  # 8-bit types know no index
                else (self.a[rows], self.b[columns]))
        wanted = gemm_check.reference(self.torch, a, b, part(self.c), None if self.bias is None else self.bias[columns], case)
        found = double(self.torch, part(self.first))
        along_rows = isinstance(columns, slice)
        return gemm_check.relative_error(found, wanted), block_error(self.torch, found if along_rows else found.t(), wanted if along_rows else wanted.t())

    def moved(self):
        """How far the last of all timed calls is from the first; the same inputs, but where the result is added to itself."""
        if self.add:
            return 0.0 if bool(self.torch.isfinite(self.d.view).all()) else math.inf
        return moved(self.d, self.first)


# ---- without a GPU -----------------------------------------------------------------------------------------------------
def self_test(np):
    """Checks what finds one wrong tile in a large result; raises AssertionError."""
    generator = np.random.default_rng(3)
    wanted = generator.standard_normal((4, 4113))
    rounded = wanted.astype(np.float16).astype(np.float64)
    limit = gemm_check.LIMITS["f16"]
    assert gemm_check.relative_error(rounded, wanted) < limit and block_error(np, rounded, wanted) < BLOCK_FACTOR * limit
    for begin in (0, 640, 4032, 4096):  # also in the last block, which is longer
        spoiled = rounded.copy()
        spoiled[2, begin:begin + 64] *= 1.02
        assert gemm_check.relative_error(spoiled, wanted) < 4e-3 and block_error(np, spoiled, wanted) > 4e-3, begin
    spoiled[1, 7] = math.nan
    assert block_error(np, spoiled, wanted) == math.inf
    nothing = np.zeros((2, 64))
    with np.errstate(invalid="ignore", divide="ignore"):
        assert block_error(np, nothing, nothing) == 0 and block_error(np, nothing + 1, nothing) == math.inf and block_error(np, wanted[:, :3], wanted[:, :3]) == 0
