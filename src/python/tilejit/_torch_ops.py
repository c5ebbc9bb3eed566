"""Operators of PyTorch: their schemas, and the kernels of CUDA, ROCm and CPU tensors.

Decides names, schemas and results' memory. Does not decide how a call runs (_torch_run.py) or which shapes results have (_torch_shapes.py,
_torch_expert_shapes.py).
Invariant: the operators are defined once in a process, and live as long as it does.
"""
from __future__ import annotations

import functools

import torch

from . import _torch_expert_shapes, _torch_shapes
from ._error import Error
from ._torch_run import refuse_grad, refuse_tangent, run

_FMHA_OPTIONS = ("bool causal=False, float? scale=None, int window_left=-1, int window_right=-1, bool top_left=False, float softcap=0.0, "
                 "Tensor? alibi_slopes=None, Tensor? sinks=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? seqused_k=None, "
                 "Tensor? block_table=None")
SCHEMAS = {
    "fmha": "(Tensor q, Tensor k, Tensor v, *, " + _FMHA_OPTIONS + ") -> Tensor",
    "fmha_lse": "(Tensor q, Tensor k, Tensor v, *, " + _FMHA_OPTIONS + ") -> (Tensor, Tensor)",
    "fmha_out": "(Tensor q, Tensor k, Tensor v, Tensor(a!) out, *, " + _FMHA_OPTIONS + ", Tensor(b!)? lse=None) -> ()",
    "gemm": "(Tensor a, Tensor b, *, Tensor? c=None, Tensor? bias=None, float alpha=1.0, float beta=0.0, str? activation=None, "
            "ScalarType? dtype=None, Tensor? scale_a=None, Tensor? scale_b=None) -> Tensor",
    "gemm_out": "(Tensor a, Tensor b, Tensor(a!) out, *, Tensor? c=None, Tensor? bias=None, float alpha=1.0, float beta=0.0, str? activation=None, "
                "Tensor? scale_a=None, Tensor? scale_b=None) -> ()",
    "grouped_gemm": "(Tensor a, Tensor b, Tensor groups, *, str grouping='ends', Tensor? bias=None, float alpha=1.0, str? activation=None, "
                    "ScalarType? dtype=None, Tensor? scale_a=None, Tensor? scale_b=None, SymInt expected_rows=0) -> Tensor",
    "grouped_gemm_out": "(Tensor a, Tensor b, Tensor groups, Tensor(a!) out, *, str grouping='ends', Tensor? bias=None, float alpha=1.0, "
                        "str? activation=None, Tensor? scale_a=None, Tensor? scale_b=None, SymInt expected_rows=0) -> ()",
    "quantise": "(Tensor x, *, int rows=1, str? gate=None, bool powers_of_two=False, Tensor? row_indices=None) -> (Tensor, Tensor)",
    "quantise_out": "(Tensor x, Tensor(a!) q, Tensor(b!) scales, *, str? gate=None, bool powers_of_two=False, Tensor? row_indices=None) -> ()",
    "combine": "(Tensor y, Tensor slots, *, Tensor? weights=None, Tensor? residual=None, ScalarType? dtype=None) -> Tensor",
    "combine_out": "(Tensor y, Tensor slots, Tensor(a!) out, *, Tensor? weights=None, Tensor? residual=None) -> ()",
    "chunk_indices": "(Tensor cu_seqlens, *, SymInt tokens) -> (Tensor, Tensor)",
    "chunk_indices_out": "(Tensor cu_seqlens, Tensor(a!) chunk_indices, Tensor(b!) total_chunks) -> ()",
    "chunk_o": "(Tensor q, Tensor k, Tensor v_new, Tensor h, *, Tensor? g_cu=None, Tensor? cu_seqlens=None, Tensor? chunk_indices=None, "
               "Tensor? total_chunks=None, SymInt seq_length=0, float? scale=None, bool h_transposed=False) -> Tensor",
    "chunk_o_out": "(Tensor q, Tensor k, Tensor v_new, Tensor h, Tensor(a!) out, *, Tensor? g_cu=None, Tensor? cu_seqlens=None, "
                   "Tensor? chunk_indices=None, Tensor? total_chunks=None, SymInt seq_length=0, float? scale=None, "
                   "bool h_transposed=False) -> ()",
}


def _fmha(tensors, results, made, causal=False, scale=None, window_left=-1, window_right=-1, top_left=False, softcap=0.0, alibi_slopes=None,
          sinks=None, cu_seqlens_q=None, cu_seqlens_k=None, seqused_k=None, block_table=None):
    run("fmha", (causal, scale, window_left, window_right, top_left, softcap),
        (*tensors, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, block_table, *results), made)


def fmha(q, k, v, **options):
    o = _torch_shapes.fmha_like(q, v)
    _fmha((q, k, v), (o, None), True, **options)
    return o


def fmha_lse(q, k, v, **options):
    o, lse = _torch_shapes.fmha_like(q, v), _torch_shapes.lse_like(q)
    _fmha((q, k, v), (o, lse), True, **options)
    return o, lse


def fmha_out(q, k, v, out, *, lse=None, **options):
    _fmha((q, k, v), (out, lse), False, **options)


def gemm(a, b, *, c=None, bias=None, alpha=1.0, beta=0.0, activation=None, dtype=None, scale_a=None, scale_b=None):
    shape, dtype = _torch_shapes.gemm_like(a, b, c, bias, dtype)
    d = torch.empty(shape, dtype=dtype, device=a.device)
    run("gemm", (alpha, beta, activation), (a, b, c, bias, scale_a, scale_b, d), True)
    return d


def gemm_out(a, b, out, *, c=None, bias=None, alpha=1.0, beta=0.0, activation=None, scale_a=None, scale_b=None):
    run("gemm", (alpha, beta, activation), (a, b, c, bias, scale_a, scale_b, out), False)


def grouped_gemm(a, b, groups, *, grouping="ends", bias=None, alpha=1.0, activation=None, dtype=None, scale_a=None, scale_b=None, expected_rows=0):
    shape, dtype = _torch_expert_shapes.grouped_gemm_like(a, b, bias, dtype)
    d = torch.empty(shape, dtype=dtype, device=a.device)
    run("grouped_gemm", (grouping, alpha, activation, expected_rows), (a, b, groups, bias, scale_a, scale_b, d), True)
    return d


def grouped_gemm_out(a, b, groups, out, *, grouping="ends", bias=None, alpha=1.0, activation=None, scale_a=None, scale_b=None, expected_rows=0):
    run("grouped_gemm", (grouping, alpha, activation, expected_rows), (a, b, groups, bias, scale_a, scale_b, out), False)


def quantise(x, *, rows=1, gate=None, powers_of_two=False, row_indices=None):
    q, scales = _torch_expert_shapes.quantise(x, rows=rows, gate=gate, row_indices=row_indices)
    run("quantise", (gate, powers_of_two), (x, row_indices, q, scales), True)
    return q, scales


def quantise_out(x, q, scales, *, gate=None, powers_of_two=False, row_indices=None):
    run("quantise", (gate, powers_of_two), (x, row_indices, q, scales), False)


def combine(y, slots, *, weights=None, residual=None, dtype=None):
    d = _torch_expert_shapes.combine(y, slots, weights=weights, residual=residual, dtype=dtype)
    run("combine", (), (y, slots, weights, residual, d), True)
    return d


def combine_out(y, slots, out, *, weights=None, residual=None):
    run("combine", (), (y, slots, weights, residual, out), False)


def chunk_indices(cu_seqlens, *, tokens):
    if not 0 <= tokens < 2**31:
        raise Error(f"tokens is {tokens}; allowed: a whole number from 0 to {2**31 - 1}")
    rows, total = _torch_shapes.chunk_indices(cu_seqlens, tokens=tokens)
    run("chunk_indices", (), (cu_seqlens, rows, total), True)
    return rows, total


def chunk_indices_out(cu_seqlens, chunk_indices, total_chunks):
    run("chunk_indices", (), (cu_seqlens, chunk_indices, total_chunks), False)


def chunk_o(q, k, v_new, h, *, g_cu=None, cu_seqlens=None, chunk_indices=None, total_chunks=None, seq_length=0, scale=None, h_transposed=False):
    o = torch.empty(_torch_shapes.chunk_o_like(q, v_new), dtype=q.dtype, device=q.device)
    run("chunk_o", (seq_length, scale, h_transposed), (q, k, v_new, h, g_cu, cu_seqlens, chunk_indices, total_chunks, o), True)
    return o


def chunk_o_out(q, k, v_new, h, out, *, g_cu=None, cu_seqlens=None, chunk_indices=None, total_chunks=None, seq_length=0, scale=None, h_transposed=False):
    run("chunk_o", (seq_length, scale, h_transposed), (q, k, v_new, h, g_cu, cu_seqlens, chunk_indices, total_chunks, out), False)


_functorch = torch._C._functorch
_CAST = (torch.float32, torch.float16, torch.bfloat16)


def _cast(name, kind, *arguments, **options):
    """What autocast does for torch's own attention and products: floats become its type. float64 and float8 stay."""
    def one(x):
        return x.to(wanted) if isinstance(x, torch.Tensor) and x.dtype in _CAST and not plain else x
    wanted, plain = torch.get_autocast_dtype(kind), arguments[0].dtype not in _CAST
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
    with torch._C._ExcludeDispatchKeyGuard(keys):
        return getattr(torch.ops.tilejit, name)(*map(one, arguments), **{key: one(x) for key, x in options.items()})


def _transformed(name, *arguments, **options):
    """Within torch.func: what it differentiates is refused, which kernels would not see; the rest goes on as without this."""
    twin = getattr(torch.ops.tilejit, "_" + name)
    for argument, x in (*zip((each.name for each in twin.default._schema.arguments), arguments), *options.items()):
        while isinstance(x, torch.Tensor):
            if _functorch.is_gradtrackingtensor(x):
                if torch.is_grad_enabled() and x.requires_grad:
                    refuse_grad(name, argument)
                refuse_tangent(name, argument, x)
            elif not _functorch.is_batchedtensor(x):
                break
            x = _functorch.get_unwrapped(x)
    return twin(*arguments, **options)


def _tags():
    """Inductor must not give a kernel tensors with other strides than the program did."""
    for name in ("needs_exact_strides", "needs_fixed_stride_order"):
        if hasattr(torch.Tag, name):
            return torch.Tag.pt2_compliant_tag, getattr(torch.Tag, name)
    return (torch.Tag.pt2_compliant_tag,)


def _define():
    library, tags, shapes = torch.library.Library("tilejit", "DEF"), _tags(), {**vars(_torch_shapes), **vars(_torch_expert_shapes)}
    for name, schema in SCHEMAS.items():
        for twin in (name, "_" + name):
            library.define(twin + schema, tags=tags)
            for key in ("CPU", "CUDA"):
                library.impl(twin, globals()[name], key)
            torch.library.register_fake(f"tilejit::{twin}", shapes[name], lib=library)
        library.impl(name, functools.partial(_transformed, name), "FuncTorchDynamicLayerFrontMode")
    for name in ("fmha", "fmha_lse", "gemm"):
        for key, kind in (("AutocastCPU", "cpu"), ("AutocastCUDA", "cuda")):
            library.impl(name, functools.partial(_cast, name, kind), key)
    return library


library = _define()  # kept: what it has defined ends with it
