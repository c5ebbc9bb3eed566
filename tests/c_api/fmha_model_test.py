"""Protects the whole path from a foreign language: attention on the CPU model through the C ABI against f64, grouped
heads, odd lengths, both layouts, the log-sum-exp, and the second runtime's disk hit. Standard library only."""
import ctypes
import json
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
HEADS, KV_HEADS, SEQ_Q, SEQ_K, DIM = 2, 1, 37, 70, 64
FORMATS = {tj.F16: "e", tj.F32: "f"}


class Array:
    """[1, H, S, D] (or [1, H, S]) in aligned memory; `transposed` lays it out as [1, S, H, D]."""

    def __init__(self, dtype, shape, transposed=False):
        self.dtype, self.shape, self.item = dtype, list(shape), tj.ELEMENT_BYTES[dtype]
        order = [0, 2, 1, 3] if transposed else range(len(shape))
        self.strides, step = [0] * len(shape), 1
        for axis in reversed(order):
            self.strides[axis], step = step, step * shape[axis]
        self.buffer = ctypes.create_string_buffer(step * self.item + 256)
        self.start = -ctypes.addressof(self.buffer) % 256

    def fill(self, make):
        code, step = "<" + FORMATS[self.dtype], self.item
        for at in range(self.start, self.start + len(self.buffer) // step * step - 256, step):
            struct.pack_into(code, self.buffer, at, make())
        return self

    def row(self, head, position):
        """The D values of a row (contiguous in both layouts); for rank 3 the one value."""
        offset = self.start + self.item * (head * self.strides[1] + position * self.strides[2])
        if len(self.shape) == 3:
            return struct.unpack_from("<" + FORMATS[self.dtype], self.buffer, offset)[0]
        return struct.unpack_from(f"<{self.shape[3]}{FORMATS[self.dtype]}", self.buffer, offset)

    def view(self):
        return tj.tensor(ctypes.addressof(self.buffer) + self.start, CPU0, self.dtype, self.shape, self.strides)


def reference_row(q, keys, values):
    """o and log-sum-exp of one query over the keys that it sees."""
    scores = [sum(a * b for a, b in zip(q, key)) / math.sqrt(DIM) for key in keys]
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    total = sum(weights)
    return [sum(w * value[d] for w, value in zip(weights, values)) / total for d in range(DIM)], top + math.log(total)


class Model(unittest.TestCase):
    def run_case(self, runtime, causal, transposed, rung=None):
        seed = random.SystemRandom().getrandbits(32)
        print(f"seed {seed}, causal {causal}, transposed {transposed}")
        generator = random.Random(seed)

        def normal(heads, length):
            return Array(tj.F16, (1, heads, length, DIM), transposed).fill(lambda: generator.gauss(0, 1))

        q, k, v = normal(HEADS, SEQ_Q), normal(KV_HEADS, SEQ_K), normal(KV_HEADS, SEQ_K)
        o = Array(tj.F16, (1, HEADS, SEQ_Q, DIM), transposed).fill(lambda: math.nan)
        lse = Array(tj.F32, (1, HEADS, SEQ_Q)).fill(lambda: math.nan)
        runtime.fmha(q.view(), k.view(), v.view(), o.view(), lse=lse.view(), causal=causal, rung=rung)

        keys, values = ([t.row(0, j) for j in range(SEQ_K)] for t in (k, v))
        difference = norm = 0.0
        for head in range(HEADS):
            for row in range(SEQ_Q):
                seen = row + SEQ_K - SEQ_Q + 1 if causal else SEQ_K
                wanted, wanted_lse = reference_row(q.row(head, row), keys[:seen], values[:seen])
                difference += sum((a - b) ** 2 for a, b in zip(o.row(head, row), wanted))
                norm += sum(b * b for b in wanted)
                self.assertLessEqual(abs(lse.row(head, row) - wanted_lse), 1e-3)
        self.assertLessEqual(math.sqrt(difference / norm), 6e-4)

    def test_against_f64_and_cached(self):
        with tempfile.TemporaryDirectory() as folder:
            cache = os.path.join(folder, "cache")
            with tj.Runtime(LIBRARY, cache_dir=cache, target="model:sm_90a") as runtime:
                self.run_case(runtime, causal=True, transposed=False)
                self.run_case(runtime, causal=True, transposed=True)
                report = runtime.prepare(CPU0, head_dim=DIM, causal=True)  # the kernel for many tiles is made as well; this report is the other's
                self.assertEqual(report.origin, tj.FROM_MEMORY)
                self.assertEqual(report.target, b"model:sm_90a")
                schedule = json.loads(report.schedule_json)
                self.assertGreater(schedule["ii"], 0)
                self.assertGreaterEqual(schedule["length"], schedule["ii"])
            with tj.Runtime(LIBRARY, cache_dir=cache, target="model:sm_90a") as runtime:
                self.assertEqual(runtime.prepare(CPU0, head_dim=DIM, causal=True).origin, tj.FROM_DISK)
                self.run_case(runtime, causal=True, transposed=False)

    def test_sizes_of_0(self):
        """Tensors without elements have null for an address."""
        def empty(heads, rows):
            return tj.tensor(None, CPU0, tj.F16, [1, heads, rows, DIM], [0, 0, 0, 0])

        q, k = Array(tj.F16, (1, HEADS, SEQ_Q, DIM)).fill(lambda: 1), empty(KV_HEADS, 0)
        o, lse = Array(tj.F16, (1, HEADS, SEQ_Q, DIM)).fill(lambda: math.nan), Array(tj.F32, (1, HEADS, SEQ_Q)).fill(lambda: math.nan)
        with tempfile.TemporaryDirectory() as folder, tj.Runtime(LIBRARY, cache_dir=folder, target="model:sm_90a") as runtime:
            runtime.fmha(empty(HEADS, 0), k, k, empty(HEADS, 0))
            self.assertEqual(os.listdir(folder), [])
            runtime.fmha(q.view(), k, k, o.view(), lse=lse.view())
        for head in range(HEADS):
            for row in range(SEQ_Q):
                self.assertEqual((set(o.row(head, row)), lse.row(head, row)), ({0.0}, -math.inf))

    def test_rungs(self):
        with tempfile.TemporaryDirectory() as folder, tj.Runtime(LIBRARY, cache_dir=folder, target="model:sm_120a") as runtime:
            report = runtime.prepare(CPU0, head_dim=DIM, causal=True, rung=4)
            self.assertEqual(report.name, b"fmha_f16_d64_causal_latency")
            self.run_case(runtime, causal=True, transposed=False, rung=4)
            self.assertEqual(runtime.prepare(CPU0, head_dim=DIM, causal=True, rung=4).origin, tj.FROM_MEMORY)
            with self.assertRaises(tj.TilejitError) as wrong:
                runtime.prepare(CPU0, head_dim=DIM, rung=7)
            self.assertIn("--rung is '7'; allowed are none, 1, 2", wrong.exception.message)


if __name__ == "__main__":
    unittest.main()
