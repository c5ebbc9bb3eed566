"""Calls of a group in CUDA graphs, for context_fmha.py: a replay gives the bits of the plain call, products are right, and what differs is told.

Decides what is said of a wrong replay: which elements differ, whether the replay or the plain call is wrong, and which sums or rows it has instead.
Inputs are drawn from turn and rank, so that each rank knows what all ranks brought in each turn.
"""
import copy

SEEDS_OF_RANK = 10  # seeds of a rank in a turn
TURNS = 3
LIMIT = 2e-3  # of the norm, as products of f16 have


def inputs_of(ranks, shapes, turn, rank, kind):
    return [ranks.normal(1000 * turn + SEEDS_OF_RANK * rank + n, *shape, dtype=kind) for n, shape in enumerate(shapes)]


def wanted_product(ranks, name, shapes, turns, inputs=inputs_of):
    """This rank's result where each rank brought the inputs of its turn; None: it brought nothing. In float64."""
    torch, kind, size = ranks.torch, ranks.torch.float16, ranks.size
    own = inputs(ranks, shapes, next(turn for turn in (turns[ranks.rank], *turns) if turn is not None), ranks.rank, kind)
    rows = shapes[0][0] // (1 if name == "all_gather_gemm" else size)
    parts = []
    for rank, turn in enumerate(turns):
        a, b = (each.double() for each in inputs(ranks, shapes, turn or 0, rank, kind))
        product = a @ own[1].double().T if name == "all_gather_gemm" else (a @ b.T)[rows * ranks.rank:rows * (ranks.rank + 1)]
        parts.append(product * (turn is not None))
    return torch.cat(parts) if name == "all_gather_gemm" else sum(parts)


def of_kind(options, kind):
    """Options of a call in the type: c is as d."""
    return {key: value.to(kind) if key == "c" else value for key, value in options.items()}


def known_as(ranks, name, shapes, turn, found, where):
    """A text of what a product's elements are, as far as that is known: the rank whose inputs of another turn they have, or lack."""
    if not name.endswith(("gemm", "scatter")):
        return "unknown (attention)"
    if not bool(found[where].isfinite().all()):
        return f"not finite in {int((~found[where].isfinite()).sum())}"
    candidates = {"right": [turn] * ranks.size}
    for rank in range(ranks.size):
        for other in (*(n for n in range(TURNS) if n != turn), None):
            brought = "nothing" if other is None else f"turn {other}"
            candidates[f"with {brought} of rank {rank}"] = [other if each == rank else turn for each in range(ranks.size)]
    for other in range(TURNS):
        if other != turn:
            candidates[f"all of turn {other}"] = [other] * ranks.size
    for text, turns in candidates.items():
        wanted = wanted_product(ranks, name, shapes, turns)[where]
        if float((found[where].double() - wanted).norm()) <= 4e-3 * float(wanted.norm()):
            return text
    wanted = wanted_product(ranks, name, shapes, candidates["right"])[where]
    return f"unknown, {float((found[where].double() - wanted).norm() / wanted.norm()):.3g} of the norm away"


def difference(found, wanted, differs):
    """A text of the elements in which two tensors differ, with rows of the last dimension."""
    rows, other, differs = (each.reshape(-1, each.shape[-1]) for each in (found, wanted, differs))
    which_rows, which_columns = (differs.any(dim).nonzero().flatten() for dim in (1, 0))
    return (f"{int(differs.sum())} of {differs.numel()} elements differ, in {len(which_rows)} rows {int(which_rows[0])} to {int(which_rows[-1])} and "
            f"{len(which_columns)} columns {int(which_columns[0])} to {int(which_columns[-1])}, {int(rows.isnan().sum())} NaN, first "
            f"{float(rows[differs][0]):.6g} beside {float(other[differs][0]):.6g}")


def right_turn(ranks, text, name, shapes, turn, out, plain, options):
    """Has the replay the bits of the plain call, and is a product right? Says what is not. Attention's results are others' to check."""
    added = options.get("beta", 0) * options["c"].double() if "c" in options else 0
    differs, product = out.view(ranks.torch.int16) != plain.view(ranks.torch.int16), name.endswith(("gemm", "scatter"))
    wrong = []
    if bool(differs.any()):
        replayed, called = (known_as(ranks, name, shapes, turn, each - added, differs) for each in (out, plain))
        wrong.append(f"replay and plain call: {difference(out, plain, differs)}; the replay is {replayed}; the plain call is {called}")
    wanted = wanted_product(ranks, name, shapes, [turn] * ranks.size) + added if product else None
    if product and not float((plain.double() - wanted).norm()) <= LIMIT * float(wanted.norm()):  # NaN, too
        far = ~((plain.double() - wanted).abs() <= 4 * LIMIT * wanted.abs().max())
        told = "no element is far away"
        if bool(far.any()):
            told = f"{difference(plain, wanted, far)}; the plain call is {known_as(ranks, name, shapes, turn, plain - added, far)}"
        wrong.append(f"plain call and product in f64: {told}")
    for each in wrong:
        print(f"rank {ranks.rank}: {text}, turn {turn}: {each}", flush=True)
    return not wrong


def check_graph(ranks, name, shapes, options):
    """A call in a CUDA graph, whose kernels prepare() alone has loaded: (text, 0 where it has the bits of plain calls on changed inputs, and
    those of products are right)."""
    torch = ranks.torch
    text = f"graph of {name} {shapes} {' '.join(f'{key}={value}' for key, value in options.items() if key != 'c')}"
    tensors = inputs_of(ranks, shapes, 0, ranks.rank, torch.float16)
    # Other kernels: NCCL connects ranks outside of a capture.
    like = ranks.call(text, name, inputs_of(ranks, shapes, 0, ranks.rank, torch.bfloat16), **of_kind(options, torch.bfloat16))
    options = of_kind(options, torch.float16)
    out = ranks.nan(tuple(like.shape), torch.float16)
    ranks.agree(text, lambda: ranks.group.prepare(name, *tensors, out=out, **options))
    graph = torch.cuda.CUDAGraph()

    def capture():
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # NCCL's threads go on meanwhile
            getattr(ranks.group, name)(*tensors, out=out, **options)

    ranks.agree(text, capture)
    good = bool(torch.isnan(out).all())  # a capture runs nothing
    if not good:
        print(f"rank {ranks.rank}: {text}: {int((~out.isnan()).sum())} of {out.numel()} elements are written by the capture", flush=True)
    for turn in range(TURNS):
        for each, new in zip(tensors, inputs_of(ranks, shapes, turn, ranks.rank, torch.float16)):
            each.copy_(new)
        out.fill_(float("nan"))
        ranks.agree(text, graph.replay)
        plain = ranks.call(text, name, tensors, **options)
        good = right_turn(ranks, text, name, shapes, turn, out, plain, options) and good
    torch.cuda.synchronize()
    graph.reset()  # before its communicator goes
    return text, 0.0 if good else float("inf")


def check_graphs(ranks, _):
    """(what was wrong, or all, infinity or 0); by a group of a runtime that has loaded no kernel yet"""
    ranks = copy.copy(ranks)
    ranks.group = ranks.agree("a second group", lambda: ranks.made("auto", runtime=ranks.tilejit.Runtime()))
    attention = [(1, 512, heads, 128) for heads in (8, 2, 2)]
    cases = [("fmha", attention, {"causal": True, "split": split, "layout": "bshd"}) for split in ("zigzag", "contiguous", "striped")]
    cases += [("fmha", attention, {"causal": True, "layout": "bshd", "exchange": "heads"})] if ranks.size in (1, 2, 4, 8) else []
    cases += [("all_gather_gemm", [(256, 512), (384, 512)], {}), ("gemm_reduce_scatter", [(256 * ranks.size, 512), (384, 512)], {})]
    # c takes a pass behind the own product; more rows travel in pieces, by products in two streams.
    addend = ranks.normal(7, 256, 384, dtype=ranks.torch.float32)
    cases += [("gemm_reduce_scatter", [(256 * ranks.size, 512), (384, 512)], {"c": addend, "beta": 0.5}),
              ("gemm_reduce_scatter", [(4096 * ranks.size, 512), (2048, 512)], {})]
    found = [check_graph(ranks, *case) for case in cases]
    wrong = [text for text, part in found if part > 1]
    return "; ".join(wrong or ["graphs"]), float("inf") if wrong else 0.0
