"""The gated delta rule's stages on a GPU: each beside f64 on random problems, the chain of all beside the fused rule, and times.

    python3 tests/gpu/gated_delta_stages.py --check 100 --seed 1    # each stage of the same rounded inputs, poisoned outputs, the same bits twice
    python3 tests/gpu/gated_delta_stages.py --times                 # in CUDA graphs, beside the fused rule and FLA's stages where they can be imported
    TJ_TARGET=model:sm_90a python3 tests/gpu/gated_delta_stages.py --check 2 --model    # no GPU: the CPU model, small problems

It needs torch, and tilejit's package: PYTHONPATH=src/python LD_LIBRARY_PATH=build/release/lib. Decides problems and prints; asserts nothing about
times. Exit status 1: a result is wrong.
"""
import argparse
import random
import sys

import torch

import tilejit.torch

LIMITS = {torch.bfloat16: {"a": 2e-3, "w": 2e-3, "u": 2e-3, "h": 4e-3, "v_new": 4e-3, "state": 4e-3},
          torch.float16: {"a": 3e-4, "w": 2.5e-4, "u": 2.5e-4, "h": 8e-4, "v_new": 8e-4, "state": 8e-4}}
CHAIN = (7e-3, 4e-3)  # o and states beside the fused rule: each is within 5e-3 of f64


class Problem:
    """Random tensors of a call: [T, ..] with bounds of sequences, or [B, T, ..]."""

    def __init__(self, draw, device, small):
        self.width, self.dtype = draw.choice((64, 128)), draw.choice((torch.bfloat16, torch.float16))
        self.heads = draw.choice((1, 2) if small else (1, 2, 3, 4, 8, 32))
        divisors = [n for n in range(1, self.heads + 1) if self.heads % n == 0]
        self.k_heads, self.v_heads = draw.choice(divisors), draw.choice(divisors)
        most = draw.choice((1, 63, 65, 130) if small else (1, 63, 64, 65, 200, 700, 2000))
        self.listed = draw.random() < 0.5
        count = draw.randint(1, 3 if small else 6)
        self.lengths = [draw.randint(0, most) for _ in range(count)] if self.listed else [most] * count
        self.lead = draw.choice((0, 3)) if self.listed else 0
        self.tokens = self.lead + max(1, sum(self.lengths)) + draw.choice((0, 2)) if self.listed else most
        self.transposed, self.gate_size = draw.random() < 0.5, draw.choice((0.1, 0.1, 1, 10))
        self.state_dtype = draw.choice((torch.float32, torch.float32, self.dtype))
        self.device, shape = device, (self.tokens,) if self.listed else (count, self.tokens)
        self.k, self.v = ((torch.randn(*shape, heads, self.width, device=device) * size).to(self.dtype)
                          for heads, size in ((self.k_heads, self.width ** -0.5), (self.v_heads, 1)))
        self.gate, self.beta = -self.gate_size * torch.rand(*shape, self.heads, device=device), torch.rand(*shape, self.heads, device=device)
        if draw.random() < 0.5:
            self.beta = self.beta.to(self.dtype)
        self.first = torch.randn(count, self.heads, self.width, self.width, device=device).to(self.state_dtype)
        self.ends = [self.lead]
        for length in self.lengths:
            self.ends.append(self.ends[-1] + length)
        self.list = {"cu_seqlens": torch.tensor(self.ends, dtype=torch.int32, device=device)} if self.listed else {}
        self.chunks = max(1, sum((length + 63) // 64 for length in self.lengths))

    def __str__(self):
        return (f"{self.dtype} width {self.width} heads {self.k_heads} {self.v_heads} of {self.heads} lengths {self.lengths} listed {self.listed} "
                f"gates {self.gate_size} states {self.state_dtype}{' [K, V]' if self.transposed else ''}")

    def of(self, x, n):
        return x[self.ends[n]:self.ends[n + 1]] if self.listed else x[n]

    def stages(self):
        """Results of the four stages, each by the ones before it. What no chunk has is NaN."""
        g_cu = torch.full(self.gate.shape, float("nan"), device=self.device)
        torch.ops.tilejit.chunk_cumsum_out(self.gate, g_cu, **self.list)
        a = tilejit.chunk_solve(self.k, beta=self.beta, g_cu=g_cu, **self.list)
        w, u = tilejit.chunk_wu(self.k, self.v, a, beta=self.beta, g_cu=g_cu, **self.list)
        matrices = (self.heads, self.width, self.width)
        h = torch.full((self.chunks, *matrices), float("nan"), dtype=self.dtype, device=self.device)
        v_new = torch.full((64 * self.chunks, self.heads, self.width), float("nan"), dtype=self.dtype, device=self.device)
        state = torch.full_like(self.first, float("nan"))
        tilejit.chunk_states(self.k, w, u, g_cu=g_cu, initial_state=self.first, final_state=state, state_transposed=self.transposed, out=(h, v_new),
                             **self.list)
        return {"g_cu": g_cu, "a": a, "w": w, "u": u, "h": h, "v_new": v_new, "state": state}


class Errors:
    def __init__(self):
        self.parts = {}

    def add(self, name, found, wanted):
        wrong, size = self.parts.get(name, (0.0, 0.0))
        self.parts[name] = wrong + float((found.double() - wanted).square().sum()), size + float(wanted.square().sum())

    def above(self, limits):
        for name, (wrong, size) in self.parts.items():
            error = (wrong / size) ** 0.5 if size else wrong ** 0.5
            if not error <= limits[name]:
                return f"{name} has an error of {error:.1e}"
        return ""


def compare(problem, found, errors, n, head, number):
    """Each stage of a head of sequence n, of the results that the stages before it gave. Returns the number of its last chunk, plus one."""
    def rows(x, at=head):
        return problem.of(x, n)[:, at].double()
    k, v = rows(problem.k, head // (problem.heads // problem.k_heads)), rows(problem.v, head // (problem.heads // problem.v_heads))
    beta, g, a, w, u = rows(problem.beta), rows(found["g_cu"]), rows(found["a"]), rows(found["w"]), rows(found["u"])
    s = problem.first[n, head].double()
    s = s.T if problem.transposed else s
    for first in range(0, len(k), 64):
        part = slice(first, min(first + 64, len(k)))
        x, b, sums, m = k[part], beta[part], g[part], a[part][:, :len(k[part])]
        errors.add("g_cu", sums, rows(problem.gate)[part].cumsum(0))
        below = (b[:, None] * (x @ x.T) * (sums[:, None] - sums[None]).clamp(max=0).exp()).tril(-1)
        errors.add("a", m, torch.linalg.inv(torch.eye(len(x), dtype=torch.float64, device=x.device) + below))
        errors.add("w", w[part], m @ (x * (b * sums.exp())[:, None]))
        errors.add("u", u[part], m @ (v[part] * b[:, None]))
        h = found["h"][number, head].double()
        errors.add("h", h.T if problem.transposed else h, s)
        d = u[part] - w[part] @ s.T
        values = found["v_new"][64 * number:64 * number + 64, head].double()
        errors.add("v_new", values, torch.nn.functional.pad(d, (0, 0, 0, 64 - len(x))))
        s = s * sums[-1].exp() + (d * (sums[-1] - sums).exp()[:, None]).T @ x
        number += 1
    last = found["state"][n, head].double()
    errors.add("state", last.T if problem.transposed else last, s)
    return number


def check_one(draw, device, small):
    """Why the problem is wrong; "" when it is right."""
    problem = Problem(draw, device, small)
    found, again = problem.stages(), problem.stages()
    errors, number = Errors(), 0
    owned = torch.zeros(problem.gate.shape[:-1], dtype=torch.bool, device=device)
    for n in range(len(problem.lengths)):
        problem.of(owned, n).fill_(True)
        numbers = {compare(problem, found, errors, n, head, number) for head in range(problem.heads)}
        number = numbers.pop()
    why = errors.above({"g_cu": 1e-6, **LIMITS[problem.dtype]})
    if not why and not found["g_cu"][~owned].isnan().all():
        why = "g_cu of a token of no sequence was written"
    if not why and not all(torch.equal(x[owned].view(torch.uint8), again[name][owned].view(torch.uint8)) if x.shape[:owned.dim()] == owned.shape else
                           torch.equal(x.view(torch.uint8), again[name].view(torch.uint8)) for name, x in found.items()):
        why = "other bits in a second run"
    return why and f"{problem}: {why}"


def check_chain(draw, device, small):
    """The stages and chunk output beside the fused rule: bf16 and K = 128, as chunk output has."""
    heads, v_heads = draw.choice(((1, 2), (2, 2)) if small else ((2, 8), (4, 16), (16, 32), (3, 9)))
    lengths = [draw.randint(0, 130 if small else 1500) for _ in range(draw.randint(1, 4))] + [65]
    tokens, count = sum(lengths), len(lengths)
    q, k = ((torch.randn(tokens, heads, 128, device=device) / 128 ** 0.5).bfloat16() for _ in range(2))
    v, gate = torch.randn(tokens, v_heads, 128, device=device).bfloat16(), -0.2 * torch.rand(tokens, v_heads, device=device)
    beta, first = torch.rand(tokens, v_heads, device=device), 0.1 * torch.randn(count, v_heads, 128, 128, device=device)
    bounds = [0]
    for length in lengths:
        bounds.append(bounds[-1] + length)
    ends = torch.tensor(bounds, dtype=torch.int32, device=device)
    fused, fused_state, state = torch.empty_like(v), torch.empty_like(first), torch.empty_like(first)
    torch.ops.tilejit.gated_delta_rule_out(q, k, v, fused, gate=gate, beta=beta, initial_state=first, final_state=fused_state, cu_seqlens=ends)
    g_cu = tilejit.chunk_cumsum(gate, cu_seqlens=ends)
    a = tilejit.chunk_solve(k, beta=beta, g_cu=g_cu, cu_seqlens=ends)
    w, u = tilejit.chunk_wu(k, v, a, beta=beta, g_cu=g_cu, cu_seqlens=ends)
    h, v_new = tilejit.chunk_states(k, w, u, g_cu=g_cu, initial_state=first, final_state=state, cu_seqlens=ends)
    rows, total = torch.ops.tilejit.chunk_indices(ends, tokens=tokens)
    o = torch.ops.tilejit.chunk_o(q, k, v_new, h, g_cu=g_cu, cu_seqlens=ends, chunk_indices=rows, total_chunks=total)
    errors = Errors()
    errors.add("o", o, fused.double())
    errors.add("state", state, fused_state.double())
    why = errors.above(dict(zip(("o", "state"), CHAIN)))
    return why and f"chain of heads {heads}/{v_heads} lengths {lengths}: {why}"


def check(count, seed, device, small):
    draw, wrong = random.Random(seed), 0
    torch.manual_seed(seed)
    for number in range(count):
        for one in (check_one, check_chain):
            why = one(draw, device, small)
            if why:
                wrong += 1
                print(f"WRONG {number}: {why}", flush=True)
    print(f"{count} problems of each stage and {count} chains, {wrong} wrong, seed {seed}")
    return wrong


def fla_stages(k, v, g, beta):
    """FLA's stages by name; none where they cannot be imported."""
    try:
        from fla.ops.common.chunk_delta_h import chunk_gated_delta_rule_fwd_h
        from fla.ops.gated_delta_rule.chunk_fwd import chunk_gated_delta_rule_fwd_intra
        from fla.ops.utils import chunk_local_cumsum
    except ImportError:
        return {}
    g_cu = chunk_local_cumsum(g, chunk_size=64)
    w, u, _ = chunk_gated_delta_rule_fwd_intra(k, v, g_cu, beta)
    return {"cumsum": lambda: chunk_local_cumsum(g, chunk_size=64), "solve, wu": lambda: chunk_gated_delta_rule_fwd_intra(k, v, g_cu, beta),
            "states": lambda: chunk_gated_delta_rule_fwd_h(k, w, u, g_cu, output_final_state=True)}


def time_stages():
    from rotating import per_call
    for heads, v_heads, batch, tokens in ((16, 32, 1, 8192), (16, 32, 4, 2048), (2, 8, 1, 8192), (16, 64, 1, 8192)):
        q, k = (torch.nn.functional.normalize(torch.randn(batch, tokens, heads, 128, device="cuda"), dim=-1).bfloat16() for _ in range(2))
        v, g, beta = torch.randn(batch, tokens, v_heads, 128, device="cuda").bfloat16(), *(
            torch.rand(batch, tokens, v_heads, device="cuda") for _ in range(2))
        g = -0.1 * g
        g_cu, peers = tilejit.chunk_cumsum(g), fla_stages(k, v, g, beta)
        a = tilejit.chunk_solve(k, beta=beta, g_cu=g_cu)
        w, u = tilejit.chunk_wu(k, v, a, beta=beta, g_cu=g_cu)
        h, v_new = tilejit.chunk_states(k, w, u, g_cu=g_cu)
        pair, o, state = (torch.empty_like(w), torch.empty_like(u)), torch.empty_like(v), torch.empty(batch, v_heads, 128, 128, device="cuda")
        sums = torch.empty_like(g_cu)
        calls = {"cumsum": lambda: tilejit.chunk_cumsum(g, out=sums), "solve": lambda: tilejit.chunk_solve(k, beta=beta, g_cu=g_cu, out=a),
                 "wu": lambda: tilejit.chunk_wu(k, v, a, beta=beta, g_cu=g_cu, out=pair),
                 "states": lambda: tilejit.chunk_states(k, w, u, g_cu=g_cu, final_state=state, out=(h, v_new)),
                 "fused": lambda: torch.ops.tilejit.gated_delta_rule_out(q, k, v, o, gate=g, beta=beta, final_state=state)}
        print(f"heads {heads}/{v_heads} {batch}x{tokens}  " + "  ".join(f"{name} {per_call([call]):.1f}" for name, call in calls.items()) + " us" +
              "".join(f"  FLA's {name} {per_call([call]):.1f}" for name, call in peers.items()), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--model", action="store_true", help="tensors of the CPU, on which the model runs kernels")
    asked = parser.parse_args()
    if asked.times:
        time_stages()
    return 1 if asked.check and check(asked.check, asked.seed, "cpu" if asked.model else "cuda", asked.model) else 0


if __name__ == "__main__":
    sys.exit(main())
