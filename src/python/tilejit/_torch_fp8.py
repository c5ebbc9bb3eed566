"""Products of 8-bit operands under the names that users of DeepGEMM know, by tilejit's kernels.

Decides what of its arguments is served; the rest is refused by name.
"""
from __future__ import annotations

import torch

from . import _torch_lists as lists
from . import _torch_ops  # noqa: F401 -- the operators
from ._error import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Sequence, Tuple

_BLOCK = 128
_RECIPES = {None: None, (1, _BLOCK, _BLOCK): _BLOCK, (1, 1, _BLOCK): 1}  # rows of b that one scale serves


def _refuse(name: str, text: str, code: str = "invalid_argument"):
    raise Error(f"{name}: {text}", code=code)


def _merged(name: str, recipe, recipe_a, recipe_b):
    """The one recipe that those of the operands are, (elements of M or N, of K) each."""
    if recipe_a is None and recipe_b is None:
        return recipe
    if recipe is not None:
        _refuse(name, "recipe is given with recipe_a or recipe_b; allowed: one or the others")
    for argument, given, allowed in (("recipe_a", recipe_a, ((1, _BLOCK),)), ("recipe_b", recipe_b, ((1, _BLOCK), (_BLOCK, _BLOCK)))):
        if given is not None and tuple(given) not in allowed:
            _refuse(name, f"{argument} is {tuple(given)}; allowed: {', '.join(map(str, allowed))}, None", "unsupported")
    return None if recipe_b is None else (1, *recipe_b)


def _check_pairs(name: str, a, b, recipe, rows: str, recipe_a=None, recipe_b=None) -> None:
    """a and b are pairs, their scales f32 or exponents in i32, and the recipes are those of these scales."""
    recipe = _merged(name, recipe, recipe_a, recipe_b)
    for argument, pair in (("a", a), ("b", b)):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            _refuse(name, f"{argument} is a {type(pair).__name__}; allowed: a pair of an operand and its scales")
        if pair[1].dtype not in (torch.float32, torch.int32):
            _refuse(name, f"the scales of {argument} are {pair[1].dtype}; allowed: torch.float32, torch.int32 (four exponents in each)", "unsupported")
    wanted = tuple(recipe) if recipe is not None else None
    if wanted not in _RECIPES:
        _refuse(name, f"recipe is {wanted}; allowed: (1, 128, 128), (1, 1, 128), None", "unsupported")
    n, given = b[0].shape[-2], b[1].shape[-2]
    if wanted is not None and given != -(-n // _RECIPES[wanted]):
        _refuse(name, f"recipe is {wanted} and the scales of b have {given} rows{rows}; allowed: {-(-n // _RECIPES[wanted])} for N {n}")


def fp8_gemm_nt(a: Tuple[torch.Tensor, torch.Tensor], b: Tuple[torch.Tensor, torch.Tensor], d: torch.Tensor, c: Optional[torch.Tensor] = None,
                recipe: Optional[Sequence[int]] = None, compiled_dims: str = "nk", disable_ue8m0_cast: bool = False, *,
                recipe_a: Optional[Sequence[int]] = None, recipe_b: Optional[Sequence[int]] = None) -> None:
    """d = a b^T, or a b^T + c, of float8_e4m3fn with scales of blocks.

    a: [M, K] and its scales f32 [M, ceil(K / 128)]. b: [N, K] and its scales f32 [ceil(N / 128), ceil(K / 128)] or [N, ceil(K / 128)]. d: [M, N],
    f16, bf16 or f32, is written; c is as d, and may be d. recipe: (1, 128, 128), (1, 1, 128) or None, which goes by the shape of b's scales; or by
    operands recipe_a (1, 128) and recipe_b (128, 128) or (1, 128).
    Scales may be i32 [.., ceil(K / 512)], four exponents in each. compiled_dims and disable_ue8m0_cast change nothing: no size is compiled in, and
    scales stay as they are. Scales of a that are contiguous in M are read
    as they lie, others take a little longer. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> a, b, d = torch.ones(8, 128).to(torch.float8_e4m3fn), torch.ones(64, 128).to(torch.float8_e4m3fn), torch.empty(8, 64)
    >>> tilejit.torch.fp8_gemm_nt((a, torch.full((8, 1), 0.5)), (b, torch.ones(1, 1)), d)
    >>> d[0, :2].tolist()
    [64.0, 64.0]
    """
    _check_pairs("fp8_gemm_nt", a, b, recipe, "", recipe_a, recipe_b)
    torch.ops.tilejit.gemm_out(a[0], b[0], d, c=c, beta=0.0 if c is None else 1.0, scale_a=a[1], scale_b=b[1])


def _rows_of_ends(ends: torch.Tensor, rows: int) -> torch.Tensor:
    """The group of each row, -1 for none, of groups that begin at the next multiple of 128 behind the end before them. Nothing waits for the host."""
    place = torch.arange(rows, dtype=torch.int32, device=ends.device)
    ends = ends.clamp(0, rows)  # a number outside counts as the nearest, as in lists of the kernels
    begins_next = (ends + (_BLOCK - 1)) // _BLOCK * _BLOCK
    group = torch.searchsorted(begins_next, place, right=True, out_int32=True)
    end = torch.nn.functional.pad(ends, (0, 1)).index_select(0, group)  # 0 behind the last
    return torch.where(place < end, group, -1)


def m_grouped_fp8_gemm_nt_contiguous(a: Tuple[torch.Tensor, torch.Tensor], b: Tuple[torch.Tensor, torch.Tensor], d: torch.Tensor,
                                     m_indices: torch.Tensor, recipe: Optional[Sequence[int]] = None, compiled_dims: str = "nk",
                                     disable_ue8m0_cast: bool = False, use_psum_layout: bool = False, *,
                                     expected_m_for_psum_layout: Optional[int] = None, ensure_zero_padding: Optional[bool] = None,
                                     recipe_a: Optional[Sequence[int]] = None, recipe_b: Optional[Sequence[int]] = None) -> None:
    """Rows of d = rows of a times b[g]^T, of float8_e4m3fn with scales of blocks, for the group g that each row names.

    a: [M, K] and its scales f32 [M, ceil(K / 128)]. b: [G, N, K] and its scales f32 [G, ceil(N / 128), ceil(K / 128)] or [G, N, ceil(K / 128)].
    d: [M, N], f16, bf16 or f32, is written. m_indices i32 [M]: the group of each row, -1 for padding; groups begin at multiples of 128 rows. With
    use_psum_layout it is [G], the row behind each group's last, and the next group begins at the multiple of 128 that follows: the device makes the
    list of rows of it. expected_m_for_psum_layout goes with it: rows that a group is expected to have; it chooses the kernel, never the result.
    Rows of padding hold anything then, so ensure_zero_padding may be False or None alone. The others are as fp8_gemm_nt's.
    torch.ops.tilejit.grouped_gemm_out takes groups without padding, by their ends. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> a, b = torch.ones(128, 128).to(torch.float8_e4m3fn), torch.ones(2, 64, 128).to(torch.float8_e4m3fn)
    >>> d, groups = torch.zeros(128, 64), torch.ones(128, dtype=torch.int32)
    >>> tilejit.torch.m_grouped_fp8_gemm_nt_contiguous((a, torch.ones(128, 1)), (b, torch.tensor([1.0, 3.0]).view(2, 1, 1)), d, groups)
    >>> d[0, :2].tolist()
    [384.0, 384.0]
    """
    name, expected = "m_grouped_fp8_gemm_nt_contiguous", expected_m_for_psum_layout
    _check_pairs(name, a, b, recipe, " each", recipe_a, recipe_b)
    if ensure_zero_padding:
        _refuse(name, f"ensure_zero_padding is {ensure_zero_padding}; allowed: False, None, as rows of padding hold anything", "unsupported")
    if expected is not None and not use_psum_layout:
        _refuse(name, f"expected_m_for_psum_layout is {expected} without use_psum_layout; allowed: None")
    if use_psum_layout:
        if m_indices.dtype != torch.int32 or tuple(m_indices.shape) != (b[0].shape[0],):
            _refuse(name, f"m_indices is {m_indices.dtype} {list(m_indices.shape)}; allowed with use_psum_layout: torch.int32 [{b[0].shape[0]}], b's G")
        lists.check_ends(name, "m_indices", m_indices, a[0].shape[0], f", a's {a[0].shape[0]} rows", block=_BLOCK)
        m_indices = _rows_of_ends(m_indices, a[0].shape[0])
    torch.ops.tilejit.grouped_gemm_out(a[0], b[0], m_indices, d, grouping="rows", scale_a=a[1], scale_b=b[1], expected_rows=expected or 0)


def m_grouped_fp8_gemm_nt_masked(a: Tuple[torch.Tensor, torch.Tensor], b: Tuple[torch.Tensor, torch.Tensor], d: torch.Tensor,
                                 masked_m: torch.Tensor, expected_m: int, recipe: Optional[Sequence[int]] = None, compiled_dims: str = "nk",
                                 disable_ue8m0_cast: bool = False, *, recipe_a: Optional[Sequence[int]] = None,
                                 recipe_b: Optional[Sequence[int]] = None) -> None:
    """The first masked_m[g] rows of d[g] = those of a[g] times b[g]^T, of float8_e4m3fn with scales of blocks.

    a: [G, R, K] and its scales f32 [G, R, ceil(K / 128)]. b: as m_grouped_fp8_gemm_nt_contiguous has it. d: [G, R, N]; its other rows are not
    written. masked_m i32 [G], on the device. expected_m: rows that a group is expected to have; it chooses the kernel, never the result. The others
    are as fp8_gemm_nt's. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> a, b = torch.ones(2, 4, 128).to(torch.float8_e4m3fn), torch.ones(2, 64, 128).to(torch.float8_e4m3fn)
    >>> d, counts = torch.zeros(2, 4, 64), torch.tensor([1, 3], dtype=torch.int32)
    >>> tilejit.torch.m_grouped_fp8_gemm_nt_masked((a, torch.ones(2, 4, 1)), (b, torch.ones(2, 1, 1)), d, counts, 2)
    >>> d[:, :, 0].tolist()
    [[128.0, 0.0, 0.0, 0.0], [128.0, 128.0, 128.0, 0.0]]
    """
    _check_pairs("m_grouped_fp8_gemm_nt_masked", a, b, recipe, " each", recipe_a, recipe_b)
    torch.ops.tilejit.grouped_gemm_out(a[0], b[0], masked_m, d, grouping="counts", scale_a=a[1], scale_b=b[1], expected_rows=expected_m)
