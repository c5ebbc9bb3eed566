"""Protects plans, workspaces, allocators and times from a foreign language: a plan that was made without memory is right on
the CPU model, also after its runtime has ended; the caller's workspace or allocator is used; what work returns is kept."""
import ctypes
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import binding as tj
from gemm_model_test import CPU0, LIBRARY, Matrix

M, N, K = 8, 19, 16  # rows of N, in which b lies here, are copied first: a workspace is needed


class Dense(Matrix):
    """Rows without gaps; turned: columns."""

    def __init__(self, rows, columns, turned=False):
        super().__init__(tj.F16, rows, columns)
        self.strides = [1, rows] if turned else [columns, 1]


class Model(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def runtime(self, **options):
        runtime = tj.Runtime(LIBRARY, cache_dir=self.folder.name + "/cache", target="model:sm_90a", **options)
        self.addCleanup(runtime.close)
        return runtime

    def args(self, *tensors):
        self.kept = [ctypes.pointer(tensor) for tensor in tensors]
        return tj.GemmArgs(a=self.kept[0], b=self.kept[1], d=self.kept[2], alpha=1.0)

    def product(self):
        return Dense(M, K).fill(lambda: 1.0), Dense(N, K, turned=True).fill(lambda: 0.5), Dense(M, N)

    def plan(self, runtime):
        shapes = [each.view() for each in self.product()]
        for shape in shapes:
            shape.data = None
        plan = runtime.plan(b"gemm", self.args(*shapes))
        self.addCleanup(plan.close)
        return plan

    def test_a_plan_made_without_memory(self):
        runtime = self.runtime()
        plan = self.plan(runtime)
        self.assertEqual(plan.tensors, ["a", "b", "d"])
        self.assertGreater(plan.info.workspace_bytes, 0)
        self.assertEqual((plan.info.workspace_alignment, plan.info.workspace_zeroed), (256, 0))
        self.assertEqual((plan.info.device.kind, plan.info.target), (tj.CPU, b"model:sm_90a"))
        self.assertTrue(plan.info.kernel.startswith(b"gemm_f16"))
        a, b, d = self.product()
        plan.run(*(each.view().data for each in (a, b, d)))
        self.assertEqual(d.at(7, 15), K / 2)
        with self.assertRaises(tj.TilejitError) as refused:
            plan.run(a.view().data, None, d.view().data)
        self.assertIn("gemm: the address of b is null", refused.exception.message)
        with self.assertRaises(tj.TilejitError) as refused:
            plan.run(a.view().data)
        self.assertIn("addresses are 1; allowed: 3, of a, b, d", refused.exception.message)

    def test_a_plan_outlives_its_runtime(self):
        with tj.Runtime(LIBRARY, cache_dir=self.folder.name + "/cache", target="model:sm_90a") as runtime:
            plan = self.plan(runtime)
        a, b, d = self.product()
        plan.run(*(each.view().data for each in (a, b, d)))
        self.assertEqual(d.at(0, 0), K / 2)

    def test_the_callers_workspace(self):
        plan = self.plan(self.runtime(allocate=tj.Allocate(lambda *_: None), deallocate=tj.Deallocate(lambda *_: None)))
        a, b, d = self.product()
        memory = ctypes.create_string_buffer(plan.info.workspace_bytes + 256)
        place = (ctypes.addressof(memory) + 255) // 256 * 256
        addresses = [each.view().data for each in (a, b, d)]
        plan.run(*addresses, workspace=place)
        self.assertEqual(d.at(3, 3), K / 2)
        for workspace, said in ((place + 16, "allowed: multiples of 256"), (None, "Options::allocator gave no memory")):
            with self.assertRaises(tj.TilejitError) as refused:
                plan.run(*addresses, workspace=workspace)
            self.assertIn(said, refused.exception.message)

    def test_an_allocator(self):
        held, memory = [], ctypes.create_string_buffer(1 << 16)
        place = (ctypes.addressof(memory) + 255) // 256 * 256

        def allocate(user, device, size, stream):
            held.append((user, device.kind, size, stream))
            return place

        def deallocate(user, device, address, size, stream):
            self.assertEqual((address, held.pop()), (place, (user, device.kind, size, stream)))

        runtime = self.runtime(allocate=tj.Allocate(allocate), deallocate=tj.Deallocate(deallocate), allocator_user=77)
        a, b, d = self.product()
        runtime.gemm(a.view(), b.view(), d.view())
        self.assertEqual((d.at(3, 3), held), (K / 2, []))
        with self.assertRaises(tj.TilejitError) as refused:
            tj.Runtime(LIBRARY, allocate=tj.Allocate(allocate))
        self.assertIn("Options::allocator has no deallocate", refused.exception.message)

    def test_time(self):
        runtime = self.runtime()
        a, b, d = self.product()
        args, spent = self.args(*(each.view() for each in (a, b, d))), ctypes.c_double()
        run = lambda op: lambda _: LIBRARY.c.tj_run(runtime.handle, op, ctypes.byref(args), None)  # noqa: E731
        LIBRARY.check(LIBRARY.c.tj_time_ms(runtime.handle, CPU0, tj.Work(run(b"gemm")), None, ctypes.byref(spent)))
        self.assertGreater(spent.value, 0)
        self.assertEqual(LIBRARY.c.tj_time_ms(runtime.handle, CPU0, tj.Work(run(b"conv")), None, ctypes.byref(spent)), tj.INVALID_ARGUMENT)
        self.assertIn(b"op 'conv' is unknown", LIBRARY.c.tj_last_error())

    def test_tuning_needs_a_gpu(self):
        runtime = self.runtime()
        a, b, d = self.product()
        args, report = self.args(*(each.view() for each in (a, b, d))), tj.TuneReport()
        self.assertEqual(LIBRARY.c.tj_tune(runtime.handle, b"gemm", ctypes.byref(args), None, ctypes.byref(report)), tj.UNSUPPORTED)
        self.assertIn(b"tuning measures on a GPU, and the device is cpu", LIBRARY.c.tj_last_error())
        options = tj.TuneOptions(rounds=-1)
        self.assertEqual(LIBRARY.c.tj_tune(runtime.handle, b"gemm", ctypes.byref(args), ctypes.byref(options), None), tj.INVALID_ARGUMENT)
        self.assertIn(b"options.rounds is -1; allowed: 0 (10) and up", LIBRARY.c.tj_last_error())


if __name__ == "__main__":
    unittest.main()
