"""Stages of the gated delta rule in chunks, under the names and in the layouts that callers of flash-linear-attention know.

Decides how their arguments become those of tilejit's ops, and what is refused by name. Everything here can be traced by torch.compile.
"""
from __future__ import annotations

import torch

from . import _torch_ops  # noqa: F401 -- the operators
from ._torch_lists import narrowed
from ._torch_rule import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

_CHUNK = 64


def _check(function, chunk_size, others):
    if chunk_size != _CHUNK:
        refuse(function, f"chunk_size is {chunk_size}; allowed: {_CHUNK}", "unsupported")
    others.pop("chunk_indices", None)  # what it says follows from cu_seqlens
    for name, value in others.items():
        if value is not None and value is not False:
            refuse(function, f"{name} is given; allowed: None, or False", "unsupported")


def _packed(function, cu_seqlens, *tensors):
    """The list in i32, and tensors without their batch of one where there is a list."""
    if cu_seqlens is None:
        return (None, *tensors)
    for x in tensors:
        if x is not None and x.shape[0] != 1:
            refuse(function, f"shape[0] (B) is {x.shape[0]} with cu_seqlens; allowed: 1, the tokens of all sequences one behind the other")
    return (narrowed(cu_seqlens), *(None if x is None else x[0] for x in tensors))


def _ranked(function, rank, form, **tensors):
    for name, x in tensors.items():
        if x is not None and x.dim() != rank:
            refuse(function, f"{name}.rank is {x.dim()}; allowed: {rank} ({form})", "unsupported")


def chunk_local_cumsum(g: torch.Tensor, chunk_size: int = _CHUNK, reverse: bool = False, scale: Optional[float] = None,
                       cu_seqlens: Optional[torch.Tensor] = None, head_first: bool = False, output_dtype: Optional[torch.dtype] = torch.float32,
                       **others: object) -> torch.Tensor:
    """fla.ops.utils.chunk_local_cumsum of a gate for each head: running sums inside chunks of 64 tokens.

    g [B, T, H], f32, f16 or bf16. cu_seqlens [N + 1]: B is 1, and the sequences of N lengths follow each other. Returns f32 [B, T, H]. chunk_size is
    64; reverse, scale, head_first, another output_dtype and gates of key channels are refused by name. chunk_indices is not looked at. Raises
    tilejit.Error.

    >>> import torch, tilejit.torch
    >>> tilejit.torch.chunk_local_cumsum(torch.ones(1, 65, 1), 64)[0, [0, 63, 64], 0].tolist()
    [1.0, 64.0, 1.0]
    """
    name = "chunk_local_cumsum"
    _check(name, chunk_size, {"reverse": reverse, "scale": scale, "head_first": head_first, **others})
    if output_dtype not in (None, torch.float32) or output_dtype is None and g.dtype != torch.float32:
        refuse(name, f"output_dtype is {output_dtype}; allowed: torch.float32", "unsupported")
    _ranked(name, 3, "[B, T, H], a number for each head", g=g)
    ends, gate = _packed(name, cu_seqlens, g)
    sums = torch.ops.tilejit.chunk_cumsum(gate, cu_seqlens=ends)
    return sums if ends is None else sums[None]


def recompute_w_u_fwd(k: torch.Tensor, v: torch.Tensor, beta: torch.Tensor, A: torch.Tensor, g: Optional[torch.Tensor] = None,
                      cu_seqlens: Optional[torch.Tensor] = None, **others: object) -> Tuple[torch.Tensor, torch.Tensor]:
    """fla.ops.gated_delta_rule.wy_fast.recompute_w_u_fwd: products of solved matrices with keys and values.

    k [B, T, H, K], v [B, T, Hv, V], f16 or bf16, K = V, 64 or 128; beta [B, T, Hv]; A [B, T, Hv, 64] of k's type; g f32 [B, T, Hv], running sums as
    chunk_local_cumsum gives them. cu_seqlens [N + 1]: B is 1. Returns (w [B, T, Hv, K], u [B, T, Hv, V]). Others, as gk and use_exp2, are refused by
    name. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> k, beta = torch.ones(1, 2, 1, 64).half() / 8, torch.ones(1, 2, 1)
    >>> w, u, a = tilejit.torch.chunk_gated_delta_rule_fwd_intra(k, k, None, beta)
    >>> tilejit.torch.recompute_w_u_fwd(k, k, beta, a)[0][0, :, 0, 0].tolist()
    [0.125, 0.0]
    """
    name = "recompute_w_u_fwd"
    _check(name, _CHUNK, others)
    _ranked(name, 4, "[B, T, heads, ..]", k=k, v=v, A=A)
    _ranked(name, 3, "[B, T, Hv]", beta=beta, g=g)
    ends, k, v, beta, a, g = _packed(name, cu_seqlens, k, v, beta, A, g)
    w, u = torch.ops.tilejit.chunk_wu(k, v, a, beta=beta, g_cu=g, cu_seqlens=ends)
    return (w, u) if ends is None else (w[None], u[None])


def chunk_gated_delta_rule_fwd_intra(k: torch.Tensor, v: torch.Tensor, g: Optional[torch.Tensor] = None, beta: Optional[torch.Tensor] = None,
                                     cu_seqlens: Optional[torch.Tensor] = None, chunk_size: int = _CHUNK,
                                     **others: object) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """fla.ops.gated_delta_rule.chunk_fwd.chunk_gated_delta_rule_fwd_intra: what chunks solve by themselves, on family sm90.

    k [B, T, H, K], v [B, T, Hv, V], f16 or bf16, K = V, 64 or 128; g f32 [B, T, Hv], running sums as chunk_local_cumsum gives them; beta [B, T, Hv].
    cu_seqlens [N + 1]: B is 1. Returns (w [B, T, Hv, K], u [B, T, Hv, V], A [B, T, Hv, 64]). chunk_size is 64; use_exp2 is refused by name.
    chunk_indices is not looked at. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> k = torch.ones(1, 2, 1, 64).half() / 8
    >>> w, u, a = tilejit.torch.chunk_gated_delta_rule_fwd_intra(k, k, None, torch.ones(1, 2, 1))
    >>> u[0, :, 0, 0].tolist(), a.shape
    ([0.125, 0.0], torch.Size([1, 2, 1, 64]))
    """
    name = "chunk_gated_delta_rule_fwd_intra"
    _check(name, chunk_size, others)
    if beta is None:
        refuse(name, "beta is None; allowed: [B, T, Hv]")
    _ranked(name, 4, "[B, T, heads, ..]", k=k, v=v)
    _ranked(name, 3, "[B, T, Hv]", beta=beta, g=g)
    ends, k, v, beta, g = _packed(name, cu_seqlens, k, v, beta, g)
    a = torch.ops.tilejit.chunk_solve(k, beta=beta, g_cu=g, cu_seqlens=ends)
    w, u = torch.ops.tilejit.chunk_wu(k, v, a, beta=beta, g_cu=g, cu_seqlens=ends)
    return (w, u, a) if ends is None else (w[None], u[None], a[None])


def chunk_gated_delta_rule_fwd_h(k: torch.Tensor, w: torch.Tensor, u: torch.Tensor, g: Optional[torch.Tensor] = None,
                                 gk: Optional[torch.Tensor] = None, initial_state: Optional[torch.Tensor] = None,
                                 output_final_state: bool = False, chunk_size: int = _CHUNK, save_new_value: bool = True,
                                 cu_seqlens: Optional[torch.Tensor] = None,
                                 **others: object) -> Tuple[torch.Tensor, Optional[torch.Tensor], Optional[torch.Tensor]]:
    """fla.ops.common.chunk_delta_h.chunk_gated_delta_rule_fwd_h: states before each chunk, on family sm90.

    k [B, T, H, K], w [B, T, Hv, K], u [B, T, Hv, V], f16 or bf16, K = V, 64 or 128; g f32 [B, T, Hv], running sums as chunk_local_cumsum gives them;
    initial_state [N, Hv, K, V]. cu_seqlens [N + 1]: B is 1. Returns (h [B, NT, Hv, K, V], v_new [B, T, Hv, V] or None, the last states f32
    [N, Hv, K, V] or None). With cu_seqlens NT is the most chunks that there can be, T // 64 + N, as nothing waits for the host; those behind the
    last one hold anything. Others, as gk and use_exp2, are refused by name; chunk_indices is not looked at. Raises tilejit.Error.

    >>> import torch, tilejit.torch
    >>> k = torch.ones(1, 2, 1, 64).half() / 8
    >>> w, u, a = tilejit.torch.chunk_gated_delta_rule_fwd_intra(k, k, None, torch.ones(1, 2, 1))
    >>> h, v_new, state = tilejit.torch.chunk_gated_delta_rule_fwd_h(k, w, u, output_final_state=True)
    >>> h.shape, v_new.shape, state.shape
    (torch.Size([1, 1, 1, 64, 64]), torch.Size([1, 2, 1, 64]), torch.Size([1, 1, 64, 64]))
    """
    name = "chunk_gated_delta_rule_fwd_h"
    _check(name, chunk_size, {"gk": gk, **others})
    _ranked(name, 4, "[B, T, heads, ..]", k=k, w=w, u=u)
    _ranked(name, 3, "[B, T, Hv]", g=g)
    batch, (ends, k, w, u, g) = k.shape[0], _packed(name, cu_seqlens, k, w, u, g)
    h, v_new, state = torch.ops.tilejit.chunk_states(k, w, u, g_cu=g, initial_state=initial_state, cu_seqlens=ends, state_transposed=True,
                                                     values_by_tokens=True, state_dtype=torch.float32 if initial_state is None else None)
    h, v_new = h.reshape(batch, -1, *h.shape[1:]), v_new if ends is None else v_new[None]
    return h, v_new if save_new_value else None, state.float() if output_final_state else None
