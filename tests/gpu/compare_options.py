"""The command line of compare.py, checked, and the problems that it means.

Decides what goes together and what is refused; nothing here needs a GPU, NumPy or PyTorch.
"""
import argparse
import hashlib
import json
import os
import secrets

import drawing
import fixed

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "RESULTS.md")
COUNT = 40
LENGTHS = [4096, 16384]


def checked(parse):
    """A converter for argparse, whose message is ours."""
    def convert(text):
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return convert


def whole(least):
    def parse(text):
        value = int(text) if text.lstrip("-").isdigit() else None
        if value is None or value < least:
            raise ValueError(f"'{text}' is not allowed; allowed: whole numbers from {least} on")
        return value
    return checked(parse)


def seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not allowed; allowed: seconds above 0")
    return value


def add_problems(parser):
    group = parser.add_argument_group("which problems")
    group.add_argument("--op", "--what", dest="what", choices=sorted(drawing.DRAWERS), default="fmha")
    group.add_argument("--seed", type=whole(0), help="of the drawn problems and of all data; default: fresh, and printed")
    group.add_argument("--count", type=whole(1), help=f"drawn problems, {COUNT} by default")
    group.add_argument("--slice", type=checked(drawing.parse_slice), metavar="I/N", help="only the I-th of N parts; the same seed makes the others")
    group.add_argument("--sizes", type=checked(fixed.parse_sizes), default="drawn", metavar="drawn|fixed|peers|S,MxNxK,...",
                       help="a list: of products alone; peers: block-scaled products of e4m3 that DeepGEMM was measured on")
    group.add_argument("--without", nargs="+", default=[], metavar="FILE", help="leave out the problems that these JSON documents have")
    group.add_argument("--list", action="store_true", help="print the problems and end; needs no GPU")
    group.add_argument("--dtype", help="types separated by commas; default: f16 and bf16; e4m3: products, by itself; the fixed list of attention: f16")
    group.add_argument("--scales", choices=drawing.SCALES, help="of products of e4m3: one of each operand, of blocks, or of rows; default: tensor")
    group.add_argument("--head-dim", type=whole(1), help="64 or 128; default: both, of the fixed list 128")
    group.add_argument("--causal", choices=["true", "false", "both"], default="both")
    group.add_argument("--seq", type=checked(fixed.parse_numbers), help="lengths of the fixed list of attention, which this asks for")
    for name, value in (("--batch", 4), ("--heads", 32)):
        group.add_argument(name, type=whole(1), default=value, help=f"of the fixed list of attention, {value} by default")
    group.add_argument("--tokens", type=whole(1), help="of the fixed list of attention, in place of --batch: each length gets the batch that makes so many")
    group.add_argument("--kv-heads", type=whole(0), default=0, help="of that list; default: as --heads")
    group.add_argument("--chunk-heads", type=checked(fixed.parse_heads), metavar="H/HV,...", help="heads of the fixed list of chunk_o, which this asks for")
    group.add_argument("--chunk-tokens", type=checked(fixed.parse_numbers), help="tokens of that list")


def add_runs(parser):
    group = parser.add_argument_group("how they are run")
    group.add_argument("--library", help="libtilejit.so; default: the newest below build/")
    group.add_argument("--fa3", metavar="PATH", help="fmha: a shared library or a Python file with fa3_forward(), as README.md beside this script defines it")
    group.add_argument("--rounds", type=whole(1), default=10)
    group.add_argument("--runs", type=whole(1), default=5, help="timed runs of each candidate in a round")
    group.add_argument("--time-limit", type=seconds, metavar="S", help="begin no problem that would end later than S seconds from the start; say which are missing")
    group.add_argument("--tile", help="gemm: only this tile, such as 128x256x64")
    group.add_argument("--tune", action="store_true", help="gemm: tj-warm --tune chooses before anything is timed, in a cache of its own")
    group.add_argument("--skip-tiles", action="store_true", help="gemm: do not time all tiles beside the predicted one (needs tj-warm of the same build)")
    group.add_argument("--skip-triton", action="store_true", help="chunk_o: leave Triton's kernel out")
    group.add_argument("--skip-speed", action="store_true")
    group.add_argument("--shapes", type=whole(0), help="random shapes checked against f64 besides; default: 0, with --sizes fixed 200 (chunk_o: 100)")
    group.add_argument("--cold", type=whole(0), help="repetitions of the cold-start part; default: 0, with --sizes fixed 3")
    group.add_argument("--cache-dir", help="default: the library's own, for --tile, --tune and all tiles a fresh one")
    group.add_argument("--commit", help="that the library was built from; default: the commit of this checkout")


def add_results(parser):
    group = parser.add_argument_group("where results go")
    group.add_argument("--json", metavar="FILE", help="the whole document; written after each problem, so that what was done is never lost")
    group.add_argument("--markdown", metavar="FILE")
    group.add_argument("--record", nargs="?", const=RESULTS, metavar="FILE", help="add the table to RESULTS.md beside this script, newest first")
    group.add_argument("--merge", nargs="+", metavar="FILE", help="run nothing: put these JSON documents of one draw together; needs no GPU")
    group.add_argument("--self-test", action="store_true", help="check references and metrics with NumPy; needs no GPU")
    group.add_argument("--cold-child", metavar="CACHE_DIR", help=argparse.SUPPRESS)


def parse(description, words=None):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_problems(parser)
    add_runs(parser)
    add_results(parser)
    options = parser.parse_args(words)
    fill(parser, options)
    check(parser, options)
    return options


def fill(parser, options):
    """Defaults that depend on others."""
    if options.seq or options.chunk_heads or options.chunk_tokens:
        if options.what != ("fmha" if options.seq else "chunk_o"):
            parser.error("--seq belongs to --op fmha, --chunk-heads and --chunk-tokens to --op chunk_o")
        options.sizes = "fixed"
    if options.sizes != "drawn" and options.count:
        parser.error("--count belongs to drawn problems; allowed with --sizes drawn")
    if options.sizes == "peers":
        if options.what != "gemm" or options.dtype not in (None, "e4m3") or options.scales not in (None, "block"):
            parser.error("--sizes peers is of block-scaled products: allowed with --op gemm --dtype e4m3 --scales block")
        options.dtype, options.scales = "e4m3", "block"
    is_fixed = options.sizes == "fixed"
    given = options.dtype
    options.types = given.split(",") if given else ["f16"] if is_fixed and options.what == "fmha" else list(drawing.DEFAULT_TYPES[options.what])
    for name in options.types:
        if name not in drawing.TYPES[options.what]:
            parser.error(f"--dtype is '{given}'; allowed with --op {options.what}: {', '.join(drawing.TYPES[options.what])}")
    options.masks = {"true": [True], "false": [False], "both": [True, False]}[options.causal]
    options.dims = [options.head_dim] if options.head_dim else [128] if is_fixed else list(drawing.HEAD_DIMS)
    if options.shapes is None:
        options.shapes = (100 if options.what == "chunk_o" else 200) if is_fixed and not options.tile else 0
    if options.cold is None:
        options.cold = 3 if is_fixed else 0
    if options.seed is None:
        options.seed = secrets.randbits(31)
    options.count = options.count or COUNT
    options.tiles = options.what == "gemm" and not (options.skip_tiles or options.tile)


def check(parser, options):
    if "e4m3" in options.types and len(options.types) > 1:
        parser.error("--dtype: e4m3 stands by itself, as its peer is another one")
    if options.scales and options.types != ["e4m3"]:
        parser.error(f"--scales is '{options.scales}'; allowed with --op gemm --dtype e4m3")
    if any(dim not in drawing.HEAD_DIMS for dim in options.dims):
        parser.error(f"--head-dim is {options.head_dim}; allowed: {', '.join(map(str, drawing.HEAD_DIMS))}")
    if isinstance(options.sizes, list) and options.what != "gemm":
        parser.error("--sizes with a list belongs to --op gemm; allowed: drawn, fixed")
    if isinstance(options.sizes, list) and "e4m3" in options.types and any(n % 16 or k % 16 for _, n, k in options.sizes):
        parser.error("--sizes of e4m3: allowed are N and K that are multiples of 16")
    if options.tokens and (options.what != "fmha" or options.sizes != "fixed"):
        parser.error("--tokens belongs to the fixed list of attention: --op fmha --seq")
    if options.tokens and any(options.tokens % length for length in options.seq or LENGTHS):
        parser.error(f"--tokens is {options.tokens}; allowed: multiples of all lengths, which are {', '.join(map(str, options.seq or LENGTHS))}")
    if options.kv_heads and options.heads % options.kv_heads:
        parser.error(f"--kv-heads is {options.kv_heads}; allowed: divisors of --heads, which is {options.heads}")
    step = fixed.SEQUENCES * fixed.CHUNK
    if any(tokens % step for tokens in options.chunk_tokens or ()):
        parser.error(f"--chunk-tokens: allowed are multiples of {step}")
    if (options.tile or options.tune) and (options.what != "gemm" or (options.tile and options.tune)):
        parser.error("--tile and --tune belong to --op gemm, one of them at a time")
    if options.fa3 and options.what != "fmha":
        parser.error("--fa3 belongs to --op fmha")
    if options.merge and (options.list or options.slice or options.without):
        parser.error("--merge puts documents together and runs nothing; --list, --slice and --without do not belong to it")


# ---- the problems ------------------------------------------------------------------------------------------------------
def all_problems(options):
    problems = problems_of(options)
    if options.scales not in (None, "tensor"):
        for problem in problems:
            problem["scales"] = options.scales
    return problems


def problems_of(options):
    if options.sizes == "drawn":
        kinds = {"dims": options.dims, "masks": options.masks} if options.what == "fmha" else {}
        return drawing.draw(options.what, options.seed, options.count, options.types, **kinds)
    if options.sizes == "peers":
        return fixed.peers()
    if options.what == "gemm":
        return fixed.gemm(options.types, None if options.sizes == "fixed" else options.sizes)
    if options.what == "fmha":
        batches = [(length, options.tokens // length if options.tokens else options.batch) for length in options.seq or LENGTHS]
        return fixed.fmha(options.types, batches, options.masks, options.heads, options.kv_heads, options.dims[0])
    return fixed.chunk_o(options.chunk_heads or fixed.HEADS, options.chunk_tokens or fixed.TOKENS)


def draw_of(options, problems):
    """Everything that decides a table: parts with the same draw belong together."""
    return {"op": options.what, "sizes": options.sizes if isinstance(options.sizes, str) else "given", "seed": options.seed, "count": len(problems),
            "digest": hashlib.sha256(json.dumps(problems, sort_keys=True).encode()).hexdigest()[:16], "tile": options.tile, "tuned": options.tune,
            "rounds": options.rounds, "runs": options.runs, "types": options.types}


def repeat_words(options):
    """The flags that draw these problems again."""
    words = f"--op {options.what} --seed {options.seed}" + (f" --count {options.count}" if options.sizes == "drawn" else "")
    words += f" --scales {options.scales}" if options.scales else ""
    if options.sizes == "fixed" and options.what == "fmha":
        words += f" --seq {','.join(map(str, options.seq or LENGTHS))} " + (f"--tokens {options.tokens}" if options.tokens else f"--batch {options.batch}")
        words += f" --heads {options.heads} --head-dim {options.dims[0]} --causal {options.causal}"
        words += f" --dtype {','.join(options.types)}"
        words += f" --kv-heads {options.kv_heads}" if options.kv_heads else ""
    return words
