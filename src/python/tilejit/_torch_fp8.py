"""Products of 8-bit operands under the name that users of DeepGEMM know, by tilejit's kernels.

Decides what of its arguments is served; the rest is refused by name.
"""
from __future__ import annotations

import torch

from . import _torch_ops  # noqa: F401 -- the operators
from ._error import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Sequence, Tuple

_BLOCK = 128
_RECIPES = {None: None, (1, _BLOCK, _BLOCK): _BLOCK, (1, 1, _BLOCK): 1}  # rows of b that one scale serves


def _refuse(text: str, code: str = "invalid_argument"):
    raise Error(f"fp8_gemm_nt: {text}", code=code)


def fp8_gemm_nt(a: Tuple[torch.Tensor, torch.Tensor], b: Tuple[torch.Tensor, torch.Tensor], d: torch.Tensor, c: Optional[torch.Tensor] = None,
                recipe: Optional[Sequence[int]] = None, compiled_dims: str = "nk", disable_ue8m0_cast: bool = False) -> None:
    """d = a b^T, or a b^T + c, of float8_e4m3fn with scales of blocks.

    a: [M, K] and its scales f32 [M, ceil(K / 128)]. b: [N, K] and its scales f32 [ceil(N / 128), ceil(K / 128)] or [N, ceil(K / 128)]. d: [M, N],
    f16, bf16 or f32, is written; c is as d, and may be d. recipe: (1, 128, 128), (1, 1, 128) or None, which goes by the shape of b's scales.
    compiled_dims and disable_ue8m0_cast change nothing: no size is compiled in, and scales stay f32. Scales of a that are contiguous in M are read
    as they lie, others take a little longer. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> a, b, d = torch.ones(8, 128).to(torch.float8_e4m3fn), torch.ones(64, 128).to(torch.float8_e4m3fn), torch.empty(8, 64)
    >>> tilejit.torch.fp8_gemm_nt((a, torch.full((8, 1), 0.5)), (b, torch.ones(1, 1)), d)
    >>> d[0, :2].tolist()
    [64.0, 64.0]
    """
    for name, pair in (("a", a), ("b", b)):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            _refuse(f"{name} is a {type(pair).__name__}; allowed: a pair of an operand and its scales")
        if pair[1].dtype != torch.float32:
            _refuse(f"the scales of {name} are {pair[1].dtype}; allowed: torch.float32", "unsupported")
    rows = tuple(recipe) if recipe is not None else None
    if rows not in _RECIPES:
        _refuse(f"recipe is {rows}; allowed: (1, 128, 128), (1, 1, 128), None", "unsupported")
    n = b[0].shape[0]
    if rows is not None and b[1].shape[0] != -(-n // _RECIPES[rows]):
        _refuse(f"recipe is {rows} and the scales of b have {b[1].shape[0]} rows; allowed: {-(-n // _RECIPES[rows])} for N {n}")
    torch.ops.tilejit.gemm_out(a[0], b[0], d, c=c, beta=0.0 if c is None else 1.0, scale_a=a[1], scale_b=b[1])
