"""Protects chunk output from a foreign language: the CPU model through the C ABI, lists made by it, its preparation, its refusals.
Standard library only."""
import ctypes
import os
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import binding as tj

CPU0 = tj.Device(tj.CPU, 0)
LIBRARY = tj.Library()
DIM = 128
FORMATS = {tj.BF16: 2, tj.F32: 4, tj.I32: 4}


def to_bf16(value):
    """The bf16 of a value that it holds exactly."""
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def from_bf16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


class Memory:
    """Dense elements at a multiple of 256 bytes; bf16 as bits."""

    def __init__(self, dtype, shape, values=None, fill=0):
        self.dtype, self.shape = dtype, shape
        count = 1
        for size in shape:
            count *= size
        self.buffer = ctypes.create_string_buffer(FORMATS[dtype] * count + 256)
        self.address = ctypes.addressof(self.buffer) + -ctypes.addressof(self.buffer) % 256
        kind = {tj.BF16: ctypes.c_uint16, tj.F32: ctypes.c_float, tj.I32: ctypes.c_int32}[dtype]
        self.values = (kind * count).from_address(self.address)
        self.values[:] = list(values) if values is not None else [fill] * count

    def view(self):
        return tj.tensor(self.address, CPU0, self.dtype, self.shape)


class Model(unittest.TestCase):
    """q is the unit vector of column t of token t, k is 0: o of token t is e^g h's column t."""
    LENGTHS, HEADS = [2, 0, 1], 2

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.runtime = tj.Runtime(LIBRARY, cache_dir=self.folder.name + "/cache", target="model:sm_90a")
        tokens, chunks = sum(self.LENGTHS), 2
        self.q, self.k = Memory(tj.BF16, [tokens, 1, DIM]), Memory(tj.BF16, [tokens, 1, DIM])
        for token in range(tokens):
            self.q.values[token * DIM + token] = to_bf16(1.0)
        self.v_new = Memory(tj.BF16, [chunks * 64, self.HEADS, DIM], fill=to_bf16(1.0))
        self.h = Memory(tj.BF16, [chunks, self.HEADS, DIM, DIM], [to_bf16(float((c + 1) * (s + 1) * (v % 8) * (k + 1))) for c in range(chunks)
                                                                  for s in range(self.HEADS) for v in range(DIM) for k in range(DIM)])
        self.o = Memory(tj.BF16, [tokens, self.HEADS, DIM], fill=0xffff)

    def tearDown(self):
        self.runtime.close()
        self.folder.cleanup()

    def tensors(self):
        return [memory.view() for memory in (self.q, self.k, self.v_new, self.h, self.o)]

    def row(self, token, head):
        return [from_bf16(bits) for bits in self.o.values[(token * self.HEADS + head) * DIM:][:DIM]]

    def check(self, wanted, chunks=(0, 0, 1)):
        for token, chunk in enumerate(chunks):
            for head in range(self.HEADS):
                found = self.row(token, head)
                self.assertEqual(found, [wanted(chunk, head, v, token) for v in range(DIM)], (token, head))

    def test_lengths_listed_on_the_device(self):
        ends, pairs, total = Memory(tj.I32, [4], [0, 2, 2, 3]), Memory(tj.I32, [4, 2], fill=-1), Memory(tj.I32, [1], fill=-1)
        gates = Memory(tj.F32, [3, self.HEADS])
        lists = [memory.view() for memory in (ends, pairs, total)]
        self.runtime.chunk_indices(*lists)
        self.runtime.chunk_o(*self.tensors(), g_cu=gates.view(), cu_seqlens=lists[0], chunk_indices=lists[1], total_chunks=lists[2], scale=0.5)
        self.check(lambda c, s, v, t: 0.5 * (c + 1) * (s + 1) * (v % 8) * (t + 1))

    def test_equal_lengths(self):
        """No list is given, and has_scale and h_transposed count."""
        self.runtime.chunk_o(*self.tensors(), seq_length=3, scale=1.0, h_transposed=True, num_stages=1, evict_first=True)
        self.check(lambda c, s, v, t: (s + 1) * (t % 8) * (v + 1), chunks=(0, 0, 0))
        self.runtime.chunk_o(*self.tensors(), seq_length=3)
        for head in range(self.HEADS):
            for v, found in enumerate(self.row(2, head)):
                wanted = (head + 1) * (v % 8) * 3 * DIM ** -0.5
                self.assertLessEqual(abs(found - wanted), wanted / 256, (head, v))

    def test_prepared(self):
        report = self.runtime.prepare(CPU0, op=b"chunk_o")
        self.assertEqual((report.name, report.origin), (b"chunk_o_r2", tj.COMPILED))
        other = self.runtime.prepare(CPU0, op=b"chunk_o", v_heads_per_head=9, ungated=True, equal_lengths=True, h_transposed=True)
        self.assertEqual(other.name, b"chunk_o_r3_ungated_equal_kv")

    def refused(self, *parts, status=tj.INVALID_ARGUMENT, **more):
        with self.assertRaises(tj.TilejitError) as caught:
            self.runtime.chunk_o(*self.tensors(), **more)
        self.assertEqual((caught.exception.status, caught.exception.stage), (status, "argument"), caught.exception)
        for part in parts:
            self.assertIn(part, caught.exception.message)

    def test_refusals(self):
        self.refused("chunk_o: seq_length is 0", "1 to 3")
        self.refused("chunk_indices is absent", "together", cu_seqlens=Memory(tj.I32, [4], [0, 2, 2, 3]).view())
        self.refused("scale is nan", seq_length=3, scale=float("nan"))
        self.refused("g_cu.shape[1] (Hv) is 1", seq_length=3, g_cu=Memory(tj.F32, [3, 1]).view())
        self.refused("chunk_o: max_sms is -1; allowed: 0, for all multiprocessors, or 1 and more", seq_length=3, max_sms=-1)
        self.refused("chunk_o: num_stages is 5; allowed: 0 (as many as fit), and of 1 to 4 those that fit", seq_length=3, num_stages=5)
        args = tj.ChunkIndicesArgs(reserved=1)
        self.assertEqual(LIBRARY.c.tj_run(self.runtime.handle, b"chunk_indices", ctypes.byref(args), None), tj.UNSUPPORTED)
        self.assertIn(b"args.reserved is 1", LIBRARY.c.tj_last_error())
        args = tj.ChunkOArgs()
        self.assertEqual(LIBRARY.c.tj_run(self.runtime.handle, b"chunk_o", ctypes.byref(args), None), tj.INVALID_ARGUMENT)
        self.assertIn(b"q is null", LIBRARY.c.tj_last_error())


if __name__ == "__main__":
    unittest.main()
