"""tilejit as operators of PyTorch: torch.ops.tilejit.*, and sdpa(), flash_attn_func(), flash_attn_varlen_func(), flash_attn_with_kvcache(),
flex_attention(), fp8_gemm_nt(), fused_moe(), fused_recurrent_gated_delta_rule(), fused_recurrent_kda() and gated_delta_rule_decode() by tilejit's
kernels. Forward only.

Importing this registers the operators. They run in eager mode, under torch.compile(fullgraph=True), in CUDA graphs, and give shapes for fake and
meta tensors. A tensor that requires grad is refused outside of torch.no_grad(); sdpa leaves it to torch.

    torch.ops.tilejit.fmha(q, k, v, *, causal=False, scale=None, window_left=-1, window_right=-1, top_left=False, softcap=0, alibi_slopes=None,
                           sinks=None, cu_seqlens_q=None, cu_seqlens_k=None, seqused_k=None, block_table=None, bias=None, mod_params=None,
                           score_mod=None, mask_mod=None, key_range=None) -> o
                           fmha_lse: (o, lse); fmha_out: out, lse=None
    torch.ops.tilejit.gemm(a, b, *, c, bias, alpha, beta, activation, dtype, scale_a, scale_b, end_params, end_text) -> d    gemm_out: out
    torch.ops.tilejit.grouped_gemm(a, b, groups, *, grouping="ends", ...) -> d   grouped_gemm_out: out
                           gemm_quantised, grouped_gemm_quantised: (d e4m3, scale_d), powers_of_two, packed
    torch.ops.tilejit.quantise(x, *, rows=1, gate, powers_of_two, row_indices) -> (q, scales)
                           quantise_out: q, scales
    torch.ops.tilejit.merge_states(states, lse_states, *, cu_seqlens, dtype) -> (o, lse)
    torch.ops.tilejit.combine(y, slots, *, weights, residual, dtype) -> d       combine_out: out
    torch.ops.tilejit.chunk_indices(cu_seqlens, *, tokens) -> (rows, total)     chunk_indices_out: chunk_indices, total_chunks
    torch.ops.tilejit.chunk_o(q, k, v_new, h, *, ...) -> o                      chunk_o_out: out
    torch.ops.tilejit.gated_delta_rule(q, k, v, *, gate, beta, ...) -> (o, final_state)
                      gated_delta_rule_out: out, final_state=None, write_slots=None, token_states=None
    torch.ops.tilejit.chunk_cumsum(gate, *, gate_form, ...) -> g_cu             chunk_cumsum_out: out
    torch.ops.tilejit.chunk_solve(k, *, beta, g_cu, cu_seqlens) -> a
    torch.ops.tilejit.chunk_wu(k, v, a, *, beta, g_cu, cu_seqlens) -> (w, u)
    torch.ops.tilejit.chunk_states(k, w, u, *, g_cu, initial_state, ...) -> (h, v_new, final_state)

Arguments are those of tilejit.fmha(), gemm(), grouped_gemm(), quantise(), merge_states(), combine(), chunk_indices(), chunk_o(),
gated_delta_rule() and its stages. It needs PyTorch 2.4 or later.

>>> import torch, tilejit.torch
>>> q = torch.ones(1, 2, 64, 64, dtype=torch.float16)
>>> torch.ops.tilejit.fmha(q, q, q, causal=True).shape
torch.Size([1, 2, 64, 64])
"""
from __future__ import annotations

import torch

OLDEST = (2, 4)


def _check_version(version: str) -> None:
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise ImportError(f"tilejit.torch needs PyTorch {'.'.join(map(str, OLDEST))} or later, and here is {version}; tilejit.fmha() and the others "
                          "take its tensors without operators")


_check_version(torch.__version__)

from ._torch_flex import flex_attention  # noqa: E402 -- behind the check
from ._torch_flash import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache  # noqa: E402 -- behind the check
from ._torch_fp8 import fp8_gemm_nt, m_grouped_fp8_gemm_nt_contiguous, m_grouped_fp8_gemm_nt_masked  # noqa: E402
from ._torch_moe import fused_moe  # noqa: E402
from ._torch_merge import merge_states  # noqa: E402
from ._torch_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule, gated_delta_rule_decode, gated_delta_rule_prefill  # noqa: E402
from ._torch_neighbours import (chunk_delta_rule, chunk_gla, chunk_kda, chunk_simple_gla, fused_recurrent_delta_rule,  # noqa: E402
                                fused_recurrent_gla, fused_recurrent_kda, fused_recurrent_simple_gla)
from ._torch_sdpa import sdpa  # noqa: E402
from ._torch_stages import (chunk_gated_delta_rule_fwd_h, chunk_gated_delta_rule_fwd_intra, chunk_local_cumsum,  # noqa: E402
                            recompute_w_u_fwd)

__all__ = ["chunk_delta_rule", "chunk_gated_delta_rule", "chunk_gated_delta_rule_fwd_h", "chunk_gated_delta_rule_fwd_intra", "chunk_gla",
           "chunk_kda", "chunk_local_cumsum", "chunk_simple_gla", "flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache",
           "flex_attention", "fp8_gemm_nt", "fused_moe", "fused_recurrent_delta_rule", "fused_recurrent_gated_delta_rule", "fused_recurrent_gla",
           "fused_recurrent_kda", "fused_recurrent_simple_gla", "gated_delta_rule_decode", "gated_delta_rule_prefill", "m_grouped_fp8_gemm_nt_contiguous",
           "m_grouped_fp8_gemm_nt_masked", "merge_states", "recompute_w_u_fwd", "sdpa"]
