"""The functions of the package: calls of ops, and what is asked about them.

Decides signatures, shapes of results, and how arguments become members of C's structures. Legal values are the library's to judge.
"""
from __future__ import annotations

import ctypes

from . import _c
from ._calls import Call, one_of, runtime_of as _runtime, shape_of
from ._device import Device
from ._error import Error
from ._experts import _combine, _grouped_gemm, _quantise, combine, grouped_gemm, quantise  # noqa: F401 -- three of the ops
from ._merge import _merge_states, merge_states  # noqa: F401 -- one of the ops
from ._library import check, device_text, encoded, flag, library, number, real, shown
from ._products import _gemm, gemm  # noqa: F401 -- one of the ops
from ._ready import plain, short
from ._recurrence import _gated_delta_rule, gated_delta_rule  # noqa: F401 -- one of the ops
from ._stages import _chunk_cumsum, _chunk_solve, _chunk_states, _chunk_wu, chunk_cumsum, chunk_solve, chunk_states, chunk_wu  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Sequence, Tuple, Union

    from ._plan import Plan
    from ._preparation import Preparation
    from ._runtime import KernelReport, Runtime, TuneReport
    from ._types import DeviceLike, StreamLike, SupportsDLPack, Tensor

_LAYOUTS = {"bhsd": False, "bshd": True}
_NO_WINDOW = -1, -1
_FMHA_PAIR, _CHUNKS_PAIR = "(o, lse), with return_lse", "(chunk_indices, total_chunks)"


def _two(out, name: str):
    """A pair of results that the caller gives, or none."""
    if out is None:
        return None, None
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise Error(f"out is {type(out).__name__}; allowed: a pair of tensors, {name}")
    return out


def _limit(max_sms):
    """Of multiprocessors; the library refuses those below 0."""
    return number(max_sms, "max_sms", -2**31, 2**31 - 1)


def _sides(window):
    """(left, right) of a window, each a number of keys, or -1 for all."""
    if type(window) is tuple and window == _NO_WINDOW:
        return window
    try:
        left, right = window
    except (TypeError, ValueError):
        raise Error(f"window is {shown(window)}; allowed: (left, right), each a number of keys, or -1 for all") from None
    return number(left, "window[0] (left)", -2**63, 2**63 - 1), number(right, "window[1] (right)", -2**63, 2**63 - 1)


def _fmha(q, k, v, *, causal=False, scale=None, window=_NO_WINDOW, top_left=False, softcap=0.0, alibi_slopes=None, sinks=None, cu_seqlens_q=None,
          cu_seqlens_k=None, seqused_k=None, block_table=None, bias=None, score_mod=None, mask_mod=None, key_range=None, mod_params=None, out=None,
          return_lse=False, layout="bhsd", max_sms=0, stream=None, asks=False):
    left, right = _sides(window)
    args = _c.FmhaArgs(causal=flag(causal, "causal"), max_sms=_limit(max_sms), has_window=1, window_left=left, window_right=right,
                       top_left=flag(top_left, "top_left"), softcap=real(softcap, "softcap"), score_mod=device_text("score_mod", score_mod),
                       mask_mod=device_text("mask_mod", mask_mod), key_range=device_text("key_range", key_range))
    call, swapped, return_lse = Call("fmha", args, stream, asks), one_of("layout", layout, _LAYOUTS), flag(return_lse, "return_lse")
    q, k, v = call.tensor("q", q), call.tensor("k", k), call.tensor("v", v)
    beside = {"alibi_slopes": alibi_slopes, "sinks": sinks, "cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k, "seqused_k": seqused_k,
              "block_table": block_table, "bias": bias, "mod_params": mod_params}
    beside = {name: call.tensor(name, x, True) for name, x in beside.items() if x is not None}
    out, lse_out = _two(out, _FMHA_PAIR) if return_lse else (out, None)
    if cu_seqlens_q is not None:
        return _fmha_sequences(call, q, k, v, beside, out, lse_out, return_lse, swapped, scale)
    shape = shape_of(q, 4)
    o = call.result("out", out, q, (*shape[:3], v.shape[3] if v.c.rank == 4 else shape[3]), q.dtype)
    if swapped:
        for each in (q, shape_of(k, 4) and k, shape_of(v, 4) and v, shape_of(o, 4) and o):
            each.swap(1, 2)
    lse = call.result("lse", lse_out, q, q.shape[:3], "f32") if return_lse else None
    call.put(q=q, k=k, v=v, o=o, lse=lse, **beside)
    call.scale(scale)
    return call


def _fmha_sequences(call, q, k, v, beside, out, lse_out, return_lse, swapped, scale):
    """Rows of all sequences one behind the other: the layout is theirs."""
    if swapped:
        raise Error("layout is 'bshd' and cu_seqlens_q is given; allowed with it: the default, as tensors are [T, H, D]")
    shape = shape_of(q, 3)
    o = call.result("out", out, q, (*shape[:2], shape_of(v, 3, 4)[-1]), q.dtype)
    lse = call.result("lse", lse_out, q, (shape[1], shape[0]), "f32") if return_lse else None
    call.put(q=q, k=k, v=v, o=o, lse=lse, **beside)
    call.scale(scale)
    return call


def _chunk_indices(cu_seqlens, *, tokens=None, out=None, max_sms=0, stream=None, asks=False):
    call = Call("chunk_indices", _c.ChunkIndicesArgs(max_sms=_limit(max_sms)), stream, asks)
    ends = call.tensor("cu_seqlens", cu_seqlens)
    rows, total = _two(out, _CHUNKS_PAIR)
    most = 0
    if rows is None:
        if tokens is None:
            raise Error("tokens is missing: without out= it says how long the list may become; allowed: the number of tokens of all sequences")
        most = number(tokens, "tokens", 0, 2**31 - 1) // 64 + max(shape_of(ends, 1)[0] - 1, 0)
    rows = call.result("chunk_indices", rows, ends, (most, 2), "i32")
    total = call.result("total_chunks", total, ends, (1,), "i32")
    call.put(cu_seqlens=ends, chunk_indices=rows, total_chunks=total)
    return call


def _chunk_o(q, k, v_new, h, *, g_cu=None, cu_seqlens=None, chunk_indices=None, total_chunks=None, seq_length=0, scale=None, h_transposed=False,
             out=None, max_sms=0, num_stages=0, evict_first=False, stream=None, asks=False):
    args = _c.ChunkOArgs(seq_length=number(seq_length, "seq_length", -2**63, 2**63 - 1), h_transposed=flag(h_transposed, "h_transposed"),
                         max_sms=_limit(max_sms), num_stages=number(num_stages, "num_stages", -2**31, 2**31 - 1),
                         evict_first=flag(evict_first, "evict_first"))
    call = Call("chunk_o", args, stream, asks)
    q, k, v_new, h = (call.tensor(name, x) for name, x in (("q", q), ("k", k), ("v_new", v_new), ("h", h)))
    options = {name: call.tensor(name, x, True) for name, x in (("g_cu", g_cu), ("cu_seqlens", cu_seqlens), ("chunk_indices", chunk_indices),
                                                                ("total_chunks", total_chunks))}
    o = call.result("out", out, q, (shape_of(q, 3)[0], *shape_of(v_new, 3)[1:]), q.dtype)
    call.put(q=q, k=k, v_new=v_new, h=h, o=o, **options)
    call.scale(scale)
    return call


_MAKERS = {"fmha": _fmha, "gemm": _gemm, "grouped_gemm": _grouped_gemm, "quantise": _quantise, "combine": _combine,
           "merge_states": _merge_states, "chunk_indices": _chunk_indices, "chunk_o": _chunk_o, "gated_delta_rule": _gated_delta_rule,
           "chunk_cumsum": _chunk_cumsum, "chunk_solve": _chunk_solve, "chunk_wu": _chunk_wu, "chunk_states": _chunk_states}


def _asking(op, arguments, options) -> Call:
    name = op if isinstance(op, str) else getattr(op, "__name__", op)
    return one_of("op", name, _MAKERS)(*arguments, asks=True, **options)


def fmha(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: Optional[float] = None, window: Tuple[int, int] = _NO_WINDOW,
         top_left: bool = False, softcap: float = 0.0, alibi_slopes: Optional[SupportsDLPack] = None, sinks: Optional[SupportsDLPack] = None,
         cu_seqlens_q: Optional[SupportsDLPack] = None, cu_seqlens_k: Optional[SupportsDLPack] = None,
         seqused_k: Optional[SupportsDLPack] = None, block_table: Optional[SupportsDLPack] = None, bias: Optional[SupportsDLPack] = None,
         score_mod: Optional[str] = None, mask_mod: Optional[str] = None, key_range: Optional[str] = None,
         mod_params: Optional[SupportsDLPack] = None, out: Any = None,
         return_lse: bool = False, layout: str = "bhsd", max_sms: int = 0, stream: Optional[StreamLike] = None,
         runtime: Optional[Runtime] = None) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Attention forward: softmax(scale * q k^T [masked]) v, summed in f32.

    q [B, H, Sq, D]; k [B, Hkv, Sk, D]; v [B, Hkv, Sk, Dv]; o [B, H, Sq, Dv]; D and Dv multiples of 8 up to 256, H a multiple of Hkv;
    layout="bshd": the second and third dimensions are exchanged in all of them. f16 or bf16, one type for all; the last dimension is
    contiguous, other strides and addresses are multiples of 16 bytes.
    Query r stands at key r + Sk - Sq, with top_left at key r. causal: it sees no key behind that. window (left, right): it sees so many keys
    before its place and behind it, -1 for all. A row without a key gives 0. scale: any finite number; D**-0.5 where it is None.
    softcap c > 0: scaled scores x become c tanh(x / c). alibi_slopes f32 [H] or [B, H]: a score loses slope * |place - j|. sinks f32 [H]: a
    logit that joins the sum of each row's exponentials, and has no value.
    cu_seqlens_q, cu_seqlens_k i32 [B + 1]: q and o are [T, H, D], k and v [Tk, Hkv, D], rows of sequences one behind the other; lse is [H, T].
    seqused_k i32 [B]: keys that count. block_table i32 [B, pages]: k and v are [pages, page size, Hkv, D]. Lists are read on the device.
    bias, f32 or q's type [B or 1, H or 1, Sq or 1, Sk or 1], is added to scaled scores. score_mod, mask_mod and key_range are bodies of functions
    in device code: of (score, b, h, q, k, params) the new score, of (b, h, q, k, params) whether the query sees the key, and of (b, h, q0, q1,
    params, k0, k1, all0, all1) which keys queries of a tile see. q and k are places among the keys. params.i32(n) and params.f32(n) read
    mod_params [N], i32 or f32. src/ops/fmha/README.md has more.
    Returns o, made by q's framework, or `out`; with return_lse (o, lse), lse f32 [B, H, Sq], and out is such a pair.
    max_sms: multiprocessors that the launches may fill, so that other work can run beside; 0: all.
    stream: a driver's handle or a framework's stream; None: the framework's current one. Raises tilejit.Error.

    >>> import numpy, tilejit
    >>> q = numpy.ones((1, 2, 64, 64), numpy.float16)
    >>> tilejit.fmha(q, q, q, causal=True)[0, 0, 0, :3]
    array([1., 1., 1.], dtype=float16)
    """
    given = (q, k, v) if alibi_slopes is None and sinks is None and cu_seqlens_q is None and bias is None and mod_params is None else (
        q, k, v, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, block_table, bias, mod_params)
    if out is not None:
        given += _two(out, _FMHA_PAIR) if return_lse else (out,)
    kinds, objects = tuple(map(type, given)), given if len(given) == 3 else tuple([x for x in given if x is not None])
    key = kinds, causal, scale, return_lse, layout, max_sms, *_sides(window), top_left, softcap, score_mod, mask_mod, key_range
    done = short(runtime, key, stream, objects, out)
    if done is not None:
        return tuple(done) if return_lse else done
    call = _fmha(q, k, v, causal=causal, scale=scale, window=window, top_left=top_left, softcap=softcap, alibi_slopes=alibi_slopes, sinks=sinks,
                 cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, seqused_k=seqused_k, block_table=block_table, bias=bias, score_mod=score_mod,
                 mask_mod=mask_mod, key_range=key_range, mod_params=mod_params, out=out,
                 return_lse=return_lse, layout=layout, max_sms=max_sms, stream=stream)
    results = call.run(_runtime(runtime), key)
    return results if return_lse else results[0]


def chunk_indices(cu_seqlens: Tensor, *, tokens: Optional[int] = None, out: Optional[Tuple[Tensor, Tensor]] = None, max_sms: int = 0,
                  stream: Optional[StreamLike] = None, runtime: Optional[Runtime] = None) -> Tuple[Tensor, Tensor]:
    """The list of all chunks of 64 tokens of sequences that follow each other, made on the device.

    cu_seqlens i32 [N + 1]; tokens: of all sequences together, needed without out. Returns (chunk_indices i32 [C, 2], total_chunks i32 [1]), C
    being the most that there can be, or `out`, such a pair. Rows from total_chunks on hold anything. max_sms: as fmha. Raises tilejit.Error.

    >>> import numpy, tilejit
    >>> rows, total = tilejit.chunk_indices(numpy.array([0, 100, 101], numpy.int32), tokens=101)
    >>> rows[:total[0]].tolist()
    [[0, 0], [0, 1], [1, 0]]
    """
    objects = (cu_seqlens,) if out is None else (cu_seqlens, *_two(out, _CHUNKS_PAIR))
    key = tuple(map(type, objects)), tokens, max_sms
    done = short(runtime, key, stream, objects, out)
    if done is not None:
        return tuple(done)
    return _chunk_indices(cu_seqlens, tokens=tokens, out=out, max_sms=max_sms, stream=stream).run(_runtime(runtime), key)


def chunk_o(q: Tensor, k: Tensor, v_new: Tensor, h: Tensor, *, g_cu: Optional[SupportsDLPack] = None, cu_seqlens: Optional[SupportsDLPack] = None,
            chunk_indices: Optional[SupportsDLPack] = None, total_chunks: Optional[SupportsDLPack] = None, seq_length: int = 0,
            scale: Optional[float] = None, h_transposed: bool = False, out: Optional[Tensor] = None, max_sms: int = 0, num_stages: int = 0,
            evict_first: bool = False, stream: Optional[StreamLike] = None, runtime: Optional[Runtime] = None) -> Tensor:
    """Output of the gated delta rule, chunk by chunk: the last step of its forward pass, summed in f32.

    q, k bf16 [T, H, 128]; v_new bf16 [R, Hv, 128]; h bf16 [C, Hv, 128, 128]; g_cu f32 [T, Hv] or None. Sequences of any lengths: cu_seqlens,
    and chunk_indices and total_chunks as chunk_indices() gives them; else all have seq_length tokens. h_transposed: h's matrices are stored
    [K, V]. scale: 128**-0.5 where it is None. Returns o bf16 [T, Hv, 128], made by q's framework, or `out`. The formula stands in
    include/tilejit/chunk_o.hpp. max_sms: as fmha. num_stages: slots of the rings that copies fill, 0 as many as fit. evict_first: L2 lets go of
    the lines of h and v_new first. Raises tilejit.Error.

    >>> import ml_dtypes, numpy, tilejit
    >>> q = numpy.ones((64, 1, 128), ml_dtypes.bfloat16)
    >>> h = numpy.zeros((1, 1, 128, 128), ml_dtypes.bfloat16)
    >>> tilejit.chunk_o(q, q, q, h, seq_length=64, scale=1 / 128)[:4, 0, 0].tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    given = (q, k, v_new, h, g_cu, cu_seqlens, chunk_indices, total_chunks, out)
    key = (tuple(map(type, given)), seq_length, plain(scale), h_transposed, max_sms, num_stages, evict_first)
    done = short(runtime, key, stream, tuple([x for x in given if x is not None]), out)
    if done is not None:
        return done
    call = _chunk_o(q, k, v_new, h, g_cu=g_cu, cu_seqlens=cu_seqlens, chunk_indices=chunk_indices, total_chunks=total_chunks,
                    seq_length=seq_length, scale=scale, h_transposed=h_transposed, out=out, max_sms=max_sms, num_stages=num_stages,
                    evict_first=evict_first, stream=stream)
    return call.run(_runtime(runtime), key)[0]


def _flags(flags: dict) -> bytes:
    def word(value):
        if isinstance(value, (list, tuple)):
            return ",".join(map(word, value))
        return str(value).lower() if isinstance(value, bool) else str(value)
    return encoded(" ".join(f"--{name.replace('_', '-')} {word(value)}" for name, value in flags.items()), "flags")


def prepare(op: Any, *arguments: Any, device: Optional[DeviceLike] = None, runtime: Optional[Runtime] = None, **options: Any) -> KernelReport:
    """Gets the kernels of a call compiled, cached and loaded, without launching.

    op: "fmha", "merge_states", "gemm", "grouped_gemm", "quantise", "combine", "chunk_indices", "chunk_o", "gated_delta_rule" or one of its stages,
    as "chunk_cumsum". With tensors, or Specs in their place: those of such a call, and its other arguments. Without: flags as tj-warm has them,
    dashes as underscores; lists are combined; on `device`, or the default one. With tensors, device is None.
    Returns a KernelReport, of the last kernel. Raises tilejit.Error.

    >>> import tilejit
    >>> q = tilejit.Spec((2, 8, 1024, 64), "bf16", "cpu")
    >>> tilejit.prepare("fmha", q, q, q, causal=True).name
    'fmha_bf16_d64_causal'
    >>> tilejit.prepare("fmha", dtype="bf16", head_dim=64, causal=[False, True], general_scale=False).kernels  # full: two tiles; causal: two walks
    4
    """
    from ._runtime import KernelReport
    runtime, report, kernels = _runtime(runtime), _c.KernelReport(), ctypes.c_size_t(1)
    handle = runtime.handle()
    if arguments:
        if device is not None:
            raise Error(f"device is {shown(device)} beside tensors, which say theirs; allowed: None, or flags in their place")
        call = _asking(op, arguments, options)
        check(library().tj_prepare(handle.value, call.op, ctypes.addressof(call.args), ctypes.byref(report)))
    else:
        device = runtime.default_device() if device is None else Device.of(device)
        check(library().tj_prepare_flags(handle.value, encoded(op, "op"), _flags(options), device.c, ctypes.byref(report), ctypes.byref(kernels)))
    return KernelReport.from_c(report, kernels.value)


def prepare_async(op: Any, *arguments: Any, device: Optional[DeviceLike] = None, threads: int = 1, time_limit_s: float = 0,
                  runtime: Optional[Runtime] = None, **options: Any) -> Preparation:
    """prepare() in the background: returns a tilejit.Preparation at once, which has progress, and to which more can be added.

    threads: kernels made at once; time_limit_s: seconds after which no kernel is begun, 0 for none. The others: as prepare()'s. Raises
    tilejit.Error for the arguments; what cannot be made is told by the preparation.

    >>> import tilejit
    >>> work = tilejit.prepare_async("fmha", dtype="bf16", head_dim=64, causal=True, general_scale=False, device="cpu")
    >>> work.wait().ended, [report.name for report in work.reports()]
    (True, ['fmha_bf16_d64_causal_dynamic', 'fmha_bf16_d64_causal'])
    """
    from ._preparation import Preparation
    return Preparation(threads=threads, time_limit_s=time_limit_s, runtime=runtime).add(op, *arguments, device=device, **options)


def warm(op: str, target: str, *, runtime: Optional[Runtime] = None, **flags: Any) -> KernelReport:
    """Compiles kernels for a target into the disk cache, without any device. flags: as prepare()'s. Returns a KernelReport, of the last one.
    Raises tilejit.Error.

    >>> import tilejit
    >>> tilejit.warm("fmha", "model:sm_90a", dtype="bf16", head_dim=64, causal=True, general_scale=False).target
    'model:sm_90a'
    """
    from ._runtime import KernelReport
    report, kernels, handle = _c.KernelReport(), ctypes.c_size_t(), _runtime(runtime).handle()
    check(library().tj_warm_flags(handle.value, encoded(op, "op"), _flags(flags), encoded(target, "target"), ctypes.byref(report), ctypes.byref(kernels)))
    return KernelReport.from_c(report, kernels.value)


def _names(only) -> bytes:
    try:
        names = None if isinstance(only, str) else tuple(only)
    except TypeError:
        names = None
    if names is None or not all(isinstance(each, str) for each in names):
        raise Error(f"only is {shown(only)}; allowed: a list of names, such as ['128x256x64']")
    return encoded(",".join(names), "only")


def tune_options(only: Sequence[str], limit: int, rounds: int, seed: int) -> _c.TuneOptions:
    return _c.TuneOptions(only=_names(only), seed=number(seed, "seed", 0, 2**64 - 1), limit=number(limit, "limit", 0, 2**31 - 1),
                          rounds=number(rounds, "rounds", 1, 2**31 - 1))


def tuned(measure) -> TuneReport:
    """The report that measure(pointer) fills."""
    from ._runtime import TuneReport
    report = _c.TuneReport()
    check(measure(ctypes.byref(report)))
    texts = (getattr(report, name).decode() for name in ("problem", "device", "target", "chosen"))
    return TuneReport(*texts, report.measured_us, report.usual_us, report.flops, report.variants, report.measured, bool(report.kept))


def tune(op: Any, *arguments: Any, only: Sequence[str] = (), limit: int = 0, rounds: int = 10, seed: int = 0,
         runtime: Optional[Runtime] = None, **options: Any) -> TuneReport:
    """Measures the kernels that can serve a call's sizes on its GPU, and keeps the fastest one's name in the cache: calls of these sizes take it.

    op and arguments: of such a call, tensors or Specs. only: names of kernels to measure; limit: how many, 0 for all. Returns a TuneReport.
    Raises tilejit.Error with the stage "target" where the device is no GPU of NVIDIA.

    >>> import tilejit
    >>> a, b = tilejit.Spec((4096, 4096), "f16", "cpu"), tilejit.Spec((4096, 4096), "f16", "cpu")  # on a GPU: "cuda:0"
    >>> try:
    ...     print(tilejit.tune("gemm", a, b, limit=4).chosen)
    ... except tilejit.Error as error:
    ...     print(error.stage, error.code)
    target unsupported
    """
    call, handle, how = _asking(op, arguments, options), _runtime(runtime).handle(), tune_options(only, limit, rounds, seed)
    return tuned(lambda report: library().tj_tune(handle.value, call.op, ctypes.addressof(call.args), ctypes.byref(how), report))


def plan(op: Any, *arguments: Any, runtime: Optional[Runtime] = None, **options: Any) -> Plan:
    """Validates and resolves a call once, to be run many times on other memory of the same shapes: a tilejit.Plan.

    op and arguments: of such a call, tensors or Specs. Raises tilejit.Error as the call does.

    >>> import numpy, tilejit
    >>> a, d = numpy.ones((64, 64), numpy.float16), numpy.empty((64, 64), numpy.float16)
    >>> plan = tilejit.plan("gemm", a, a)
    >>> plan.tensors
    ('a', 'b', 'd')
    >>> plan.run(a, a, d)
    >>> float(d[0, 0])
    64.0
    """
    from ._plan import Plan
    return Plan(_runtime(runtime), _asking(op, arguments, options))
