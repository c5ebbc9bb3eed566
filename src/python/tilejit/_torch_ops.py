"""Operators of PyTorch: their schemas, and the kernels of CUDA, ROCm and CPU tensors.

Decides names, schemas and results' memory. Does not decide how a call runs (_torch_run.py) or which shapes results have (_torch_shapes.py,
_torch_expert_shapes.py).
Invariant: the operators are defined once in a process, and live as long as it does.
"""
from __future__ import annotations

import functools

import torch

from . import _torch_expert_shapes, _torch_recurrence_shapes, _torch_merge_shapes, _torch_shapes, _torch_stage_shapes
from ._error import Error
from ._torch_run import refuse_grad, refuse_tangent, run

_FMHA_OPTIONS = ("bool causal=False, float? scale=None, int window_left=-1, int window_right=-1, bool top_left=False, float softcap=0.0, "
                 "Tensor? alibi_slopes=None, Tensor? sinks=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? seqused_k=None, "
                 "Tensor? block_table=None, Tensor? bias=None, Tensor? mod_params=None, str? score_mod=None, str? mask_mod=None, "
                 "str? key_range=None")
_RULE_OPTIONS = ("Tensor? gate=None, Tensor? a_log=None, Tensor? dt_bias=None, Tensor? beta=None, str gate_form='log', bool beta_raw=False, "
                 "bool delta=True, bool normalise=False, float? scale=None, Tensor? initial_state=None, Tensor? read_slots=None, "
                 "Tensor? cu_seqlens=None, bool state_transposed=False")
_END = ", Tensor? end_params=None, str? end_text=None"
_CHUNK_O_ROOM = "int max_sms=0, int num_stages=0, bool evict_first=False"
_CUMSUM_OPTIONS = "str gate_form='log', Tensor? a_log=None, Tensor? dt_bias=None, Tensor? cu_seqlens=None"
SCHEMAS = {
    "fmha": "(Tensor q, Tensor k, Tensor v, *, " + _FMHA_OPTIONS + ") -> Tensor",
    "fmha_lse": "(Tensor q, Tensor k, Tensor v, *, " + _FMHA_OPTIONS + ") -> (Tensor, Tensor)",
    "fmha_out": "(Tensor q, Tensor k, Tensor v, Tensor(a!) out, *, " + _FMHA_OPTIONS + ", Tensor(b!)? lse=None) -> ()",
    "gemm": "(Tensor a, Tensor b, *, Tensor? c=None, Tensor? bias=None, float alpha=1.0, float beta=0.0, str? activation=None, "
            "ScalarType? dtype=None, Tensor? scale_a=None, Tensor? scale_b=None, str? gate=None, bool gate_interleaved=False" + _END + ") -> Tensor",
    "gemm_out": "(Tensor a, Tensor b, Tensor(a!) out, *, Tensor? c=None, Tensor? bias=None, float alpha=1.0, float beta=0.0, str? activation=None, "
                "Tensor? scale_a=None, Tensor? scale_b=None, str? gate=None, bool gate_interleaved=False" + _END + ") -> ()",
    "gemm_quantised": "(Tensor a, Tensor b, *, Tensor? bias=None, float alpha=1.0, str? activation=None, Tensor? scale_a=None, "
                      "Tensor? scale_b=None, str? gate=None, bool gate_interleaved=False, bool powers_of_two=False, bool packed=False" + _END + ") "
                      "-> (Tensor, Tensor)",
    "grouped_gemm": "(Tensor a, Tensor b, Tensor groups, *, str grouping='ends', Tensor? bias=None, float alpha=1.0, str? activation=None, "
                    "ScalarType? dtype=None, Tensor? scale_a=None, Tensor? scale_b=None, SymInt expected_rows=0, Tensor? c=None, "
                    "float beta=0.0, str? gate=None, bool gate_interleaved=False" + _END + ") -> Tensor",
    "grouped_gemm_out": "(Tensor a, Tensor b, Tensor groups, Tensor(a!) out, *, str grouping='ends', Tensor? bias=None, float alpha=1.0, "
                        "str? activation=None, Tensor? scale_a=None, Tensor? scale_b=None, SymInt expected_rows=0, Tensor? c=None, "
                        "float beta=0.0, str? gate=None, bool gate_interleaved=False" + _END + ") -> ()",
    "grouped_gemm_quantised": "(Tensor a, Tensor b, Tensor groups, *, str grouping='ends', Tensor? bias=None, float alpha=1.0, "
                              "str? activation=None, Tensor? scale_a=None, Tensor? scale_b=None, SymInt expected_rows=0, str? gate=None, "
                              "bool gate_interleaved=False, bool powers_of_two=False, bool packed=False" + _END + ") -> (Tensor, Tensor)",
    "quantise": "(Tensor x, *, int rows=1, str? gate=None, bool powers_of_two=False, Tensor? row_indices=None, bool packed=False, "
                "bool transposed=False) -> (Tensor, Tensor)",
    "quantise_out": "(Tensor x, Tensor(a!) q, Tensor(b!) scales, *, str? gate=None, bool powers_of_two=False, Tensor? row_indices=None, "
                    "bool transposed=False) -> ()",
    "merge_states": "(Tensor states, Tensor lse_states, *, Tensor? cu_seqlens=None, ScalarType? dtype=None) -> (Tensor, Tensor)",
    "combine": "(Tensor y, Tensor slots, *, Tensor? weights=None, Tensor? residual=None, ScalarType? dtype=None) -> Tensor",
    "combine_out": "(Tensor y, Tensor slots, Tensor(a!) out, *, Tensor? weights=None, Tensor? residual=None) -> ()",
    "chunk_indices": "(Tensor cu_seqlens, *, SymInt tokens) -> (Tensor, Tensor)",
    "chunk_indices_out": "(Tensor cu_seqlens, Tensor(a!) chunk_indices, Tensor(b!) total_chunks) -> ()",
    "chunk_o": "(Tensor q, Tensor k, Tensor v_new, Tensor h, *, Tensor? g_cu=None, Tensor? cu_seqlens=None, Tensor? chunk_indices=None, "
               "Tensor? total_chunks=None, SymInt seq_length=0, float? scale=None, bool h_transposed=False, " + _CHUNK_O_ROOM + ") -> Tensor",
    "chunk_o_out": "(Tensor q, Tensor k, Tensor v_new, Tensor h, Tensor(a!) out, *, Tensor? g_cu=None, Tensor? cu_seqlens=None, "
                   "Tensor? chunk_indices=None, Tensor? total_chunks=None, SymInt seq_length=0, float? scale=None, "
                   "bool h_transposed=False, " + _CHUNK_O_ROOM + ") -> ()",
    "gated_delta_rule": "(Tensor q, Tensor k, Tensor v, *, " + _RULE_OPTIONS + ", ScalarType? state_dtype=None) -> (Tensor, Tensor)",
    "gated_delta_rule_out": "(Tensor q, Tensor k, Tensor v, Tensor(a!) out, *, " + _RULE_OPTIONS + ", Tensor(b!)? final_state=None, "
                            "Tensor? write_slots=None, Tensor(c!)? token_states=None, Tensor? initial_scales=None, "
                            "Tensor(d!)? final_scales=None, Tensor(e!)? token_scales=None, int token_every=1, float negligible=0) -> ()",
    "chunk_solve": "(Tensor k, *, Tensor? beta=None, Tensor? g_cu=None, Tensor? cu_seqlens=None) -> Tensor",
    "chunk_wu": "(Tensor k, Tensor v, Tensor a, *, Tensor? beta=None, Tensor? g_cu=None, Tensor? cu_seqlens=None) -> (Tensor, Tensor)",
    "chunk_states": "(Tensor k, Tensor w, Tensor u, *, Tensor? g_cu=None, Tensor? initial_state=None, Tensor? cu_seqlens=None, "
                    "bool state_transposed=False, bool values_by_tokens=False, SymInt? chunks=None, ScalarType? state_dtype=None) "
                    "-> (Tensor, Tensor, Tensor)",
    "chunk_cumsum": "(Tensor gate, *, " + _CUMSUM_OPTIONS + ") -> Tensor",
    "chunk_cumsum_out": "(Tensor gate, Tensor(a!) out, *, " + _CUMSUM_OPTIONS + ") -> ()",
}


def _fmha(tensors, results, made, causal=False, scale=None, window_left=-1, window_right=-1, top_left=False, softcap=0.0, alibi_slopes=None,
          sinks=None, cu_seqlens_q=None, cu_seqlens_k=None, seqused_k=None, block_table=None, bias=None, mod_params=None, score_mod=None,
          mask_mod=None, key_range=None):
    run("fmha", (causal, scale, window_left, window_right, top_left, softcap, score_mod, mask_mod, key_range),
        (*tensors, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, block_table, bias, mod_params, *results), made)


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


def gemm(a, b, *, c=None, bias=None, alpha=1.0, beta=0.0, activation=None, dtype=None, scale_a=None, scale_b=None, gate=None,
         gate_interleaved=False, end_params=None, end_text=None):
    shape, dtype = _torch_shapes.gemm_like(a, b, c, bias, dtype, gate)
    d = torch.empty(shape, dtype=dtype, device=a.device)
    run("gemm", (alpha, beta, activation, gate, gate_interleaved, False, end_text), (a, b, c, bias, scale_a, scale_b, end_params, d, None), True)
    return d


def gemm_out(a, b, out, *, c=None, bias=None, alpha=1.0, beta=0.0, activation=None, scale_a=None, scale_b=None, gate=None, gate_interleaved=False,
             end_params=None, end_text=None):
    run("gemm", (alpha, beta, activation, gate, gate_interleaved, False, end_text), (a, b, c, bias, scale_a, scale_b, end_params, out, None), False)


def gemm_quantised(a, b, *, bias=None, alpha=1.0, activation=None, scale_a=None, scale_b=None, gate=None, gate_interleaved=False, powers_of_two=False,
                   packed=False, end_params=None, end_text=None):
    d, scales = _torch_shapes.quantised_like(_torch_shapes.gemm_like(a, b, None, bias, _torch_shapes.E4M3, gate)[0], a, packed)
    run("gemm", (alpha, 0.0, activation, gate, gate_interleaved, powers_of_two or packed, end_text),
        (a, b, None, bias, scale_a, scale_b, end_params, d, scales), True)
    return d, scales


def _grouped(a, b, groups, results, made, grouping="ends", bias=None, alpha=1.0, activation=None, scale_a=None, scale_b=None, expected_rows=0, c=None,
             beta=0.0, gate=None, gate_interleaved=False, powers_of_two=False, end_params=None, end_text=None):
    run("grouped_gemm", (grouping, alpha, beta, activation, gate, gate_interleaved, expected_rows, powers_of_two, end_text),
        (a, b, groups, bias, scale_a, scale_b, c, end_params, *results), made)


def grouped_gemm(a, b, groups, *, dtype=None, **options):
    shape, dtype = _torch_expert_shapes.grouped_gemm_like(a, b, groups, dtype, **options)
    d = torch.empty(shape, dtype=dtype, device=a.device)
    _grouped(a, b, groups, (d, None), True, **options)
    return d


def grouped_gemm_out(a, b, groups, out, **options):
    _grouped(a, b, groups, (out, None), False, **options)


def grouped_gemm_quantised(a, b, groups, *, powers_of_two=False, packed=False, **options):
    shape, _ = _torch_expert_shapes.grouped_gemm_like(a, b, groups, _torch_shapes.E4M3, **options)
    d, scales = _torch_shapes.quantised_like(shape, a, packed)
    _grouped(a, b, groups, (d, scales), True, powers_of_two=powers_of_two or packed, **options)
    return d, scales


def quantise(x, *, rows=1, gate=None, powers_of_two=False, row_indices=None, packed=False, transposed=False):
    q, scales = _torch_expert_shapes.quantise(x, rows=rows, gate=gate, row_indices=row_indices, packed=packed, transposed=transposed)
    run("quantise", (gate, powers_of_two or packed, transposed), (x, row_indices, q, scales), True)
    return q, scales


def quantise_out(x, q, scales, *, gate=None, powers_of_two=False, row_indices=None, transposed=False):
    run("quantise", (gate, powers_of_two, transposed), (x, row_indices, q, scales), False)


def merge_states(states, lse_states, *, cu_seqlens=None, dtype=None):
    o, lse = _torch_merge_shapes.merge_states(states, lse_states, cu_seqlens=cu_seqlens, dtype=dtype)
    run("merge_states", (), (states, lse_states, cu_seqlens, o, lse), True)
    return o, lse


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


def chunk_o(q, k, v_new, h, *, g_cu=None, cu_seqlens=None, chunk_indices=None, total_chunks=None, seq_length=0, scale=None, h_transposed=False,
            max_sms=0, num_stages=0, evict_first=False):
    o = torch.empty(_torch_shapes.chunk_o_like(q, v_new), dtype=q.dtype, device=q.device)
    run("chunk_o", (seq_length, scale, h_transposed, max_sms, num_stages, evict_first),
        (q, k, v_new, h, g_cu, cu_seqlens, chunk_indices, total_chunks, o), True)
    return o


def chunk_o_out(q, k, v_new, h, out, *, g_cu=None, cu_seqlens=None, chunk_indices=None, total_chunks=None, seq_length=0, scale=None,
                h_transposed=False, max_sms=0, num_stages=0, evict_first=False):
    run("chunk_o", (seq_length, scale, h_transposed, max_sms, num_stages, evict_first),
        (q, k, v_new, h, g_cu, cu_seqlens, chunk_indices, total_chunks, out), False)


def _rule(tensors, results, made, gate=None, a_log=None, dt_bias=None, beta=None, gate_form="log", beta_raw=False, delta=True, normalise=False,
          scale=None, initial_state=None, read_slots=None, cu_seqlens=None, state_transposed=False, write_slots=None, initial_scales=None,
          token_every=1, negligible=0.0):
    run("gated_delta_rule", (gate_form, beta_raw, delta, normalise, scale, state_transposed, token_every, negligible),
        (*tensors, gate, a_log, dt_bias, beta, initial_state, read_slots, write_slots, cu_seqlens, initial_scales, *results), made)


def gated_delta_rule(q, k, v, *, state_dtype=None, **options):
    given = [options.get(name) for name in ("gate", "beta", "initial_state", "cu_seqlens")]
    shape, states = _torch_recurrence_shapes.rule_like(q, k, v, *given)
    o, state = q.new_empty(shape), q.new_empty(states, dtype=_torch_recurrence_shapes.state_type(options.get("initial_state"), state_dtype))
    _rule((q, k, v), (o, state, None, None, None), True, **options)
    return o, state


def gated_delta_rule_out(q, k, v, out, *, final_state=None, token_states=None, final_scales=None, token_scales=None, **options):
    _rule((q, k, v), (out, final_state, token_states, final_scales, token_scales), False, **options)


def chunk_cumsum_out(gate, out, *, gate_form="log", a_log=None, dt_bias=None, cu_seqlens=None, made=False):
    run("chunk_cumsum", (gate_form,), (gate, a_log, dt_bias, cu_seqlens, out), made)


def chunk_cumsum(gate, **options):
    g_cu = torch.empty(gate.shape, dtype=torch.float32, device=gate.device)
    chunk_cumsum_out(gate, g_cu, made=True, **options)
    return g_cu


def chunk_solve(k, *, beta=None, g_cu=None, cu_seqlens=None):
    a = k.new_empty(_torch_stage_shapes.solve_like(k, beta, g_cu))
    run("chunk_solve", (), (k, beta, g_cu, cu_seqlens, a), True)
    return a


def chunk_wu(k, v, a, *, beta=None, g_cu=None, cu_seqlens=None):
    w, u = _torch_stage_shapes.wu_like(k, v, a)
    run("chunk_wu", (), (k, v, a, beta, g_cu, cu_seqlens, w, u), True)
    return w, u


def chunk_states(k, w, u, *, g_cu=None, initial_state=None, cu_seqlens=None, state_transposed=False, values_by_tokens=False, chunks=None,
                 state_dtype=None):
    results = _torch_stage_shapes.states_like(k, u, initial_state, cu_seqlens, state_transposed, values_by_tokens, chunks, state_dtype)
    run("chunk_states", (state_transposed, values_by_tokens), (k, w, u, g_cu, initial_state, cu_seqlens, *results), True)
    return results


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
    library, tags, shapes = torch.library.Library("tilejit", "DEF"), _tags(), {}
    for part in (_torch_shapes, _torch_expert_shapes, _torch_merge_shapes, _torch_recurrence_shapes, _torch_stage_shapes):
        shapes.update(vars(part))
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
