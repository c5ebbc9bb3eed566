"""Results of the operators of mixture-of-experts layers without memory; see _torch_shapes.py, whose rules they follow."""
from __future__ import annotations

import torch

from . import _c
from ._torch_shapes import (_E4M3, _HALVES, _demand, _dtype, _finite, _rank, _same, _short, _together, added_type, check_end, check_gate,
                            halves, quantised_like)


def grouped_gemm_like(a, b, groups, dtype=None, *, bias=None, c=None, gate=None, grouping="ends", **options):
    """(shape, type) of products of groups."""
    depths = grouping == "depths"
    _rank("grouped_gemm", "a", a, "[M, K], or [G, R, K] with counts", 2, 3)
    _rank("grouped_gemm", "b", b, "[N, K] with depths, else [G, N, K]", 2 if depths else 3)
    if dtype is None:
        dtype = (c if c is not None else bias).dtype if c is not None or bias is not None else torch.float32 if a.dtype == _E4M3 else a.dtype
    if depths:
        _rank("grouped_gemm", "groups", groups, "[G]", 1)
        return (groups.shape[0], a.shape[0], b.shape[0]), dtype
    return (*a.shape[:-1], b.shape[1] // halves("grouped_gemm", gate, b)), dtype


def _grouped_gemm(a, b, groups, shape, dtype, grouping="ends", bias=None, alpha=1.0, activation=None, scale_a=None, scale_b=None, expected_rows=0,
                  c=None, beta=0.0, gate=None, gate_interleaved=False, end_params=None, end_text=None, quantised=False):
    op = "grouped_gemm"
    _together(op, a, {"a": a, "b": b, "groups": groups, "bias": bias, "scale_a": scale_a, "scale_b": scale_b, "c": c, "end_params": end_params})
    _dtype(op, "a", a, (*_HALVES, _E4M3), code="unsupported")
    _dtype(op, "b", b, (a.dtype,), ", as a.dtype")
    _demand(dtype in (*_HALVES, torch.float32) or quantised, op, f"d.dtype is {_short(dtype)}; allowed: f16, bf16, f32", "unsupported")
    _same(op, "b", b, b.dim() - 1, a.shape[-1], "a's K")
    _demand(grouping in _c.GROUPINGS, op, f"grouping is {grouping!r}; allowed: {', '.join(_c.GROUPINGS)}")
    counts, depths = grouping == "counts", grouping == "depths"
    if depths:
        _demand(not quantised, op, "d.dtype is e4m3; allowed with depths: f16, bf16, f32", "unsupported")
        _demand(not _c.ACTIVATIONS.get(gate), op, f"gate is {gate!r}; allowed with depths: None", "unsupported")
    _rank(op, "a", a, "[G, R, K] with counts, else [M, K]", 3 if counts else 2)
    if counts:
        _same(op, "a", a, 0, b.shape[0], "b.shape[0]")
    _rank(op, "groups", groups, "[M] with rows, else [G]", 1)
    _dtype(op, "groups", groups, (torch.int32,))
    _same(op, "groups", groups, 0, a.shape[0] if grouping == "rows" else groups.shape[0] if depths else b.shape[0],
          "a's M" if grouping == "rows" else "b.shape[0]")
    _demand(activation in _c.ACTIVATIONS, op, f"activation is {activation!r}; allowed: {', '.join(map(str, _c.ACTIVATIONS))}")
    check_gate(op, gate, beta, activation)
    check_end(op, end_params, end_text, activation)
    _finite(op, alpha=alpha, beta=beta)
    _demand(beta == 0 or c is not None, op, f"beta is {beta} but c is absent; allowed: 0, or a c to add")
    if beta != 0:
        _dtype(op, "c", c, (dtype,), ", as d.dtype")
        _rank(op, "c", c, "d's", len(shape))
        for axis, size in enumerate(shape):
            _same(op, "c", c, axis, size, "d's shape")
    if bias is not None:
        _dtype(op, "bias", bias, (added_type(a, dtype),), ", with d of e4m3" if quantised else ", as d.dtype")
        _rank(op, "bias", bias, "[G, N]", 2)
        for axis, size in enumerate((groups.shape[0], b.shape[0]) if depths else b.shape[:2]):
            _same(op, "bias", bias, axis, size, "G and b's N")
    for name, x in (("scale_a", scale_a), ("scale_b", scale_b)):
        if x is not None:
            _demand(a.dtype == _E4M3, op, f"{name} is given with a.dtype {_short(a.dtype)}; allowed with e4m3")
            _dtype(op, name, x, (torch.float32, torch.int32))


def grouped_gemm(a, b, groups, *, dtype=None, **options):
    shape, dtype = grouped_gemm_like(a, b, groups, dtype, **options)
    _grouped_gemm(a, b, groups, shape, dtype, **options)
    return torch.empty(shape, dtype=dtype, device=a.device)


def grouped_gemm_quantised(a, b, groups, *, powers_of_two=False, packed=False, **options):
    shape, dtype = grouped_gemm_like(a, b, groups, _E4M3, **options)
    _grouped_gemm(a, b, groups, shape, dtype, quantised=True, **options)
    return quantised_like(shape, a, packed)


def grouped_gemm_out(a, b, groups, out, **options):
    shape, _ = grouped_gemm_like(a, b, groups, out.dtype, **options)
    _grouped_gemm(a, b, groups, shape, out.dtype, **options)
    _together("grouped_gemm", a, {"a": a, "d": out})
    _rank("grouped_gemm", "d", out, "[M, N], or [G, R, N] with counts", len(shape))
    for axis, size in enumerate(shape):
        _same("grouped_gemm", "d", out, axis, size, "a's rows and b's N ask for")


def quantise(x, *, rows=1, gate=None, powers_of_two=False, row_indices=None, packed=False, transposed=False):
    """(q, scales). Scales of rows are contiguous in M, as products read them faster."""
    op = "quantise"
    _rank(op, "x", x, "[M, K], or [B, M, K]", 2, 3)
    _dtype(op, "x", x, (*_HALVES, torch.float32), code="unsupported")
    _together(op, x, {"x": x, "row_indices": row_indices})
    _demand(rows in (1, 128), op, f"rows is {rows}; allowed: 1, 128")
    _demand(gate in _c.ACTIVATIONS, op, f"gate is {gate!r}; allowed: {', '.join(map(str, _c.ACTIVATIONS))}")
    *batch, m, k = x.shape
    if row_indices is not None:
        _demand(not batch, op, "row_indices is given with a batch; allowed with q [M, K] and x [X, K]", "unsupported")
        _rank(op, "row_indices", row_indices, "[M]", 1)
        _dtype(op, "row_indices", row_indices, (torch.int32,))
        m = row_indices.shape[0]
    if _c.ACTIVATIONS[gate]:
        _demand(k % 2 == 0, op, f"x.shape[{x.dim() - 1}] is {k}; allowed with a gate: even numbers")
        k = k // 2
    if transposed:
        _demand(x.dtype in _HALVES, op, f"x.dtype is {_short(x.dtype)}; allowed with transposed: f16, bf16", "unsupported")
        _demand(row_indices is None and not _c.ACTIVATIONS[gate], op, "a gate or row_indices is given; allowed with transposed: neither", "unsupported")
        m, k = k, m
    blocks, kind = ((k + 511) // 512, torch.int32) if packed else ((k + 127) // 128, torch.float32)
    q = torch.empty((*batch, m, k), dtype=_E4M3, device=x.device)
    if rows == 1:
        return q, torch.empty((*batch, blocks, m), dtype=kind, device=x.device).transpose(-1, -2)
    return q, torch.empty((*batch, (m + 127) // 128, blocks), dtype=kind, device=x.device)


def quantise_out(x, q, scales, *, gate=None, powers_of_two=False, row_indices=None, transposed=False):
    like, _ = quantise(x, gate=gate, row_indices=row_indices, transposed=transposed)
    _together("quantise", x, {"q": q, "scales": scales})
    _rank("quantise", "q", q, "[M, K], or [B, M, K]", like.dim())
    _dtype("quantise", "q", q, (_E4M3,))
    _dtype("quantise", "scales", scales, (torch.float32, torch.int32))
    _demand(powers_of_two or scales.dtype != torch.int32, "quantise",
            "scales.dtype is i32 (exponents) and powers_of_two is false; allowed: f32, or true")
    for axis, size in enumerate(like.shape):
        _same("quantise", "q", q, axis, size, "x asks for")


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
