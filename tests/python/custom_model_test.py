"""Protects kernels of a user's own in Python, and memory that a user's allocator gives: preparing, warming, launching, and refusals that name what is
wrong. samples/07_python checks a kernel's values."""
import ctypes
import os
import sys
import tempfile
import unittest

import here

tilejit, numpy = here.tilejit, here.numpy
FOLDER = os.path.join(here.ROOT, "samples", "05_custom_gemm")


def graph():
    with open(os.path.join(FOLDER, "gemm_gelu.json"), encoding="utf-8") as file:
        return tilejit.Graph.parse(file.read(), "gemm_gelu")


class Custom(unittest.TestCase):
    def setUp(self):
        self.runtime = tilejit.Runtime(target="model:sm_90a")

    def refused(self, part, call, stage="argument"):
        with self.assertRaises(tilejit.Error) as caught:
            call()
        self.assertEqual(caught.exception.stage, stage, caught.exception)
        self.assertIn(part, caught.exception.message)

    def test_prepare(self):
        kernel = tilejit.custom.Kernel("own", graph(), FOLDER, runtime=self.runtime)
        report = kernel.prepare("cpu")
        self.assertEqual((report.name, report.target), ("own", "model:sm_90a"))
        self.assertEqual(report.schedule["machine"], "sm_90a")
        self.assertIn("own for model:sm_90a", repr(report))
        self.assertEqual(kernel.warm("model:sm_90a").target, "model:sm_90a")
        self.assertGreater(kernel.sm_count("cpu"), 0)
        self.runtime.close()  # the kernel keeps what it needs
        self.assertEqual(kernel.prepare("cpu").origin, "memory")

    def test_tuning_is_refused_without_candidates_or_a_gpu(self):
        own = graph()
        self.assertEqual(own.trials[0]["name"], "edges")
        kernel = tilejit.custom.Kernel("own", own, FOLDER, runtime=self.runtime)
        self.refused("graph 'own' has no candidates", lambda: kernel.tune("cpu"))
        own.parameters, own.candidates = {"slots": 4}, [{"name": "deep", "parameters": {}}, {"name": "flat", "parameters": {"slots": 2}}]
        own.values[0].max_slots = "slots"
        forms = tilejit.custom.Kernel("own", own, FOLDER, runtime=self.runtime)
        self.refused("tuning measures on a GPU, and the device is cpu", lambda: forms.tune("cpu", only=["flat"], rounds=1), "target")
        self.refused("rounds", lambda: forms.tune("cpu", rounds=0))

    @unittest.skipUnless(numpy, here.NO_NUMPY)
    def test_refusals(self):
        make = tilejit.custom.Kernel
        self.refused("name", lambda: make("a b", graph(), FOLDER, runtime=self.runtime))
        self.refused("folder", lambda: make("own", graph(), "/nowhere", runtime=self.runtime))
        self.refused("folder is 3", lambda: make("own", graph(), 3, runtime=self.runtime))
        self.refused("max_stages", lambda: make("own", graph(), FOLDER, max_stages=-1, runtime=self.runtime))
        broken = graph()
        broken.instructions[0].fu = "XU"
        self.refused("XU", lambda: make("own", broken, FOLDER, runtime=self.runtime), "graph")
        kernel = make("own", graph(), FOLDER, runtime=self.runtime)
        a = numpy.zeros((1, 1, 64, 64), numpy.float16)
        self.assertEqual(len(kernel.tensor_map(a, (1, 1, 64, 64))), 128)
        self.refused("box has 2 dimensions; allowed: the tensor's 4", lambda: kernel.tensor_map(a, (64, 64)))
        self.refused("box", lambda: kernel.tensor_map(a, (1, 1, 64, 512)))
        self.refused("swizzle_bytes", lambda: kernel.tensor_map(a, (1, 1, 64, 64), 48))
        self.refused("blocks is -1", lambda: kernel.launch(b"", -1, device="cpu"))
        self.refused("device is 'gpu'", lambda: kernel.launch(b"", 1, device="gpu"))
        with self.assertRaises(TypeError):
            kernel.launch(object(), 1, device="cpu")

    @unittest.skipUnless(numpy, here.NO_NUMPY)
    def test_allocator(self):
        """Workspaces are the user's: a product whose operand begins anywhere is copied first. One that has none is refused."""
        class Allocator:
            def __init__(self):
                self.blocks, self.asked, self.full = {}, [], False

            def allocate(self, device, size, stream):
                self.asked.append((str(device), size, stream))
                if self.full:
                    raise MemoryError("full")
                block = ctypes.create_string_buffer(size + 256)
                address = ctypes.addressof(block) + -ctypes.addressof(block) % 256
                self.blocks[address] = block
                return address

            def deallocate(self, device, address, size, stream):
                del self.blocks[address]

        allocator = Allocator()
        runtime = tilejit.Runtime(target="model:sm_90a", allocator=allocator)
        a = numpy.random.default_rng(1).standard_normal((33, 65)).astype(numpy.float16)[:, 1:]
        d = runtime.gemm(a, a, dtype="f32")
        self.assertLess(abs(d - a.astype(float) @ a.astype(float).T).max(), 1e-3)
        self.assertTrue(allocator.asked)
        self.assertEqual((allocator.blocks, {device for device, _, _ in allocator.asked}), ({}, {"cpu"}))
        allocator.full = True
        with self.assertRaises(tilejit.Error) as caught:
            runtime.gemm(a, a)
        self.assertEqual(caught.exception.code, "out_of_memory")

    @unittest.skipUnless(numpy, here.NO_NUMPY)
    def test_a_sink_that_raises(self):
        """What is raised in a log sink does not reach the library, nor the call."""
        def sink(level, text):
            raise ValueError("from the sink")

        caught = []
        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = lambda event: caught.append(str(event.exc_value))
        with tempfile.TemporaryDirectory() as folder:
            runtime = tilejit.Runtime(target="model:sm_90a", log_level="debug", log_sink=sink, cache_dir=folder)
            runtime.prepare("chunk_indices", tilejit.Spec((3,), "i32"), tokens=5)
        self.assertEqual(set(caught), {"from the sink"})


if __name__ == "__main__":
    here.skips.main()
