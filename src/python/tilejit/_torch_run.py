"""Calls on tensors of torch: which way they take, so that an operator costs the host little and its memory is torch's.

Decides that calls on a GPU take the package's short way (_ready.py) where torch offers DLPack's exchange API. All others, and those that may
want a workspace, take plans that are kept here: a workspace then comes from torch's allocator, also while a CUDA graph is captured. One with
counters that must begin at 0 is the library's own. Knows no operator of torch. Invariant: a plan runs on tensors of the shapes, strides, types,
devices and alignments that it was made of. It ends when another kernel was measured to be faster.
"""
from __future__ import annotations

import itertools

import torch
from torch.autograd import forward_ad

from . import _ops
from ._c import MAX_OBJECTS
from ._error import Error
from ._exchange import api_of
from ._ready import plain

MOST_PLANS = 1024
_plans: dict = {}


def _fmha(call, tensors, options):
    q, k, v, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, block_table, bias, mod_params, o, lse = tensors
    causal, scale, left, right, top_left, softcap, score_mod, mask_mod, key_range = options
    return call(q, k, v, causal=causal, scale=scale, window=(left, right), top_left=top_left, softcap=softcap, alibi_slopes=alibi_slopes,
                sinks=sinks, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, seqused_k=seqused_k, block_table=block_table,
                bias=bias, score_mod=score_mod, mask_mod=mask_mod, key_range=key_range, mod_params=mod_params,
                out=o if lse is None else (o, lse), return_lse=lse is not None)


def _gemm(call, tensors, options):
    a, b, c, bias, scale_a, scale_b, end_params, d, scale_d = tensors
    alpha, beta, activation, gate, gate_interleaved, powers_of_two, end_text = options
    return call(a, b, c=c, bias=bias, scale_a=scale_a, scale_b=scale_b, alpha=alpha, beta=beta, activation=activation, gate=gate,
                gate_interleaved=gate_interleaved, powers_of_two=powers_of_two, end_text=end_text, end_params=end_params,
                out=d if scale_d is None else (d, scale_d))


def _grouped_gemm(call, tensors, options):
    a, b, groups, bias, scale_a, scale_b, c, end_params, d, scale_d = tensors
    grouping, alpha, beta, activation, gate, gate_interleaved, expected_rows, powers_of_two, end_text = options
    return call(a, b, groups, grouping=grouping, bias=bias, scale_a=scale_a, scale_b=scale_b, alpha=alpha, activation=activation,
                expected_rows=expected_rows, c=c, beta=beta, gate=gate, gate_interleaved=gate_interleaved, powers_of_two=powers_of_two,
                end_text=end_text, end_params=end_params, out=d if scale_d is None else (d, scale_d))


def _quantise(call, tensors, options):
    x, row_indices, *out = tensors
    gate, powers_of_two, transposed = options
    return call(x, row_indices=row_indices, out=tuple(out), gate=gate, powers_of_two=powers_of_two, transposed=transposed)


def _merge_states(call, tensors, options):
    return call(*tensors[:2], cu_seqlens=tensors[2], out=tensors[3:])


def _combine(call, tensors, options):
    y, slots, weights, residual, d = tensors
    return call(y, slots, weights=weights, residual=residual, out=d)


def _chunk_indices(call, tensors, options):
    return call(tensors[0], out=tensors[1:])


def _chunk_o(call, tensors, options):
    q, k, v_new, h, g_cu, cu_seqlens, chunk_indices, total_chunks, o = tensors
    seq_length, scale, h_transposed, max_sms, num_stages, evict_first = options
    return call(q, k, v_new, h, g_cu=g_cu, cu_seqlens=cu_seqlens, chunk_indices=chunk_indices, total_chunks=total_chunks, seq_length=seq_length,
                scale=scale, h_transposed=h_transposed, max_sms=max_sms, num_stages=num_stages, evict_first=evict_first, out=o)


def _gated_delta_rule(call, tensors, options):
    (q, k, v, gate, a_log, dt_bias, beta, initial_state, read_slots, write_slots, cu_seqlens, initial_scales, o, final_state, token_states, final_scales,
     token_scales) = tensors
    gate_form, beta_raw, delta, normalise, scale, state_transposed, token_every, negligible = options
    return call(q, k, v, gate=gate, a_log=a_log, dt_bias=dt_bias, beta=beta, gate_form=gate_form, beta_raw=beta_raw, delta=delta,
                normalise=normalise, scale=scale, initial_state=initial_state, read_slots=read_slots, write_slots=write_slots,
                cu_seqlens=cu_seqlens, state_transposed=state_transposed, out=o, final_state=final_state, token_states=token_states,
                initial_scales=initial_scales, final_scales=final_scales, token_scales=token_scales, token_every=token_every,
                negligible=negligible)


def _chunk_cumsum(call, tensors, options):
    gate, a_log, dt_bias, cu_seqlens, g_cu = tensors
    return call(gate, gate_form=options[0], a_log=a_log, dt_bias=dt_bias, cu_seqlens=cu_seqlens, out=g_cu)


def _chunk_solve(call, tensors, options):
    k, beta, g_cu, cu_seqlens, a = tensors
    return call(k, beta=beta, g_cu=g_cu, cu_seqlens=cu_seqlens, out=a)


def _chunk_wu(call, tensors, options):
    k, v, a, beta, g_cu, cu_seqlens, w, u = tensors
    return call(k, v, a, beta=beta, g_cu=g_cu, cu_seqlens=cu_seqlens, out=(w, u))


def _chunk_states(call, tensors, options):
    k, w, u, g_cu, initial_state, cu_seqlens, h, v_new, final_state = tensors
    state_transposed, values_by_tokens = options
    return call(k, w, u, g_cu=g_cu, initial_state=initial_state, cu_seqlens=cu_seqlens, state_transposed=state_transposed,
                values_by_tokens=values_by_tokens, final_state=final_state, out=(h, v_new))


# The tensors of a call in the order of run(), by their names in plans; how many of them are results; how the package's own function takes them.
_OPS = {
    "fmha": (("q", "k", "v", "alibi_slopes", "sinks", "cu_seqlens_q", "cu_seqlens_k", "seqused_k", "block_table", "bias", "mod_params", "o", "lse"), 2,
             _fmha),
    "gemm": (("a", "b", "c", "bias", "scale_a", "scale_b", "end_params", "d", "scale_d"), 2, _gemm),
    "grouped_gemm": (("a", "b", "groups", "bias", "scale_a", "scale_b", "c", "end_params", "d", "scale_d"), 2, _grouped_gemm),
    "quantise": (("x", "row_indices", "q", "scales"), 2, _quantise),
    "merge_states": (("states", "lse_states", "cu_seqlens", "o", "lse"), 2, _merge_states),
    "combine": (("y", "slots", "weights", "residual", "d"), 1, _combine),
    "chunk_indices": (("cu_seqlens", "chunk_indices", "total_chunks"), 2, _chunk_indices),
    "chunk_o": (("q", "k", "v_new", "h", "g_cu", "cu_seqlens", "chunk_indices", "total_chunks", "o"), 1, _chunk_o),
    "gated_delta_rule": (("q", "k", "v", "gate", "a_log", "dt_bias", "beta", "initial_state", "read_slots", "write_slots", "cu_seqlens",
                          "initial_scales", "o", "final_state", "token_states", "final_scales", "token_scales"), 5, _gated_delta_rule),
    "chunk_cumsum": (("gate", "a_log", "dt_bias", "cu_seqlens", "g_cu"), 1, _chunk_cumsum),
    "chunk_solve": (("k", "beta", "g_cu", "cu_seqlens", "a"), 1, _chunk_solve),
    "chunk_wu": (("k", "v", "a", "beta", "g_cu", "cu_seqlens", "w", "u"), 2, _chunk_wu),
    "chunk_states": (("k", "w", "u", "g_cu", "initial_state", "cu_seqlens", "h", "v_new", "final_state"), 3, _chunk_states),
}


def refuse_grad(op: str, name: str) -> None:
    raise Error(f"{op}: {name} requires grad, and tilejit has forward passes only; call it under torch.no_grad(), or give {name}.detach()",
                code="unsupported")


def refuse_tangent(op: str, name: str, x) -> None:
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None:
        raise Error(f"{op}: {name} has a tangent of forward-mode differentiation, and tilejit has forward passes only; give it without one",
                    code="unsupported")


def run(op: str, options: tuple, tensors: tuple, made: bool) -> None:
    """Enqueues a call on torch's current stream. made: the caller has just allocated the results."""
    if forward_ad._current_level >= 0:
        for name, x in zip(_OPS[op][0], tensors):
            if x is not None:
                refuse_tangent(op, name, x)
    few = len(tensors) <= MAX_OBJECTS or sum(x is not None for x in tensors) <= MAX_OBJECTS
    if op not in ("gemm", "grouped_gemm") and few and tensors[0].is_cuda and api_of(type(tensors[0])) is not None:
        _OPS[op][2](getattr(_ops, op), tensors, options)
    else:
        _run_plan(op, options, tensors)
    if not made:
        _written(op, tensors)


def forget_plans() -> None:
    """Gives up the plans that are kept here; calls make them again."""
    _plans.clear()


def _run_plan(op, options, tensors) -> None:
    wants_grad, key = torch.is_grad_enabled(), [op, *map(plain, options)]
    for x in tensors:
        if x is None:
            key.append(None)
        elif wants_grad and x.requires_grad:
            refuse_grad(op, next(name for name, each in zip(_OPS[op][0], tensors) if each is x))
        else:
            key += (x.shape, x.stride(), x.dtype, x.get_device(), x.data_ptr() & 15)
    key = tuple(key)
    found = _plans.get(key)
    plan, taken = found if found is not None and found[0].current else _keep(key, op, options, tensors)
    given = [tensors[i] for i in taken]
    if not plan.workspace_bytes or plan.workspace_zeroed:  # the library zeroes counters, and no more than them
        plan.run(*given)
        return
    step = plan.workspace_alignment  # what follows on the stream may use the workspace again
    space = torch.empty(plan.workspace_bytes + step, dtype=torch.uint8, device=given[0].device)
    plan.run(*given, workspace=-(-space.data_ptr() // step) * step)


def _written(op, tensors) -> None:
    """Tells autograd, which may have kept a result's old elements for a backward pass of its own."""
    for x in tensors[-_OPS[op][1]:]:
        if x is not None and not x.is_inference():
            torch.autograd.graph.increment_version(x)


def _keep(key, op, options, tensors):
    names, _, ask = _OPS[op]
    plan = ask(lambda *given, **named: _ops.plan(op, *given, **named), tensors, options)
    kept = plan, [names.index(name) for name in plan.tensors]
    if len(_plans) >= MOST_PLANS:  # lengths that vary make a plan each: the oldest half goes
        for old in list(itertools.islice(_plans, MOST_PLANS // 2)):
            _plans.pop(old, None)
    _plans[key] = kept
    return kept
