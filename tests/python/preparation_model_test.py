"""Protects kernels that are made in the background, and what calls do whose kernel is not in the cache, from Python on the CPU model: progress, limits,
errors, and that a quick kernel computes what the best one does."""
import os
import tempfile
import time
import unittest

import here

tilejit, numpy = here.tilejit, here.numpy
FOLDER = os.path.join(here.ROOT, "samples", "05_custom_gemm")
FLAGS = {"dtype": "bf16", "head_dim": 64, "causal": True, "general_scale": False}


class Prepared(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def runtime(self, **options):
        return tilejit.Runtime(target="model:sm_90a", cache_dir=self.folder.name, log_level="error", **options)

    def refused(self, part, call, code="invalid_argument"):
        with self.assertRaises(tilejit.Error) as caught:
            call()
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(part, caught.exception.message)

    def test_a_list(self):
        with self.runtime() as runtime:
            q = tilejit.Spec((1, 2, 128, 64), "f16", "cpu")
            with open(os.path.join(FOLDER, "gemm_gelu.json"), encoding="utf-8") as file:
                own = tilejit.custom.Kernel("own", file.read(), FOLDER, runtime=runtime)
            work = tilejit.Preparation(threads=2, runtime=runtime)
            self.assertTrue(work.progress().ended)
            work.add("fmha", q, q, q, causal=True).add("fmha", device="cpu", **FLAGS).add_kernel(own, "cpu")
            progress = work.wait()
            self.assertEqual((progress.ready, progress.failed, progress.left_out, progress.ended), (progress.kernels, 0, 0, True))
            names = [report.name for report in work.reports()]
            self.assertEqual((names[0], names[-1]), ("fmha_f16_d64_causal", "own"))
            self.assertEqual([state for _, state in work.states()], ["ready"] * len(names))
            self.assertEqual(work.errors(), [])
            self.assertEqual(runtime.prepare("fmha", q, q, q, causal=True).origin, "memory")

    def test_cancel_and_limit(self):
        with self.runtime() as runtime:
            work = runtime.prepare_async("fmha", device="cpu", dtype=["f16", "bf16"], head_dim=[64, 128], general_scale=False)
            self.assertFalse(work.progress().ended)
            work.cancel()
            progress = work.wait()
            self.assertTrue(progress.ended)
            self.assertGreater(progress.left_out, 0)
            self.assertLess(progress.left_out, progress.kernels + 1)
            late = tilejit.Preparation(time_limit_s=1e-3, runtime=runtime)
            time.sleep(0.01)
            late.add("fmha", device="cpu", **FLAGS)
            self.assertEqual(late.wait().left_out, late.progress().kernels)

    def test_refusals(self):
        with self.runtime() as runtime:
            self.refused("threads is 0; allowed: a whole number from 1 to 256", lambda: tilejit.Preparation(threads=0, runtime=runtime))
            self.refused("time_limit_s is -1; allowed: 0", lambda: tilejit.Preparation(time_limit_s=-1, runtime=runtime))
            self.refused("time_limit_s is nan", lambda: tilejit.Preparation(time_limit_s=float("nan"), runtime=runtime))
            work = tilejit.Preparation(runtime=runtime)
            self.refused("op 'fmhb' is unknown", lambda: work.add("fmhb", device="cpu"))
            self.refused("kernel is 3; allowed: a tilejit.custom.Kernel", lambda: work.add_kernel(3, "cpu"))
            self.refused("seconds is 'x'", lambda: work.wait("x"))
            self.assertEqual(work.progress().kernels, 0)
            self.refused("on_miss is 'fail'; allowed: wait, error, quick", lambda: tilejit.Runtime(on_miss="fail"))

    def test_errors_are_told_by_the_list(self):
        before = os.environ["PATH"]
        with self.runtime() as runtime:
            os.environ["PATH"] = "/nowhere"
            try:
                work = runtime.prepare_async("fmha", device="cpu", **FLAGS)
                self.assertEqual(work.wait().failed, work.progress().kernels)
            finally:
                os.environ["PATH"] = before
            for name, error in work.errors():
                self.assertTrue(name.startswith("fmha_bf16_d64_causal"), name)
                self.assertEqual((error.stage, error.code), ("compile", "not_found"))
            self.assertEqual(work.reports(), [])

    @unittest.skipIf(numpy is None, here.NO_NUMPY)
    def test_error_on_a_miss(self):
        q = numpy.ones((1, 1, 64, 64), numpy.float16)
        with self.runtime(on_miss="error") as runtime:
            self.refused("is not in the cache at", lambda: runtime.fmha(q, q, q), "not_in_cache")
            runtime.prepare("fmha", q, q, q)
            runtime.fmha(q, q, q)
            self.assertEqual((runtime.counters()["refused"], runtime.counters()["compiles"]), (1, 1))

    @unittest.skipIf(numpy is None, here.NO_NUMPY)
    def test_a_quick_kernel_computes_what_the_best_one_does(self):
        numbers = numpy.random.default_rng(5)
        q, k, v = (numbers.standard_normal((1, 2, 130, 64)).astype(numpy.float16) for _ in range(3))
        a, b = (numbers.standard_normal((70, 96)).astype(numpy.float16) for _ in range(2))
        with self.runtime(on_miss="quick") as runtime:
            calls = (lambda: runtime.fmha(q, k, v), lambda: runtime.fmha(q, k, v, causal=True), lambda: runtime.gemm(a, b))
            first = [call() for call in calls]
            self.assertEqual(runtime.counters()["quick_kernels"], 3)
            while runtime.counters()["quick_replaced"] < 3:
                time.sleep(0.01)
            for one, call in zip(first, calls):
                numpy.testing.assert_allclose(one.astype(float), call().astype(float), atol=2e-3, rtol=2e-3)
            self.assertEqual((runtime.counters()["compiles"], runtime.counters()["misses"]), (3, 3))


if __name__ == "__main__":
    here.skips.main()
