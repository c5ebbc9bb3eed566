"""Stages of the gated delta rule in chunks: the calls of Python, and how their arguments become structures of C; see _ops.py."""
from __future__ import annotations

from . import _c
from ._calls import Call, one_of, runtime_of, shape_of
from ._error import Error
from ._library import number
from ._ready import short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

    from ._runtime import Runtime
    from ._types import StreamLike, SupportsDLPack, Tensor


def _limit(max_sms):
    return number(max_sms, "max_sms", -2**31, 2**31 - 1)


def _given(objects):
    """What the short way takes: objects that are there."""
    return tuple([x for x in objects if x is not None])


def _chunk_cumsum(gate, *, gate_form="log", a_log=None, dt_bias=None, cu_seqlens=None, out=None, max_sms=0, stream=None, asks=False):
    args = _c.ChunkCumsumArgs(gate_form=one_of("gate_form", gate_form, _c.GATE_FORMS), max_sms=_limit(max_sms))
    call = Call("chunk_cumsum", args, stream, asks)
    gate = call.tensor("gate", gate)
    options = {name: call.tensor(name, x, True) for name, x in (("a_log", a_log), ("dt_bias", dt_bias), ("cu_seqlens", cu_seqlens))}
    call.put(gate=gate, g_cu=call.result("out", out, gate, shape_of(gate, 2, 3), "f32"), **options)
    return call


def chunk_cumsum(gate: Tensor, *, gate_form: str = "log", a_log: Optional[SupportsDLPack] = None, dt_bias: Optional[SupportsDLPack] = None,
                 cu_seqlens: Optional[SupportsDLPack] = None, out: Optional[Tensor] = None, max_sms: int = 0, stream: Optional[StreamLike] = None,
                 runtime: Optional[Runtime] = None) -> Tensor:
    """Running sums of the decays' logarithms inside chunks of 64 tokens: the first stage of the gated delta rule in chunks.

    gate [T, H] or [B, T, H], f32, f16 or bf16; gate_form, a_log f32 [H] and dt_bias [H] as gated_delta_rule. cu_seqlens i32 [N + 1]: sequences of
    any lengths, without B; each begins chunks of its own, and tokens of none keep what the result held. Returns g_cu f32 [.., T, H], natural
    logarithms, made by gate's framework, or `out`. max_sms: as fmha. Raises tilejit.Error.

    >>> import numpy, tilejit
    >>> tilejit.chunk_cumsum(-numpy.ones((66, 1), numpy.float32))[[0, 1, 63, 64, 65], 0].tolist()
    [-1.0, -2.0, -64.0, -1.0, -2.0]
    """
    given = (gate, a_log, dt_bias, cu_seqlens, out)
    key = ("chunk_cumsum", *map(type, given)), gate_form, max_sms
    done = short(runtime, key, stream, _given(given), out)
    if done is not None:
        return done
    call = _chunk_cumsum(gate, gate_form=gate_form, a_log=a_log, dt_bias=dt_bias, cu_seqlens=cu_seqlens, out=out, max_sms=max_sms, stream=stream)
    return call.run(runtime_of(runtime), key)[0]


def _chunk_solve(k, *, beta=None, g_cu=None, cu_seqlens=None, out=None, max_sms=0, stream=None, asks=False):
    call = Call("chunk_solve", _c.ChunkSolveArgs(max_sms=_limit(max_sms)), stream, asks)
    k = call.tensor("k", k)
    options = {name: call.tensor(name, x, True) for name, x in (("beta", beta), ("g_cu", g_cu), ("cu_seqlens", cu_seqlens))}
    shape = shape_of(k, 3, 4)
    heads = next((x.shape[-1] for x in (options["beta"], options["g_cu"]) if x is not None), shape[-2])
    call.put(k=k, a=call.result("out", out, k, (*shape[:-2], heads, 64), k.dtype), **options)
    return call


def chunk_solve(k: Tensor, *, beta: Optional[SupportsDLPack] = None, g_cu: Optional[SupportsDLPack] = None,
                cu_seqlens: Optional[SupportsDLPack] = None, out: Optional[Tensor] = None, max_sms: int = 0, stream: Optional[StreamLike] = None,
                runtime: Optional[Runtime] = None) -> Tensor:
    """The solved matrix of each chunk of 64 tokens, A = (I + M)^-1: the second stage of the gated delta rule in chunks.

    M_ij = beta_i (k_i k_j) e^(g_cu_i - g_cu_j) for j < i, else 0. k [T, Hk, K] or [B, T, Hk, K], f16 or bf16, K 64 or 128; beta [.., T, H], f32 or
    k's type, 1 when absent; g_cu f32 [.., T, H], as chunk_cumsum gives it, 0 when absent; H a multiple of Hk, by default beta's, else g_cu's, else Hk.
    cu_seqlens i32 [N + 1]: sequences of any lengths, without B. Returns a [.., T, H, 64] of k's type: row i of A for token i of a chunk; made by k's
    framework, or `out`. max_sms: as fmha. On family sm90 alone. Raises tilejit.Error.

    >>> import tilejit, torch
    >>> tilejit.chunk_solve(torch.ones(2, 1, 64).half() / 8)[:, 0, :2].tolist()
    [[1.0, 0.0], [-1.0, 1.0]]
    """
    given = (k, beta, g_cu, cu_seqlens, out)
    key = ("chunk_solve", *map(type, given)), max_sms
    done = short(runtime, key, stream, _given(given), out)
    if done is not None:
        return done
    return _chunk_solve(k, beta=beta, g_cu=g_cu, cu_seqlens=cu_seqlens, out=out, max_sms=max_sms, stream=stream).run(runtime_of(runtime), key)[0]


def _chunk_wu(k, v, a, *, beta=None, g_cu=None, cu_seqlens=None, out=None, max_sms=0, stream=None, asks=False):
    call = Call("chunk_wu", _c.ChunkWuArgs(max_sms=_limit(max_sms)), stream, asks)
    k, v, a = call.tensor("k", k), call.tensor("v", v), call.tensor("a", a)
    options = {name: call.tensor(name, x, True) for name, x in (("beta", beta), ("g_cu", g_cu), ("cu_seqlens", cu_seqlens))}
    if out is not None and (not isinstance(out, (tuple, list)) or len(out) != 2):
        raise Error(f"out is {type(out).__name__}; allowed: a pair of tensors, (w, u)")
    w, u = out or (None, None)
    rows = shape_of(a, 3, 4)[:-1]
    w, u = call.result("w", w, k, (*rows, shape_of(k, 3, 4)[-1]), k.dtype), call.result("u", u, k, (*rows, shape_of(v, 3, 4)[-1]), k.dtype)
    call.put(k=k, v=v, a=a, w=w, u=u, **options)
    return call


def chunk_wu(k: Tensor, v: Tensor, a: Tensor, *, beta: Optional[SupportsDLPack] = None, g_cu: Optional[SupportsDLPack] = None,
             cu_seqlens: Optional[SupportsDLPack] = None, out: Optional[Tuple[Tensor, Tensor]] = None, max_sms: int = 0,
             stream: Optional[StreamLike] = None, runtime: Optional[Runtime] = None) -> Tuple[Tensor, Tensor]:
    """Products of each chunk's solved matrix with keys and values: the third stage of the gated delta rule in chunks.

    w_i = sum of a_ij beta_j e^g_cu_j k_j, u_i = sum of a_ij beta_j v_j, over the tokens j <= i of i's chunk. k [T, Hk, K], v [T, Hv, V], f16 or bf16,
    K = V, 64 or 128; a [T, H, 64] as chunk_solve gives it; beta [T, H], f32 or k's type, 1 when absent; g_cu f32 [T, H], 0 when absent; all with a
    leading B for B sequences. H is a multiple of Hk and Hv. cu_seqlens i32 [N + 1]: sequences of any lengths, without B. Returns (w [.., T, H, K],
    u [.., T, H, V]), made by k's framework, or `out`, such a pair. max_sms: as fmha. Raises tilejit.Error.

    >>> import tilejit, torch
    >>> k = torch.ones(2, 1, 64).half() / 8
    >>> w, u = tilejit.chunk_wu(k, k, tilejit.chunk_solve(k))
    >>> u[:, 0, 0].tolist()
    [0.125, 0.0]
    """
    given = (k, v, a, beta, g_cu, cu_seqlens, *out) if isinstance(out, (tuple, list)) else (k, v, a, beta, g_cu, cu_seqlens)
    key = ("chunk_wu", *map(type, given)), max_sms
    done = short(runtime, key, stream, _given(given), out)
    if done is not None:
        return done
    return _chunk_wu(k, v, a, beta=beta, g_cu=g_cu, cu_seqlens=cu_seqlens, out=out, max_sms=max_sms, stream=stream).run(runtime_of(runtime), key)
