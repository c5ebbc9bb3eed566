"""Protects arrays of JAX on the CPU model: results are JAX's, values are right, nothing is written into an array that JAX has given, and tracers are
refused by name."""
import os
import sys
import unittest

ROOT = os.environ["TJ_TEST_REPO_DIR"]
sys.path.insert(0, os.path.join(ROOT, ".deps", "jax"))  # with a numpy of its own; tests/setup.sh puts both there
import here  # noqa: E402

tilejit = here.tilejit
try:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import jax.numpy as jnp
except Exception:  # none, or one for another Python
    jax = None


@unittest.skipUnless(jax, "no JAX for this Python")
class Jax(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runtime = tilejit.Runtime(target="model:sm_90a")

    def test_calls(self):
        q = jax.random.normal(jax.random.key(0), (1, 2, 70, 64), jnp.bfloat16)
        o, lse = self.runtime.fmha(q, q, q, causal=True, return_lse=True)
        self.assertIsInstance(o, jax.Array)
        self.assertEqual((o.dtype, lse.dtype, o.shape), (jnp.bfloat16, jnp.float32, q.shape))
        wide = q.astype(jnp.float32)
        scores = jnp.where(jnp.tri(70, dtype=bool), wide @ wide.swapaxes(-1, -2) / 8, -jnp.inf)
        self.assertLess(float(jnp.abs(jax.nn.softmax(scores) @ wide - o.astype(jnp.float32)).max()), 0.03)
        a = jax.random.normal(jax.random.key(1), (33, 80), jnp.float16)
        d = self.runtime.gemm(a, a, dtype="f32")
        self.assertLess(float(jnp.abs(d - jnp.matmul(a, a.T, preferred_element_type=jnp.float32)).max()), 1e-3)
        rows, total = self.runtime.chunk_indices(jnp.array([0, 65], jnp.int32), tokens=65)
        self.assertEqual(rows[:int(total[0])].tolist(), [[0, 0], [0, 1]])

    def test_refusals(self):
        a = jnp.ones((64, 64), jnp.float16)
        zeros = jnp.zeros((64, 64), jnp.float16)
        plan = self.runtime.plan("gemm", a, a)
        for call in (lambda: self.runtime.gemm(a, a, out=zeros), lambda: plan.run(a, a, zeros)):
            with self.assertRaisesRegex(tilejit.Error, "is an array of JAX, which never changes"):
                call()
        self.assertEqual(float(jnp.abs(zeros).max()), 0)
        with self.assertRaisesRegex(tilejit.Error, "a is of the type .*Tracer"):
            jax.jit(lambda x: self.runtime.gemm(x, x))(a)
        with self.assertRaisesRegex(tilejit.Error, "float64|float32|type"):
            self.runtime.fmha(*[jnp.ones((1, 1, 64, 64), jnp.int32)] * 3)


if __name__ == "__main__":
    here.skips.main()
