"""Results of torch's operators that sum rows, without memory; see _torch_shapes.py.

Decides which shapes, types and devices of merged states and of combined rows are refused before anything runs. Invariant: no element of a tensor
is read.
"""
from __future__ import annotations

import torch

from ._torch_shapes import _HALVES, _demand, _dtype, _rank, _same, _short, _sizes, _together


def merge_states(states, lse_states, *, cu_seqlens=None, dtype=None):
    op = "merge_states"
    _rank(op, "states", states, "[N, ..., D]", 3, 4, 5)
    _sizes(op, "states", states)
    dtype = states.dtype if dtype is None else dtype
    _dtype(op, "states", states, (*_HALVES, torch.float32), code="unsupported")
    _demand(dtype in (*_HALVES, torch.float32), op, f"o.dtype is {_short(dtype)}; allowed: f16, bf16, f32", "unsupported")
    _dtype(op, "lse_states", lse_states, (torch.float32,))
    _together(op, states, {"states": states, "lse_states": lse_states, "cu_seqlens": cu_seqlens})
    _rank(op, "lse_states", lse_states, "[N, ...], with the dimensions of o", states.dim() - 1)
    for axis in range(states.dim() - 1):
        _same(op, "lse_states", lse_states, axis, states.shape[axis], "states's shape")
    return (torch.empty(states.shape[1:], dtype=dtype, device=states.device),
            torch.empty(states.shape[1:-1], dtype=torch.float32, device=states.device))


def combine(y, slots, *, weights=None, residual=None, dtype=None):
    op, types = "combine", (*_HALVES, torch.float32)
    dtype = dtype or (y if residual is None else residual).dtype
    _together(op, y, {"y": y, "slots": slots, "weights": weights, "residual": residual})
    _demand(dtype in types, op, f"d.dtype is {_short(dtype)}; allowed: f16, bf16, f32", "unsupported")
    checks = (("y", y, types), ("slots", slots, (torch.int32,)), ("weights", weights, (torch.float32,), (slots, 0, "slots' T"), (slots, 1, "slots' J")),
              ("residual", residual, (dtype,), (slots, 0, "slots' T"), (y, 1, "y's H")))
    for name, x, kinds, *like in checks:
        if x is not None:
            _rank(op, name, x, "[S, H] of y, [T, J] of slots and weights, [T, H] of residual", 2)
            _dtype(op, name, x, kinds)
            for other, axis, words in like:
                _same(op, name, x, axis, other.shape[axis], words)
    return torch.empty((slots.shape[0], y.shape[1]), dtype=dtype, device=y.device)


def combine_out(y, slots, out, *, weights=None, residual=None):
    like = combine(y, slots, weights=weights, residual=residual, dtype=out.dtype)
    _together("combine", y, {"d": out})
    _rank("combine", "d", out, "[T, H]", 2)
    for axis in (0, 1):
        _same("combine", "d", out, axis, like.shape[axis], "slots and y ask for")
