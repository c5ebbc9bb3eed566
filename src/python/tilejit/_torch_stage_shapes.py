"""Results of torch's operators of the gated delta rule's stages without memory; see _torch_shapes.py.

Decides which shapes, types and devices are refused before anything runs. Invariant: no element of a tensor is read.
"""
from __future__ import annotations

import torch

from . import _c
from ._torch_shapes import _HALVES, _demand, _dtype, _rank, _same, _sizes, _together


def _tokens(op, name, x, first, rank, form):
    """A tensor of as many tokens as the first one, with or without a batch."""
    _rank(op, name, x, form, *((rank, rank + 1) if x is first[0] else (first[0].dim() - first[1] + rank,)))
    tokens = first[0].dim() - first[1] + 1
    _sizes(op, name, x, range(tokens, x.dim()))
    for axis in range(tokens):
        _same(op, name, x, axis, first[0].shape[axis], "the first tensor's shape")


_ROWS = "[T, heads, X], or [B, T, heads, X]"


def _ends(op, cu_seqlens):
    if cu_seqlens is not None:
        _rank(op, "cu_seqlens", cu_seqlens, "[N + 1]", 1)
        _dtype(op, "cu_seqlens", cu_seqlens, (torch.int32,))


def chunk_cumsum(gate, *, gate_form="log", a_log=None, dt_bias=None, cu_seqlens=None):
    op = "chunk_cumsum"
    _together(op, gate, {"gate": gate, "a_log": a_log, "dt_bias": dt_bias, "cu_seqlens": cu_seqlens})
    _tokens(op, "gate", gate, (gate, 2), 2, "[T, H], or [B, T, H]")
    _dtype(op, "gate", gate, (torch.float32, *_HALVES), code="unsupported")
    _demand(gate_form in _c.GATE_FORMS, op, f"gate_form is {gate_form!r}; allowed: {', '.join(_c.GATE_FORMS)}")
    _ends(op, cu_seqlens)
    return gate.new_empty(gate.shape, dtype=torch.float32)


def chunk_cumsum_out(gate, out, **options):
    op, like = "chunk_cumsum", chunk_cumsum(gate, **options)
    _together(op, gate, {"g_cu": out})
    _rank(op, "g_cu", out, "[.., T, H], as gate", gate.dim())
    _dtype(op, "g_cu", out, (torch.float32,))
    for axis in range(gate.dim()):
        _same(op, "g_cu", out, axis, like.shape[axis], "gate's shape")


def _check_rows(op, k, numbers, cu_seqlens, rows=()):
    """k and what lies beside it. numbers: names and tensors of numbers for each token and head; rows: of others with a last dimension."""
    _together(op, k, {"k": k, "cu_seqlens": cu_seqlens, **dict(numbers), **dict(rows)})
    _tokens(op, "k", k, (k, 3), 3, "[T, Hk, K], or [B, T, Hk, K]")
    _dtype(op, "k", k, _HALVES, code="unsupported")
    _demand((k.shape[-1] == 64) | (k.shape[-1] == 128), op, f"k.shape[{k.dim() - 1}] (K) is {k.shape[-1]}; allowed: 64, 128", "unsupported")
    for name, x in rows:
        _tokens(op, name, x, (k, 3), 3, "[.., T, H, ..], as k")
        _dtype(op, name, x, (k.dtype,), ", as k.dtype")
    for name, x in numbers:
        if x is not None:
            _tokens(op, name, x, (k, 3), 2, "[.., T, H]")
            _dtype(op, name, x, (torch.float32,) if name == "g_cu" else (torch.float32, k.dtype), code="unsupported")
    _ends(op, cu_seqlens)


def solve_like(k, beta, g_cu):
    """The shape of a; H is beta's, else that of g_cu, else of k."""
    _rank("chunk_solve", "k", k, _ROWS, 3, 4)
    for name, x in (("beta", beta), ("g_cu", g_cu)):
        if x is not None:
            _rank("chunk_solve", name, x, "[.., T, H]", k.dim() - 1)
    heads = next((x.shape[-1] for x in (beta, g_cu) if x is not None), k.shape[-2])
    return (*k.shape[:-2], heads, 64)


def chunk_solve(k, *, beta=None, g_cu=None, cu_seqlens=None):
    _check_rows("chunk_solve", k, (("beta", beta), ("g_cu", g_cu)), cu_seqlens)
    return k.new_empty(solve_like(k, beta, g_cu))


def wu_like(k, v, a):
    """w and u of all tokens and a's heads."""
    for name, x in (("k", k), ("v", v), ("a", a)):
        _rank("chunk_wu", name, x, _ROWS, 3, 4)
    rows = a.shape[:-1]
    return k.new_empty((*rows, k.shape[-1])), k.new_empty((*rows, v.shape[-1]))


def chunk_wu(k, v, a, *, beta=None, g_cu=None, cu_seqlens=None):
    _check_rows("chunk_wu", k, (("beta", beta), ("g_cu", g_cu)), cu_seqlens, (("v", v), ("a", a)))
    _same("chunk_wu", "v", v, v.dim() - 1, k.shape[-1], "k's K (V and K are equal)")
    _same("chunk_wu", "a", a, a.dim() - 1, 64, "tokens of a chunk")
    return wu_like(k, v, a)


def states_like(k, u, initial_state, cu_seqlens, state_transposed, values_by_tokens, chunks, state_dtype):
    """h, v_new and the last states."""
    for name, x in (("k", k), ("u", u)):
        _rank("chunk_states", name, x, _ROWS, 3, 4)
    _ends("chunk_states", cu_seqlens)
    rows, heads, width = u.shape[:-2], u.shape[-2], k.shape[-1]
    batched = u.dim() == 4
    sequences = cu_seqlens.shape[0] - 1 if cu_seqlens is not None else rows[0] if batched else 1
    if chunks is None:
        tokens = rows[-1]
        chunks = tokens // 64 + sequences if cu_seqlens is not None else sequences * ((tokens + 63) // 64)
    else:
        _demand(chunks >= 0, "chunk_states", f"chunks is {chunks}; allowed: 0 and up")
    matrix = (width, u.shape[-1]) if state_transposed else (u.shape[-1], width)
    dtype = state_dtype if state_dtype is not None else torch.float32 if initial_state is None else initial_state.dtype
    v_new = k.new_empty(u.shape) if values_by_tokens else k.new_empty((64 * chunks, heads, u.shape[-1]))
    return k.new_empty((chunks, heads, *matrix)), v_new, k.new_empty((sequences, heads, *matrix), dtype=dtype)


def chunk_states(k, w, u, *, g_cu=None, initial_state=None, cu_seqlens=None, state_transposed=False, values_by_tokens=False, chunks=None,
                 state_dtype=None):
    _check_rows("chunk_states", k, (("g_cu", g_cu),), cu_seqlens, (("w", w), ("u", u)))
    _same("chunk_states", "u", u, u.dim() - 1, k.shape[-1], "k's K (V and K are equal)")
    _same("chunk_states", "u", u, u.dim() - 2, w.shape[-2], "w's H")
    if initial_state is not None:
        _rank("chunk_states", "initial_state", initial_state, "[N, H, V, K]", 4)
        _together("chunk_states", k, {"initial_state": initial_state})
    return states_like(k, u, initial_state, cu_seqlens, state_transposed, values_by_tokens, chunks, state_dtype)
