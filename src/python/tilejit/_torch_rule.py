"""The gated delta rule under the names that callers of flash-linear-attention and of FlashInfer know, by tilejit's op.

Decides how their arguments become those of gated_delta_rule, and what is refused by name. Everything here can be traced by torch.compile.
"""
from __future__ import annotations

import torch

from . import _torch_ops  # noqa: F401 -- the operators
from ._error import Error
from ._torch_lists import narrowed
from ._torch_recurrence_shapes import heads_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple, Union


_FORMS = {3: "3 ([B, T, H]), a number for each head", 4: "4 ([B, T, H, K]), a number for each key channel"}
_SERVED = {False: "nothing but a gate for each head (fused_recurrent_kda: for each key channel)", True: "nothing but a gate for each key channel"}


def refuse(function: str, text: str, code: str = "invalid_argument"):
    raise Error(f"{function}: {text}", code=code)


def run_rule(function, q, k, v, g, beta, scale, initial_state, output_final_state, normalise, cu_seqlens, others, channels=False, gate_name="g", **more):
    """A call with the arguments of flash-linear-attention's functions. g is [B, T, H], with channels [B, T, H, K]. more: options of the operator.

    gate_name: g's name in the function, for errors.
    """
    for name, value in others.items():
        if value is not None and value is not False:
            refuse(function, f"{name} is given; allowed: None, as {_SERVED[channels]} is served", "unsupported")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            refuse(function, f"{name}.rank is {x.dim()}; allowed: 4 ([B, T, heads, K])")
    for name, x, rank in ((gate_name, g, 4 if channels else 3), ("beta", beta, 3)):
        if x is not None and x.dim() != rank:
            refuse(function, f"{name}.rank is {x.dim()}; allowed: {_FORMS[rank]}", "unsupported")
    options = {"gate": g, "beta": beta, "scale": scale, "initial_state": initial_state, "normalise": normalise, "state_transposed": True, **more}
    if cu_seqlens is not None:
        if q.shape[0] != 1:
            refuse(function, f"q.shape[0] is {q.shape[0]} with cu_seqlens; allowed: 1, the tokens of all sequences one behind the other")
        options["cu_seqlens"] = narrowed(cu_seqlens)
        q, k, v = q[0], k[0], v[0]
        options.update({name: options[name][0] for name in ("gate", "beta") if options[name] is not None})
    o, state = None, None
    if output_final_state:
        o, state = torch.ops.tilejit.gated_delta_rule(q, k, v, state_dtype=torch.float32 if initial_state is None else None, **options)
    else:
        heads = heads_of(q, v, options["gate"], options["beta"], initial_state)
        o = q.new_empty((*q.shape[:-2], heads, v.shape[-1]))
        torch.ops.tilejit.gated_delta_rule_out(q, k, v, o, **options)
    return o if cu_seqlens is None else o[None], state


def fused_recurrent_gated_delta_rule(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: Optional[torch.Tensor] = None,
                                     beta: Optional[torch.Tensor] = None, scale: Optional[float] = None,
                                     initial_state: Optional[torch.Tensor] = None, output_final_state: bool = False,
                                     use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Optional[torch.Tensor] = None,
                                     **others: object) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
    """fla.ops.gated_delta_rule.fused_recurrent_gated_delta_rule by tilejit's recurrence: its arguments, and forward passes only.

    q, k [B, T, H, K], v [B, T, Hv, V], f16 or bf16; K = V, 64 or 128; Hv a multiple of H. g [B, T, Hv] is the decay's natural logarithm, beta
    [B, T, Hv]; f32 or q's type; without them 0 and 1. initial_state [N, Hv, K, V], f32, bf16 or f16. cu_seqlens [N + 1]: B is 1, and the sequences of
    N lengths follow each other. scale: K**-0.5 where it is None. use_qk_l2norm_in_kernel: q and k are divided by sqrt(their sum of squares + 1e-6).
    Returns (o [B, T, Hv, V], the last states [N, Hv, K, V] of initial_state's type, f32 without one; None without output_final_state). Any other
    argument, as gk, is refused by name. The call can stand in a CUDA graph. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> q, beta = torch.ones(1, 3, 1, 64).half() / 8, torch.full((1, 3, 1), 0.5)
    >>> o, state = tilejit.torch.fused_recurrent_gated_delta_rule(q, q, q * 8, None, beta, scale=1, output_final_state=True)
    >>> o[0, :, 0, 0].tolist(), state.shape
    ([0.5, 0.75, 0.875], torch.Size([1, 1, 64, 64]))
    """
    return run_rule("fused_recurrent_gated_delta_rule", q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens,
                    others)


def chunk_gated_delta_rule(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: Optional[torch.Tensor] = None, beta: Optional[torch.Tensor] = None,
                           scale: Optional[float] = None, initial_state: Optional[torch.Tensor] = None, output_final_state: bool = False,
                           use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Optional[torch.Tensor] = None,
                           **others: object) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
    """fla.ops.gated_delta_rule.chunk_gated_delta_rule: arguments, shapes and results of fused_recurrent_gated_delta_rule.

    Many tokens are taken in chunks of 64 on sm_90a, exactly; else one after the other, which takes long for thousands. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> q = torch.ones(1, 2, 1, 64).half() / 8
    >>> o, state = tilejit.torch.chunk_gated_delta_rule(q, q, q * 8, None, torch.ones(1, 2, 1), scale=1)
    >>> o[0, :, 0, 0].tolist(), state
    ([1.0, 1.0], None)
    """
    return run_rule("chunk_gated_delta_rule", q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens, others)


def gated_delta_rule_prefill(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: Optional[torch.Tensor] = None, beta: Optional[torch.Tensor] = None,
                             scale: Optional[float] = None, initial_state: Optional[torch.Tensor] = None, output_final_state: bool = False,
                             cu_seqlens: Optional[torch.Tensor] = None, use_qk_l2norm_in_kernel: bool = False, output: Optional[torch.Tensor] = None,
                             output_state: Optional[torch.Tensor] = None, state_checkpoints: Optional[torch.Tensor] = None,
                             checkpoint_cu_starts: Optional[torch.Tensor] = None,
                             checkpoint_every_n_tokens: int = 0) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """FlashInfer's chunk_gated_delta_rule (flashinfer.gdn_prefill): its arguments in its order, for sequences that follow each other.

    q [T, H, K], k [T, Hk, K], v [T, Hv, V], f16 or bf16; K = V, 64 or 128. g [T, max(H, Hv)] is the decay itself, not its logarithm: above 0, up to 1.
    beta likewise; f32 or q's type; without them 1. cu_seqlens i32 or i64 [N + 1]; without it there is one sequence. initial_state and output_state
    [N, max(H, Hv), V, K], f32, bf16 or f16; output_state may be initial_state. output [T, max(H, Hv), V] is written where it is given. scale: K**-0.5
    where it is None or 0. state_checkpoints [C, max(H, Hv), V, K] takes the states after each checkpoint_every_n_tokens tokens, a multiple of 64, of
    one sequence: checkpoints of several are refused, as their places would be known on the device alone. Returns the output; with
    output_final_state (output, the last states: output_state, else of initial_state's type, f32 without one). The call can stand in a CUDA graph.
    Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> q = torch.ones(2, 1, 64).half() / 8
    >>> o, state = tilejit.torch.gated_delta_rule_prefill(q, q, q * 8, torch.full((2, 1), 0.5), None, 1.0, None, True, torch.tensor([0, 2]))
    >>> o[:, 0, 0].tolist(), state.shape, state.dtype
    ([1.0, 1.0], torch.Size([1, 1, 64, 64]), torch.float32)
    """
    function = "gated_delta_rule_prefill"
    for name, x, rank, form in (("q", q, 3, "[T, H, K]"), ("k", k, 3, "[T, Hk, K]"), ("v", v, 3, "[T, Hv, V]"),
                                ("g", g, 2, "[T, H], a decay for each head"), ("beta", beta, 2, "[T, H]"), ("output", output, 3, "[T, H, V]"),
                                ("initial_state", initial_state, 4, "[N, H, V, K]"), ("output_state", output_state, 4, "[N, H, V, K]"),
                                ("state_checkpoints", state_checkpoints, 4, "[C, H, V, K]")):
        if x is not None and x.dim() != rank:
            refuse(function, f"{name}.rank is {x.dim()}; allowed: {rank} ({form})")
    sequences = 1 if cu_seqlens is None else cu_seqlens.shape[0] - 1
    if checkpoint_every_n_tokens < 0 or checkpoint_every_n_tokens % 64:
        refuse(function, f"checkpoint_every_n_tokens is {checkpoint_every_n_tokens}; allowed: 0 (no checkpoints), or a multiple of 64")
    for name, x in (("state_checkpoints", state_checkpoints), ("checkpoint_cu_starts", checkpoint_cu_starts)):
        if (x is None) != (checkpoint_every_n_tokens == 0):
            refuse(function, f"{name} is {'absent' if x is None else 'given'} and checkpoint_every_n_tokens is {checkpoint_every_n_tokens}; "
                             "allowed: both lists with checkpoints, neither without")
    if state_checkpoints is not None and sequences != 1:
        refuse(function, f"state_checkpoints is given with {sequences} sequences; allowed: with one. For more: token_states of "
                         "torch.ops.tilejit.gated_delta_rule_out, by sequence", "unsupported")
    heads = heads_of(q, v, g, beta, initial_state if output_state is None else output_state)
    o = q.new_empty((q.shape[0], heads, v.shape[-1])) if output is None else output
    if output_final_state and output_state is None:
        output_state = q.new_empty((sequences, heads, v.shape[-1], q.shape[-1]), dtype=torch.float32 if initial_state is None else initial_state.dtype)
    options = {} if state_checkpoints is None else {"token_states": state_checkpoints[None], "token_every": checkpoint_every_n_tokens}
    torch.ops.tilejit.gated_delta_rule_out(q, k, v, o, gate=g, gate_form="log" if g is None else "exp", beta=beta, scale=scale or None,
                                           initial_state=initial_state, final_state=output_state, normalise=use_qk_l2norm_in_kernel,
                                           cu_seqlens=None if cu_seqlens is None else narrowed(cu_seqlens), **options)
    return (o, output_state) if output_final_state else o


def gated_delta_rule_decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, state: torch.Tensor, A_log: torch.Tensor, a: torch.Tensor,
                            dt_bias: Optional[torch.Tensor], b: torch.Tensor, scale: Optional[float] = None,
                            output: Optional[torch.Tensor] = None, use_qk_l2norm: bool = True, *, state_indices: Optional[torch.Tensor] = None,
                            output_state_indices: Optional[torch.Tensor] = None, intermediate_states: Optional[torch.Tensor] = None,
                            disable_state_update: bool = False, state_transposed: bool = False, state_scales: Optional[torch.Tensor] = None,
                            intermediate_scales: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
    """A step of serving: one token of each sequence, or a few to be verified, with gates as the model has them. The state changes in place.

    q, k [B, T, H, K], v [B, T, Hv, V]; a and b [B, T, Hv], f32 or q's type. The decay is exp(-exp(A_log) softplus(a + dt_bias)), A_log f32 [Hv],
    dt_bias [Hv] or None; beta is 1 / (1 + exp(-b)). For gates of key channels (KDA) a is [B, T, Hv, K] and dt_bias [Hv, K]. state [slots, Hv, V, K],
    with state_transposed [slots, Hv, K, V], f32, bf16 or f16. state_indices i32 [B]: the slot of each sequence, by default 0, 1, ...; -1 reads zeros
    and writes nothing. output_state_indices i32 [B]: where new states go instead. intermediate_states [B, L, Hv, V, K] takes the state after each of
    the first L tokens. disable_state_update: state stays as it is. scale: K**-0.5 where it is None. A state of float8_e4m3fn
    has state_scales f32 [slots, Hv, V], which change with it, and intermediate_scales [B, L, Hv, V]. Returns (o [B, T, Hv, V], or `output`; state).
    The call can stand in a CUDA graph. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> q, state, zeros = torch.ones(1, 1, 1, 64).half(), torch.zeros(2, 1, 64, 64), torch.zeros(1, 1, 1)
    >>> slot = torch.tensor([1], dtype=torch.int32)
    >>> o, state = tilejit.torch.gated_delta_rule_decode(q, q, q, state, torch.zeros(1), zeros, None, zeros, 1.0, state_indices=slot)
    >>> o.shape, state[0].count_nonzero().item(), state[1].count_nonzero().item()
    (torch.Size([1, 1, 1, 64]), 0, 4096)
    """
    if state.dim() != 4:
        refuse("gated_delta_rule_decode", f"state.rank is {state.dim()}; allowed: 4 ([slots, H, V, K], or [slots, H, K, V] with state_transposed)")
    o = q.new_empty((*v.shape[:-2], state.shape[1], v.shape[-1])) if output is None else output
    writes = {} if disable_state_update else {"final_state": state,
                                              "write_slots": state_indices if output_state_indices is None else output_state_indices,
                                              "final_scales": state_scales}
    torch.ops.tilejit.gated_delta_rule_out(q, k, v, o, gate=a, gate_form="raw", a_log=A_log, dt_bias=dt_bias, beta=b, beta_raw=True,
                                           normalise=use_qk_l2norm, scale=scale, initial_state=state, read_slots=state_indices,
                                           token_states=intermediate_states, state_transposed=state_transposed, initial_scales=state_scales,
                                           token_scales=intermediate_scales, **writes)
    return o, state
