"""The experts of a mixture-of-experts layer, out of tilejit's products of groups and its quantising.

Decides the order of the steps and what is refused. Tokens are sorted by expert, and come back in the order of topk_ids: equal calls give equal
bits. Nothing waits for the host, so a call may stand in a CUDA graph.
"""
from __future__ import annotations

import torch

from . import _torch_ops  # noqa: F401 -- the operators
from ._error import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

_OP = "fused_moe"
_GATES = ("silu", "gelu", "gelu_tanh", "relu")


def _demand(right: bool, text: str, code: str = "invalid_argument") -> None:
    if not right:
        raise Error(f"{_OP}: {text}", code=code)


def _check(hidden, w1, w2, topk_weights, topk_ids, w1_scale, w2_scale, activation) -> None:
    _demand(hidden.dim() == 2, f"hidden.rank is {hidden.dim()}; allowed: 2 ([T, H])")
    _demand(w1.dim() == 3 and w2.dim() == 3, f"w1.rank is {w1.dim()} and w2.rank {w2.dim()}; allowed: 3 ([E, 2 I, H] and [E, H, I])")
    experts, wide, width = w1.shape
    _demand(width == hidden.shape[1], f"w1.shape[2] is {width}; allowed: {hidden.shape[1]}, as hidden's H")
    _demand(wide % 2 == 0, f"w1.shape[1] is {wide}; allowed: twice I, the rows of the gate and those of what it multiplies")
    _demand(tuple(w2.shape) == (experts, width, wide // 2), f"w2.shape is {list(w2.shape)}; allowed: {[experts, width, wide // 2]}, by w1's")
    _demand(topk_ids.dim() == 2 and topk_ids.shape[0] == hidden.shape[0], f"topk_ids.shape is {list(topk_ids.shape)}; allowed: [{hidden.shape[0]}, K]")
    _demand(topk_weights.shape == topk_ids.shape, f"topk_weights.shape is {list(topk_weights.shape)}; allowed: {list(topk_ids.shape)}, as topk_ids")
    _demand(topk_ids.dtype in (torch.int32, torch.int64), f"topk_ids.dtype is {topk_ids.dtype}; allowed: torch.int32, torch.int64")
    _demand(hidden.dtype in (torch.float16, torch.bfloat16), f"hidden.dtype is {hidden.dtype}; allowed: torch.float16, torch.bfloat16", "unsupported")
    _demand(activation in _GATES, f"activation is {activation!r}; allowed: {', '.join(_GATES)}", "unsupported")
    narrow = w1.dtype == torch.float8_e4m3fn
    _demand(w1.dtype == w2.dtype and (narrow or w1.dtype == hidden.dtype),
            f"w1.dtype is {w1.dtype} and w2.dtype {w2.dtype}; allowed: hidden's for both, or torch.float8_e4m3fn for both", "unsupported")
    for name, scale in (("w1_scale", w1_scale), ("w2_scale", w2_scale)):
        _demand((scale is not None) == narrow, f"{name} is {'given' if scale is not None else 'absent'} with weights of {w1.dtype}; allowed: scales of "
                "blocks with torch.float8_e4m3fn, none with others")


def fused_moe(hidden: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, topk_weights: torch.Tensor, topk_ids: torch.Tensor, *,
              w1_scale: Optional[torch.Tensor] = None, w2_scale: Optional[torch.Tensor] = None, activation: str = "silu") -> torch.Tensor:
    """For each token the weighted sum of its experts: sum over k of topk_weights[t, k] * w2[e] (activation(gate) * up), [gate; up] = w1[e] hidden[t].

    hidden [T, H], f16 or bf16. w1 [E, 2 I, H]: rows of the gate first; w2 [E, H, I]. topk_weights and topk_ids [T, K]; an id that is no expert's, such
    as -1, adds nothing. Weights have hidden's type, or are float8_e4m3fn with w1_scale and w2_scale f32 of blocks, [E, ceil(rows / 128),
    ceil(columns / 128)] or [E, rows, ceil(columns / 128)]: then hidden is quantised, and so is what the first product leaves, by rows of 128, and by
    that product where w1_scale is of blocks. activation: "silu", "gelu", "gelu_tanh" or "relu". Sums over k are in f32, in the
    order of topk_ids. Returns [T, H] of hidden's type. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> hidden, w1, w2 = torch.ones(3, 64).half(), torch.ones(2, 128, 64).half() / 64, torch.ones(2, 64, 64).half() / 64
    >>> ids = torch.tensor([[0, 1], [1, 0], [1, -1]])
    >>> tilejit.torch.fused_moe(hidden, w1, w2, torch.full((3, 2), 0.5), ids)[:, 0].tolist()
    [0.73095703125, 0.73095703125, 0.365478515625]
    """
    _check(hidden, w1, w2, topk_weights, topk_ids, w1_scale, w2_scale, activation)
    grouped, experts, each = torch.ops.tilejit.grouped_gemm, w1.shape[0], topk_ids.shape[1]
    flat = topk_ids.reshape(-1)
    known = (flat >= 0) & (flat < experts)
    sorted_ids, order = torch.sort(torch.where(known, flat, experts), stable=True)  # what is no expert's comes last, behind all ends
    ends = torch.searchsorted(sorted_ids, torch.arange(experts, device=flat.device, dtype=flat.dtype), right=True).int()
    rows = -(-flat.numel() // experts)
    if w1_scale is None:
        up = grouped(hidden.index_select(0, order // each), w1, ends, gate=activation, expected_rows=rows)
        down = grouped(up, w2, ends, expected_rows=rows)
    else:
        q, scales = torch.ops.tilejit.quantise(hidden, row_indices=(order // each).int())
        # A product has the gate where the scales of each half of w1 begin with it, and where a copy would.
        half = w1.shape[1] // 2
        fits = half % 128 == 0 or (w1_scale.shape[1] == w1.shape[1] and half % 4 == 0)
        of_blocks = w1_scale.shape[1] != w1.shape[1]
        if fits and of_blocks:  # where each row of w1 has scales, a product that quantises has few registers
            q, scales = torch.ops.tilejit.grouped_gemm_quantised(q, w1, ends, scale_a=scales, scale_b=w1_scale, gate=activation, expected_rows=rows)
        else:
            up = grouped(q, w1, ends, dtype=hidden.dtype, scale_a=scales, scale_b=w1_scale, gate=activation if fits else None, expected_rows=rows)
            q, scales = torch.ops.tilejit.quantise(up, gate=None if fits else activation)
        down = grouped(q, w2, ends, dtype=hidden.dtype, scale_a=scales, scale_b=w2_scale, expected_rows=rows)
    place = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
    slots = torch.where(known, place, -1).int().view(topk_ids.shape)
    return torch.ops.tilejit.combine(down, slots, weights=topk_weights.float().contiguous())
