"""flash_attn_func of the package flash_attn: its arguments, and which of them are served here.

Decides how its names become those of fmha, and what is refused. Invariant: what is served has the values that flash_attn gives; nothing is left
to another library. Everything here can be traced by torch.compile.
"""
from __future__ import annotations

import torch

from . import _torch_ops  # noqa: F401 -- the operators
from ._error import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple, Union

# Arguments of FlashAttention-3 and 4 that have one value here, with why: the others ask for another kernel.
_ONLY = {
    "qv": (None, "a second part of queries is not served"),
    "q_descale": (None, "8-bit types are not served"),
    "k_descale": (None, "8-bit types are not served"),
    "v_descale": (None, "8-bit types are not served"),
    "attention_chunk": (0, "chunks of keys are not served"),
    "sm_margin": (0, "tilejit.fmha(max_sms=) leaves multiprocessors to others"),
}


def _refuse(name: str, value, allowed: str):
    raise Error(f"flash_attn_func: {name} is {value}; allowed: {allowed}", code="unsupported")


def _window(window_size):
    """(left, right); None on a side is all keys, as FlashAttention-4 has it."""
    if not isinstance(window_size, (tuple, list)) or len(window_size) != 2:
        _refuse("window_size", window_size, "(left, right), each a number of keys, or -1 for all")
    return [-1 if side is None or side < 0 else int(side) for side in window_size]


def flash_attn_func(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                    causal: bool = False, window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                    alibi_slopes: Optional[torch.Tensor] = None, deterministic: bool = False, return_attn_probs: bool = False, *,
                    learnable_sink: Optional[torch.Tensor] = None, num_splits: int = 1, pack_gqa: Optional[bool] = None,
                    **others: object) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor, None]]:
    """flash_attn.flash_attn_func by tilejit's kernels: its arguments, and forward passes only.

    q [B, Sq, H, D]; k [B, Sk, Hkv, D]; v [B, Sk, Hkv, Dv], f16 or bf16, D and Dv multiples of 8 up to 256, H a multiple of Hkv. causal and
    window_size align the last query with the last key. A row without a key gives 0. alibi_slopes f32 [H] or [B, H]; learnable_sink [H] joins each
    row's sum. Returns o [B, Sq, H, Dv]; with return_attn_probs (o, lse f32 [B, H, Sq], None). Results are the same bits each time, whatever
    deterministic says. num_splits of 0 or 1 and pack_gqa of None or False leave the choice to the library. Any other argument of FlashAttention-3
    is refused by name, and so is dropout. Runs on the current stream. Raises tilejit.Error. >>> import torch, tilejit.torch >>> q = torch.ones(1,
    64, 2, 64, dtype=torch.float16) >>> tilejit.torch.flash_attn_func(q, q, q, causal=True, window_size=(16, 0)).shape torch.Size([1, 64, 2, 64])
    >>> tilejit.torch.flash_attn_func(q, q, q, dropout_p=0.5) Traceback (most recent call last): ... tilejit._error.Error: argument:
    flash_attn_func: dropout_p is 0.5; allowed: 0
    """
    if dropout_p != 0:
        _refuse("dropout_p", dropout_p, "0")
    if num_splits not in (0, 1):
        _refuse("num_splits", num_splits, "0 and 1: keys of a query are not split")
    if pack_gqa:
        _refuse("pack_gqa", pack_gqa, "None and False: heads of a group are not packed")
    for name, value in others.items():
        if name not in _ONLY:
            raise TypeError(f"flash_attn_func() got an unexpected keyword argument {name!r}")
        only, why = _ONLY[name]
        if value is not only and value != only:
            _refuse(name, type(value).__name__ if isinstance(value, torch.Tensor) else value, f"{only}, as {why}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise Error(f"flash_attn_func: {name}.rank is {x.dim()}; allowed: 4 ([B, S, H, D])")
    left, right = _window(window_size)
    sinks = None if learnable_sink is None else learnable_sink.to(torch.float32)
    options = dict(causal=causal, scale=softmax_scale, window_left=left, window_right=right, softcap=softcap, alibi_slopes=alibi_slopes, sinks=sinks)
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    if not return_attn_probs:
        return torch.ops.tilejit.fmha(*turned, **options).transpose(1, 2)
    o, lse = torch.ops.tilejit.fmha_lse(*turned, **options)
    return o.transpose(1, 2), lse, None
