"""Results of torch's operator that merges states, without memory; see _torch_shapes.py.

Decides which shapes, types and devices of merged states are refused before anything runs. Invariant: no element of a tensor is read.
"""
from __future__ import annotations

import torch

from ._torch_shapes import _HALVES, _demand, _dtype, _rank, _same, _short, _sizes, _together


def merge_states(states, lse_states, *, cu_seqlens=None, dtype=None):
    op = "merge_states"
    _rank(op, "states", states, "[N, ..., D]", 3, 4, 5)
    _sizes(op, "states", states, (0, states.dim() - 1))
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
