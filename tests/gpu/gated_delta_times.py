"""Times of the gated delta rule on a GPU, in CUDA graphs, beside a copy of as many bytes; gated_delta_rule.py --times runs them.

Decides what is timed and prints; asserts nothing.
"""
import torch

import tilejit.torch
from gated_delta_stages import time_stages
from rotating import per_call

GPU = "cuda"
STATES = (torch.float32, torch.bfloat16, torch.float8_e4m3fn)
ROTATED_BYTES = 512 << 20  # of states that calls of a graph change one after the other: many times L2


def time_one(batch, tokens, state_dtype, heads=32, q_heads=16, width=128, transposed=False, kept=False, channels=False):
    """Prints what a call takes whose states change in place, and a copy of as many bytes."""
    element = torch.tensor([], dtype=state_dtype).element_size()
    bytes_of_states = batch * heads * width * width * element
    sets = max(10, -(-ROTATED_BYTES // bytes_of_states)) if bytes_of_states < ROTATED_BYTES else 4
    q, k = (torch.randn(batch, tokens, q_heads, width, device=GPU).bfloat16() for _ in range(2))
    v = torch.randn(batch, tokens, heads, width, device=GPU).bfloat16()
    gates = (heads, width) if channels else (heads,)
    a, b = torch.randn(batch, tokens, *gates, device=GPU).bfloat16(), torch.randn(batch, tokens, heads, device=GPU).bfloat16()
    a_log, bias, o = torch.randn(heads, device=GPU), torch.randn(gates, device=GPU), torch.empty_like(v)
    scaled = state_dtype == torch.float8_e4m3fn
    pool = torch.zeros(sets * batch, heads, width, width, device=GPU, dtype=state_dtype)
    order = torch.randperm(sets * batch, device=GPU).int().view(sets, batch)
    more = {"intermediate_states": torch.empty(batch, tokens, heads, width, width, device=GPU, dtype=state_dtype)} if kept else {}
    if scaled:
        more["state_scales"] = torch.ones(sets * batch, heads, width, device=GPU)
        if kept:
            more["intermediate_scales"] = torch.empty(batch, tokens, heads, width, device=GPU)
    calls = [lambda slots=slots: tilejit.torch.gated_delta_rule_decode(
        q, k, v, pool, a_log, a, bias, b, output=o, state_indices=slots, state_transposed=transposed, **more) for slots in order]
    moved = 2 * bytes_of_states + 2 * (q.numel() + k.numel() + v.numel() + o.numel() + a.numel() + b.numel()) + (
        tokens * bytes_of_states if kept else 0) + (8 * batch * heads * width if scaled else 0)
    ours = per_call(calls)
    del calls, pool
    more.clear()
    source, target = (torch.zeros(sets, moved // 2, dtype=torch.uint8, device=GPU) for _ in range(2))
    copy = per_call([lambda i=i: target[i].copy_(source[i]) for i in range(sets)])
    what = f"{' [K, V]' if transposed else ''}{' kept' if kept else ''}{' channels' if channels else ''}"
    print(f"batch {batch:4} tokens {tokens} {str(state_dtype)[6:]:8}{what}  {ours:8.2f} us "
          f"{moved / ours / 1e6:5.2f} TB/s  a copy {copy:8.2f} us {moved / copy / 1e6:5.2f} TB/s  ({copy / ours:.2f})", flush=True)


def time_decode():
    for state_dtype in STATES:
        for batch in (1, 8, 64, 256, 512):
            time_one(batch, 1, state_dtype)
    for state_dtype in STATES:
        time_one(64, 1, state_dtype, transposed=True)


def time_tokens():
    for state_dtype in STATES:
        for tokens in (2, 4, 8):
            time_one(64, tokens, state_dtype)
        time_one(64, 4, state_dtype, kept=True)


def time_channels():
    for transposed in (False, True):
        for state_dtype in (torch.float32, torch.bfloat16):
            for batch in (8, 64, 256):
                time_one(batch, 1, state_dtype, transposed=transposed, channels=True)
        time_one(64, 4, torch.float32, transposed=transposed, channels=True)


PREFILL = ((16, 32, 1, 8192), (16, 32, 1, 32768), (16, 32, 4, 2048), (16, 32, 8, 4096), (2, 8, 1, 8192), (2, 8, 4, 8192), (16, 64, 1, 8192),
           (16, 48, 1, 8192), (4, 16, 1, 32768))  # heads of q and k, of v, batch, tokens


KDA = ((32, 32, 1, 8192), (32, 32, 1, 32768), (32, 32, 4, 2048), (32, 32, 8, 4096), (8, 8, 1, 8192), (2, 2, 1, 32768))  # Kimi Linear has 32 heads


def fla_call(q, k, v, g, beta):
    """A call of flash-linear-attention; None where it cannot be imported. Without the delta beta is None."""
    try:
        if beta is None and g.dim() == 4:
            from fla.ops.gla import chunk_gla as function
        elif beta is None:
            from fla.ops.simple_gla import chunk_simple_gla as function
        elif g.dim() == 4:
            from fla.ops.kda import chunk_kda as function
        else:
            from fla.ops.gated_delta_rule import chunk_gated_delta_rule as function
    except ImportError:
        return None
    if beta is None:
        return lambda: function(q, k, v, g, output_final_state=True)
    return lambda: function(q, k, v, g, beta, output_final_state=True, use_qk_l2norm_in_kernel=True)


def time_prefill(problems=PREFILL, channels=False, delta=True, negligible=0.0):
    for heads, v_heads, batch, tokens in problems:
        q, k = (torch.randn(batch, tokens, heads, 128, device=GPU).bfloat16() for _ in range(2))
        v = torch.randn(batch, tokens, v_heads, 128, device=GPU).bfloat16()
        beta = torch.rand(batch, tokens, v_heads, device=GPU) if delta else None
        g = torch.rand(batch, tokens, v_heads, *((128,) if channels else ()), device=GPU)
        g, o, state = -0.1 * g, torch.empty_like(v), torch.empty(batch, v_heads, 128, 128, device=GPU)
        moved = 2 * (q.numel() + k.numel() + v.numel() + o.numel()) + 4 * (g.numel() + (beta.numel() if delta else 0) + state.numel())
        ours = per_call([lambda: torch.ops.tilejit.gated_delta_rule_out(q, k, v, o, gate=g, beta=beta, delta=delta, normalise=delta,
                                                                        final_state=state, negligible=negligible)])
        source, target = (torch.zeros(moved // 2, dtype=torch.uint8, device=GPU) for _ in range(2))
        copy, peer = per_call([lambda: target.copy_(source)]), fla_call(q, k, v, g, beta)
        beside = f"  FLA {per_call([peer]):8.1f} us" if peer else ""
        print(f"heads {heads:2}/{v_heads:2} {batch}x{tokens:5}  {ours:8.1f} us  a copy {copy:8.1f} us ({copy / ours:.2f}){beside}", flush=True)


def time_kda():
    time_prefill(KDA, channels=True)


SIMPLE_GLA = ((16, 16, 1, 8192), (32, 32, 1, 8192), (32, 32, 1, 32768), (32, 32, 4, 2048), (32, 32, 8, 4096), (8, 8, 1, 8192))


def time_simple_gla():
    time_prefill(SIMPLE_GLA, delta=False)


def time_negligible():
    """Segments that may forget; gates as in time_prefill() leave 4e-2 of a state after a chunk."""
    time_prefill(negligible=1e-4)


def time_gla():
    time_prefill(SIMPLE_GLA, channels=True, delta=False)


TIMES = {"decode": time_decode, "tokens": time_tokens, "channels": time_channels, "prefill": time_prefill, "kda": time_kda,
         "simple_gla": time_simple_gla, "gla": time_gla, "negligible": time_negligible, "stages": time_stages}
