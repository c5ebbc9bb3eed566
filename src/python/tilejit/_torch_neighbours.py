"""Neighbours of the gated delta rule under the names that callers of flash-linear-attention know: gates of key channels (KDA, GLA), without a gate,
without the delta.

Decides how their arguments become those of gated_delta_rule, and what is refused by name. Everything here can be traced by torch.compile.
"""
from __future__ import annotations

import torch

from ._torch_rule import refuse, run_rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

    States = Tuple[torch.Tensor, Optional[torch.Tensor]]


def _raw_gate(function, q, g, a_log, dt_bias, lower_bound):
    """The gate's options of what a model computes, by Kimi Linear's rule."""
    if dt_bias is not None:
        dt_bias = dt_bias.reshape(-1, q.shape[-1])
    if lower_bound is None:
        if a_log is None:
            refuse(function, "A_log is None with use_gate_in_kernel; allowed: f32 [H]")
        return g, dict(gate_form="raw", a_log=a_log.reshape(-1), dt_bias=dt_bias)
    g = g.float() if dt_bias is None else g.float() + dt_bias
    factor = 1.0 if a_log is None else a_log.reshape(-1, 1).exp()
    return lower_bound * torch.sigmoid(factor * g), {}


def _kda(function, q, k, v, g, beta, a_log, dt_bias, scale, initial_state, output_final_state, normalise, gate_in_kernel, sigmoid_in_kernel,
         allow_neg_eigval, lower_bound, state_v_first, cu_seqlens, others):
    for name, x in (("g", g), ("beta", beta)):
        if x is None:
            refuse(function, f"{name} is None; allowed: a tensor")
    if g.dim() != 4:
        refuse(function, f"g.rank is {g.dim()}; allowed: 4 ([B, T, H, K]), a number for each key channel", "unsupported")
    if allow_neg_eigval and not sigmoid_in_kernel:
        refuse(function, "allow_neg_eigval is True without use_beta_sigmoid_in_kernel; allowed: both")
    options = {}
    if gate_in_kernel:
        g, options = _raw_gate(function, q, g, a_log, dt_bias, lower_bound)
    if sigmoid_in_kernel and allow_neg_eigval:
        beta, sigmoid_in_kernel = 2 * beta.float().sigmoid(), False
    return run_rule(function, q, k, v, g, beta, scale, initial_state, output_final_state, normalise, cu_seqlens, others, channels=True,
                    beta_raw=sigmoid_in_kernel, state_transposed=not state_v_first, **options)


def fused_recurrent_kda(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor,
                        A_log: Optional[torch.Tensor] = None, dt_bias: Optional[torch.Tensor] = None, scale: Optional[float] = None,
                        initial_state: Optional[torch.Tensor] = None, output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
                        use_gate_in_kernel: bool = False, use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
                        lower_bound: Optional[float] = None, state_v_first: bool = False, cu_seqlens: Optional[torch.Tensor] = None,
                        **others: object) -> States:
    """fla.ops.kda.fused_recurrent_kda, Kimi Delta Attention, by tilejit's recurrence: its arguments, and forward passes only.

    As fused_recurrent_gated_delta_rule, but g [B, T, Hv, K] has a number for each key channel: f32 or q's type, the decay's natural logarithm.
    use_gate_in_kernel: that logarithm is -exp(A_log) softplus(g + dt_bias), A_log f32 of Hv elements, dt_bias of Hv * K or None; with lower_bound it is
    lower_bound * sigmoid(exp(A_log) (g + dt_bias)), computed by torch before the kernel. use_beta_sigmoid_in_kernel: beta is sigmoid(beta), twice
    that with allow_neg_eigval. States are [N, Hv, K, V], with state_v_first [N, Hv, V, K]. Other arguments are refused by name. Returns (o
    [B, T, Hv, V], the last states or None). The call can stand in a CUDA graph. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> q, g = torch.ones(1, 2, 1, 64).half() / 8, torch.zeros(1, 2, 1, 64)
    >>> o, state = tilejit.torch.fused_recurrent_kda(q, q, q * 8, g, torch.full((1, 2, 1), 0.5), scale=1, output_final_state=True)
    >>> o[0, :, 0, 0].tolist(), state.shape
    ([0.5, 0.75], torch.Size([1, 1, 64, 64]))
    """
    return _kda("fused_recurrent_kda", q, k, v, g, beta, A_log, dt_bias, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
                use_gate_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval, lower_bound, state_v_first, cu_seqlens, others)


def chunk_kda(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, scale: Optional[float] = None,
              initial_state: Optional[torch.Tensor] = None, output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
              use_gate_in_kernel: bool = False, use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False, safe_gate: bool = False,
              lower_bound: Optional[float] = None, state_v_first: bool = False, cu_seqlens: Optional[torch.Tensor] = None,
              A_log: Optional[torch.Tensor] = None, dt_bias: Optional[torch.Tensor] = None, **others: object) -> States:
    """fla.ops.kda.chunk_kda: arguments, shapes and results of fused_recurrent_kda.

    Many tokens are taken in chunks of 64 on sm_90a, whatever the decays are; elsewhere one after the other, which takes long for thousands. safe_gate is
    a hint to other kernels, and changes nothing. Other arguments, as return_intermediate_states, are refused by name. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> q = torch.ones(1, 2, 1, 64).half() / 8
    >>> o, state = tilejit.torch.chunk_kda(q, q, q * 8, torch.zeros(1, 2, 1, 64), torch.ones(1, 2, 1), scale=1, safe_gate=True)
    >>> o[0, :, 0, 0].tolist(), state
    ([1.0, 1.0], None)
    """
    return _kda("chunk_kda", q, k, v, g, beta, A_log, dt_bias, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, use_gate_in_kernel,
                use_beta_sigmoid_in_kernel, allow_neg_eigval, lower_bound, state_v_first, cu_seqlens, others)


def fused_recurrent_gla(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gk: Optional[torch.Tensor] = None, gv: Optional[torch.Tensor] = None,
                        scale: Optional[float] = None, initial_state: Optional[torch.Tensor] = None, output_final_state: bool = False,
                        reverse: bool = False, cu_seqlens: Optional[torch.Tensor] = None, **others: object) -> States:
    """fla.ops.gla.fused_recurrent_gla, gated linear attention, by tilejit's recurrence: S = exp(gk) S + v k^T; forward passes only.

    q, k [B, T, H, K], v [B, T, Hv, V], f16 or bf16; K = V, 64 or 128; gk [B, T, Hv, K] f32 or q's type, None: no gate. The others are
    fused_recurrent_gated_delta_rule's. gv and reverse are refused by name. Returns (o [B, T, Hv, V], the last states [N, Hv, K, V] or None). Raises
    tilejit.Error.

    >>> import torch, tilejit.torch
    >>> q = torch.ones(1, 3, 1, 64).half()
    >>> tilejit.torch.fused_recurrent_gla(q, q, q, torch.zeros(1, 3, 1, 64), scale=1 / 64)[0][0, :, 0, 0].tolist()
    [1.0, 2.0, 3.0]
    """
    return run_rule("fused_recurrent_gla", q, k, v, gk, None, scale, initial_state, output_final_state, False, cu_seqlens,
                    {"gv": gv, "reverse": reverse, **others}, channels=True, gate_name="gk", delta=False)


def chunk_gla(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, scale: Optional[float] = None,
              initial_state: Optional[torch.Tensor] = None, output_final_state: bool = False, cu_seqlens: Optional[torch.Tensor] = None,
              **others: object) -> States:
    """fla.ops.gla.chunk_gla: arguments, shapes and results of fused_recurrent_gla, whose gk is g here.

    Many tokens are taken in chunks of 64 on sm_90a, whatever the decays are; elsewhere one after the other. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> q = torch.ones(1, 3, 1, 64).half()
    >>> tilejit.torch.chunk_gla(q, q, q, torch.zeros(1, 3, 1, 64), scale=1 / 64)[0][0, :, 0, 0].tolist()
    [1.0, 2.0, 3.0]
    """
    if g is None:
        refuse("chunk_gla", "g is None; allowed: a tensor")
    return run_rule("chunk_gla", q, k, v, g, None, scale, initial_state, output_final_state, False, cu_seqlens, others, channels=True, delta=False)


def _simple_gla(function, q, k, v, g, g_gamma, scale, initial_state, output_final_state, reverse, cu_seqlens, others):
    if g_gamma is not None:
        g = g_gamma.float().repeat(*v.shape[:2], 1) if g is None else g.float() + g_gamma
    return run_rule(function, q, k, v, g, None, scale, initial_state, output_final_state, False, cu_seqlens, {"reverse": reverse, **others}, delta=False)


def fused_recurrent_simple_gla(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: Optional[torch.Tensor] = None,
                               g_gamma: Optional[torch.Tensor] = None, scale: Optional[float] = None, initial_state: Optional[torch.Tensor] = None,
                               output_final_state: bool = False, reverse: bool = False, cu_seqlens: Optional[torch.Tensor] = None,
                               **others: object) -> States:
    """fla.ops.simple_gla.fused_recurrent_simple_gla: gated linear attention with a gate for each head, the form of Mamba-2's and RetNet's states.

    As fused_recurrent_gla, but g is [B, T, Hv]; g_gamma [Hv] is added to it. Many tokens are taken in chunks on sm_90a. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> q = torch.ones(1, 3, 1, 64).half()
    >>> tilejit.torch.fused_recurrent_simple_gla(q, q, q, g_gamma=torch.zeros(1), scale=1 / 64)[0][0, :, 0, 0].tolist()
    [1.0, 2.0, 3.0]
    """
    return _simple_gla("fused_recurrent_simple_gla", q, k, v, g, g_gamma, scale, initial_state, output_final_state, reverse, cu_seqlens, others)


def chunk_simple_gla(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: Optional[torch.Tensor] = None, g_gamma: Optional[torch.Tensor] = None,
                     scale: Optional[float] = None, initial_state: Optional[torch.Tensor] = None, output_final_state: bool = False,
                     cu_seqlens: Optional[torch.Tensor] = None, **others: object) -> States:
    """fla.ops.simple_gla.chunk_simple_gla: arguments, shapes and results of fused_recurrent_simple_gla. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> q = torch.ones(1, 3, 1, 64).half()
    >>> tilejit.torch.chunk_simple_gla(q, q, q, torch.zeros(1, 3, 1), scale=1 / 64)[0][0, :, 0, 0].tolist()
    [1.0, 2.0, 3.0]
    """
    return _simple_gla("chunk_simple_gla", q, k, v, g, g_gamma, scale, initial_state, output_final_state, False, cu_seqlens, others)


def fused_recurrent_delta_rule(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, beta: Optional[torch.Tensor] = None, scale: Optional[float] = None,
                               initial_state: Optional[torch.Tensor] = None, output_final_state: bool = False,
                               use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Optional[torch.Tensor] = None, **others: object) -> States:
    """fla.ops.delta_rule.fused_recurrent_delta_rule: the delta rule without a gate, otherwise fused_recurrent_gated_delta_rule.

    Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> q = torch.ones(1, 2, 1, 64).half() / 8
    >>> tilejit.torch.fused_recurrent_delta_rule(q, q, q * 8, torch.full((1, 2, 1), 0.5), scale=1)[0][0, :, 0, 0].tolist()
    [0.5, 0.75]
    """
    return run_rule("fused_recurrent_delta_rule", q, k, v, None, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens,
                    others)


def chunk_delta_rule(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, beta: Optional[torch.Tensor] = None, scale: Optional[float] = None,
                     initial_state: Optional[torch.Tensor] = None, output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
                     cu_seqlens: Optional[torch.Tensor] = None, **others: object) -> States:
    """fla.ops.delta_rule.chunk_delta_rule: arguments, shapes and results of fused_recurrent_delta_rule. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> q = torch.ones(1, 2, 1, 64).half() / 8
    >>> tilejit.torch.chunk_delta_rule(q, q, q * 8, torch.ones(1, 2, 1), scale=1)[0][0, :, 0, 0].tolist()
    [1.0, 1.0]
    """
    return run_rule("chunk_delta_rule", q, k, v, None, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens, others)
