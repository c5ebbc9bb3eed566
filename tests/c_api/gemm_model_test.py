"""Protects matrix products from a foreign language: the CPU model through the C ABI against Python's own arithmetic, with a
bias, an addend, an activation and a transposed operand; what is prepared by sizes alone. Standard library only."""
import ctypes
import math
import os
import random
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import binding as tj

CPU0 = tj.Device(tj.CPU, 0)
LIBRARY = tj.Library()
FORMATS = {tj.F16: "e", tj.F32: "f", tj.E4M3: "B"}  # e4m3: its bytes


def from_e4m3(byte):
    """The value of one that is no NaN."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    size = mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -size if byte & 0x80 else size


class Matrix:
    """Rows (or columns) that begin at multiples of 16 bytes, in aligned memory; NaN between and around them."""

    def __init__(self, dtype, rows, columns, transposed=False):
        self.dtype, self.rows, self.columns, self.item = dtype, rows, columns, tj.ELEMENT_BYTES[dtype]
        inner, outer = (rows, columns) if transposed else (columns, rows)
        pitch = -(-inner * self.item // 16) * 16 // self.item
        self.strides = [1, pitch] if transposed else [pitch, 1]
        self.buffer = ctypes.create_string_buffer(b"\xff" * (outer * pitch * self.item + 256))
        self.start = -ctypes.addressof(self.buffer) % 256

    def place(self, i, j):
        return self.start + self.item * (i * self.strides[0] + j * self.strides[1])

    def fill(self, make):
        for i in range(self.rows):
            for j in range(self.columns):
                struct.pack_into("<" + FORMATS[self.dtype], self.buffer, self.place(i, j), make())
        return self

    def at(self, i, j):
        return struct.unpack_from("<" + FORMATS[self.dtype], self.buffer, self.place(i, j))[0]

    def view(self):
        return tj.tensor(ctypes.addressof(self.buffer) + self.start, CPU0, self.dtype, [self.rows, self.columns], self.strides)


class Model(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.runtime = tj.Runtime(LIBRARY, cache_dir=self.folder.name + "/cache", target="model:sm_90a")

    def tearDown(self):
        self.runtime.close()
        self.folder.cleanup()

    def test_against_python(self):
        m, n, k = 37, 45, 70
        seed = random.SystemRandom().getrandbits(32)
        print(f"seed {seed}")
        generator = random.Random(seed)

        def normal(dtype, rows, columns, transposed=False):
            return Matrix(dtype, rows, columns, transposed).fill(lambda: generator.gauss(0, 1))

        a, b, c, bias = normal(tj.F16, m, k), normal(tj.F16, n, k, True), normal(tj.F32, m, n), normal(tj.F32, 1, n)
        d = Matrix(tj.F32, m, n)
        row = bias.view()
        row.rank, row.shape[0], row.strides[0] = 1, n, 1
        self.runtime.gemm(a.view(), b.view(), d.view(), c=c.view(), bias=row, alpha=0.5, beta=-2.0, activation=tj.GELU)
        difference = norm = 0.0
        for i in range(m):
            for j in range(n):
                x = 0.5 * sum(a.at(i, p) * b.at(j, p) for p in range(k)) - 2.0 * c.at(i, j) + bias.at(0, j)
                wanted = 0.5 * x * (1 + math.erf(x / math.sqrt(2)))
                difference += (d.at(i, j) - wanted) ** 2
                norm += wanted ** 2
        self.assertLessEqual(math.sqrt(difference / norm), 1e-5)

    def test_e4m3_with_scales(self):
        m, n, k = 19, 35, 150
        seed = random.SystemRandom().getrandbits(32)
        print(f"seed {seed}")
        generator = random.Random(seed)
        a, b = (Matrix(tj.E4M3, rows, k).fill(lambda: generator.choice([0, 0x80]) | generator.randint(0x20, 0x48)) for rows in (m, n))
        scales, d = Matrix(tj.F32, 1, 2).fill(lambda: generator.uniform(0.5, 2)), Matrix(tj.F32, m, n)
        first, second = scales.view(), scales.view()
        first.rank, first.shape[0], first.strides[0] = 1, 1, 1
        second.rank, second.data = 0, second.data + 4
        self.runtime.gemm(a.view(), b.view(), d.view(), alpha=0.5, scale_a=first, scale_b=second)
        factor = 0.5 * scales.at(0, 0) * scales.at(0, 1)
        difference = norm = 0.0
        for i in range(m):
            for j in range(n):
                wanted = factor * sum(from_e4m3(a.at(i, p)) * from_e4m3(b.at(j, p)) for p in range(k))
                difference += (d.at(i, j) - wanted) ** 2
                norm += wanted ** 2
        self.assertLessEqual(math.sqrt(difference / norm), 3e-4)
        with self.assertRaises(tj.TilejitError) as caught:
            self.runtime.gemm(Matrix(tj.F16, 8, 16).view(), Matrix(tj.F16, 8, 16).view(), Matrix(tj.F16, 8, 8).view(), scale_a=first)
        self.assertIn("scale_a is given with a.dtype f16", str(caught.exception))

    def test_prepared_by_sizes(self):
        report = self.runtime.prepare(CPU0, op=b"gemm", m=100, n=200, k=300, out=tj.F32, bias=True)
        self.assertEqual(report.origin, tj.COMPILED)
        self.assertTrue(report.name.startswith(b"gemm_f16_f32_kk_"), report.name)
        self.assertEqual(self.runtime.prepare(CPU0, op=b"gemm", m=100, n=200, k=300, batch=1, out=tj.F32, bias=True).origin, tj.FROM_MEMORY)
        rung = self.runtime.prepare(CPU0, op=b"gemm", m=100, n=200, k=300, rung=4)
        self.assertTrue(rung.name.endswith(b"_v4"), rung.name)

    def refused(self, *parts, status=tj.INVALID_ARGUMENT, call):
        with self.assertRaises(tj.TilejitError) as caught:
            call()
        self.assertEqual(caught.exception.status, status, caught.exception)
        self.assertEqual(caught.exception.stage, "argument")
        for part in parts:
            self.assertIn(part, caught.exception.message)

    def test_gate(self):
        generator = random.Random(5)
        a, b = (Matrix(tj.F16, rows, 40).fill(lambda: generator.gauss(0, 1)) for rows in (9, 24))
        for interleaved in (0, 1):
            d = Matrix(tj.F32, 9, 12)
            self.runtime.gemm(a.view(), b.view(), d.view(), gate=tj.RELU, gate_interleaved=interleaved)
            for i in range(9):
                for j in range(12):
                    gate, other = (sum(a.at(i, p) * b.at(row, p) for p in range(40)) for row in ((2 * j, 2 * j + 1) if interleaved else (j, 12 + j)))
                    self.assertAlmostEqual(d.at(i, j), max(gate, 0.0) * other, delta=1e-3 * (1 + abs(gate * other)))
        self.refused("args.gate is 5", "4 (gelu_tanh)", call=lambda: self.runtime.gemm(a.view(), b.view(), d.view(), gate=5))

    def test_an_end_of_ones_own(self):
        a, b, d = Matrix(tj.F16, 5, 16).fill(lambda: 0.5), Matrix(tj.F16, 6, 16).fill(lambda: -1.0), Matrix(tj.F32, 5, 6)
        numbers = (ctypes.c_float * 3)(10, 20, 30)
        given = tj.tensor(ctypes.addressof(numbers), CPU0, tj.F32, [3])
        self.runtime.gemm(a.view(), b.view(), d.view(), end_text="return value * params.f32(column) + row;", end_params=given)
        for i in range(5):
            for j in range(6):  # a place beyond the last number counts as it
                self.assertEqual(d.at(i, j), -8.0 * numbers[min(j, 2)] + i)
        self.refused("gemm: end_params is absent", call=lambda: self.runtime.gemm(a.view(), b.view(), d.view(), end_text="return params.f32(0);"))

    def test_refusals(self):
        a, b, d = Matrix(tj.F16, 8, 16), Matrix(tj.F16, 24, 16), Matrix(tj.F16, 8, 24)
        gemm = self.runtime.gemm
        self.refused("gemm: beta is 1", "c is absent", call=lambda: gemm(a.view(), b.view(), d.view(), beta=1.0))
        self.refused("args.activation is 5", "4 (gelu_tanh)", call=lambda: gemm(a.view(), b.view(), d.view(), activation=5))
        self.refused("gemm: b.shape[1] (K) is 24", "allowed: 16", call=lambda: gemm(a.view(), d.view(), Matrix(tj.F16, 8, 8).view()))
        self.refused("--m is 'no'", "number", call=lambda: self.runtime.prepare(CPU0, op=b"gemm", m="no", n=1, k=1))
        self.refused("gemm: rung is 11", "1 (v1) to 10 (v10)", call=lambda: gemm(a.view(), b.view(), d.view(), rung=11))
        self.refused("gemm: k is 0", call=lambda: self.runtime.prepare(CPU0, op=b"gemm", m=1, n=1))

    def test_ladders_and_reserved_fields(self):
        """A field that means nothing yet is 0, and only ops with a ladder have rungs: else a later version could not give them a meaning."""
        a, b, d = (Matrix(tj.F16, 8, 8).fill(lambda: 1.0) for _ in range(3))
        views = [ctypes.pointer(matrix.view()) for matrix in (a, b, d)]
        args = tj.GemmArgs(a=views[0], b=views[1], d=views[2], alpha=1.0)

        def run(op, rung=4):
            LIBRARY.check(LIBRARY.c.tj_run_rung(self.runtime.handle, op, ctypes.byref(args), rung, None))

        run(b"gemm")
        self.assertEqual(d.at(3, 5), 8.0)
        lists = [ctypes.pointer(tj.tensor(matrix.view().data, CPU0, tj.I32, shape)) for matrix, shape in ((a, [2]), (b, [2, 2]), (d, [1]))]
        without = tj.ChunkIndicesArgs(cu_seqlens=lists[0], chunk_indices=lists[1], total_chunks=lists[2])
        self.refused("rung is 4 and op is 'chunk_indices', which has no ladder; allowed: fmha, gemm", status=tj.UNSUPPORTED,
                     call=lambda: LIBRARY.check(LIBRARY.c.tj_run_rung(self.runtime.handle, b"chunk_indices", ctypes.byref(without), 4, None)))
        self.refused("op is null", "\"fmha\"", call=lambda: run(None))
        self.refused("--rung means nothing to chunk_indices", call=lambda: self.runtime.prepare(CPU0, op=b"chunk_indices", rung=1))
        args.max_sms = -1
        for call in (lambda: run(b"gemm"), lambda: LIBRARY.check(LIBRARY.c.tj_run(self.runtime.handle, b"gemm", ctypes.byref(args), None))):
            self.refused("gemm: max_sms is -1; allowed: 0, for all multiprocessors, or 1 and more", call=call)
        without.reserved = 1
        self.refused("args.reserved is 1; allowed: 0", status=tj.UNSUPPORTED,
                     call=lambda: LIBRARY.check(LIBRARY.c.tj_run(self.runtime.handle, b"chunk_indices", ctypes.byref(without), None)))


if __name__ == "__main__":
    unittest.main()
