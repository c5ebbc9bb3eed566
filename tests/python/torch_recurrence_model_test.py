"""Protects the gated delta rule under torch: the operators and the names of other libraries have the values of the serial recurrence in f64, pools
of states change where they should, and what is not served is refused by name."""
import unittest

import here
from with_torch import WHY, torch

tilejit = here.tilejit
NAN = float("nan")


def drawn(*shape, seed=0, dtype=None):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))
    return x if dtype is None else x.to(dtype)


def serial(q, k, v, decay, beta, state, scale, normalise=True, delta=True):
    """(o, states after each token) of one sequence: q, k [T, H, K], v [T, Hv, V], decay [T, Hv] or [T, Hv, K], beta [T, Hv], state [Hv, V, K], in f64."""
    heads, outputs, states = state.shape[0], [], []
    q, k, v = (x.double().repeat_interleave(heads // x.shape[1], 1) for x in (q, k, v))
    if normalise:
        q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    s = state.double()
    for t in range(q.shape[0]):
        s = s * decay[t].double().reshape(heads, 1, -1)
        d = beta[t].double()[:, None] * (v[t] - (torch.einsum("hvk,hk->hv", s, k[t]) if delta else 0))
        s = s + d[:, :, None] * k[t][:, None, :]
        outputs.append(scale * torch.einsum("hvk,hk->hv", s, q[t]))
        states.append(s)
    return torch.stack(outputs), torch.stack(states)


@unittest.skipIf(torch is None, WHY)
class GatedDeltaRule(unittest.TestCase):
    def setUp(self):
        import tilejit.torch
        self.torch, self.ops = tilejit.torch, torch.ops.tilejit

    def agrees(self, found, wanted, limit=4e-3):
        self.assertEqual(found.shape, wanted.shape)
        self.assertLess(float((found.double() - wanted).norm() / wanted.norm()), limit)

    def refused(self, text, call):
        with self.assertRaises(tilejit.Error) as caught:
            call()
        self.assertIn(text, str(caught.exception))

    def inputs(self, batch, tokens, heads=1, v_heads=2, width=64, dtype=None):
        dtype = dtype or torch.bfloat16
        q, k = (drawn(batch, tokens, heads, width, seed=seed, dtype=dtype) for seed in (1, 2))
        v = drawn(batch, tokens, v_heads, width, seed=3, dtype=dtype)
        g, beta = -torch.rand(batch, tokens, v_heads), torch.rand(batch, tokens, v_heads)
        return q, k, v, g, beta

    def test_names_of_flash_linear_attention(self):
        q, k, v, g, beta = self.inputs(2, 3)
        state = drawn(2, 2, 64, 64)
        for function in (self.torch.fused_recurrent_gated_delta_rule, self.torch.chunk_gated_delta_rule):
            o, last = function(q, k, v, g, beta.to(q.dtype), initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=True)
            for n in range(2):
                wanted, states = serial(q[n], k[n], v[n], g[n].exp(), beta.to(q.dtype)[n], state[n].transpose(1, 2), 1 / 8)
                self.agrees(o[n], wanted)
                self.agrees(last[n].transpose(1, 2), states[-1], 1e-4)
            self.assertEqual(last.dtype, torch.float32)
        o, last = self.torch.fused_recurrent_gated_delta_rule(q[:1] / 8, k[:1] / 8, v[:1], scale=2.0)
        self.assertIsNone(last)
        ones = torch.ones(3, 2)
        self.agrees(o[0], serial(q[0] / 8, k[0] / 8, v[0], ones, ones, torch.zeros(2, 64, 64), 2.0, False)[0])

    def test_sequences(self):
        q, k, v, g, beta = self.inputs(1, 7)
        ends, state = torch.tensor([0, 4, 4, 7]), drawn(3, 2, 64, 64)
        o, last = self.torch.fused_recurrent_gated_delta_rule(q, k, v, g, beta, initial_state=state, output_final_state=True,
                                                              use_qk_l2norm_in_kernel=True, cu_seqlens=ends)
        self.assertTrue(torch.equal(last[1], state[1]))
        for n, (begin, end) in enumerate(zip(ends.tolist(), ends.tolist()[1:])):
            if end > begin:
                part = slice(begin, end)
                wanted, states = serial(q[0, part], k[0, part], v[0, part], g[0, part].exp(), beta[0, part], state[n].transpose(1, 2), 1 / 8)
                self.agrees(o[0, part], wanted)
                self.agrees(last[n].transpose(1, 2), states[-1], 1e-4)

    def test_decode_in_a_pool(self):
        q, k, v, a, b = self.inputs(3, 2, width=128)
        a_log, bias = drawn(2), drawn(2, seed=4).to(q.dtype)
        before = drawn(5, 2, 128, 128, dtype=torch.bfloat16)
        slots = torch.tensor([4, -1, 0], dtype=torch.int32)
        state, kept = before.clone(), torch.full((3, 2, 2, 128, 128), NAN, dtype=torch.bfloat16)
        o, same = self.torch.gated_delta_rule_decode(q, k, v, state, a_log, a, bias, b, state_indices=slots, intermediate_states=kept)
        self.assertIs(same, state)
        decay = (-a_log.double().exp() * torch.nn.functional.softplus(a.double() + bias.double())).exp()
        for n, slot in enumerate(slots.tolist()):
            first = before[slot] if slot >= 0 else torch.zeros(2, 128, 128)
            wanted, states = serial(q[n], k[n], v[n], decay[n], b[n].sigmoid(), first, 128 ** -0.5)
            self.agrees(o[n], wanted)
            self.agrees(kept[n], states)
            if slot >= 0:
                self.agrees(state[slot], states[-1])
        for slot in (1, 2, 3):
            self.assertTrue(torch.equal(state[slot], before[slot]))
        others = before.clone()
        self.torch.gated_delta_rule_decode(q, k, v, others, a_log, a, bias, b, state_indices=slots, disable_state_update=True)
        self.assertTrue(torch.equal(others, before))

    def test_prefill_with_the_arguments_of_flashinfer(self):
        q, k, v, g, beta = (x[0] for x in self.inputs(1, 70, heads=2, v_heads=1))
        g, beta = (x.repeat(1, 2) for x in (g, beta))  # as many as q has, which are more than v has
        ends, first, decay = torch.tensor([0, 66, 66, 70]), drawn(3, 2, 64, 64), (0.1 * g).exp()
        out, last = torch.full((70, 2, 64), NAN, dtype=q.dtype), torch.full((3, 2, 64, 64), NAN)
        both = self.torch.gated_delta_rule_prefill(q, k, v, decay, beta, None, first, True, ends, True, out, last)
        self.assertIs(both[0], out)
        self.assertIs(both[1], last)
        for n, (begin, end) in enumerate(zip(ends.tolist(), ends.tolist()[1:])):
            part = slice(begin, end)
            if begin == end:
                self.assertTrue(torch.equal(last[n], first[n]))
                continue
            wanted, states = serial(q[part], k[part], v[part], decay[part], beta[part], first[n], 1 / 8)
            self.agrees(out[part], wanted, 5e-3)
            self.agrees(last[n], states[-1])
        ones = torch.ones(4, 2)
        wanted, states = serial(q[:4] / 8, k[:4] / 8, v[:4], ones, ones, torch.zeros(2, 64, 64), 1 / 8, False)
        o = self.torch.gated_delta_rule_prefill(q[:4] / 8, k[:4] / 8, v[:4], scale=0.0)  # 0: as None, and all else is optional
        self.agrees(o, wanted)
        o, state = self.torch.gated_delta_rule_prefill(q[:4] / 8, k[:4] / 8, v[:4], output_final_state=True)
        self.assertEqual(state.dtype, torch.float32)
        self.agrees(state[0], states[-1])
        state = first[:1].clone()
        self.torch.gated_delta_rule_prefill(q[:4], k[:4], v[:4], decay[:4], None, 1.0, state, True, None, True, None, state)  # in its place
        self.agrees(state[0], serial(q[:4], k[:4], v[:4], decay[:4], ones, first[0], 1.0)[1][-1])

    def test_negligible(self):
        q, k, v, g, beta = self.inputs(1, 520)
        out, state = torch.empty_like(v), torch.empty(1, 2, 64, 64)
        options = {"gate": 0.1 * g, "beta": beta, "normalise": True, "final_state": state}
        self.ops.gated_delta_rule_out(q, k, v, out, negligible=1e-4, **options)
        wanted, states = serial(q[0], k[0], v[0], (0.1 * g[0]).exp(), beta[0], torch.zeros(2, 64, 64), 1 / 8)
        self.agrees(out[0], wanted, 5e-3)
        self.agrees(state[0], states[-1])
        self.agrees(tilejit.gated_delta_rule(q, k, v, gate=0.1 * g, beta=beta, normalise=True, negligible=1e-4)[0], wanted, 5e-3)
        self.refused("negligible is 1", lambda: self.ops.gated_delta_rule_out(q, k, v, out, negligible=1.0, **options))
        self.refused("gate is absent", lambda: self.ops.gated_delta_rule_out(q, k, v, out, negligible=0.5))

    def test_checkpoints_of_prefill(self):
        q, k, v, g, beta = (x[0] for x in self.inputs(1, 130))
        decay, kept, starts = (0.1 * g).exp(), torch.full((2, 2, 64, 64), NAN), torch.tensor([0, 2])
        run = self.torch.gated_delta_rule_prefill
        o = run(q, k, v, decay, beta, None, None, False, torch.tensor([0, 130]), True, None, None, kept, starts, 64)
        wanted, each = serial(q, k, v, decay, beta, torch.zeros(2, 64, 64), 1 / 8)
        self.agrees(o, wanted, 5e-3)
        self.agrees(kept, each[[63, 127]])
        more = {"state_checkpoints": kept, "checkpoint_cu_starts": starts}
        for text, call in (("state_checkpoints is given with 2 sequences", lambda: run(q, k, v, cu_seqlens=torch.tensor([0, 65, 130]),
                                                                                      checkpoint_every_n_tokens=64, **more)),
                           ("checkpoint_every_n_tokens is 65", lambda: run(q, k, v, checkpoint_every_n_tokens=65, **more)),
                           ("state_checkpoints is given and checkpoint_every_n_tokens is 0", lambda: run(q, k, v, **more)),
                           ("state_checkpoints is absent", lambda: run(q, k, v, checkpoint_every_n_tokens=64)),
                           ("q.rank is 4", lambda: run(q[None], k, v)), ("g.rank is 3", lambda: run(q, k, v, decay[None]))):
            self.refused(text, call)

    def test_checkpoints(self):
        q, k, v, g, beta = self.inputs(1, 130)
        g, out, states = 0.1 * g, torch.empty_like(v), torch.full((1, 2, 2, 64, 64), NAN)
        self.ops.gated_delta_rule_out(q, k, v, out, gate=g, beta=beta, normalise=True, token_states=states, token_every=64)
        wanted, each = serial(q[0], k[0], v[0], g[0].exp(), beta[0], torch.zeros(2, 64, 64), 1 / 8)
        self.agrees(out[0], wanted, 5e-3)
        self.agrees(states[0], each[[63, 127]])
        self.refused("token_every is 0", lambda: self.ops.gated_delta_rule_out(q, k, v, out, token_states=states, token_every=0))

    def test_states_of_e4m3(self):
        q, k, v, a, b = self.inputs(3, 2)
        a_log, slots, e4m3 = drawn(2), torch.tensor([4, -1, 0], dtype=torch.int32), torch.float8_e4m3fn
        before, scales = (64 * drawn(5, 2, 64, 64)).to(e4m3), torch.rand(5, 2, 64) / 64 + 0.01
        state, of_state = before.clone(), scales.clone()
        kept, of_kept = torch.full((3, 2, 2, 64, 64), NAN).to(e4m3), torch.full((3, 2, 2, 64), NAN)
        o, same = self.torch.gated_delta_rule_decode(q, k, v, state, a_log, a, None, b, state_indices=slots, state_scales=of_state,
                                                     intermediate_states=kept, intermediate_scales=of_kept)
        self.assertIs(same, state)
        decay = (-a_log.double().exp() * torch.nn.functional.softplus(a.double())).exp()
        for n, slot in enumerate(slots.tolist()):
            first = before[slot].double() * scales[slot, ..., None] if slot >= 0 else torch.zeros(2, 64, 64)
            wanted, states = serial(q[n], k[n], v[n], decay[n], b[n].sigmoid(), first, 1 / 8)
            self.agrees(o[n], wanted)
            self.agrees(kept[n].double() * of_kept[n, ..., None], states, 3e-2)
            if slot >= 0:
                self.agrees(state[slot].double() * of_state[slot, ..., None], states[-1], 3e-2)
                self.agrees(of_state[slot], states[-1].abs().amax(-1) / 448, 1e-5)
        for slot in (1, 2, 3):
            self.assertTrue(torch.equal(state[slot].view(torch.uint8), before[slot].view(torch.uint8)))
            self.assertTrue(torch.equal(of_state[slot], scales[slot]))
        self.refused("initial_scales is absent and initial_state.dtype is e4m3", lambda: self.torch.gated_delta_rule_decode(
            q, k, v, state, a_log, a, None, b, state_indices=slots))
        self.refused("state_dtype is e4m3", lambda: self.ops.gated_delta_rule(q, k, v, state_dtype=e4m3))
        self.refused("initial_scales.dtype is f16", lambda: self.ops.gated_delta_rule_out(
            *(x.to("meta") for x in (q, k, v, v)), initial_state=before.to("meta"), initial_scales=scales.half().to("meta")))
        again, of_again, out = before.clone(), scales.clone(), torch.empty_like(o)
        tilejit.gated_delta_rule(q, k, v, gate=a, gate_form="raw", a_log=a_log, beta=b, beta_raw=True, normalise=True, initial_state=again,
                                 initial_scales=of_again, final_state=again, final_scales=of_again, read_slots=slots, write_slots=slots, out=out)
        self.assertTrue(torch.equal(out, o) and torch.equal(of_again, of_state) and torch.equal(again.view(torch.uint8), state.view(torch.uint8)))

    def test_neighbours_and_results_that_are_given(self):
        q, k, v, g, beta = self.inputs(1, 3, heads=2, v_heads=1)
        out, last = torch.full((1, 3, 2, 64), NAN, dtype=q.dtype), torch.full((1, 2, 64, 64), NAN)
        beta = torch.rand(1, 3, 2)
        self.ops.gated_delta_rule_out(q, k, v, out, beta=beta, delta=False, final_state=last, gate=torch.full((1, 3, 2), 0.5), gate_form="exp")
        s = torch.zeros(2, 64, 64, dtype=torch.float64)
        for t in range(3):
            s = s * 0.5 + beta[0, t].double()[:, None, None] * v[0, t].double()[..., None] * k[0, t].double()[:, None, :]
            self.agrees(out[0, t], torch.einsum("hvk,hk->hv", s, q[0, t].double()) / 8)
        self.agrees(last[0], s, 1e-4)
        array = tilejit.gated_delta_rule(q, k, v, beta=beta, delta=False, gate=torch.full((1, 3, 2), 0.5), gate_form="exp", initial_state=None)
        self.assertTrue(torch.equal(array, out))

    def test_gates_of_key_channels(self):
        q, k, v, _, beta = self.inputs(2, 3)
        raw, state, a_log, bias = drawn(2, 3, 2, 64), drawn(2, 2, 64, 64), drawn(2), drawn(128, seed=5)
        bounded = -5 * torch.sigmoid(a_log.double().exp()[:, None] * (raw.double() + bias.double().view(2, 64)))
        cases = ((dict(g=-raw.abs()), -raw.abs(), beta),
                 (dict(g=raw.bfloat16(), A_log=a_log.view(1, 1, 2, 1), dt_bias=bias, use_gate_in_kernel=True), None, beta),
                 (dict(g=raw, A_log=a_log, dt_bias=bias, use_gate_in_kernel=True, lower_bound=-5.0), bounded, beta),
                 (dict(g=-raw.abs(), use_beta_sigmoid_in_kernel=True), -raw.abs(), beta.sigmoid()),
                 (dict(g=-raw.abs(), use_beta_sigmoid_in_kernel=True, allow_neg_eigval=True), -raw.abs(), 2 * beta.sigmoid()))
        for options, g, strength in cases:
            if g is None:
                g = -a_log.double().exp()[:, None] * torch.nn.functional.softplus(raw.bfloat16().double() + bias.double().view(2, 64))
            for function in (self.torch.fused_recurrent_kda, self.torch.chunk_kda):
                for v_first in (False, True):
                    given = state if v_first else state.transpose(2, 3).contiguous()
                    o, last = function(q, k, v, beta=beta, initial_state=given, output_final_state=True, use_qk_l2norm_in_kernel=True,
                                       state_v_first=v_first, **options)
                    for n in range(2):
                        wanted, states = serial(q[n], k[n], v[n], g[n].double().exp(), strength[n], state[n], 1 / 8)
                        self.agrees(o[n], wanted)
                        self.agrees(last[n] if v_first else last[n].transpose(1, 2), states[-1], 1e-4)
        ends = torch.tensor([0, 2, 2, 3])
        o, last = self.torch.fused_recurrent_kda(q[:1], k[:1], v[:1], -raw[:1].abs(), beta[:1], use_qk_l2norm_in_kernel=True, cu_seqlens=ends)
        self.assertIsNone(last)
        self.agrees(o[0, 2:], serial(q[0, 2:], k[0, 2:], v[0, 2:], (-raw[0, 2:].abs()).exp(), beta[0, 2:], torch.zeros(2, 64, 64), 1 / 8)[0])

    def test_names_of_neighbours(self):
        q, k, v, g, beta = self.inputs(1, 3)
        ones, zeros, gk, gamma = torch.ones(3, 2), torch.zeros(2, 64, 64), -drawn(1, 3, 2, 64).abs(), -drawn(2).abs()
        gla, simple = self.torch.fused_recurrent_gla, (self.torch.fused_recurrent_simple_gla, self.torch.chunk_simple_gla)
        o, last = gla(q, k, v, gk, output_final_state=True)
        wanted, states = serial(q[0], k[0], v[0], gk[0].exp(), ones, zeros, 1 / 8, False, False)
        self.agrees(o[0], wanted)
        self.agrees(last[0].transpose(1, 2), states[-1], 1e-4)
        self.agrees(gla(q, k, v)[0][0], serial(q[0], k[0], v[0], ones, ones, zeros, 1 / 8, False, False)[0])
        o, last = self.torch.chunk_gla(q, k, v, gk, output_final_state=True)
        self.agrees(o[0], wanted)
        self.agrees(last[0].transpose(1, 2), states[-1], 1e-4)
        for function in simple:
            self.agrees(function(q, k, v, g)[0][0], serial(q[0], k[0], v[0], g[0].exp(), ones, zeros, 1 / 8, False, False)[0])
            wanted = serial(q[0], k[0], v[0], (g[0] + gamma).exp(), ones, zeros, 1 / 8, False, False)[0]
            self.agrees(function(q, k, v, g, gamma)[0][0], wanted)
            wanted = serial(q[0], k[0], v[0], gamma.exp().expand(3, 2), ones, zeros, 1 / 8, False, False)[0]
            self.agrees(function(q, k, v, g_gamma=gamma)[0][0], wanted)
        for function in (self.torch.fused_recurrent_delta_rule, self.torch.chunk_delta_rule):
            o, _ = function(q, k, v, beta, use_qk_l2norm_in_kernel=True)
            self.agrees(o[0], serial(q[0], k[0], v[0], ones, beta[0], zeros, 1 / 8)[0])

    def test_without_memory_and_compiled(self):
        q, k, v, g, beta = self.inputs(2, 3)
        o, state = self.ops.gated_delta_rule(*(x.to("meta") for x in (q, k, v)), gate=g.to("meta"))
        self.assertEqual((o.shape, o.dtype, state.shape, state.dtype), (v.shape, v.dtype, (2, 2, 64, 64), torch.float32))
        torch.library.opcheck(self.ops.gated_delta_rule, (q, k, v), dict(gate=g, beta=beta, state_dtype=torch.bfloat16),
                              test_utils=("test_schema", "test_faketensor"))
        torch.library.opcheck(self.ops.gated_delta_rule, (q, k, v), dict(gate=drawn(2, 3, 2, 64), beta=beta, gate_form="exp"),
                              test_utils=("test_schema", "test_faketensor"))
        pool = drawn(4, 2, 64, 64)
        torch.library.opcheck(self.ops.gated_delta_rule_out, (q, k, v, torch.empty_like(v)), dict(
            initial_state=drawn(2, 2, 64, 64), final_state=pool, write_slots=torch.tensor([3, 1], dtype=torch.int32)),
            test_utils=("test_schema", "test_faketensor"))

    def test_refusals(self):
        q, k, v, g, beta = self.inputs(2, 3)
        rule = self.torch.fused_recurrent_gated_delta_rule
        self.refused("gk is given", lambda: rule(q, k, v, g, beta, gk=g))
        self.refused("g.rank is 4; allowed: 3", lambda: rule(q, k, v, v, beta))
        kda, gk = self.torch.fused_recurrent_kda, drawn(2, 3, 2, 64)
        self.refused("g.rank is 3; allowed: 4", lambda: kda(q, k, v, g, beta))
        self.refused("beta is None", lambda: kda(q, k, v, gk, None))
        self.refused("A_log is None with use_gate_in_kernel", lambda: kda(q, k, v, gk, beta, use_gate_in_kernel=True))
        self.refused("allow_neg_eigval is True without", lambda: kda(q, k, v, gk, beta, allow_neg_eigval=True))
        self.refused("ssm_state_indices is given", lambda: kda(q, k, v, gk, beta, ssm_state_indices=gk))
        self.refused("return_intermediate_states is given", lambda: self.torch.chunk_kda(q, k, v, gk, beta, return_intermediate_states=True))
        self.refused("gate.shape[3] (K) is 32", lambda: kda(q, k, v, gk[..., :32].contiguous(), beta))
        self.refused("gv is given", lambda: self.torch.fused_recurrent_gla(q, k, v, gk, v))
        self.refused("gk.rank is 3; allowed: 4", lambda: self.torch.fused_recurrent_gla(q, k, v, g))
        self.refused("g.rank is 3; allowed: 4", lambda: self.torch.chunk_gla(q, k, v, g))
        self.refused("g is None", lambda: self.torch.chunk_gla(q, k, v, None))
        self.refused("reverse is given", lambda: self.torch.fused_recurrent_simple_gla(q, k, v, g, reverse=True))
        self.refused("q.rank is 3", lambda: rule(q[0], k[0], v[0]))
        self.refused("q.shape[0] is 2 with cu_seqlens", lambda: rule(q, k, v, cu_seqlens=torch.tensor([0, 3])))
        self.refused("beta.rank is 4", lambda: rule(q, k, v, g, v))
        self.refused("q.dtype is f32", lambda: rule(q.float(), k.float(), v.float()))
        self.refused("q requires grad", lambda: rule(q.detach().requires_grad_(), k, v))
        self.refused("gate_form is 'log2'", lambda: self.ops.gated_delta_rule(q.to("meta"), k.to("meta"), v.to("meta"), gate_form="log2"))
        self.refused("gate_form is 'log2'", lambda: tilejit.gated_delta_rule(q, k, v, gate_form="log2"))
        self.refused("initial_state.dtype is i32", lambda: rule(q, k, v, initial_state=torch.zeros(2, 2, 64, 64, dtype=torch.int32)))

    def test_refusals_of_ranks(self):
        q, k, v, g, beta = self.inputs(2, 3)
        for rank in (0, 1, 2, 3, 5):
            state, text = torch.zeros((2,) * rank), f"state.rank is {rank}; allowed: 4"
            for last in (False, True):
                self.refused(f"initial_{text}", lambda: self.torch.fused_recurrent_gated_delta_rule(q, k, v, g, beta, None, state, last))
            self.refused(f"initial_{text}", lambda: self.ops.gated_delta_rule(*(x.to("meta") for x in (q, k, v)), initial_state=state.to("meta")))
            self.refused(text, lambda: self.torch.gated_delta_rule_decode(q, k, v, state, g[0, 0], g, None, beta))
        for name in ("gate", "beta"):
            self.refused(f"{name}.rank is 0; allowed: 3", lambda: self.ops.gated_delta_rule(q, k, v, **{name: torch.zeros(())}))


if __name__ == "__main__":
    unittest.main()
