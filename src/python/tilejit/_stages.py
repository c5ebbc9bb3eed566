"""Stages of the gated delta rule in chunks: the calls of Python, and how their arguments become structures of C; see _ops.py."""
from __future__ import annotations

from . import _c
from ._calls import Call, one_of, runtime_of, shape_of
from ._error import Error
from ._library import flag, number
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
    heads = next((shape_of(x, 2, 3)[-1] for x in (options["beta"], options["g_cu"]) if x is not None), shape[-2])
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


def _chunk_states(k, w, u, *, g_cu=None, initial_state=None, final_state=None, cu_seqlens=None, state_transposed=False, values_by_tokens=False,
                  chunks=None, out=None, max_sms=0, stream=None, asks=False):
    args = _c.ChunkStatesArgs(state_transposed=flag(state_transposed, "state_transposed"), max_sms=_limit(max_sms),
                              values_by_tokens=flag(values_by_tokens, "values_by_tokens"))
    call = Call("chunk_states", args, stream, asks)
    k, w, u = call.tensor("k", k), call.tensor("w", w), call.tensor("u", u)
    options = {name: call.tensor(name, x, True) for name, x in (("g_cu", g_cu), ("initial_state", initial_state), ("cu_seqlens", cu_seqlens))}
    if out is not None and (not isinstance(out, (tuple, list)) or len(out) != 2):
        raise Error(f"out is {type(out).__name__}; allowed: a pair of tensors, (h, v_new)")
    h, v_new = out or (None, None)
    of_u, width = shape_of(u, 3, 4), shape_of(k, 3, 4)[-1]
    matrix = (width, of_u[-1]) if state_transposed else (of_u[-1], width)
    h = call.result("h", h, k, () if h is not None else (_most_chunks(of_u, options["cu_seqlens"], chunks), of_u[-2], *matrix), k.dtype)
    rows = of_u if values_by_tokens else () if v_new is not None else (shape_of(h, 4)[0] * 64, *of_u[-2:])
    v_new = call.result("v_new", v_new, k, rows, k.dtype)
    if final_state is not None:
        options["final_state"] = call.result("final_state", final_state, k, (), k.dtype)
    call.put(k=k, w=w, u=u, h=h, v_new=v_new, **options)
    return call


def _most_chunks(of_u, cu_seqlens, chunks):
    """Of all sequences; with a list, which the device has, the most that there can be."""
    if chunks is not None:
        return number(chunks, "chunks", 0, 2**30)
    if cu_seqlens is not None:
        return of_u[0] // 64 + max(shape_of(cu_seqlens, 1)[0] - 1, 1)
    return (of_u[0] if len(of_u) == 4 else 1) * ((of_u[-3] + 63) // 64)


def chunk_states(k: Tensor, w: Tensor, u: Tensor, *, g_cu: Optional[SupportsDLPack] = None, initial_state: Optional[SupportsDLPack] = None,
                 final_state: Optional[SupportsDLPack] = None, cu_seqlens: Optional[SupportsDLPack] = None, state_transposed: bool = False,
                 values_by_tokens: bool = False, chunks: Optional[int] = None, out: Optional[Tuple[Tensor, Tensor]] = None, max_sms: int = 0,
                 stream: Optional[StreamLike] = None, runtime: Optional[Runtime] = None) -> Tuple[Tensor, Tensor]:
    """States before each chunk of 64 tokens, and the values that change them: the fourth stage of the gated delta rule in chunks.

    From chunk to chunk, S the state before it: h = S; v_new_i = u_i - S w_i; S = e^g_last S + sum of e^(g_last - g_i) v_new_i k_i^T. k [T, Hk, K],
    w [T, H, K], u [T, H, V], f16 or bf16, K = V, 64 or 128; g_cu f32 [T, H], 0 when absent; all with a leading B for B sequences. initial_state and
    final_state, which is written, [N, H, V, K], f32, bf16 or f16. cu_seqlens i32 [N + 1]: sequences of any lengths, without B. state_transposed:
    matrices of h and of states are [K, V]. Returns (h [C, H, V, K], v_new [64 C, H, V]), made by k's framework, or `out`, such a pair. Chunks are
    counted over all sequences, as chunk_indices lists them; chunk c has rows 64 c on of v_new. C: `chunks`, by default the most that there can be.
    values_by_tokens: v_new has u's shape. max_sms: as fmha. On family sm90 alone. Raises tilejit.Error.

    >>> import tilejit, torch
    >>> k = torch.ones(2, 1, 64).half() / 8
    >>> h, v_new = tilejit.chunk_states(k, *tilejit.chunk_wu(k, k, tilejit.chunk_solve(k)))
    >>> h.shape, v_new[:3, 0, 0].tolist()
    (torch.Size([1, 1, 64, 64]), [0.125, 0.0, 0.0])
    """
    call = _chunk_states(k, w, u, g_cu=g_cu, initial_state=initial_state, final_state=final_state, cu_seqlens=cu_seqlens,
                         state_transposed=state_transposed, values_by_tokens=values_by_tokens, chunks=chunks, out=out, max_sms=max_sms, stream=stream)
    return tuple(call.run(runtime_of(runtime))[:2])
