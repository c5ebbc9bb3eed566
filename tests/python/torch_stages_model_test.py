"""Protects the gated delta rule's stages under torch: operators and names of flash-linear-attention have the values of f64, lists begin chunks of
their own, and what is not served is refused by name."""
import unittest

import here
from with_torch import WHY, torch

tilejit = here.tilejit


def drawn(*shape, seed=0, dtype=None):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))
    return x if dtype is None else x.to(dtype)


def sums(g):
    """Of one sequence [T, H]: running sums inside chunks, in f64."""
    return torch.cat([part.double().cumsum(0) for part in g.split(64)])


def solved(k, beta, g_cu):
    """Of one sequence, k [T, Hk, K], beta and g_cu [T, H]: A [T, H, 64] in f64."""
    heads, parts = beta.shape[1], []
    k = k.double().repeat_interleave(heads // k.shape[1], 1)
    for x, b, g in zip(k.split(64), beta.double().split(64), g_cu.double().split(64)):
        below = torch.einsum("ihd,jhd->hij", x, x) * b.T[:, :, None] * (g.T[:, :, None] - g.T[:, None, :]).exp()
        a = torch.linalg.inv(torch.eye(len(x), dtype=torch.float64) + below.tril(-1))
        parts.append(torch.nn.functional.pad(a, (0, 64 - len(x))).transpose(0, 1))
    return torch.cat(parts)


def products(k, v, a, beta, g_cu):
    """Of one sequence: w and u in f64."""
    heads, ws, us = beta.shape[1], [], []
    k, v = (x.double().repeat_interleave(heads // x.shape[1], 1) for x in (k, v))
    for x, y, m, b, g in zip(k.split(64), v.split(64), a.double().split(64), beta.double().split(64), g_cu.double().split(64)):
        weights = m[:, :, :len(x)] * b.T[None]
        ws.append(torch.einsum("ihj,jhd->ihd", weights * g.T.exp()[None], x))
        us.append(torch.einsum("ihj,jhd->ihd", weights, y))
    return torch.cat(ws), torch.cat(us)


def states(k, w, u, g_cu, first):
    """Of one sequence, states [H, K, V]: h of each chunk, v_new, the last states, in f64."""
    s, before, changes = first.double(), [], []
    k = k.double().repeat_interleave(w.shape[1] // k.shape[1], 1)
    for x, y, z, g in zip(k.split(64), w.double().split(64), u.double().split(64), g_cu.double().split(64)):
        before.append(s)
        d = z - torch.einsum("hkv,ihk->ihv", s, y)
        changes.append(d)
        s = s * g[-1].exp()[:, None, None] + torch.einsum("ihk,ihv->hkv", x, d * (g[-1] - g).exp()[:, :, None])
    return torch.stack(before), torch.cat(changes), s


@unittest.skipIf(torch is None, WHY)
class Stages(unittest.TestCase):
    def setUp(self):
        import tilejit.torch
        self.torch, self.ops = tilejit.torch, torch.ops.tilejit

    def agrees(self, found, wanted, limit):
        self.assertEqual(found.shape, wanted.shape)
        self.assertLess(float((found.double() - wanted).norm() / wanted.norm()), limit)

    def refused(self, text, call):
        with self.assertRaises(tilejit.Error) as caught:
            call()
        self.assertIn(text, str(caught.exception))

    def test_cumsum(self):
        g = -torch.rand(2, 70, 3)
        found = self.torch.chunk_local_cumsum(g, 64)
        self.agrees(found, torch.stack([sums(x) for x in g]), 1e-6)
        ends = torch.tensor([0, 66, 66, 70])
        listed = self.torch.chunk_local_cumsum(g[:1], 64, cu_seqlens=ends, chunk_indices=None)
        self.agrees(listed[0], torch.cat([sums(g[0, :66]), sums(g[0, 66:])]), 1e-6)
        self.assertTrue(torch.equal(tilejit.chunk_cumsum(g), found))
        out = torch.empty(2, 70, 3)
        self.ops.chunk_cumsum_out(g.bfloat16(), out)
        self.agrees(out, torch.stack([sums(x) for x in g.bfloat16()]), 1e-6)
        for text, call in (("chunk_size is 32; allowed: 64", lambda: self.torch.chunk_local_cumsum(g, 32)),
                           ("reverse is given", lambda: self.torch.chunk_local_cumsum(g, 64, reverse=True)),
                           ("g.rank is 4; allowed: 3", lambda: self.torch.chunk_local_cumsum(g[..., None], 64)),
                           ("shape[0] (B) is 2 with cu_seqlens", lambda: self.torch.chunk_local_cumsum(g, 64, cu_seqlens=ends)),
                           ("gate.dtype is float64", lambda: self.ops.chunk_cumsum(g.double().to("meta")))):
            self.refused(text, call)

    def test_solve(self):
        k, beta, g = drawn(2, 70, 1, 64, dtype=torch.bfloat16) / 8, torch.rand(2, 70, 2), -torch.rand(2, 70, 2).cumsum(1) / 8
        found = self.ops.chunk_solve(k, beta=beta, g_cu=g)
        for n in range(2):
            self.agrees(found[n], solved(k[n], beta[n], g[n]), 3e-3)
        self.assertTrue(torch.equal(tilejit.chunk_solve(k, beta=beta, g_cu=g), found))
        self.assertEqual(self.ops.chunk_solve(k.to("meta")).shape, (2, 70, 1, 64))
        self.refused("K) is 32", lambda: self.ops.chunk_solve(k[..., :32].contiguous()))
        torch.library.opcheck(self.ops.chunk_solve, (k,), {"beta": beta, "g_cu": g})

    def test_w_and_u(self):
        k, v = drawn(2, 70, 1, 64, dtype=torch.bfloat16) / 8, drawn(2, 70, 2, 64, seed=1, dtype=torch.bfloat16)
        beta, g = torch.rand(2, 70, 2), -torch.rand(2, 70, 2) / 8
        sums_ = self.torch.chunk_local_cumsum(g, 64)
        w, u, a = self.torch.chunk_gated_delta_rule_fwd_intra(k, v, sums_, beta)
        for n in range(2):
            wanted = products(k[n], v[n], a[n], beta[n], sums_[n])
            self.agrees(w[n], wanted[0], 3e-3)
            self.agrees(u[n], wanted[1], 3e-3)
        again = self.torch.recompute_w_u_fwd(k, v, beta, a, sums_)
        self.assertTrue(torch.equal(again[0], w) and torch.equal(again[1], u))
        ends = torch.tensor([0, 70])
        listed = self.torch.chunk_gated_delta_rule_fwd_intra(k[:1], v[:1], sums_[:1], beta[:1], cu_seqlens=ends)
        self.assertTrue(all(torch.equal(x[:1], y) for x, y in zip((w, u, a), listed)))
        pair = tilejit.chunk_wu(k, v, a, beta=beta, g_cu=sums_)
        self.assertTrue(torch.equal(pair[0], w) and torch.equal(pair[1], u))
        self.refused("use_exp2 is given", lambda: self.torch.recompute_w_u_fwd(k, v, beta, a, sums_, use_exp2=True))
        self.refused("A.rank is 3", lambda: self.torch.recompute_w_u_fwd(k, v, beta, a[0], sums_))
        torch.library.opcheck(self.ops.chunk_wu, (k, v, a), {"beta": beta, "g_cu": sums_})

    def test_states(self):
        k, v = drawn(2, 70, 1, 64, dtype=torch.bfloat16) / 8, drawn(2, 70, 2, 64, seed=1, dtype=torch.bfloat16)
        beta, g = torch.rand(2, 70, 2), self.torch.chunk_local_cumsum(-torch.rand(2, 70, 2) / 8, 64)
        first = drawn(2, 2, 64, 64)
        w, u, _ = self.torch.chunk_gated_delta_rule_fwd_intra(k, v, g, beta)
        h, v_new, last = self.torch.chunk_gated_delta_rule_fwd_h(k, w, u, g, initial_state=first, output_final_state=True)
        for n in range(2):
            for found, wanted in zip((h[n], v_new[n], last[n]), states(k[n], w[n], u[n], g[n], first[n])):
                self.agrees(found, wanted, 5e-3)
        ends = torch.tensor([0, 66, 66, 70])
        h, v_new, last = self.torch.chunk_gated_delta_rule_fwd_h(k[:1], w[:1], u[:1], g[:1], cu_seqlens=ends, output_final_state=True)
        self.assertEqual((h.shape[1], last.shape[0]), (4, 3))
        self.assertEqual(float(last[1].abs().max()), 0)
        self.assertEqual(len(self.torch.chunk_gated_delta_rule_fwd_h(k, w, u, save_new_value=False)), 3)
        array_h, array_v = tilejit.chunk_states(k, w, u, g_cu=g)
        self.assertEqual((array_h.shape, array_v.shape), ((4, 2, 64, 64), (256, 2, 64)))
        self.refused("gk is given", lambda: self.torch.chunk_gated_delta_rule_fwd_h(k, w, u, gk=g))
        torch.library.opcheck(self.ops.chunk_states, (k, w, u), {"g_cu": g}, test_utils=("test_schema", "test_faketensor"))

    def test_no_chunks(self):
        k, begins = drawn(20, 1, 64, dtype=torch.bfloat16), torch.tensor([0], dtype=torch.int32)
        for x, ends in ((k, begins), (k[:0], begins), (k[:0], None)):
            for found in (tilejit.chunk_states(x, x, x, cu_seqlens=ends, chunks=0), self.ops.chunk_states(x, x, x, cu_seqlens=ends, chunks=0)[:2]):
                self.assertEqual([tuple(each.shape) for each in found], [(0, 1, 64, 64), (0, 1, 64)])

    def test_one_of_two_results(self):
        k = drawn(70, 1, 64, dtype=torch.bfloat16) / 8
        h, v_new = tilejit.chunk_states(k, k, k)
        mine = torch.zeros_like(h), torch.zeros_like(v_new)
        self.assertTrue(torch.equal(tilejit.chunk_states(k, k, k, out=(mine[0], None))[1], v_new))
        self.assertTrue(torch.equal(tilejit.chunk_states(k, k, k, out=(None, mine[1]))[0], h))
        self.assertTrue(torch.equal(mine[0], h) and torch.equal(mine[1], v_new))
        self.refused("h has 0 dimensions", lambda: tilejit.chunk_states(k, k, k, out=(torch.tensor(1.0).bfloat16(), None)))

    def test_bad_ranks(self):
        k, one, list_ = drawn(2, 1, 64, dtype=torch.bfloat16), torch.tensor(1.0), torch.tensor([0, 2])
        number, end = one.bfloat16(), torch.tensor(1, dtype=torch.int32)
        for text, call in (("beta has 0 dimensions", lambda: tilejit.chunk_solve(k, beta=one)),
                           ("beta.rank is 0; allowed: 2", lambda: self.ops.chunk_solve(k, beta=one)),
                           ("k.rank is 0; allowed: 3 or 4", lambda: self.ops.chunk_solve(number)),
                           ("k.rank is 0", lambda: self.ops.chunk_wu(number, k, k)),
                           ("cu_seqlens.rank is 0; allowed: 1", lambda: self.ops.chunk_states(k, k, k, cu_seqlens=end)),
                           ("u.rank is 0", lambda: self.ops.chunk_states(k, k, number)),
                           ("chunks is -1; allowed: 0 and up", lambda: self.ops.chunk_states(k, k, k, chunks=-1)),
                           ("u.shape[1] is 2 in [2, 2, 64]; allowed: 1, as w's H",
                            lambda: self.ops.chunk_states(*(x.to("meta") for x in (k, k, k.expand(2, 2, 64))))),
                           ("beta.rank is 0; allowed: 3",
                            lambda: self.torch.chunk_gated_delta_rule_fwd_intra(k[None], k[None], None, one, cu_seqlens=list_)),
                           ("g.rank is 0; allowed: 3", lambda: self.torch.chunk_gated_delta_rule_fwd_h(k[None], k[None], k[None], one)),
                           ("g.rank is 2; allowed: 3",
                            lambda: self.torch.recompute_w_u_fwd(k[None], k[None], one.expand(1, 2, 1), k[None], one.expand(2, 1)))):
            with self.subTest(text):
                self.refused(text, call)

    def test_operators(self):
        g = -torch.rand(1, 70, 3)
        torch.library.opcheck(self.ops.chunk_cumsum, (g,), {})
        torch.library.opcheck(self.ops.chunk_cumsum_out, (g, torch.empty(1, 70, 3)), {})


if __name__ == "__main__":
    unittest.main()
