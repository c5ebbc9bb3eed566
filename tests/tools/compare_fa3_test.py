"""Protects the binding of tests/gpu/compare.py to a library of FlashAttention-3's forward: the interface that README.md defines compiles, every argument
arrives as it was given, and a library without the function, or one that refuses, is named."""
import ctypes
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ["TJ_TEST_REPO_DIR"]
sys.path[:0] = [os.path.join(ROOT, "tests", "support"), os.path.join(ROOT, "tests", "gpu")]
import fa3_peer  # noqa: E402
import skips  # noqa: E402

COMPILER = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")

# Attention as the interface says it, on floats in host memory under the name of fp16; it counts its calls in the workspace.
FAKE = r"""
#include <math.h>
#include <stdio.h>
#include "fa3_forward.h"
static char reason[128];
const char* fa3_last_error(void) { return reason; }
int fa3_forward(const struct fa3_forward_args* a, void* stream) {
  if (a->size != sizeof(struct fa3_forward_args) || a->workspace_bytes < (1 << 20) || a->dtype != 0) {
    snprintf(reason, sizeof reason, "size %d, dtype %d", (int)a->size, a->dtype);
    return 3;
  }
  ++*(int*)a->workspace;
  *(long*)stream += 1;
  for (int64_t b = 0; b < a->batch; ++b)
    for (int64_t h = 0; h < a->heads; ++h)
      for (int64_t i = 0; i < a->seq_q; ++i) {
        const int64_t group = h / (a->heads / a->kv_heads), end = a->causal ? i + a->seq_k - a->seq_q + 1 : a->seq_k;
        const float* q = (const float*)a->q + b * a->q_strides[0] + i * a->q_strides[1] + h * a->q_strides[2];
        float* o = (float*)a->o + b * a->o_strides[0] + i * a->o_strides[1] + h * a->o_strides[2];
        double total = 0;
        for (int d = 0; d < a->head_dim; ++d) o[d] = 0;
        for (int64_t j = 0; j < end; ++j) {
          const float* k = (const float*)a->k + b * a->k_strides[0] + j * a->k_strides[1] + group * a->k_strides[2];
          const float* v = (const float*)a->v + b * a->v_strides[0] + j * a->v_strides[1] + group * a->v_strides[2];
          double score = 0;
          for (int d = 0; d < a->head_dim; ++d) score += q[d] * k[d];
          total += exp(a->scale * score);
          for (int d = 0; d < a->head_dim; ++d) o[d] += exp(a->scale * score) * v[d];
        }
        for (int d = 0; d < a->head_dim; ++d) o[d] /= total;
        a->lse[(b * a->heads + h) * a->seq_q + i] = log(total);
      }
  return 0;
}
"""


class Array:
    """A view of floats in host memory with what the binding asks of a tensor."""

    def __init__(self, shape, strides, values=None):
        self.shape, self.strides = shape, strides
        size = 1 + sum((n - 1) * s for n, s in zip(shape, strides))
        self.memory = (ctypes.c_float * size)(*(values or []))

    def data_ptr(self):
        return ctypes.addressof(self.memory)

    def stride(self):
        return self.strides

    def __getitem__(self, at):
        return self.memory[sum(i * s for i, s in zip(at, self.strides))]


def dense(shape, order):
    """Strides of a shape whose dimensions lie in memory in this order, outermost first."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return strides


@unittest.skipUnless(COMPILER, "no C compiler (Debian: gcc)")
class Fa3(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tilejit_fa3_")
        with open(os.path.join(ROOT, "tests", "gpu", "README.md"), encoding="utf-8") as file:
            interface = re.search(r"```c\n(.*?)```", file.read(), re.S).group(1)
        cls.write("fa3_forward.h", interface)
        cls.library = cls.build("fake", FAKE)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def write(cls, name, text):
        path = os.path.join(cls.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    @classmethod
    def build(cls, name, text):
        library = os.path.join(cls.folder.name, f"lib{name}.so")
        subprocess.run([COMPILER, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, cls.write(f"{name}.c", text), "-lm"], check=True)
        return library

    def problem(self, order, seq_q, seq_k):
        """q, k, v, o of 2 batches, 4 heads of 2, head dim 8, lying in this order; values that tell every element from the others."""
        tensors = []
        for index, (heads, length) in enumerate(((4, seq_q), (2, seq_k), (2, seq_k), (4, seq_q))):
            shape = [2, heads, length, 8]
            count = 2 * heads * length * 8
            tensors.append(Array(shape, dense(shape, order), None if index == 3 else [math.sin(3.1 * i + index) for i in range(count)]))
        return tensors, Array([2, 4, seq_q], dense([2, 4, seq_q], (0, 1, 2)))

    def wanted(self, q, k, v, at, causal, scale):
        b, h, i, d = at
        end = i + k.shape[2] - q.shape[2] + 1 if causal else k.shape[2]
        weights = [math.exp(scale * sum(q[b, h, i, c] * k[b, h // 2, j, c] for c in range(8))) for j in range(end)]
        return sum(w * v[b, h // 2, j, d] for j, w in enumerate(weights)) / sum(weights), math.log(sum(weights))

    def test_every_argument_arrives(self):
        peer, workspace, stream = fa3_peer.Fa3(self.library), (ctypes.c_char * fa3_peer.WORKSPACE_BYTES)(), ctypes.c_long(5)
        memory = Array([1], [1])
        memory.data_ptr = lambda: ctypes.addressof(workspace)
        for order, seq_q, seq_k, causal, scale in (((0, 2, 1, 3), 3, 5, True, None), ((0, 1, 2, 3), 4, 2, False, 0.7)):
            (q, k, v, o), lse = self.problem(order, seq_q, seq_k)
            arguments = peer.arguments(q, k, v, o, lse, memory, fa3_peer.WORKSPACE_BYTES, causal, "f16", scale)
            peer.forward(arguments, ctypes.addressof(stream))
            for at in ((0, 0, 0, 0), (1, 3, seq_q - 1, 7), (1, 2, 1, 3), (0, 1, 2, 5)):
                value, total = self.wanted(q, k, v, at, causal, scale or 8 ** -0.5)
                self.assertAlmostEqual(o[at], value, places=5)
                self.assertAlmostEqual(lse[at[:3]], total, places=5)
        self.assertEqual((stream.value, workspace[0]), (7, b"\x02"))

    def test_a_refusal_has_its_reason(self):
        peer = fa3_peer.Fa3(self.library)
        (q, k, v, o), lse = self.problem((0, 1, 2, 3), 1, 1)
        with self.assertRaisesRegex(fa3_peer.Fa3Error, r"fa3_forward\(\) returned 3: size \d+, dtype 1"):
            peer.forward(peer.arguments(q, k, v, o, lse, lse, 8, False, "bf16"), None)
        k.strides = [1, 1, 1, 2]
        with self.assertRaisesRegex(fa3_peer.Fa3Error, "k's last stride is 2; allowed: 1"):
            peer.arguments(q, k, v, o, lse, lse, 8, False, "f16")

    def test_no_such_library(self):
        for path, said in (("/nowhere/libfa3.so", "is no file"), (self.build("empty", "int nothing;\n"), r"no function fa3_forward\(\).*README"),
                           (self.write("text.so", "no library"), "cannot be opened")):
            with self.assertRaisesRegex(fa3_peer.Fa3Error, said):
                fa3_peer.Fa3(path)

    def test_a_python_file(self):
        peer = fa3_peer.opened(self.write("peer.py", "def fa3_forward(q, k, v, o, causal, scale):\n    if causal:\n        raise ValueError('causal is True')\n"
                                          "    o.append((q.shape, k.shape, v.shape, scale))\n"))

        class Turned(list):
            def __init__(self, *shape):
                self.shape = shape

            def transpose(self, a, b):
                self.turned = a, b
                return self
        q, k, v, o = (Turned(1, 4, n, 16) for n in (3, 5, 5, 3))
        peer.forward(peer.arguments(q, k, v, o, None, None, 0, 0, "bf16"), None)
        self.assertEqual(o, [((1, 4, 3, 16), (1, 4, 5, 16), (1, 4, 5, 16), 0.25)])
        self.assertEqual([x.turned for x in (q, k, v, o)], [(1, 2)] * 4)
        with self.assertRaisesRegex(fa3_peer.Fa3Error, r"fa3_forward\(\) refuses: causal is True"):
            peer.forward(peer.arguments(q, k, v, o, None, None, 0, 1, "bf16"), None)
        for path, said in (("/nowhere/a.py", "is no file"), (self.write("none.py", ""), r"no function fa3_forward\(\).*README"),
                           (self.write("bad.py", "import nothing_of_this_name\n"), "cannot be run: ModuleNotFoundError")):
            with self.assertRaisesRegex(fa3_peer.Fa3Error, said):
                fa3_peer.opened(path)

    def test_a_library_need_not_say_why(self):
        silent = self.build("silent", '#include "fa3_forward.h"\nint fa3_forward(const struct fa3_forward_args* a, void* s) { (void)a; (void)s; return 9; }\n')
        (q, k, v, o), lse = self.problem((0, 1, 2, 3), 1, 1)
        peer = fa3_peer.Fa3(silent)
        with self.assertRaisesRegex(fa3_peer.Fa3Error, r"returned 9$"):
            peer.forward(peer.arguments(q, k, v, o, lse, lse, 8, False, "f16"), None)


if __name__ == "__main__":
    skips.main()
