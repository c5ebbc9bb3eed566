"""The gated delta rule on a GPU: random problems against the serial recurrence in f64, and times of decoding in CUDA graphs.

    python3 tests/gpu/gated_delta_rule.py --check 300 --seed 1   # poisoned outputs, slots out of order, the same bits twice, lists that change
    python3 tests/gpu/gated_delta_rule.py --times decode         # beside a copy of as many bytes; states rotate beyond L2
    python3 tests/gpu/gated_delta_rule.py --times tokens         # 1 to 8 tokens a sequence
    python3 tests/gpu/gated_delta_rule.py --times channels       # decoding with gates of key channels (KDA)
    python3 tests/gpu/gated_delta_rule.py --times prefill        # in chunks, beside a copy of as many bytes, and FLA where it can be imported
    python3 tests/gpu/gated_delta_rule.py --times kda            # the same with gates of key channels
    python3 tests/gpu/gated_delta_rule.py --times simple_gla     # without the delta, whose graphs lack the solve; --times gla: with gates of channels
    python3 tests/gpu/gated_delta_rule.py --times negligible     # as prefill, and segments may forget
    python3 tests/gpu/gated_delta_rule.py --times stages         # stages as ops of their own; gated_delta_stages.py checks them

It needs torch with CUDA, and tilejit's package: PYTHONPATH=src/python LD_LIBRARY_PATH=build/release/lib. Decides problems and prints; asserts
nothing about times. Exit status 1: a result is wrong.
"""
import argparse
import math
import random
import sys

import torch

import tilejit.torch
from gated_delta_times import TIMES

GPU, NAN = "cuda", float("nan")
O_LIMITS = {torch.bfloat16: 5e-3, torch.float16: 1e-3}
STATE_LIMITS = {torch.float32: 5e-4, torch.bfloat16: 4e-3, torch.float16: 1e-3, torch.float8_e4m3fn: 3e-2}
CHUNK_LIMITS, REPEATED_LIMITS = (5e-3, 4e-3), (2e-2, 3e-2)  # of o and of states, in chunks; with repeated keys
FEW_TOKENS = 8  # a sequence, on average, up to which calls certainly take tokens one by one


class Problem:
    """Random options and tensors of a call. Tensors of states are [.., K, V] where they are transposed."""

    def __init__(self, draw):
        self.width, self.dtype = draw.choice((64, 128)), draw.choice((torch.bfloat16, torch.float16))
        self.state_dtype = draw.choice((torch.float32, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn))
        self.scaled = self.state_dtype == torch.float8_e4m3fn
        self.transposed, self.delta, self.normalise = draw.random() < 0.4, draw.random() < 0.8, draw.random() < 0.8
        self.heads = draw.choice((1, 2, 3, 4, 8, 32))
        divisors = [n for n in range(1, self.heads + 1) if self.heads % n == 0]
        self.of = [draw.choice(divisors) for _ in range(3)]
        most = draw.choice((1, 1, 4, 8, 63, 64, 65, 70, 200, 700))
        if draw.random() < 0.2 and self.heads <= 4:  # sequences that may be cut into segments
            most = draw.randint(800, 4000)
            self.lengths, self.listed, self.lead = [most], draw.random() < 0.5, 0
            self.tokens = most + (draw.choice((0, 900)) if self.listed else 0)
        elif draw.random() < 0.5:
            self.lengths = [draw.randint(0, most) for _ in range(draw.randint(1, 9))]
            self.listed, self.lead = True, draw.choice((0, 0, 3))
            self.tokens = self.lead + max(1, sum(self.lengths)) + draw.choice((0, 2))
        else:
            self.lengths, self.listed, self.lead = [most] * draw.randint(1, 9), False, 0
            self.tokens = most
        self.kind = draw.choice(("plain", "none", "strong", "repeated", "raw", "exp"))
        self.channels = self.kind != "none" and draw.random() < 0.3  # a gate for each key channel
        self.beta_kind = draw.choice(("plain", "none", "raw")) if self.kind != "repeated" else "near one"
        self.pool = draw.random() < 0.6
        self.initial, self.final, self.kept = draw.random() < 0.8, draw.random() < 0.8, draw.choice((0, 0, 2, 8))
        self.every = draw.choice((1, 1, 64, 128, 3)) if self.kept else 1  # tokens from one kept state to the next
        self.in_place = self.initial and self.final and draw.random() < 0.6
        self.scale = draw.choice((None, None, 1.0, -0.3))
        self.numbers = draw.choice((torch.float32, self.dtype))
        self.make_tokens(draw)
        self.make_states(draw)

    def __str__(self):
        return (f"{self.dtype} width {self.width} states {self.state_dtype}{' [K, V]' if self.transposed else ''} heads {self.of} of {self.heads} "
                f"lengths {self.lengths} gate {self.kind}{' of channels' if self.channels else ''} beta {self.beta_kind} delta {self.delta} "
                f"negligible {self.options.get('negligible', 0)} pool {self.pool} in place {self.in_place} kept {self.kept} every {self.every}")

    def limits(self):
        """Of o and of states: those of chunks where the call may be served so; states of e4m3 are rounded behind that."""
        alone = O_LIMITS[self.dtype], STATE_LIMITS[self.state_dtype]
        if self.every % 64 and self.kept or self.tokens <= FEW_TOKENS * (len(self.lengths) if self.listed else 1):
            return alone
        o, state = REPEATED_LIMITS if self.kind == "repeated" else CHUNK_LIMITS
        return max(alone[0], o), math.hypot(alone[1], state) if self.scaled else max(alone[1], state)

    def shape(self, *last):
        return (self.tokens, *last) if self.listed else (len(self.lengths), self.tokens, *last)

    def make_tokens(self, draw):
        pad = draw.choice((0, 8))

        def rows(heads):
            return torch.randn(self.shape(heads, self.width + pad), device=GPU).to(self.dtype)[..., :self.width]
        self.q, self.k, self.v = map(rows, self.of)
        if not self.normalise:
            self.q, self.k = (x / self.width ** 0.5 for x in (self.q, self.k))
        if self.kind == "repeated":
            self.k[:] = self.k.flatten(0, -3)[0].clone()
        self.options = {"delta": self.delta, "normalise": self.normalise, "scale": self.scale, "state_transposed": self.transposed}
        gates = (self.heads, self.width) if self.channels else (self.heads,)
        uniform = torch.rand(self.shape(*gates), device=GPU)
        g = {"none": None, "strong": -20 * uniform, "repeated": -1e-3 * uniform, "raw": 4 * uniform - 2, "exp": uniform, "plain": -uniform,
             "weak": -1e-3 * uniform}[self.kind]
        self.decay = torch.ones(self.shape(self.heads), device=GPU, dtype=torch.float64)
        if g is not None:
            g = g.to(self.numbers)
            self.options["gate"], self.decay = g, g.double() if self.kind == "exp" else g.double().exp()
        if self.kind == "raw":
            a_log, bias = torch.randn(self.heads, device=GPU), torch.randn(gates, device=GPU).to(self.numbers)
            self.options.update(a_log=a_log, dt_bias=bias, gate_form="raw")
            factor = a_log.double().exp().view(self.heads, *(1 for _ in gates[1:]))
            self.decay = (-factor * torch.nn.functional.softplus(g.double() + bias.double())).exp()
        elif self.kind == "exp":
            self.options["gate_form"] = "exp"
        self.strength = torch.ones(self.shape(self.heads), device=GPU, dtype=torch.float64)
        if self.beta_kind != "none":
            uniform = torch.rand(self.shape(self.heads), device=GPU)
            b = (6 * uniform - 3 if self.beta_kind == "raw" else 0.8 + 0.2 * uniform if self.beta_kind == "near one" else uniform).to(self.numbers)
            self.options.update(beta=b, beta_raw=self.beta_kind == "raw")
            self.strength = b.double().sigmoid() if self.beta_kind == "raw" else b.double()
        if g is not None and not self.channels and draw.random() < 0.3:  # segments may forget: far less than the limits
            self.options["negligible"] = 1e-5

    def make_states(self, draw):
        count = len(self.lengths)
        slots = count + 4 if self.pool else count
        matrix = (self.heads, self.width, self.width)
        self.reads, self.writes = (draw.sample(range(slots), count) if self.pool else list(range(count)) for _ in range(2))
        if self.pool:
            if draw.random() < 0.5:
                self.reads[draw.randrange(count)] = -1
            if self.in_place:
                self.writes = list(self.reads)
            elif draw.random() < 0.5:
                self.writes[draw.randrange(count)] = -1
        self.before = torch.full((slots, *matrix), NAN, device=GPU).to(self.state_dtype)
        self.scales_before = torch.full((slots, *matrix[:2]), NAN, device=GPU)
        for slot in self.reads:
            if slot >= 0:
                self.before[slot] = (torch.randn(matrix, device=GPU) * (64 if self.scaled else 0.25)).to(self.state_dtype)
                self.scales_before[slot] = (0.3 * torch.randn(matrix[:2], device=GPU)).exp() / 256
        self.ends = [self.lead]
        for length in self.lengths:
            self.ends.append(self.ends[-1] + length)
        if self.listed:
            self.options["cu_seqlens"] = torch.tensor(self.ends, dtype=torch.int32, device=GPU)
        for name, slots, wanted in (("read_slots", self.reads, self.initial), ("write_slots", self.writes, self.final)):
            if self.pool and wanted:
                self.options[name] = torch.tensor(slots, dtype=torch.int32, device=GPU)

    def memory(self):
        """(results and states of a call, poisoned; its tensors by name)."""
        o = torch.full(self.shape(self.heads, self.width), NAN, device=GPU, dtype=self.dtype)
        more = {}
        if self.initial:
            more["initial_state"] = self.before.clone()
        if self.final:
            more["final_state"] = more["initial_state"] if self.in_place else nan_like(self.before)
        if self.kept:
            more["token_every"] = self.every
            more["token_states"] = nan_like(self.before[:1, None]).repeat(len(self.lengths), self.kept, 1, 1, 1)
        if self.scaled:
            for states, scales in (("initial_state", "initial_scales"), ("final_state", "final_scales"), ("token_states", "token_scales")):
                if states in more:
                    more[scales] = torch.full(more[states].shape[:-1], NAN, device=GPU)
            if self.initial:
                more["initial_scales"].copy_(self.scales_before)
            if self.in_place:
                more["final_scales"] = more["initial_scales"]
        return o, more

    def matrix(self, states, scales, place):
        """A state [V, K] of each head in f64, of a tensor of states and of their scales."""
        s = states[place].double()
        s = s.transpose(-1, -2) if self.transposed else s
        return s * scales[place].double()[..., None] if self.scaled else s

    def call(self, o, more):
        torch.ops.tilejit.gated_delta_rule_out(self.q, self.k, self.v, o, **self.options, **more)

    def serial(self, n):
        """(o, states after each token, the first one in front) of sequence n, in f64."""
        tokens = slice(self.ends[n], self.ends[n + 1]) if self.listed else slice(None)
        q, k, v, decay, strength = (x[tokens] if self.listed else x[n] for x in (self.q, self.k, self.v, self.decay, self.strength))
        q, k, v = (x.double().repeat_interleave(self.heads // x.shape[1], 1) for x in (q, k, v))
        if self.normalise:
            q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
        s = torch.zeros(self.heads, self.width, self.width, device=GPU, dtype=torch.float64)
        if self.initial and self.reads[n] >= 0:
            s = self.matrix(self.before, self.scales_before, self.reads[n])
        outputs, states = [], [s]
        for t in range(q.shape[0]):
            s = s * decay[t].reshape(self.heads, 1, -1)
            held = torch.einsum("hvk,hk->hv", s, k[t]) if self.delta else 0
            s = s + (strength[t][:, None] * (v[t] - held))[:, :, None] * k[t][:, None, :]
            outputs.append(torch.einsum("hvk,hk->hv", s, q[t]) * (self.width ** -0.5 if self.scale is None else self.scale))
            states.append(s)
        return (torch.stack(outputs) if outputs else q.new_zeros(0, self.heads, self.width)), states


class Sum:
    """The relative size of what differs, over several parts."""

    def __init__(self):
        self.wrong = self.size = 0.0

    def add(self, found, wanted):
        self.wrong += float((found.double() - wanted).square().sum())
        self.size += float(wanted.square().sum())

    def error(self):
        return (self.wrong / self.size) ** 0.5 if self.size else self.wrong


def nan_like(x):
    return torch.full(x.shape, NAN, device=GPU).to(x.dtype)


def same_bits(a, b):
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def why_wrong(problem, o, more):
    outputs, states = Sum(), Sum()
    owned = torch.zeros(o.shape[:-2], dtype=torch.bool, device=GPU)
    for n, length in enumerate(problem.lengths):
        wanted, each = problem.serial(n)
        place = slice(problem.ends[n], problem.ends[n + 1]) if problem.listed else n
        owned[place] = True
        outputs.add(o[place], wanted)
        if problem.final and problem.writes[n] >= 0:
            states.add(problem.matrix(more["final_state"], more.get("final_scales"), problem.writes[n]), each[-1])
        for t in range(problem.kept):
            if (t + 1) * problem.every <= length:
                states.add(problem.matrix(more["token_states"], more.get("token_scales"), (n, t)), each[(t + 1) * problem.every])
            elif not more["token_states"][n, t].float().isnan().all():
                return "the state of a token that there is not was written"
    o_limit, state_limit = problem.limits()
    if not outputs.error() <= o_limit:
        return f"o has an error of {outputs.error():.1e}"
    if not states.error() <= state_limit:
        return f"states have an error of {states.error():.1e}"
    if not o[~owned].isnan().all():
        return "a token of no sequence was written"
    if problem.final:
        left = [slot for slot in range(problem.before.shape[0]) if slot not in problem.writes]
        for name, before in (("final_state", problem.before), ("final_scales", problem.scales_before)):
            wanted = before if problem.in_place else nan_like(before)
            if name in more and not all(same_bits(more[name][slot], wanted[slot]) for slot in left):
                return f"a slot of {name} that nobody writes has changed"
    return ""


def check_one(draw):
    """Why the problem is wrong; "" when it is right."""
    problem = Problem(draw)
    runs = [problem.memory() for _ in range(2)]
    for o, more in runs:
        problem.call(o, more)
    why = why_wrong(problem, *runs[0])
    (o, more), (o_again, more_again) = runs
    if not why and not (same_bits(o, o_again) and all(same_bits(x, more_again[name]) for name, x in more.items() if name != "token_every")):
        why = "other bits in a second run"
    return why and f"{problem}: {why}"


def check_replay():
    """A captured call follows its lists: slots, and bounds of sequences."""
    q = torch.randn(12, 2, 128, device=GPU).bfloat16()
    gate, beta = -torch.rand(12, 4, device=GPU), torch.rand(12, 4, device=GPU)
    v, pool = torch.randn(12, 4, 128, device=GPU).bfloat16(), torch.randn(9, 4, 128, 128, device=GPU)
    lists = {name: torch.tensor(numbers, dtype=torch.int32, device=GPU) for name, numbers in (
        ("cu_seqlens", [0, 4, 8, 12]), ("read_slots", [0, 1, 2]), ("write_slots", [0, 1, 2]))}
    o, state = torch.empty_like(v), pool.clone()

    def call(o, state):
        torch.ops.tilejit.gated_delta_rule_out(q, q, v, o, gate=gate, beta=beta, normalise=True, initial_state=state, final_state=state, **lists)
    call(o, state)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call(o, state)
    wrong = 0
    for ends, slots in (([0, 1, 1, 12], [8, 3, -1]), ([2, 5, 12, 12], [-1, 4, 0])):
        for name, numbers in (("cu_seqlens", ends), ("read_slots", slots), ("write_slots", slots)):
            lists[name].copy_(torch.tensor(numbers))
        state.copy_(pool)
        o.fill_(NAN)
        graph.replay()
        wanted, wanted_state = torch.full_like(v, NAN), pool.clone()
        call(wanted, wanted_state)
        if not (same_bits(o, wanted) and same_bits(state, wanted_state)) or same_bits(state, pool):
            wrong += 1
            print(f"WRONG: a graph replay with the bounds {ends} and the slots {slots}")
    return wrong


def check_chain():
    """Calls that follow each other in a graph read the states that those before them wrote in place."""
    steps, batch, heads = 6, 40, 4
    q, k, v = (torch.randn(steps, batch, 1, heads, 128, device=GPU).bfloat16() for _ in range(3))
    a, b = (torch.randn(steps, batch, 1, heads, device=GPU) for _ in range(2))
    a_log, slots = torch.randn(heads, device=GPU), torch.randperm(batch + 5, device=GPU)[:batch].int()
    pool, o = torch.randn(batch + 5, heads, 128, 128, device=GPU), torch.empty_like(v)

    def step(i, state, o):
        tilejit.torch.gated_delta_rule_decode(q[i], k[i], v[i], state, a_log, a[i], None, b[i], output=o[i], state_indices=slots)
    wanted, wanted_o, state = pool.clone(), torch.empty_like(v), pool.clone()
    for i in range(steps):
        step(i, wanted, wanted_o)
        torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(steps):
            step(i, state, o)
    wrong = 0
    for _ in range(20):
        state.copy_(pool)
        graph.replay()
        wrong += int(not (same_bits(o, wanted_o) and same_bits(state, wanted)))
    if wrong:
        print(f"WRONG: {wrong} of 20 replays of calls that follow each other")
    return wrong


def check(count, seed):
    draw, wrong = random.Random(seed), 0
    torch.manual_seed(seed)
    for number in range(count):
        why = check_one(draw)
        if why:
            wrong += 1
            print(f"WRONG {number}: {why}", flush=True)
    wrong += check_long() + check_long(channels=True)
    wrong += check_replay()
    wrong += check_chain()
    print(f"{count} problems, 32768 tokens without a gate and with weak ones of channels, graph replays with other lists, {wrong} wrong, seed {seed}")
    return wrong


def check_long(channels=False):
    """32768 tokens without a gate, or with weak gates of key channels."""
    draw = random.Random(5)
    problem = Problem(draw)
    problem.width, problem.dtype, problem.state_dtype, problem.heads, problem.of = 64, torch.bfloat16, torch.float32, 1, [1, 1, 1]
    problem.lengths, problem.listed, problem.tokens, problem.lead, problem.beta_kind = [32768], False, 32768, 0, "plain"
    problem.kind = "weak" if channels else "none"
    problem.channels, problem.scaled, problem.every = channels, False, 1
    problem.delta = problem.normalise = problem.initial = problem.final = True
    problem.numbers, problem.transposed, problem.in_place, problem.pool, problem.kept = torch.float32, False, False, False, 0
    problem.make_tokens(draw)
    problem.make_states(draw)
    o, more = problem.memory()
    problem.call(o, more)
    why = why_wrong(problem, o, more)
    if why:
        print(f"WRONG: 32768 tokens{' with gates of channels' if channels else ''}: {why}")
    return int(bool(why))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--times", choices=tuple(TIMES), action="append", default=[])
    options = parser.parse_args()
    wrong = check(options.check, options.seed) if options.check else 0
    for what in options.times:
        TIMES[what]()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
