"""Protects calls inside programs of JAX, on the CPU model: results under jit and vmap are right. Derivatives and wrong arguments are errors with
their names. A custom call that others have written by hand cannot crash the process."""
import ctypes
import doctest
import os
import subprocess
import sys
import unittest

ROOT = os.environ["TJ_TEST_REPO_DIR"]
LIBRARY = os.environ["TJ_TEST_LIBRARY"]
sys.path[:0] = [os.path.join(ROOT, ".deps", "jax"), os.path.join(ROOT, "tests", "python")]  # JAX has a numpy of its own; tests/setup.sh puts both there
import here  # noqa: E402

tilejit = here.tilejit
try:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import jax.numpy as jnp
except Exception:  # none, or one for another Python
    jax = None
BUILT = hasattr(ctypes.CDLL(LIBRARY), "tj_xla_fmha")
if jax and BUILT:
    import tilejit.jax  # noqa: E402
WITHOUT = """
import sys
sys.modules["jax"] = None
import tilejit
try:
    import tilejit.jax
except tilejit.Error as error:
    print(error)
"""


def f32(x):
    return x.astype(jnp.float32)


def most(x):
    return float(jnp.abs(x).max())


class Missing(unittest.TestCase):
    def test_without_jax(self):
        said = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True,
                              env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "src", "python"), LD_LIBRARY_PATH=os.path.dirname(LIBRARY))).stdout
        self.assertRegex(said, "^load: tilejit.jax needs JAX, and it cannot be imported: .*; pip install jax")


@unittest.skipUnless(BUILT, "the build found no header of XLA")
@unittest.skipUnless(jax, "no JAX for this Python")
class Jax(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.q, cls.k, cls.v = jax.random.normal(jax.random.key(1), (3, 1, 2, 70, 64), jnp.bfloat16)

    def test_attention(self):
        @jax.jit
        def both(q, k, v):  # among other work of the program
            o, lse = tilejit.jax.fmha(q + 0, k, v, causal=True, scale=0.25, return_lse=True)
            return f32(o) * 2, lse
        o, lse = both(self.q, self.k, self.v)
        scores = jnp.where(jnp.tri(70, dtype=bool), f32(self.q) @ f32(self.k).swapaxes(-1, -2) / 4, -jnp.inf)
        self.assertLess(most(jax.nn.softmax(scores) @ f32(self.v) * 2 - o), 6e-2)
        self.assertLess(most(jax.nn.logsumexp(scores, -1) - lse), 1e-3)
        self.assertEqual(lse.dtype, jnp.float32)

    def test_heads_inside(self):
        plain, lse = tilejit.jax.fmha(self.q, self.k, self.v, return_lse=True)
        turned, other = tilejit.jax.fmha(*(x.swapaxes(1, 2) for x in (self.q, self.k, self.v)), layout="bshd", return_lse=True)
        self.assertEqual(0, most(turned.swapaxes(1, 2) - plain))
        self.assertEqual(0, most(other - lse))

    def test_product(self):
        a, b = self.q[0], self.k[0, 0]
        bias = jnp.linspace(-9, 9, 70, dtype=jnp.float32)
        d = jax.jit(lambda a, b, bias: tilejit.jax.gemm(a, b, bias=bias, alpha=2, activation="relu"))(a, b, bias)
        self.assertEqual((d.shape, d.dtype), ((2, 70, 70), jnp.float32))
        exact = jnp.maximum(2 * jnp.einsum("bmk,nk->bmn", f32(a), f32(b)) + bias, 0)
        self.assertLess(most(d - exact), 1e-3)
        c = tilejit.jax.gemm(a, b, c=d, beta=-1)
        self.assertLess(most(c - (jnp.einsum("bmk,nk->bmn", f32(a), f32(b)) - d)), 1e-3)

    def test_texts_of_device_code(self):
        @jax.jit
        def near(q, k, v, distance):
            return tilejit.jax.fmha(q, k, v, mask_mod="return k <= q && q - k < params.i32(0);", score_mod="return score * 0.5f;", mod_params=distance)
        o = near(self.q, self.k, self.v, jnp.array([3], jnp.int32))
        seen = jnp.tri(70, dtype=bool) & ~jnp.tri(70, k=-3, dtype=bool)
        scores = jnp.where(seen, f32(self.q) @ f32(self.k).swapaxes(-1, -2) / 16, -jnp.inf)
        self.assertLess(most(jax.nn.softmax(scores) @ f32(self.v) - f32(o)), 3e-2)
        biased = tilejit.jax.fmha(self.q, self.k, self.v, scale=1 / 16, bias=jnp.where(seen, 0, -jnp.inf)[None, None])
        self.assertLess(most(f32(biased) - f32(o)), 3e-2)
        a, factors = self.q[0, 0], jnp.linspace(1, 2, 70, dtype=jnp.float32)
        d = tilejit.jax.gemm(a, a, end_text="return value * params.f32(column);", end_params=factors, dtype="f32")
        self.assertLess(most(d - f32(a) @ f32(a).T * factors), 1e-2)
        with self.assertRaisesRegex(Exception, "mask_mod"):
            jax.block_until_ready(tilejit.jax.fmha(self.q, self.k, self.v, mask_mod="return (k;"))
        for text in ("mask_mod", "score_mod", "key_range"):
            with self.assertRaisesRegex(Exception, f"{text} is empty; allowed"):
                jax.block_until_ready(tilejit.jax.fmha(self.q, self.k, self.v, **{text: ""}))
        with self.assertRaisesRegex(Exception, "end_text is empty; allowed"):
            jax.block_until_ready(tilejit.jax.gemm(a, a, end_text=""))

    def test_sizes_of_0(self):
        none = self.k[:, :, :0]
        o, lse = jax.jit(lambda q, k: tilejit.jax.fmha(q, k, k, return_lse=True))(self.q, none)
        self.assertEqual((most(o), float(lse.max())), (0, -jnp.inf))
        self.assertEqual(tilejit.jax.fmha(none, none, none).shape, none.shape)
        d = tilejit.jax.gemm(jnp.ones((5, 0), jnp.bfloat16), jnp.ones((7, 0), jnp.bfloat16), bias=jnp.full(7, 2.0, jnp.bfloat16))
        self.assertEqual((d.shape, float(d.min()), float(d.max())), ((5, 7), 2, 2))

    def test_chunks(self):
        @jax.jit
        def chunked(q, h, ends):
            rows, total = tilejit.jax.chunk_indices(ends, tokens=128)
            return tilejit.jax.chunk_o(q, q, q, h, cu_seqlens=ends, chunk_indices=rows, total_chunks=total, scale=1 / 128,
                                       num_stages=1, max_sms=1, evict_first=True), rows[:2], total
        o, rows, total = chunked(jnp.ones((128, 1, 128), jnp.bfloat16), jnp.zeros((2, 1, 128, 128), jnp.bfloat16), jnp.array([0, 64, 128], jnp.int32))
        self.assertEqual((rows.tolist(), total.tolist()), ([[0, 0], [1, 0]], [2]))
        self.assertEqual(o[:3, 0, 0].tolist() + o[64:66, 0, 5].tolist(), [1, 2, 3, 1, 2])

    def test_vmap(self):
        each = jax.vmap(tilejit.jax.fmha, in_axes=(0, None, None))(jnp.stack([self.q, self.k]), self.k, self.v)
        self.assertEqual(0, most(each[1] - tilejit.jax.fmha(self.k, self.k, self.v)))

    def test_derivatives(self):
        for how in (jax.grad, lambda f: jax.jit(jax.grad(f)), jax.jacfwd):
            with self.assertRaisesRegex(tilejit.Error, "fmha has no derivative: tilejit has forward passes only"):
                how(lambda q: f32(tilejit.jax.fmha(q, self.k, self.v)).sum())(self.q)
        stopped = jax.grad(lambda q: f32(q * tilejit.jax.fmha(*[jax.lax.stop_gradient(x) for x in (q, self.k, self.v)])).sum())(self.q)
        self.assertEqual(0, most(stopped - tilejit.jax.fmha(self.q, self.k, self.v)))

    def test_refusals(self):
        q, k, v = self.q, self.k, self.v
        for pattern, call in (
                ("v is of the type builtins.str; allowed: an array of JAX", lambda: tilejit.jax.fmha(q, k, "x")),
                ("q has the type int8; allowed: float16", lambda: tilejit.jax.fmha(q.astype(jnp.int8), k, v)),
                ("scale is .*Tracer.*; allowed: a number", lambda: jax.jit(lambda s: tilejit.jax.fmha(q, k, v, scale=s))(1.0)),
                ("layout is 'x'; allowed: bhsd, bshd", lambda: tilejit.jax.fmha(q, k, v, layout="x")),
                ("activation is 'tanh'; allowed: ", lambda: tilejit.jax.gemm(q[0], k[0], activation="tanh")),
                ("tokens is None; allowed|tokens is missing", lambda: tilejit.jax.chunk_indices(jnp.zeros(2, jnp.int32), tokens=None))):
            with self.subTest(pattern=pattern), self.assertRaisesRegex(tilejit.Error, pattern):
                call()
        for pattern, call in (  # what the library refuses when the program runs
                (r"INVALID_ARGUMENT: tilejit: argument: fmha: v.rank is 3; allowed: 4", lambda: tilejit.jax.fmha(q, k, v[0])),
                (r"tilejit: argument: fmha: v.shape\[3\] \(Dv?\) is 12", lambda: jax.jit(tilejit.jax.fmha)(q, k, v[..., :12]))):
            with self.subTest(pattern=pattern), self.assertRaisesRegex(Exception, pattern):
                call().block_until_ready()

    def test_calls_by_hand(self):
        """The handler believes nothing that a custom call says."""
        def call(*arrays, shape=self.q.shape, dtype=self.q.dtype, **attributes):
            return jax.ffi.ffi_call("tj_xla_fmha", jax.ShapeDtypeStruct(shape, dtype))(*arrays, **attributes).block_until_ready()
        three, names = (self.q, self.k, self.v), {"inputs": "q k v", "results": "o"}
        self.assertEqual(0, most(call(*three, **names) - tilejit.jax.fmha(*three)))
        for pattern, words, arrays, more in (
                ("'inputs' has 0 names, and there are 3 buffers", {}, three, {}),
                ("'k' names an input; allowed, each once: q, k, v", {**names, "inputs": "q k k"}, three, {}),
                ("'q' names a result; allowed, each once: o, lse", {**names, "results": "q"}, three, {}),
                ("v is missing; allowed: a tensor", {**names, "inputs": "q k"}, three[:2], {}),
                ("attribute 'x' is unknown", {**names, "x": True}, three, {}),
                ("causal is 'yes'; allowed: true or false", {**names, "causal": "yes"}, three, {}),
                ("q has 2 dimensions; allowed where it is exchanged: 3 to 5", {**names, "exchanged": "q"}, (self.q[0, 0], *three[1:]), {}),
                ("exchanged' names 'lse', which is no buffer", {**names, "exchanged": "lse"}, three, {}),
                ("q has XLA's type 11|k.dtype|q.dtype|dtype", {**names}, (f32(self.q), *three[1:]), {}),
                ("o has 6 dimensions; allowed: 0 to 5", names, three, {"shape": (1, 1) + self.q.shape}),
                (r"o.shape\[2\]", names, three, {"shape": (1, 2, 60, 64)})):
            with self.subTest(pattern=pattern), self.assertRaisesRegex(Exception, pattern):
                call(*arrays, **more, **words)

    def test_document(self):
        failed, ran = doctest.testmod(tilejit.jax)
        self.assertEqual((0, True), (failed, ran >= 4))


if __name__ == "__main__":
    here.skips.main()
