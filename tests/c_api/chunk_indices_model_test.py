"""Protects the listing of chunks from a foreign language: the CPU model through the C ABI, its preparation, its refusals.
Standard library only."""
import ctypes
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import binding as tj

CPU0 = tj.Device(tj.CPU, 0)
LIBRARY = tj.Library()


class Numbers:
    """i32 at a multiple of 256 bytes."""

    def __init__(self, values, shape=None):
        values = list(values)
        self.count, self.shape = len(values), shape or [len(values)]
        self.buffer = ctypes.create_string_buffer(4 * len(values) + 256)
        self.address = ctypes.addressof(self.buffer) + -ctypes.addressof(self.buffer) % 256
        self.values = (ctypes.c_int32 * len(values)).from_address(self.address)
        self.values[:] = values

    def view(self, dtype=tj.I32):
        return tj.tensor(self.address, CPU0, dtype, self.shape)


class Model(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.runtime = tj.Runtime(LIBRARY, cache_dir=self.folder.name + "/cache", target="model:sm_90a")

    def tearDown(self):
        self.runtime.close()
        self.folder.cleanup()

    def test_listed(self):
        report = self.runtime.prepare(CPU0, op=b"chunk_indices")
        self.assertEqual((report.name, report.origin), (b"chunk_indices", tj.COMPILED))
        ends, pairs, total = Numbers([0, 65, 65, 193]), Numbers([-1] * 12, [6, 2]), Numbers([-1])
        self.runtime.chunk_indices(ends.view(), pairs.view(), total.view())
        self.assertEqual(list(total.values), [4])
        self.assertEqual(list(pairs.values), [0, 0, 0, 1, 2, 0, 2, 1, -1, -1, -1, -1])

    def refused(self, *parts, call):
        with self.assertRaises(tj.TilejitError) as caught:
            call()
        self.assertEqual((caught.exception.status, caught.exception.stage), (tj.INVALID_ARGUMENT, "argument"), caught.exception)
        for part in parts:
            self.assertIn(part, caught.exception.message)

    def test_refusals(self):
        ends, pairs, total = Numbers([0, 65]), Numbers([-1] * 4, [2, 2]), Numbers([-1])
        self.refused("chunk_indices: cu_seqlens.dtype is f32", "i32", call=lambda: self.runtime.chunk_indices(ends.view(tj.F32), pairs.view(), total.view()))
        self.refused("total_chunks.shape[0]", "is 2", call=lambda: self.runtime.chunk_indices(ends.view(), pairs.view(), Numbers([0, 0]).view()))
        args = tj.ChunkIndicesArgs(cu_seqlens=ctypes.pointer(ends.view()))
        self.refused("chunk_indices is null", call=lambda: LIBRARY.check(LIBRARY.c.tj_run(self.runtime.handle, b"chunk_indices", ctypes.byref(args), None)))


if __name__ == "__main__":
    unittest.main()
