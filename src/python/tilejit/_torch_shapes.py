"""Results of torch's operators without memory: what torch.compile, fake tensors and tensors on the meta device ask for.

Decides which shapes, types and devices are refused before anything runs, in the words of the library's own checks. Those alone decide once
there is memory. Sizes may be symbols. Invariant: no element of a tensor is read.
"""
from __future__ import annotations

import math

import torch

from . import _c
from ._error import Error
from ._tensors import _NUMPY_NAMES
from ._torch_run import refuse_grad

_HALVES = (torch.float16, torch.bfloat16)
_E4M3 = E4M3 = torch.float8_e4m3fn
_FMHA_FORM = "[B, H, S, D]; express [B, S, H, D] memory through strides"


def _demand(right, op, text, code="invalid_argument"):
    """right: a bool, or torch's symbol for one, which becomes a condition of what is traced."""
    if isinstance(right, bool):
        if not right:
            raise Error(f"{op}: {text}", code=code)
    else:
        torch._check(right, lambda: f"argument: {op}: {text}")


def _rank(op, name, x, form, *ranks):
    _demand(x.dim() in ranks, op, f"{name}.rank is {x.dim()}; allowed: {' or '.join(map(str, ranks))} ({form})")


def _sizes(op, name, x, axes):
    """Of these dimensions; others may be 0."""
    for axis in axes:
        _demand(x.shape[axis] >= 1, op, f"{name}.shape[{axis}] is {x.shape[axis]}; allowed: 1 and up")


def _short(dtype) -> str:
    """torch.float16 in the library's words."""
    return _NUMPY_NAMES.get(str(dtype)[6:], str(dtype)[6:])


def _dtype(op, name, x, allowed, why="", code="invalid_argument"):
    words = ", ".join(map(_short, allowed))
    _demand(x.dtype in allowed, op, f"{name}.dtype is {_short(x.dtype)}; allowed: {words}{why}", code)


def _same(op, name, x, axis, wanted, like):
    _demand(x.shape[axis] == wanted, op, f"{name}.shape[{axis}] is {x.shape[axis]} in {list(x.shape)}; allowed: {wanted}, as {like}")


def _together(op, first, given):
    """One device for all, and no gradient wanted. given: names and tensors, some of them None."""
    grad = torch.is_grad_enabled()
    for name, x in given.items():
        if x is None:
            continue
        if grad and x.requires_grad:
            refuse_grad(op, name)
        _demand(x.device == first.device, op, f"{name}.device is {x.device} but {next(iter(given))}.device is {first.device}; allowed: one device "
                f"for all tensors (copy {name} there first)")


def _finite(op, **numbers):
    for name, value in numbers.items():
        if isinstance(value, float):  # else None or a symbol
            _demand(math.isfinite(value), op, f"{name} is {value}; allowed: any finite value")


def _fmha_heads(q, name, x, form, *ranks, batch=None):
    """Numbers of heads: slopes or sinks."""
    _rank("fmha", name, x, form, *ranks)
    _dtype("fmha", name, x, (torch.float32,))
    if x.dim() == 2:
        _same("fmha", name, x, 0, q.shape[0] if batch is None else batch, "q.shape[0]" if batch is None else "B of cu_seqlens_q")
    _same("fmha", name, x, x.dim() - 1, q.shape[1], "q.shape[1]")


def _fmha_lists(q, k, v, lists):
    """(q, k and v as [B, H, S, D]) of a call with sequences; lists by their names."""
    for name, x in lists.items():
        if x is not None:
            _dtype("fmha", name, x, (torch.int32,))
            _rank("fmha", name, x, "[B, pages]" if name == "block_table" else "a list", 2 if name == "block_table" else 1)
    paged = lists["block_table"] is not None
    _rank("fmha", "q", q, "[T, H, D], with cu_seqlens_q", 3)
    for name, x in (("k", k), ("v", v)):
        _rank("fmha", name, x, "[pages, page size, Hkv, D], with block_table" if paged else "[Tk, Hkv, D], with cu_seqlens_q", 4 if paged else 3)
    return [(x if x.dim() == 4 else x[None]).transpose(1, 2) for x in (q, k, v)]


def _fmha(q, k, v, *, causal=False, scale=None, window_left=-1, window_right=-1, top_left=False, softcap=0.0, alibi_slopes=None, sinks=None,
          cu_seqlens_q=None, cu_seqlens_k=None, seqused_k=None, block_table=None, bias=None, mod_params=None, score_mod=None, mask_mod=None,
          key_range=None):
    lists = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k, "seqused_k": seqused_k, "block_table": block_table}
    _together("fmha", q, {"q": q, "k": k, "v": v, "alibi_slopes": alibi_slopes, "sinks": sinks, **lists, "bias": bias, "mod_params": mod_params})
    batched = cu_seqlens_q is None
    if not batched:
        q, k, v = _fmha_lists(q, k, v, lists)
    for name, x in (("q", q), ("k", k), ("v", v)):
        _rank("fmha", name, x, _FMHA_FORM, 4)
        _sizes("fmha", name, x, (1, 3))
    _dtype("fmha", "q", q, _HALVES, code="unsupported")
    for name, x, axis in (("q", q, "D"), ("v", v, "Dv")):
        width = x.shape[3]
        for right in (width % 8 == 0, width <= 256):
            _demand(right, "fmha", f"{name}.shape[3] ({axis}) is {width}; allowed: multiples of 8 up to 256 (pad the head dimension with zeros)",
                    "unsupported")
    for name, x in (("k", k), ("v", v)):
        _dtype("fmha", name, x, (q.dtype,), ", as q.dtype")
        _demand(x.stride(3) == 1, "fmha", f"{name}.strides[3] (D) is {x.stride(3)}; allowed: 1 (a contiguous last dimension)", "unsupported")
    _demand(q.stride(3) == 1, "fmha", f"q.strides[3] (D) is {q.stride(3)}; allowed: 1 (a contiguous last dimension)", "unsupported")
    if batched:
        _same("fmha", "k", k, 0, q.shape[0], "q.shape[0]")
    _same("fmha", "k", k, 3, q.shape[3], "q.shape[3]")
    for axis in range(3):
        _same("fmha", "v", v, axis, k.shape[axis], "k's shape")
    _demand(q.shape[1] % k.shape[1] == 0, "fmha", f"q.shape[1] (H) is {q.shape[1]} and k.shape[1] (Hkv) is {k.shape[1]}; allowed: H a multiple of "
            "Hkv")
    _finite("fmha", scale=scale)
    for side, keys in (("left", window_left), ("right", window_right)):
        _demand(keys >= -1, "fmha", f"window.{side} is {keys}; allowed: a number of keys, or -1 for all")
    if isinstance(softcap, float):  # else a symbol
        _demand(softcap >= 0 and math.isfinite(softcap), "fmha", f"softcap is {softcap}; allowed: 0 (off) and any finite number above")
    if alibi_slopes is not None:
        _fmha_heads(q, "alibi_slopes", alibi_slopes, "[H] or [B, H]", 1, 2, batch=None if batched else cu_seqlens_q.shape[0] - 1)
    if sinks is not None:
        _fmha_heads(q, "sinks", sinks, "[H]", 1)
    if bias is not None:
        _rank("fmha", "bias", bias, "[B or 1, H or 1, Sq or 1, Sk or 1]", 4)
        _dtype("fmha", "bias", bias, (q.dtype, torch.float32), ", as q.dtype, or f32")
    if mod_params is not None:
        _rank("fmha", "mod_params", mod_params, "[N]", 1)
        _dtype("fmha", "mod_params", mod_params, (torch.float32, torch.int32))


def fmha_like(q, v):
    """Memory for o, with the order of q's dimensions."""
    if isinstance(q, torch.Tensor) and q.dim() == 3 and isinstance(v, torch.Tensor) and v.dim() > 0:
        return torch.empty((q.shape[0], q.shape[1], v.shape[-1]), dtype=q.dtype, device=q.device)
    if not all(isinstance(x, torch.Tensor) and x.dim() == 4 for x in (q, v)) or v.shape[3] == q.shape[3]:
        return torch.empty_like(q)
    shape = (*q.shape[:3], v.shape[3])
    if q.stride(1) < q.stride(2):  # [B, S, H, D] in memory
        return torch.empty((shape[0], shape[2], shape[1], shape[3]), dtype=q.dtype, device=q.device).transpose(1, 2)
    return torch.empty(shape, dtype=q.dtype, device=q.device)


def lse_like(q):
    """Memory for lse: [B, H, Sq], or [H, T] of rows of sequences."""
    return torch.empty((q.shape[1], q.shape[0]) if q.dim() == 3 else q.shape[:3], dtype=torch.float32, device=q.device)


def fmha(q, k, v, **options):
    _fmha(q, k, v, **options)
    return fmha_like(q, v)


def fmha_lse(q, k, v, **options):
    return fmha(q, k, v, **options), lse_like(q)


def fmha_out(q, k, v, out, *, lse=None, **options):
    _fmha(q, k, v, **options)
    _together("fmha", q, {"q": q, "o": out, "lse": lse})
    if q.dim() == 3:  # of sequences
        q, v, out = q[None].transpose(1, 2), v[None] if v.dim() == 3 else v, out[None].transpose(1, 2)
        lse = None if lse is None else lse[None]
    _rank("fmha", "o", out, _FMHA_FORM, 4)
    if out.dtype != torch.float32:
        _dtype("fmha", "o", out, (q.dtype,), ", as q.dtype, or f32")
    for axis in range(3):
        _same("fmha", "o", out, axis, q.shape[axis], "q's shape")
    _same("fmha", "o", out, 3, v.shape[3], "v.shape[3]")
    if lse is not None:
        _rank("fmha", "lse", lse, "[B, H, Sq]", 3)
        _dtype("fmha", "lse", lse, (torch.float32,))
        for axis in range(3):
            _same("fmha", "lse", lse, axis, q.shape[axis], "q's shape")


def halves(op, gate, b):
    """Rows of b that make a column: two with a gate."""
    _demand(gate in _c.ACTIVATIONS, op, f"gate is {gate!r}; allowed: {', '.join(map(str, _c.ACTIVATIONS))}")
    if not _c.ACTIVATIONS[gate]:
        return 1
    _demand(b.shape[-2] % 2 == 0, op, f"N (rows of b) is {b.shape[-2]}; allowed with a gate: even numbers")
    return 2


def check_gate(op, gate, beta, activation):
    if _c.ACTIVATIONS[gate]:
        _demand(not _c.ACTIVATIONS[activation], op, f"activation is {activation!r}; allowed with a gate: None", "unsupported")
        _demand(beta == 0, op, f"beta is {beta}; allowed with a gate: 0", "unsupported")


def check_end(op, end_params, end_text, activation):
    """An end of one's own, and what it reads."""
    _demand(end_text is None or not _c.ACTIVATIONS[activation], op, f"activation is {activation!r}; allowed with end_text: None")
    if end_params is not None:
        _rank(op, "end_params", end_params, "[N]", 1)
        _dtype(op, "end_params", end_params, (torch.float32, torch.int32))


def gemm_like(a, b, c, bias, dtype, gate=None):
    """(shape, type) of a product."""
    _rank("gemm", "a", a, "[M, K], or [B, M, K]", 2, 3)
    _rank("gemm", "b", b, "[N, K], or [B, N, K]", 2, 3)
    batch = a.shape[:-2] or b.shape[:-2] or (c.shape[:-2] if c is not None else ())
    if dtype is None:
        dtype = c.dtype if c is not None else bias.dtype if bias is not None else torch.float32 if a.dtype == _E4M3 else a.dtype
    return (*batch, a.shape[-2], b.shape[-2] // halves("gemm", gate, b)), dtype


def quantised_like(shape, a, packed):
    """Memory for d of e4m3 and its scales. These are contiguous in M, as products read them faster, at multiples of 16 bytes."""
    *batch, m, n = shape
    blocks, kind = ((n + 511) // 512, torch.int32) if packed else ((n + 127) // 128, torch.float32)
    return (torch.empty(shape, dtype=_E4M3, device=a.device),
            torch.empty((*batch, blocks, (m + 3) // 4 * 4), dtype=kind, device=a.device)[..., :m].transpose(-1, -2))


def added_type(a, dtype):
    """The type of bias, and of c where that is not f32."""
    return dtype if dtype != _E4M3 else torch.bfloat16 if a.dtype == _E4M3 else a.dtype


def _gemm(a, b, c, bias, scale_a, scale_b, shape, dtype, alpha, beta, activation, gate, end, quantised=False):
    _together("gemm", a, {"a": a, "b": b, "c": c, "bias": bias, "scale_a": scale_a, "scale_b": scale_b, "end_params": end[0]})
    _dtype("gemm", "a", a, (*_HALVES, _E4M3), code="unsupported")
    _dtype("gemm", "b", b, (a.dtype,), ", as a.dtype")
    _demand(dtype in (*_HALVES, torch.float32) or quantised, "gemm", f"d.dtype is {_short(dtype)}; allowed: f16, bf16, f32", "unsupported")
    _same("gemm", "b", b, b.dim() - 1, a.shape[-1], "a's K")
    if a.dim() == 3 and b.dim() == 3:
        _same("gemm", "b", b, 0, a.shape[0], "a.shape[0]")
    _demand(activation in _c.ACTIVATIONS, "gemm", f"activation is {activation!r}; allowed: {', '.join(map(str, _c.ACTIVATIONS))}")
    check_gate("gemm", gate, beta, activation)
    check_end("gemm", *end, activation)
    _finite("gemm", alpha=alpha, beta=beta)
    _demand(beta == 0 or c is not None, "gemm", f"beta is {beta} but c is absent; allowed: 0, or a c to add")
    for name, x, sizes in (("c", c if beta != 0 else None, shape), ("bias", bias, (*shape[:-2], b.shape[-2]))):
        if x is not None:
            also = name == "c" and not quantised and dtype != torch.float32
            _dtype("gemm", name, x, (added_type(a, dtype), *([torch.float32] if also else [])),
                   ", with d of e4m3" if quantised else ", as d.dtype or f32" if also else ", as d.dtype")
            _rank("gemm", name, x, f"{list(sizes)}, or without the batch", len(sizes), len(sizes) - (len(shape) - 2))
            for axis in range(-x.dim(), 0):
                _same("gemm", name, x, axis + x.dim(), sizes[axis], "d's shape")
    for name, x, operand in (("scale_a", scale_a, a), ("scale_b", scale_b, b)):
        if x is not None:
            _demand(operand.dtype == _E4M3, "gemm", f"{name} is given with {name[-1]}.dtype {_short(operand.dtype)}; allowed with e4m3")
            _dtype("gemm", name, x, (torch.float32, torch.int32) if x.dim() > 1 else (torch.float32,))


def gemm(a, b, *, c=None, bias=None, alpha=1.0, beta=0.0, activation=None, dtype=None, scale_a=None, scale_b=None, gate=None,
         gate_interleaved=False, end_params=None, end_text=None):
    shape, dtype = gemm_like(a, b, c, bias, dtype, gate)
    _gemm(a, b, c, bias, scale_a, scale_b, shape, dtype, alpha, beta, activation, gate, (end_params, end_text))
    return torch.empty(shape, dtype=dtype, device=a.device)


def gemm_quantised(a, b, *, bias=None, alpha=1.0, activation=None, scale_a=None, scale_b=None, gate=None, gate_interleaved=False, powers_of_two=False,
                   packed=False, end_params=None, end_text=None):
    shape, _ = gemm_like(a, b, None, bias, _E4M3, gate)
    _gemm(a, b, None, bias, scale_a, scale_b, shape, _E4M3, alpha, 0.0, activation, gate, (end_params, end_text), True)
    return quantised_like(shape, a, packed)


def gemm_out(a, b, out, *, c=None, bias=None, alpha=1.0, beta=0.0, activation=None, scale_a=None, scale_b=None, gate=None, gate_interleaved=False,
             end_params=None, end_text=None):
    shape, _ = gemm_like(a, b, c, bias, None, gate)
    _gemm(a, b, c, bias, scale_a, scale_b, shape, out.dtype, alpha, beta, activation, gate, (end_params, end_text))
    _together("gemm", a, {"a": a, "d": out})
    _rank("gemm", "d", out, "[M, N], or [B, M, N] for a batch", len(shape))
    times = halves("gemm", gate, b)
    for name, x, axis, size, like in (("a", a, -2, 1, "d's M"), ("b", b, -1, times, "d's N" if times == 1 else "twice d's columns, with a gate")):
        _same("gemm", name, x, x.dim() - 2, size * out.shape[axis], like)
    if len(shape) == 3:
        _same("gemm", "d", out, 0, shape[0], "the batch of a, b or c")


def _lists(cu_seqlens):
    _together("chunk_indices", cu_seqlens, {"cu_seqlens": cu_seqlens})
    _rank("chunk_indices", "cu_seqlens", cu_seqlens, "[N + 1]", 1)
    _dtype("chunk_indices", "cu_seqlens", cu_seqlens, (torch.int32,))


def chunk_indices(cu_seqlens, *, tokens):
    _lists(cu_seqlens)
    _demand(tokens >= 0, "chunk_indices", f"tokens is {tokens}; allowed: 0 and up")
    return (torch.empty((tokens // 64 + cu_seqlens.shape[0] - 1, 2), dtype=torch.int32, device=cu_seqlens.device),
            torch.empty((1,), dtype=torch.int32, device=cu_seqlens.device))


def chunk_indices_out(cu_seqlens, chunk_indices, total_chunks):
    _lists(cu_seqlens)
    _together("chunk_indices", cu_seqlens, {"cu_seqlens": cu_seqlens, "chunk_indices": chunk_indices, "total_chunks": total_chunks})
    for name, x in (("chunk_indices", chunk_indices), ("total_chunks", total_chunks)):
        _dtype("chunk_indices", name, x, (torch.int32,))
    _rank("chunk_indices", "chunk_indices", chunk_indices, "[n, 2]", 2)


def chunk_o_like(q, v_new):
    _rank("chunk_o", "q", q, "[T, H, 128]", 3)
    _rank("chunk_o", "v_new", v_new, "[R, Hv, 128]", 3)
    return q.shape[0], v_new.shape[1], v_new.shape[2]


def _chunk_o(q, k, v_new, h, g_cu, cu_seqlens, chunk_indices, total_chunks, scale):
    shape = chunk_o_like(q, v_new)
    _together("chunk_o", q, {"q": q, "k": k, "v_new": v_new, "h": h, "g_cu": g_cu, "cu_seqlens": cu_seqlens, "chunk_indices": chunk_indices,
                             "total_chunks": total_chunks})
    _rank("chunk_o", "k", k, "[T, H, 128]", 3)
    _rank("chunk_o", "h", h, "[C, Hv, 128, 128]", 4)
    for name, x in (("q", q), ("k", k), ("v_new", v_new), ("h", h)):
        _sizes("chunk_o", name, x, range(1, x.dim()))
        _dtype("chunk_o", name, x, (torch.bfloat16,))
        _same("chunk_o", name, x, x.dim() - 1, 128, "the only size there are kernels for")
    for axis in range(3):
        _same("chunk_o", "k", k, axis, q.shape[axis], "q's shape")
    _same("chunk_o", "h", h, 1, v_new.shape[1], "v_new.shape[1]")
    if g_cu is not None:
        _rank("chunk_o", "g_cu", g_cu, "[T, Hv]", 2)
        _dtype("chunk_o", "g_cu", g_cu, (torch.float32,))
    _finite("chunk_o", scale=scale)
    return shape


def chunk_o(q, k, v_new, h, *, g_cu=None, cu_seqlens=None, chunk_indices=None, total_chunks=None, seq_length=0, scale=None, h_transposed=False,
            max_sms=0, num_stages=0, evict_first=False):
    shape = _chunk_o(q, k, v_new, h, g_cu, cu_seqlens, chunk_indices, total_chunks, scale)
    return torch.empty(shape, dtype=q.dtype, device=q.device)


def chunk_o_out(q, k, v_new, h, out, *, g_cu=None, cu_seqlens=None, chunk_indices=None, total_chunks=None, seq_length=0, scale=None,
                h_transposed=False, max_sms=0, num_stages=0, evict_first=False):
    shape = _chunk_o(q, k, v_new, h, g_cu, cu_seqlens, chunk_indices, total_chunks, scale)
    _together("chunk_o", q, {"q": q, "o": out})
    _rank("chunk_o", "o", out, "[T, Hv, 128]", 3)
    _dtype("chunk_o", "o", out, (q.dtype,), ", as q.dtype")
    for axis in range(3):
        _same("chunk_o", "o", out, axis, shape[axis], "q and v_new ask for")
