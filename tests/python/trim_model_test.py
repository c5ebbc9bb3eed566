"""Protects what Python says of loaded kernels, and how they are given back, on the CPU model with numpy arrays."""
import gc
import unittest

import here

tilejit, numpy = here.tilejit, here.numpy


def normal(seed, *shape):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float16)


class Trim(unittest.TestCase):
    def refused(self, part, call):
        with self.assertRaises(tilejit.Error) as caught:
            call()
        self.assertIn(part, str(caught.exception))

    def test_what_is_loaded_is_counted_and_given_back(self):
        a, b = normal(1, 64, 64), normal(2, 64, 64)
        with tilejit.Runtime(target="model:sm_90a", code_max_size_bytes=1) as runtime:
            expected = runtime.gemm(a, b)
            plan = runtime.plan("gemm", a=a, b=b)
            held = runtime.counters()["devices"]
            self.assertEqual([(each["device"], each["kernels"]) for each in held], [("cpu", 1)])
            self.assertEqual(runtime.trim(), {"kernels": 0, "code_bytes": 0, "workspace_bytes": 0})
            del plan
            gc.collect()
            self.assertEqual(runtime.trim("cpu"), {"kernels": 1, "code_bytes": held[0]["code_bytes"], "workspace_bytes": 0})
            self.assertIn('\ntilejit_loaded_kernels{device="cpu"} 0\n', runtime.prometheus())
            self.assertTrue(numpy.array_equal(runtime.gemm(a, b), expected))
            self.refused("device is", lambda: runtime.trim("gpu"))
        self.refused("code_max_size_bytes is -1", lambda: tilejit.Runtime(code_max_size_bytes=-1))
        self.assertEqual(set(tilejit.trim()), {"kernels", "code_bytes", "workspace_bytes"})


if __name__ == "__main__":
    here.skips.main()
