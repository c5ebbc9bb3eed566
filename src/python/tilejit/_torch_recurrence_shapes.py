"""Results of torch's operators of recurrences without memory; see _torch_shapes.py.

Decides which shapes, types and devices of the gated delta rule are refused before anything runs. Invariant: no element of a tensor is read.
"""
from __future__ import annotations

import torch

from . import _c
from ._torch_shapes import _HALVES, _demand, _dtype, _finite, _rank, _same, _short, _sizes, _together

_OP = "gated_delta_rule"
_STATES = (torch.float32, *_HALVES)
_SCALED = (*_STATES, torch.float8_e4m3fn)  # where the call has scales


def heads_of(q, v, gate, beta, initial_state):
    """H of o: that of states, gates or beta, where one is given. Their ranks are checked."""
    last = q.dim() - 1
    for name, x, form, ranks in (("gate", gate, "[.., T, H], or [.., T, H, K] for each key channel", (last, last + 1)),
                                 ("beta", beta, "[.., T, H]", (last,)), ("initial_state", initial_state, "[slots, H, V, K]", (4,))):
        if x is not None:
            _rank(_OP, name, x, form, *ranks)
    if initial_state is not None:
        return initial_state.shape[1]
    if gate is not None:
        return gate.shape[-2 if has_channels(q, gate) else -1]
    if beta is not None:
        return beta.shape[-1]
    return max(q.shape[-2], v.shape[-2])


def has_channels(q, gate):
    """Whether a gate has a number for each key channel."""
    return gate.dim() == q.dim()


def sequences_of(q, cu_seqlens):
    if cu_seqlens is not None:
        return cu_seqlens.shape[0] - 1
    return q.shape[0] if q.dim() == 4 else 1


def rule_like(q, k, v, gate, beta, initial_state, cu_seqlens):
    """Shapes of o and of a state for each sequence."""
    form = "[T, heads, K], or [B, T, heads, K]"
    for name, x in (("q", q), ("k", k), ("v", v)):
        _rank(_OP, name, x, form, *((3, 4) if name == "q" else (q.dim(),)))
        _sizes(_OP, name, x, (x.dim() - 2, x.dim() - 1))
    heads, width = heads_of(q, v, gate, beta, initial_state), q.shape[-1]
    return (*q.shape[:-2], heads, v.shape[-1]), (sequences_of(q, cu_seqlens), heads, width, width)


def _check(q, k, v, o_shape, gate, a_log, dt_bias, beta, gate_form, initial_state, read_slots, write_slots, cu_seqlens, scale, states=_STATES):
    _together(_OP, q, {"q": q, "k": k, "v": v, "gate": gate, "a_log": a_log, "dt_bias": dt_bias, "beta": beta, "initial_state": initial_state,
                       "read_slots": read_slots, "write_slots": write_slots, "cu_seqlens": cu_seqlens})
    _dtype(_OP, "q", q, _HALVES, code="unsupported")
    last = q.dim() - 1
    for name, x in (("k", k), ("v", v)):
        _dtype(_OP, name, x, (q.dtype,), ", as q.dtype")
        for axis in (*range(q.dim() - 2), last):
            _same(_OP, name, x, axis, q.shape[axis], "q's shape")
    _demand((q.shape[last] == 64) | (q.shape[last] == 128), _OP, f"q.shape[{last}] (K) is {q.shape[last]}; allowed: 64, 128", "unsupported")
    _demand(gate_form in _c.GATE_FORMS, _OP, f"gate_form is {gate_form!r}; allowed: {', '.join(_c.GATE_FORMS)}")
    for name, x in (("gate", gate), ("beta", beta)):
        if x is not None:
            channels = name == "gate" and has_channels(q, x)
            _dtype(_OP, name, x, (torch.float32, q.dtype))
            for axis in range(last):
                _same(_OP, name, x, axis, o_shape[axis], "o's shape")
            if channels:
                _same(_OP, name, x, last, q.shape[last], "q's K")
    if initial_state is not None:
        _dtype(_OP, "initial_state", initial_state, states, ", or float8_e4m3fn with scales" if states is _STATES else "", code="unsupported")
    for name, x in (("read_slots", read_slots), ("write_slots", write_slots), ("cu_seqlens", cu_seqlens)):
        if x is not None:
            _rank(_OP, name, x, "a list", 1)
            _dtype(_OP, name, x, (torch.int32,))
    _finite(_OP, scale=scale)


def gated_delta_rule(q, k, v, *, gate=None, a_log=None, dt_bias=None, beta=None, gate_form="log", beta_raw=False, delta=True, normalise=False,
                     scale=None, initial_state=None, read_slots=None, cu_seqlens=None, state_transposed=False, state_dtype=None):
    o, state = rule_like(q, k, v, gate, beta, initial_state, cu_seqlens)
    _check(q, k, v, o, gate, a_log, dt_bias, beta, gate_form, initial_state, read_slots, None, cu_seqlens, scale)
    return q.new_empty(o), q.new_empty(state, dtype=state_type(initial_state, state_dtype))


def gated_delta_rule_out(q, k, v, out, *, gate=None, a_log=None, dt_bias=None, beta=None, gate_form="log", beta_raw=False, delta=True,
                         normalise=False, scale=None, initial_state=None, read_slots=None, cu_seqlens=None, state_transposed=False,
                         final_state=None, write_slots=None, token_states=None, initial_scales=None, final_scales=None, token_scales=None,
                         token_every=1, negligible=0.0):
    rule_like(q, k, v, gate, beta, initial_state, cu_seqlens)
    _check(q, k, v, out.shape, gate, a_log, dt_bias, beta, gate_form, initial_state, read_slots, write_slots, cu_seqlens, scale, _SCALED)
    _together(_OP, q, {"q": q, "o": out, "final_state": final_state, "token_states": token_states, "initial_scales": initial_scales,
                       "final_scales": final_scales, "token_scales": token_scales})
    for name, x, rank in (("initial_scales", initial_scales, 3), ("final_scales", final_scales, 3), ("token_scales", token_scales, 4)):
        if x is not None:
            _rank(_OP, name, x, "[slots, H, V]" if rank == 3 else "[N, L, H, V]", rank)
            _dtype(_OP, name, x, (torch.float32,))
    _rank(_OP, "o", out, "[.., T, H, V], as q", q.dim())
    _dtype(_OP, "o", out, (q.dtype,), ", as q.dtype")
    for axis in (*range(q.dim() - 2), q.dim() - 1):
        _same(_OP, "o", out, axis, q.shape[axis], "q's shape")


def state_type(initial_state, state_dtype):
    """Of a final state that the call makes. One of e4m3 has scales, which gated_delta_rule_out takes."""
    dtype = state_dtype if state_dtype is not None else torch.float32 if initial_state is None else initial_state.dtype
    allowed = ", ".join(map(_short, _STATES))
    _demand(dtype in _STATES, _OP, f"state_dtype is {_short(dtype)}; allowed: {allowed}; states of e4m3 are gated_delta_rule_out's", "unsupported")
    return dtype
