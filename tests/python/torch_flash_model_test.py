"""Protects tilejit.torch.flash_attn_func and its varlen form: arguments mean what they mean in the package flash_attn, against f64 from the
definition, and what is not served is refused by name."""
import inspect
import math
import os
import unittest
import unittest.mock

import here
from with_torch import WHY, torch

tilejit = here.tilejit


def normal(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(torch.float16)


def defined(q, k, v, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, learnable_sink=None, softmax_scale=None):
    """(o [B, Sq, H, Dv], lse [B, H, Sq]) in f64, as flash_attn's README has them."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    rows, keys = q.shape[2], k.shape[2]
    scores = q @ k.transpose(2, 3) * (softmax_scale or q.shape[3] ** -0.5)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    distance = torch.arange(rows)[:, None] + keys - rows - torch.arange(keys)[None]  # from a key to the place of a query
    if alibi_slopes is not None:
        scores = scores - alibi_slopes.double().reshape(-1, q.shape[1], 1, 1) * distance.abs()
    left, right = window_size[0], 0 if causal else window_size[1]
    hidden = torch.zeros(rows, keys, dtype=torch.bool)
    if left >= 0:
        hidden |= distance > left
    if right >= 0:
        hidden |= -distance > right
    scores = scores.masked_fill(hidden, -math.inf)
    if learnable_sink is not None:
        scores = torch.cat((scores, learnable_sink.double().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)), 3)
    weights, lse = torch.nan_to_num(torch.softmax(scores, 3)), torch.logsumexp(scores, 3)
    return (weights[..., :keys] @ v).transpose(1, 2), lse


@unittest.skipIf(WHY, WHY)
class Flash(unittest.TestCase):
    def setUp(self):
        self.call = tilejit.torch.flash_attn_func
        self.q, self.k, self.v = normal(1, 2, 70, 4, 64), normal(2, 2, 150, 2, 64), normal(3, 2, 150, 2, 64)

    def same(self, **options):
        o, lse, probabilities = self.call(self.q, self.k, self.v, return_attn_probs=True, **options)
        wanted, wanted_lse = defined(self.q, self.k, self.v, **options)
        self.assertIsNone(probabilities)
        self.assertEqual((o.shape, o.dtype, o.is_contiguous()), (wanted.shape, torch.float16, True))
        self.assertLessEqual(float((o - wanted).norm() / wanted.norm()), 6e-4)
        self.assertLessEqual(float((lse - wanted_lse).abs().max()), 1e-3)
        self.assertTrue(torch.equal(o, self.call(self.q, self.k, self.v, deterministic=True, num_splits=4, pack_gqa=True, **options)))

    def test_what_its_arguments_mean(self):
        slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
        self.same()
        self.same(causal=True, softmax_scale=0.3)
        self.same(window_size=(20, 10))
        self.same(causal=True, window_size=(33, -1), softcap=15.0)
        self.same(causal=True, alibi_slopes=slopes)
        self.same(alibi_slopes=torch.stack((slopes, 2 * slopes)), learnable_sink=torch.tensor([0.0, 3.0, -2.0, 1.0]))

    def test_names_and_defaults_are_those_of_flash_attn(self):
        found = list(inspect.signature(self.call).parameters.values())[:11]
        self.assertEqual([(each.name, each.default) for each in found[3:]],
                         [("dropout_p", 0.0), ("softmax_scale", None), ("causal", False), ("window_size", (-1, -1)), ("softcap", 0.0),
                          ("alibi_slopes", None), ("deterministic", False), ("return_attn_probs", False)])
        self.assertEqual([each.name for each in found[:3]], ["q", "k", "v"])

    def test_what_is_not_served(self):
        q = self.q
        for options, part in (({"dropout_p": 0.1}, "dropout_p is 0.1; allowed: 0"), ({"num_splits": -1}, "num_splits is -1"),
                              ({"pack_gqa": 2}, "pack_gqa is 2"), ({"qv": q}, "qv is Tensor"), ({"attention_chunk": 64}, "attention_chunk is 64"),
                              ({"q_descale": q}, "q_descale"), ({"sm_margin": 8}, "sm_margin is 8"), ({"window_size": 7}, "window_size is 7"),
                              ({"softcap": -1.0}, "softcap is -1"), ({"alibi_slopes": torch.ones(3)}, "alibi_slopes.shape[0] (H) is 3")):
            with self.subTest(part), self.assertRaises(tilejit.Error) as error:
                self.call(q, q, q, **options)
            self.assertIn(part, str(error.exception))
        with self.assertRaises(TypeError):
            self.call(q, q, q, window=(1, 1))
        with self.assertRaisesRegex(tilejit.Error, r"q.rank is 3; allowed: 4"):
            self.call(q[0], q[0], q[0])
        with self.assertRaisesRegex(tilejit.Error, "q requires grad"):
            self.call(q.clone().requires_grad_(), q, q)

    def test_without_memory_and_traced(self):
        meta = [x.to("meta") for x in (self.q, self.k, self.v)]
        self.assertEqual(self.call(*meta, causal=True, window_size=(8, 0)).shape, self.q.shape)
        traced = torch.compile(lambda q, k, v: self.call(q, k, v, causal=True, softcap=20.0), fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(traced(self.q, self.k, self.v), self.call(self.q, self.k, self.v, causal=True, softcap=20.0)))


@unittest.skipIf(WHY, WHY)
class Varlen(unittest.TestCase):
    """flash_attn_varlen_func: each sequence as it is alone, whatever its neighbours hold."""
    LENGTHS = ((70, 90), (0, 5), (1, 33), (40, 0))

    def setUp(self):
        self.call = tilejit.torch.flash_attn_varlen_func
        begins = [[0], [0]]
        for pair in self.LENGTHS:
            for list_, length in zip(begins, pair):
                list_.append(list_[-1] + length)
        self.begins = begins
        self.lists = [torch.tensor(x, dtype=torch.int32) for x in begins]
        self.q, self.k, self.v = normal(1, begins[0][-1], 4, 64), normal(2, begins[1][-1], 2, 64), normal(3, begins[1][-1], 2, 64)

    def same(self, o, lse, **options):
        for n, (rows, keys) in enumerate(self.LENGTHS):
            q, k = self.begins[0][n], self.begins[1][n]
            if not rows:
                continue
            if not keys:
                self.assertEqual(float(o[q:q + rows].abs().max()), 0)
                self.assertTrue(bool(torch.isneginf(lse[:, q:q + rows]).all()))
                continue
            wanted, wanted_lse = defined(self.q[None, q:q + rows], self.k[None, k:k + keys], self.v[None, k:k + keys], **options)
            self.assertLessEqual(float((o[q:q + rows] - wanted[0]).norm() / wanted.norm()), 6e-4)
            self.assertLessEqual(float((lse[:, q:q + rows] - wanted_lse[0]).abs().nan_to_num(0).max()), 1e-3)

    def test_what_its_arguments_mean(self):
        for options in ({}, {"causal": True}, {"window_size": (20, 7), "softcap": 9.0}):
            o, lse, none = self.call(self.q, self.k, self.v, *self.lists, 70, 90, return_attn_probs=True, **options)
            self.assertIsNone(none)
            self.same(o, lse, **options)
            self.assertTrue(torch.equal(o, self.call(self.q, self.k, self.v, *self.lists, fa_version=3, scheduler_metadata=self.lists[0], **options)))
        given = torch.full_like(self.q, 7)
        self.assertIs(self.call(self.q, self.k, self.v, *self.lists, 70, 90, out=given), given)
        used = torch.tensor([20, 0, 33, 0], dtype=torch.int32)
        o, lse = self.call(self.q, self.k, self.v, *self.lists, 70, 90, seqused_k=used, return_softmax_lse=True)
        wanted, _ = defined(self.q[None, :70], self.k[None, :20], self.v[None, :20])
        self.assertLessEqual(float((o[:70] - wanted[0]).norm() / wanted.norm()), 6e-4)

    def test_pages(self):
        size, order = 16, iter(torch.randperm(20, generator=torch.Generator().manual_seed(5)).tolist())
        pools = [torch.full((20, size, 2, 64), math.nan, dtype=torch.float16) for _ in range(2)]
        table = torch.full((4, 6), 10**9, dtype=torch.int32)
        for n, (_, keys) in enumerate(self.LENGTHS):
            for i in range(-(-keys // size)):
                table[n, i] = next(order)
                first, last = self.begins[1][n] + i * size, self.begins[1][n] + min((i + 1) * size, keys)
                for pool, x in zip(pools, (self.k, self.v)):
                    pool[table[n, i], :last - first] = x[first:last]
        used = torch.tensor([keys for _, keys in self.LENGTHS], dtype=torch.int32)
        for lengths in ({"cu_seqlens_k": self.lists[1]}, {"seqused_k": used}):
            o, lse = self.call(self.q, *pools, self.lists[0], block_table=table, causal=True, return_softmax_lse=True, **lengths)
            self.same(o, lse, causal=True)
        cache = tilejit.torch.flash_attn_with_kvcache
        q = normal(9, 4, 3, 4, 64)
        o, lse = cache(q, *pools, cache_seqlens=used, block_table=table, causal=True, return_softmax_lse=True)
        whole, same_lse = cache(q[:1], self.k[None, :90], self.v[None, :90], cache_seqlens=90, causal=True, return_softmax_lse=True)
        wanted, wanted_lse = defined(q[:1], self.k[None, :90], self.v[None, :90], causal=True)
        for found, found_lse in ((o[:1], lse[:1]), (whole, same_lse)):
            self.assertLessEqual(float((found - wanted).norm() / wanted.norm()), 6e-4)
            self.assertLessEqual(float((found_lse - wanted_lse).abs().max()), 1e-3)
        for option in ("rotary_cos", "rotary_sin", "cache_leftpad", "rotary_seqlens"):
            with self.assertRaisesRegex(tilejit.Error, f"flash_attn_with_kvcache: {option} is Tensor; allowed: None"):
                cache(q, *pools, block_table=table, **{option: used})
        with self.assertRaisesRegex(tilejit.Error, r"block_table is \[3, 6\]; allowed: \[4, pages\]"):
            cache(q, *pools, block_table=table[:3])

    def test_new_keys_are_appended(self):
        cache, size, lengths = tilejit.torch.flash_attn_with_kvcache, 16, torch.tensor([30, 47, 0], dtype=torch.int32)
        q, k, v = normal(21, 3, 2, 4, 64), normal(22, 3, 2, 2, 64), normal(23, 3, 2, 2, 64)
        dense = [normal(24, 3, 64, 2, 64), normal(25, 3, 64, 2, 64)]
        table = torch.randperm(12, generator=torch.Generator().manual_seed(6)).view(3, 4).to(torch.int32)
        pools = [torch.full((13, size, 2, 64), math.nan, dtype=torch.float16) for _ in range(2)]
        for pool, x in zip(pools, dense):
            pool[table.long()] = x.unflatten(1, (4, size))
        found = cache(q, *dense, k, v, cache_seqlens=lengths, causal=True), cache(q, *pools, k, v, cache_seqlens=lengths, block_table=table, causal=True)
        for n, length in enumerate(lengths.tolist()):
            for whole, pool, x in zip(dense, pools, (k, v)):
                self.assertTrue(torch.equal(whole[n, length:length + 2], x[n]))
                self.assertTrue(torch.equal(pool[table[n].long()].flatten(0, 1)[length:length + 2], x[n]))
            wanted, _ = defined(q[n:n + 1], *(x[n:n + 1, :length + 2] for x in dense), causal=True)
            for o in found:
                self.assertLessEqual(float((o[n:n + 1] - wanted).norm() / wanted.norm()), 6e-4)
        with self.assertRaisesRegex(tilejit.Error, "flash_attn_with_kvcache: v is None; allowed with new keys"):
            cache(q, *dense, k, cache_seqlens=lengths)

    def test_names_of_flash_attention_3(self):
        """page_table, lists of queries and of new keys, and the sequences of a cache by number."""
        cache, size, lengths = tilejit.torch.flash_attn_with_kvcache, 16, torch.tensor([30, 47, 0], dtype=torch.int32)
        rows, new = torch.tensor([0, 2, 3, 7], dtype=torch.int32), torch.tensor([0, 3, 3, 8], dtype=torch.int32)
        q, k, v = normal(41, 7, 4, 64), normal(42, 8, 2, 64), normal(43, 8, 2, 64)
        dense = [normal(44, 5, 64, 2, 64), normal(45, 5, 64, 2, 64)]
        chosen = torch.tensor([4, 0, 2], dtype=torch.int32)
        table = torch.randperm(12, generator=torch.Generator().manual_seed(6)).view(3, 4).to(torch.int32)
        pools = [torch.full((13, size, 2, 64), math.nan, dtype=torch.float16) for _ in range(2)]
        for pool, x in zip(pools, dense):
            pool[table.long()] = x[chosen.long()].unflatten(1, (4, size))
        more = dict(cache_seqlens=lengths, cu_seqlens_q=rows, max_seqlen_q=4, cu_seqlens_k_new=new, causal=True, return_softmax_lse=True)
        found = cache(q, *dense, k, v, cache_batch_idx=chosen, **more), cache(q, *pools, k, v, page_table=table, **more)
        for n, length in enumerate((lengths + new.diff()).tolist()):
            keys = [x[chosen[n], :length] for x in dense]
            for whole, pool, x in zip(keys, pools, (k, v)):
                self.assertTrue(torch.equal(whole[lengths[n]:], x[new[n]:new[n + 1]]))
                self.assertTrue(torch.equal(pool[table[n].long()].flatten(0, 1)[:length], whole))
            mine = slice(int(rows[n]), int(rows[n + 1]))
            wanted, wanted_lse = defined(q[None, mine], *(x[None] for x in keys), causal=True)
            for o, lse in found:
                self.assertLessEqual(float((o[mine] - wanted[0]).norm() / wanted.norm()), 6e-4)
                self.assertLessEqual(float((lse[:, mine] - wanted_lse[0]).abs().nan_to_num(0).max()), 1e-3)
        before = [x.clone() for x in dense]
        for options, said in (({"cu_seqlens_k_new": new[:3]}, r"cu_seqlens_k_new is torch.int32 \[3\]; allowed: torch.int32 \[4\]"),
                              ({"qv": q}, "qv is Tensor"), ({"window_size": 7}, "window_size"),
                              ({"page_table": table}, "cache_batch_idx is given beside page_table; allowed: one of"), ({"num_splits": -1}, "num_splits is -1"),
                              ({"cache_batch_idx": chosen[:2]}, r"cache_batch_idx is \[2\]; allowed: \[3\]")):
            with self.assertRaisesRegex(tilejit.Error, "flash_attn_with_kvcache: " + said):
                cache(q, *dense, k, v, **{"cache_batch_idx": chosen, **more, **options})
        with self.assertRaisesRegex(tilejit.Error, "k is None; allowed with new keys"):
            cache(q, *dense, cache_batch_idx=chosen, **more)
        self.assertTrue(all(torch.equal(x, y) for x, y in zip(dense, before)))  # what is refused writes nothing

    def test_new_keys_without_a_place_are_not_written(self):
        """Padding behind the list's end, the cache's end, and pages outside of the pool."""
        cache, new = tilejit.torch.flash_attn_with_kvcache, torch.tensor([0, 2, 3], dtype=torch.int32)
        q, k, lengths = normal(51, 2, 1, 2, 64), normal(52, 6, 1, 64), torch.tensor([3, 4], dtype=torch.int32)
        pool, table = normal(53, 3, 4, 1, 64), torch.tensor([[2, -1], [1, 9]], dtype=torch.int32)
        wanted = pool.clone()
        wanted[2, 3] = k[0]  # its second row falls on page -1, the second sequence's on page 9
        cache(q, pool, pool.clone(), k, k, cache_seqlens=lengths, cu_seqlens_k_new=new, block_table=table)
        self.assertTrue(torch.equal(pool, wanted))
        dense = normal(54, 2, 4, 1, 64)
        wanted = dense.clone()
        wanted[0, 3] = k[0]
        cache(q, dense, dense.clone(), k[:4].view(2, 2, 1, 64), k[:4].view(2, 2, 1, 64), cache_seqlens=lengths)
        self.assertTrue(torch.equal(dense, wanted))
        cache(q, dense, dense.clone(), k, k, cache_seqlens=lengths, cu_seqlens_k_new=torch.zeros(3, dtype=torch.int32))
        self.assertTrue(torch.equal(dense, wanted))

    def test_lists_that_are_forged(self):
        """Bad numbers lead to no row of the cache, TJ_CHECK=1 names the first one before anything is written, and lists of other shapes are refused."""
        cache, q, k = tilejit.torch.flash_attn_with_kvcache, normal(61, 2, 2, 64), normal(62, 5, 1, 64)
        dense, ends = normal(63, 2, 8, 1, 64), torch.tensor([0, 1, 2], dtype=torch.int32)
        least, most = -2 ** 31, 2 ** 31 - 1
        allowed = "; allowed: 0 to 8, the cache's keys"
        forged = (([0, 3, 2], [3, 4], {(0, 3): 0, (0, 4): 1, (0, 5): 2}, r"cu_seqlens_k_new\[2\] is 2; allowed: 3 to 5, rising"),
                  ([0, most, 2], [3, 4], {(0, n + 3): n for n in range(5)}, r"cu_seqlens_k_new\[1\] is 2147483647; allowed: 0 to 5"),
                  ([-4, 1, 5], [3, 4], {(1, 4): 1, (1, 5): 2, (1, 6): 3, (1, 7): 4, (0, 7): 0}, r"cu_seqlens_k_new\[0\] is -4; allowed: 0 to 5"),
                  ([0, 4, 5], [-2, 4], {(1, 4): 4}, r"cache_seqlens\[0\] is -2" + allowed),
                  ([0, 4, 5], [3, most], {(0, n + 3): n for n in range(4)}, r"cache_seqlens\[1\] is 2147483647" + allowed),
                  ([0, 4, 5], [least, 4], {(1, 4): 4}, r"cache_seqlens\[0\] is -2147483648" + allowed))
        for new, lengths, written, said in forged:
            more = dict(cache_seqlens=torch.tensor(lengths, dtype=torch.int32), cu_seqlens_q=ends, cu_seqlens_k_new=torch.tensor(new, dtype=torch.int32))
            wanted, found = dense.clone(), dense.clone()
            for place, row in written.items():
                wanted[place] = k[row]
            cache(q, found, dense.clone(), k, k, **more)
            self.assertTrue(torch.equal(found, wanted), new)
            found = dense.clone()
            with unittest.mock.patch.dict(os.environ, TJ_CHECK="1"), self.assertRaisesRegex(tilejit.Error, "flash_attn_with_kvcache: " + said):
                cache(q, found, found, k, k, **more)
            self.assertTrue(torch.equal(found, dense), new)
        good = dict(cache_seqlens=torch.tensor([3, 4], dtype=torch.int32), cu_seqlens_q=ends, cu_seqlens_k_new=torch.tensor([0, 4, 5], dtype=torch.int32))
        with unittest.mock.patch.dict(os.environ, TJ_CHECK="1"):
            cache(q, dense.clone(), dense.clone(), k, k, **good)
        wide = torch.tensor([2 ** 32, 1])  # a number of 64 bits that none of 32 holds is no sequence's
        o, none = (cache(q, dense, dense, cache_seqlens=8, cu_seqlens_q=ends, cache_batch_idx=numbers) for numbers in (wide, torch.tensor([9, 1])))
        self.assertTrue(torch.equal(o, none))
        pages, table = normal(64, 3, 4, 1, 64), torch.zeros(2, 0, dtype=torch.int32)
        self.assertEqual(float(cache(q, pages, pages, k, k, block_table=table, **good).abs().max()), 0)
        for options, said in (({"cache_seqlens": ends[:1]}, r"cache_seqlens is torch.int32 \[1\]; allowed: torch.int32 \[2\], or a number"),
                              ({"cache_seqlens": good["cache_seqlens"].long()}, r"cache_seqlens is torch.int64 \[2\]"),
                              ({"cache_seqlens": 9}, "cache_seqlens is 9" + allowed),
                              ({"cu_seqlens_k_new": ends.float()}, r"cu_seqlens_k_new is torch.float32 \[3\]; allowed: torch.int32 \[3\]"),
                              ({"block_table": table.long()}, "block_table.dtype is torch.int64; allowed: torch.int32")):
            with self.assertRaisesRegex(tilejit.Error, "flash_attn_with_kvcache: " + said):
                cache(q, dense, dense, k, k, **{**good, **options})

    def test_prefix_as_two_calls_and_a_merge(self):
        q, k, v = normal(31, 1, 4, 5, 64), normal(32, 1, 2, 90, 64), normal(33, 1, 2, 90, 64)
        parts = [torch.ops.tilejit.fmha_lse(q, k[:, :, part], v[:, :, part]) for part in (slice(0, 50), slice(50, 90))]
        o, lse = tilejit.torch.merge_states(*zip(*parts))
        whole, whole_lse = torch.ops.tilejit.fmha_lse(q, k, v)
        self.assertLessEqual(float((o.double() - whole.double()).norm() / whole.double().norm()), 1e-3)
        self.assertLessEqual(float((lse - whole_lse).abs().max()), 1e-3)

    def test_nothing_to_compute(self):
        none = torch.zeros(2, dtype=torch.int32)
        o, lse = self.call(self.q[:0], self.k, self.v, none, none, 0, 0, return_softmax_lse=True)
        self.assertEqual((o.shape, lse.shape), ((0, 4, 64), (4, 0)))
        o, lse = self.call(self.q, self.k[:0], self.v[:0], torch.tensor([0, len(self.q)], dtype=torch.int32), none, 1, 0, return_softmax_lse=True)
        self.assertEqual((float(o.abs().max()), bool(torch.isneginf(lse).all())), (0, True))

    def test_names_and_defaults_are_those_of_flash_attn(self):
        found = list(inspect.signature(self.call).parameters.values())[:16]
        self.assertEqual([each.name for each in found], ["q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k", "dropout_p",
                                                         "softmax_scale", "causal", "window_size", "softcap", "alibi_slopes", "deterministic",
                                                         "return_attn_probs", "block_table"])

    def test_what_is_not_served_and_traced(self):
        for options, part in (({"dropout_p": 0.1}, "flash_attn_varlen_func: dropout_p is 0.1"), ({"seqused_q": self.lists[0]}, "seqused_q is Tensor"),
                              ({"cu_seqlens_q": self.lists[0].long()}, "cu_seqlens_q has the type torch.int64"),
                              ({"seqused_k": self.lists[0]}, "seqused_k.shape[0] (B) is 5")):
            with self.subTest(part), self.assertRaises(tilejit.Error) as error:
                self.call(self.q, self.k, self.v, **{"cu_seqlens_q": self.lists[0], "cu_seqlens_k": self.lists[1], **options})
            self.assertIn(part, str(error.exception))
        traced = torch.compile(lambda q, k, v, a, b: self.call(q, k, v, a, b, causal=True), fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(traced(self.q, self.k, self.v, *self.lists), self.call(self.q, self.k, self.v, *self.lists, causal=True)))


if __name__ == "__main__":
    unittest.main(verbosity=1)
