"""Matrix products beside cuBLAS (torch.matmul): both replayed from CUDA graphs, interleaved in one run; the table of it."""
import math

import gemm_check
import timing
import tuning

SHAPES = [(s, s, s) for s in (512, 1024, 2048, 4096, 8192, 16384)] + [
    (4096, 4096, 16384), (4096, 7168, 2048), (64, 7168, 2048), (128, 24576, 1536), (16, 4096, 4096), (1, 8192, 8192),
    (1000, 1000, 1000), (4095, 4097, 4099)]
# Rows of e4m3 are multiples of 16 bytes, for both sides; torch._scaled_mm asks that of N too.
SHAPES_OF = {"e4m3": [shape for shape in SHAPES if shape[1] % 16 == 0 and shape[2] % 16 == 0]}
WANTED = {"geometric_mean": 1.05, "least": 0.97}
MOST_DIFFERENCE = 0.02  # between both sides' results after all replays: many times what rounding makes of them, far below what a wrong tile does


def parse_shapes(text):
    """"4096,512x1024x64" -> [(4096, 4096, 4096), (512, 1024, 64)]."""
    shapes = []
    for word in text.split(","):
        sizes = [int(size) for size in word.split("x")]
        if len(sizes) not in (1, 3) or min(sizes) < 1:
            raise ValueError(f"'{word}' is neither S nor MxNxK")
        shapes.append(tuple(sizes * 3 if len(sizes) == 1 else sizes))
    return shapes


def code_of(binding, dtype):
    return {"f16": binding.F16, "bf16": binding.BF16, "e4m3": binding.E4M3}[dtype]


def out_of(dtype):
    """Of d; what both sides write of e4m3."""
    return "bf16" if dtype == "e4m3" else dtype


def calls_of(flops):
    """Calls in one graph: enough that starting it does not count."""
    return max(2, min(40, int(4e12 // flops)))


PEERS = ["cublas", "cublas_fast"]


def peers_of(torch, a, b, scales, out):
    """cublas: what keeps the precision of f32 sums, as ours does; of e4m3 also cublas_fast, which leaves them to the matrix unit."""
    if not scales:
        return {"cublas": lambda: torch.matmul(a, b.t(), out=out)}
    scaled = lambda fast: lambda: torch._scaled_mm(a, b.t(), scale_a=scales[0], scale_b=scales[1], out_dtype=out.dtype, use_fast_accum=fast)  # noqa: E731
    out.copy_(scaled(False)())
    return {"cublas": scaled(False), "cublas_fast": scaled(True)}


def time_shape(torch, runtime, binding, device, shape, dtype, options, generator):
    m, n, k = shape
    kind, out = gemm_check.torch_type(torch, dtype), gemm_check.torch_type(torch, out_of(dtype))
    code, out_code = code_of(binding, dtype), code_of(binding, out_of(dtype))
    a, b = (torch.randn(s, generator=generator, device="cuda").to(kind) for s in ((m, k), (n, k)))
    d, peer = torch.full((m, n), math.nan, dtype=out, device="cuda"), torch.empty((m, n), dtype=out, device="cuda")
    row = {"dtype": dtype, "m": m, "n": n, "k": k}
    scales, more = [], {}
    if dtype == "e4m3":
        scales = [torch.tensor(scale, dtype=torch.float32, device="cuda") for scale in (0.5, 2.0)]
        more = {name: binding.tensor(scale.data_ptr(), device, binding.F32, []) for name, scale in zip(("scale_a", "scale_b"), scales)}
    candidates = peers_of(torch, a, b, scales, peer)
    bound = [binding.tensor(t.data_ptr(), device, c, list(t.shape)) for t, c in ((a, code), (b, code), (d, out_code))]

    def ours():
        runtime.gemm(*bound, stream=torch.cuda.current_stream().cuda_stream, **more)
    try:
        if (dtype, shape) in options.unserved:
            raise binding.TilejitError(binding.UNSUPPORTED, "unsupported", "argument", options.unserved[dtype, shape], "")
        ours()
        torch.cuda.synchronize()
        row["kernel"] = runtime.prepare(device, op=b"gemm", dtype=code, out=out_code, m=m, n=n, k=k).name.decode()
        if options.tile and options.tile not in row["kernel"].split("_"):
            raise binding.TilejitError(binding.INTERNAL, "internal", "argument", f"{row['kernel']} ran; are library and tj-warm of one build?", "")
        candidates["tilejit"] = ours
    except binding.TilejitError as error:
        row["refused"] = error.message
    flops = 2.0 * m * n * k
    times = timing.time_graphs(torch, candidates, calls_of(flops), options.rounds, options.runs)
    row.update({name: timing.summary(values, flops) for name, values in times.items()})
    if "tilejit" in row:
        row.update({f"over_{name}": row[name]["median_ms"] / row["tilejit"]["median_ms"] for name in PEERS if name in row})
        row["difference"] = float((d.float() - peer.float()).norm() / peer.float().norm())
        row["wrong"] = not row["difference"] <= MOST_DIFFERENCE  # NaN is wrong too
    return row


def measure_choices(library, cache_dir, options):
    """Before any runtime: one tile becomes the choice for every shape, or the fastest of all. Returns (dtype, shape) -> why not."""
    unserved = {}
    for dtype in options.dtypes:
        if options.tile:
            unserved.update({(dtype, shape): why for shape, why in tuning.choose_tile(library, cache_dir, dtype, options.gemm_shapes, options.tile).items()})
        elif options.tune:
            tuning.tune(library, cache_dir, dtype, options.gemm_shapes)
    return unserved


def run(torch, runtime, binding, device, options):
    generator = torch.Generator(device="cuda").manual_seed(options.seed)
    rows = []
    for dtype in options.dtypes:
        for shape in options.gemm_shapes:
            rows.append(time_shape(torch, runtime, binding, device, shape, dtype, options, generator))
            print(line(rows[-1]), flush=True)
    ratios = [row["over_cublas"] for row in rows if "over_cublas" in row]
    return {"seed": options.seed, "rounds": options.rounds, "runs_a_round": options.runs, "rows": rows, "wanted": WANTED, "tile": options.tile, "tuned": options.tune,
            "geometric_mean": timing.geometric_mean(ratios), "least": min(ratios, default=None), "wrong": sum(row.get("wrong", False) for row in rows), "refused": sum("refused" in row for row in rows)}


def line(row):
    text = f"{row['dtype']:4} {row['m']}x{row['n']}x{row['k']}:"
    for name in ("tilejit", "cublas"):
        text += f"  {name} {row[name]['median_ms'] * 1e3:.1f} us, {row[name]['tflops']:.1f} TFLOP/s" if name in row else f"  {name} refused: {row['refused']}"
    if "over_cublas_fast" in row:
        text += f"  with fast sums {row['cublas_fast']['tflops']:.1f} TFLOP/s x{row['over_cublas_fast']:.3f}"
    if row.get("wrong"):
        text += f"  WRONG: {row['difference']:.2e} from cuBLAS's result"
    return text + (f"  x{row['over_cublas']:.3f}  {row['kernel']}" if "over_cublas" in row else "")


def kernels_text(section):
    if section.get("tile"):
        return f" Only tiles of {section['tile']}."
    return " Tiles as tj-warm --tune chose them." if section.get("tuned") else ""


def markdown(section):
    lines = ["## Speed", "",
             f"Microseconds a call, replayed from CUDA graphs (caches warm, launch excluded): medians of {section['rounds']} x {section['runs_a_round']} replays, "
             f"interleaved in one run; normal random data (seed {section['seed']})." + kernels_text(section), "",
             "| type | M x N x K | tilejit us | cuBLAS us | tilejit TFLOP/s | over cuBLAS | kernel |", "|---|---|---|---|---|---|---|"]
    for row in section["rows"]:
        ours = [f"{row['tilejit']['median_ms'] * 1e3:.1f}", f"{row['cublas']['median_ms'] * 1e3:.1f}", f"{row['tilejit']['tflops']:.1f}",
                f"{row['over_cublas']:.3f}", row["kernel"]] if "tilejit" in row else ["-", f"{row['cublas']['median_ms'] * 1e3:.1f}", "-", "-", "refused"]
        lines.append(f"| {row['dtype']} | {row['m']} x {row['n']} x {row['k']} | " + " | ".join(ours) + " |")
    fast = [row["over_cublas_fast"] for row in section["rows"] if "over_cublas_fast" in row]
    if fast:
        lines += ["", f"Over torch._scaled_mm with use_fast_accum, whose sums stay in the matrix unit: geometric mean {timing.geometric_mean(fast):.3f}, least {min(fast):.3f}."]
    if section["geometric_mean"]:
        lines += ["", f"Geometric mean {section['geometric_mean']:.3f} (wanted {section['wanted']['geometric_mean']}), least {section['least']:.3f} "
                  f"(wanted {section['wanted']['least']}), {section['refused']} refused."]
    return lines + [""]


def self_test():
    assert parse_shapes("8,2x3x4") == [(8, 8, 8), (2, 3, 4)] and calls_of(2.0 * 16384 ** 3) == 2 and calls_of(1e6) == 40
    timed = timing.summary([1.0, 2.0, 9.0], 4e9)
    rows = [{"dtype": "f16", "m": 1, "n": 2, "k": 3, "kernel": "gemm_x", "tilejit": timed, "cublas": timed, "over_cublas": 1.0},
            {"dtype": "bf16", "m": 3, "n": 2, "k": 1, "refused": "strides", "cublas": timed}]
    text = "\n".join(markdown({"rounds": 1, "runs_a_round": 3, "seed": 1, "rows": rows, "geometric_mean": 1.0, "least": 1.0, "wanted": WANTED, "refused": 1}))
    assert "| f16 | 1 x 2 x 3 | 2000.0 | 2000.0 | 2.0 | 1.000 | gemm_x |" in text and "| bf16 | 3 x 2 x 1 | - | 2000.0 | - | - | refused |" in text, text
    narrow = {**rows[0], "dtype": "e4m3", "cublas_fast": timed, "over_cublas_fast": 0.5}
    text = "\n".join(markdown({"rounds": 1, "runs_a_round": 3, "seed": 1, "rows": [narrow], "geometric_mean": 1.0, "least": 1.0, "wanted": WANTED, "refused": 0}))
    assert "use_fast_accum" in text and "geometric mean 0.500, least 0.500" in text and "x0.500" in line(narrow), text
    assert (1000, 1000, 1000) not in SHAPES_OF["e4m3"] and (1, 8192, 8192) in SHAPES_OF["e4m3"] and out_of("e4m3") == "bf16"
    assert "x1.000  gemm_x" in line(rows[0]) and "refused: strides" in line(rows[1])
