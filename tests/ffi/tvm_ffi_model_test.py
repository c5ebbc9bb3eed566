"""Protects the functions for tvm-ffi: each op has one, and results on the CPU model are right with numpy's arrays. Results that nobody
gave are allocated. Every wrong argument is an error with its name. No call crashes, whatever its tags say."""
import ctypes
import doctest
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ["TJ_TEST_REPO_DIR"]
LIBRARY = os.environ["TJ_TEST_LIBRARY"]
sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
sys.path.append(os.path.join(ROOT, ".deps", "tvm_ffi"))  # tests/setup.sh puts it there
import here  # noqa: E402

try:
    import tvm_ffi
except Exception:  # none, or one for another Python
    tvm_ffi = None
if here.numpy:
    import numpy as np
OPS = ("fmha", "gemm", "chunk_indices", "chunk_o")
ALONE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.tj_last_error.restype = ctypes.c_char_p
print(getattr(library, "__tvm_ffi_fmha")(None, None, 0, None), library.tj_last_error().decode())
"""
ON_A_GPU = """
import ctypes, os, sys
fakes = os.path.join(os.path.dirname(sys.argv[1]), "..", "tests", "fakes")
driver = ctypes.CDLL(os.path.join(fakes, "libcuda.so.1"))  # stands in for a driver
ctypes.CDLL(os.path.join(fakes, "libnvrtc.so.1"))
import tvm_ffi
tvm, library, log = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi()), ctypes.CDLL(sys.argv[1]), driver.fake_cuda_log
log.restype = ctypes.c_char_p
context, stream, before = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == driver.cuCtxPushCurrent_v2(context) == 0
assert driver.cuStreamCreate(ctypes.byref(stream), 0) == tvm.TVMFFIEnvSetStream(2, 0, stream, ctypes.byref(before)) == 0
class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int32), ("id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]
class Any(ctypes.Structure):
    _fields_ = [("tag", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", ctypes.c_void_p)]
shape = (ctypes.c_int64 * 4)(1, 2, 256, 64)
tensors = [DLTensor((i + 1) << 32, 2, 0, 4, 2, 16, 1, ctypes.addressof(shape), None, 0) for i in range(4)]
values = (Any * 4)(*(Any(7, 0, ctypes.addressof(each)) for each in tensors))
print(getattr(library, "__tvm_ffi_fmha")(None, values, 4, ctypes.byref(Any())))
for each in tensors:
    each.type = 13
print(getattr(library, "__tvm_ffi_fmha")(None, values, 4, ctypes.byref(Any())))
for each in tensors:
    each.type = 2
tensors[1].id = 7
print(getattr(library, "__tvm_ffi_fmha")(None, values, 4, ctypes.byref(Any())))
tensors[1].type = 4
print(getattr(library, "__tvm_ffi_fmha")(None, values, 4, ctypes.byref(Any())))
library.tj_last_error.restype = ctypes.c_char_p
print(library.tj_last_error().decode())
print(*[line for line in log().decode().splitlines() if line.startswith("cuLaunch")], sep="\\n")
"""


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Any(ctypes.Structure):
    _fields_ = [("tag", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", ctypes.c_int64)]


def softmax(x):
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@unittest.skipUnless(hasattr(ctypes.CDLL(LIBRARY), "__tvm_ffi_fmha"), "the build found no header of tvm-ffi")
class Alone(unittest.TestCase):
    def test_without_tvm_ffi(self):
        """The functions are there, and say what is missing."""
        said = subprocess.run([sys.executable, "-c", ALONE, LIBRARY], capture_output=True, text=True, check=True).stdout
        self.assertRegex(said, r"^-1 libtvm_ffi.so is not loaded in this process, and TVMFFI\w+ is nowhere else; import tvm_ffi, or link libtvm_ffi")


@unittest.skipUnless(hasattr(ctypes.CDLL(LIBRARY), "__tvm_ffi_fmha"), "the build found no header of tvm-ffi")
@unittest.skipUnless(tvm_ffi, "no tvm-ffi for this Python")
@unittest.skipUnless(here.numpy, here.NO_NUMPY)
class Functions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.module = tvm_ffi.load_module(os.path.join(os.path.dirname(LIBRARY), "libtilejit.so"))
        cls.q = np.random.default_rng(1).standard_normal((1, 2, 70, 64)).astype(np.float16)

    def refused(self, kind, pattern, op, *arguments):
        with self.assertRaisesRegex(kind, f"^tilejit: argument: {op}: .*{pattern}") as caught:
            self.module[op](*arguments)
        self.assertIs(kind, type(caught.exception))

    def test_each_op_has_one(self):
        with open(os.path.join(ROOT, "include", "tilejit", "tilejit.h"), encoding="utf-8") as header:
            structures = set(re.findall(r"^} tj_(\w+)_args;", header.read(), re.M))
        self.assertEqual(set(OPS), structures - {"merge_states", "chunk_cumsum", "chunk_solve", "chunk_wu", "chunk_states"})  # its README says that it has none
        for op in OPS:
            self.assertTrue(self.module.implements_function(op), op)

    def test_attention(self):
        q = self.q
        o, lse = np.empty_like(q), np.empty(q.shape[:3], np.float32)
        self.assertIsNone(self.module.fmha(q, q, q, o, lse, True, 0.25))
        wide = q.astype(float)
        scores = np.where(np.tri(70, dtype=bool), wide @ wide.swapaxes(-1, -2) / 4, -np.inf)
        self.assertLess(np.abs(softmax(scores) @ wide - o).max(), 3e-3)
        self.assertLess(np.abs(np.log(np.exp(scores).sum(-1)) - lse).max(), 1e-3)
        heads_inside = np.empty((1, 70, 2, 64), np.float16).transpose(0, 2, 1, 3)
        self.module.fmha(tvm_ffi.from_dlpack(q), q, q, heads_inside)  # the last ones left out, memory in another order
        self.assertLess(np.abs(softmax(wide @ wide.swapaxes(-1, -2) / 8) @ wide - heads_inside).max(), 3e-3)

    def test_products(self):
        a, b = self.q[0, 0], self.q[0, 1]
        d, bias = np.empty((70, 70), np.float32), np.linspace(-9, 9, 70, dtype=np.float32)
        self.module.gemm(a, b, d, None, bias, 2, 0.0, "relu")
        self.assertLess(np.abs(np.maximum(2 * a.astype(float) @ b.astype(float).T + bias, 0) - d).max(), 1e-2)
        c = d.copy()
        self.module.gemm(a, b, d, c, None, 1.0, 1, 0)
        self.assertLess(np.abs(a.astype(float) @ b.astype(float).T + c - d).max(), 1e-2)

    def test_texts_of_device_code(self):
        q, o = self.q, np.empty_like(self.q)
        wide, distance = self.q.astype(float), np.array([3], np.int32)
        none = [None] * 6
        self.module.fmha(q, q, q, o, None, False, None, -1, -1, False, 0.0, *none, None, "return score * 0.5f;",
                         "return k <= q && q - k < params.i32(0);", "k0 = max(0, q0 - 2); k1 = q1;", distance)
        seen = np.tri(70, dtype=bool) & ~np.tri(70, k=-3, dtype=bool)
        scores = np.where(seen, wide @ wide.swapaxes(-1, -2) / 16, -np.inf)
        self.assertLess(np.abs(softmax(scores) @ wide - o).max(), 3e-3)
        bias = np.where(seen, 0, -np.inf).astype(np.float32)[None, None]
        again = np.empty_like(o)
        self.module.fmha(q, q, q, again, None, False, 1 / 16, -1, -1, False, 0.0, *none, bias)
        self.assertLess(np.abs(again.astype(float) - o).max(), 3e-3)
        a, d, factors = q[0, 0], np.empty((70, 70), np.float32), np.linspace(1, 2, 70, dtype=np.float32)
        self.module.gemm(a, a, d, None, None, 1.0, 0.0, "none", None, None, "none", False, None, False, "return value * params.f32(column);", factors)
        self.assertLess(np.abs(a.astype(float) @ a.astype(float).T * factors - d).max(), 1e-2)
        self.refused(ValueError, "mask_mod .*brackets|mask_mod", "fmha", q, q, q, o, None, False, None, -1, -1, False, 0.0, *none, None, None, "return (k;")
        self.refused(TypeError, "score_mod is 3; allowed: a text, or None", "fmha", q, q, q, o, None, False, None, -1, -1, False, 0.0, *none, None, 3)

    def test_sizes_of_0(self):
        none, o = self.q[:, :, :0], np.full_like(self.q, np.nan)
        self.module.fmha(self.q, none, none, o)
        self.assertEqual(float(np.abs(o).max()), 0)
        self.module.fmha(none, self.q, self.q, none.copy())
        d = np.full((5, 7), np.nan, np.float32)
        self.module.gemm(np.empty((5, 0), np.float16), np.empty((7, 0), np.float16), d)
        self.assertEqual(float(np.abs(d).max()), 0)

    @unittest.skipUnless(here.ml_dtypes, here.NO_BF16)
    def test_chunks(self):
        ends = np.array([0, 65, 65, 100], np.int32)
        rows, total = np.full((5, 2), -1, np.int32), np.empty(1, np.int32)
        self.module.chunk_indices(ends, rows, total)
        self.assertEqual(rows[:total[0]].tolist(), [[0, 0], [0, 1], [2, 0]])
        ones = np.ones((128, 1, 128), here.ml_dtypes.bfloat16)
        state, o = np.zeros((2, 1, 128, 128), here.ml_dtypes.bfloat16), np.empty_like(ones)
        views = [DLTensor(x.ctypes.data - 2, 3, 0, x.ndim, 4, 16, 1, (ctypes.c_int64 * x.ndim)(*x.shape), None, 2) for x in (ones, ones, ones, state, o)]
        values = (Any * 15)(*(Any(7, 0, ctypes.addressof(view)) for view in views))  # numpy gives nobody a bf16 tensor, so the call is one of C's, with pinned memory
        values[9], values[10] = Any(1, 0, 128), Any(3, 0, int(np.float64(1 / 128).view(np.int64)))
        self.assertEqual(0, getattr(ctypes.CDLL(LIBRARY), "__tvm_ffi_chunk_o")(None, values, 11, ctypes.byref(Any())))
        self.assertEqual(o[:3, 0, 0].tolist() + o[64:66, 0, 5].tolist(), [1, 2, 3, 1, 2])
        o[:] = 0
        values[11], values[12], values[13], values[14] = Any(1, 0, 0), Any(1, 0, 0), Any(1, 0, 1), Any(1, 0, 1)  # num_stages 1, evict_first
        call, result = getattr(ctypes.CDLL(LIBRARY), "__tvm_ffi_chunk_o"), Any()
        self.assertEqual(0, call(None, values, 15, ctypes.byref(result)))
        self.assertEqual(o[:3, 0, 0].tolist() + o[64:66, 0, 5].tolist(), [1, 2, 3, 1, 2])
        with self.assertRaisesRegex(TypeError, r"seq_length is 0.25; allowed: a whole number; it is argument 10 of \(q, k, v_new, h, o, g_cu, "):
            self.module.chunk_o(*[self.q] * 9, 0.25)

    @unittest.skipUnless(os.path.isfile(os.path.join(os.path.dirname(LIBRARY), "..", "tests", "fakes", "libnvrtc.so.1")), "the build has no stand-ins for drivers")
    def test_on_a_gpu(self):
        """Work goes to tvm-ffi's stream of the device, also on managed memory. The driver and the compiler are stand-ins, so nothing is computed."""
        with tempfile.TemporaryDirectory() as folder:
            fakes = os.path.join(os.path.dirname(LIBRARY), "..", "tests", "fakes")
            os.symlink(os.path.abspath(os.path.join(fakes, "libnvrtc.so.1")), os.path.join(folder, "libnvrtc.so.13"))
            env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, ".deps", "tvm_ffi"), TJ_CACHE_DIR=os.path.join(folder, "cache"), TJ_TARGET="",
                       LD_LIBRARY_PATH=folder, TJ_LOG_LEVEL="off")
            done = subprocess.run([sys.executable, "-c", ON_A_GPU, LIBRARY], capture_output=True, text=True, env=env)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stdout, r"^0\n0\n-1\n-1\nfmha: k is on a device of DLPack's type 4; allowed: CPU .*\n(cuLaunchKernelEx grid .* in stream 1\n){2}$")

    def test_allocated_results(self):
        """By the allocator that a framework registers; here it is one of numpy's arrays."""
        kept, dropped, full = [], [], []
        drop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(dropped.append)
        Say = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)

        class Managed(ctypes.Structure):
            _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                        ("flags", ctypes.c_uint64), ("tensor", DLTensor)]

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(DLTensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p)
        def allocate(prototype, out, context, set_error):
            if full:
                Say(set_error)(context, b"MemoryError", b"no room left")
                return -1
            wanted = prototype.contents
            shape = wanted.shape[:wanted.ndim]
            memory, sizes = np.empty(shape, {16: np.float16, 32: np.float32}[wanted.bits]), (ctypes.c_int64 * 5)(*shape)
            managed = Managed(1, 0, None, ctypes.cast(drop, ctypes.c_void_p), 0, wanted)
            managed.tensor.data, managed.tensor.shape = memory.ctypes.data, sizes
            kept.append((memory, sizes, managed))
            out[0] = ctypes.addressof(managed)
            return 0

        tvm = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())
        before = ctypes.c_void_p()
        for words in ((self.q, self.q, self.q), (self.q, self.q, self.q, None, None, True)):
            self.refused(ValueError, "o is None, and tvm-ffi has no allocator for it; give o, or", "fmha", *words)
        self.assertEqual(0, tvm.TVMFFIEnvSetDLPackManagedTensorAllocator(allocate, 0, ctypes.byref(before)))
        try:
            o = self.module.fmha(self.q, self.q, self.q, None, None, True)
            self.assertEqual(o.shape, self.q.shape)
            given = np.empty_like(self.q)
            self.module.fmha(self.q, self.q, self.q, given, None, True)
            self.assertEqual(kept[0][0].tobytes(), given.tobytes())
            d = self.module.gemm(self.q[0], self.q[0, 1], None, None, np.zeros(70, np.float32))
            self.assertEqual((d.shape, str(d.dtype)), ((2, 70, 70), "float32"))
            self.refused(ValueError, "b.rank is 1; allowed: 2 to 3", "gemm", self.q[0], self.q[0, 0, 0])
            sizes = (ctypes.c_int64 * 4)(*self.q.shape)
            views = [DLTensor(self.q.ctypes.data, kind, 0, 4, 2, 16, 1, sizes, None, 0) for kind in (3, 1, 1)]  # the first one's memory is pinned
            values, made = (Any * 3)(*(Any(7, 0, ctypes.addressof(view)) for view in views)), Any()
            self.assertEqual(0, getattr(ctypes.CDLL(LIBRARY), "__tvm_ffi_fmha")(None, values, 3, ctypes.byref(made)))
            self.assertEqual(3, kept[-1][2].tensor.device_type)
            self.assertEqual(0, tvm.TVMFFIObjectDecRef(ctypes.c_void_p(made.value)))
            del o, d
            self.refused(ValueError, "k.shape|k has|k\\[", "fmha", self.q, self.q[:, :, :, :32], self.q)  # given back, as the call fails
            self.assertEqual((len(kept), sorted(dropped)), (4, sorted(ctypes.addressof(managed) for _, _, managed in kept)))
            full.append(True)
            with self.assertRaisesRegex(MemoryError, "^no room left$"):  # in the framework's own words
                self.module.fmha(self.q, self.q, self.q)
        finally:
            tvm.TVMFFIEnvSetDLPackManagedTensorAllocator(before, 0, None)

    def test_refusals(self):
        q, o = self.q, np.empty_like(self.q)
        d = np.empty((70, 70), np.float16)
        for kind, pattern, *call in (
                (TypeError, r"there are 2 arguments; allowed: 3 to 22 \(q, k, v, o, lse, causal, scale, window_left, window_right, top_left, softcap, alibi_slopes, sinks, "
                 r"cu_seqlens_q, cu_seqlens_k, seqused_k, block_table, bias, score_mod, mask_mod, key_range, mod_params\)", "fmha", q, q),
                (TypeError, "there are 23 arguments; allowed: 3 to 22", "fmha", q, q, q, o, None, True, None, -1, -1, False, 0, *[None] * 11, 1),
                (TypeError, r"there are 0 arguments; allowed: 3 \(", "chunk_indices"),
                (TypeError, "k is 1.5; allowed: a tensor; it is argument 2 of \\(q, k, v, ", "fmha", q, 1.5, q, o),
                (TypeError, "k is None; allowed: a tensor; it is argument 2 of \\(q, k, v, ", "fmha", q, None, q, o),
                (TypeError, "lse is 'x'; allowed: a tensor, or None", "fmha", q, q, q, o, "x"),
                (TypeError, r"q is an array \(tag 71\); allowed: a tensor", "fmha", [1], q, q, o),
                (TypeError, r"q is a device \(tag 6\)", "fmha", tvm_ffi.device("cpu"), q, q, o),
                (TypeError, r"q is a function \(tag 68\)", "fmha", lambda: 0, q, q, o),
                (TypeError, "causal is 'a longer text'; allowed: true or false", "fmha", q, q, q, o, None, "a longer text"),
                (TypeError, "causal is 2; allowed: true or false", "fmha", q, q, q, o, None, 2),
                (TypeError, "scale is a tensor; allowed: a number, or None", "fmha", q, q, q, o, None, True, q),
                (TypeError, "activation is 5; allowed: none, relu, gelu, silu, gelu_tanh, or a number from 0 to 4", "gemm", d, d, d, None, None, 1, 0, 5),
                (ValueError, "activation is 'tanh'; allowed: none, relu, gelu, silu, gelu_tanh", "gemm", d, d, d, None, None, 1, 0, "tanh"),
                (ValueError, "scale is inf; allowed: any finite value", "fmha", q, q, q, o, None, True, 1e300),
                (ValueError, "v.rank is 3; allowed: 4", "fmha", q, q, q[0], o),
                (ValueError, "q has DLPack's type code 2 with 64 bits and 1 lanes; allowed: float16", "fmha", q.astype(float), q, q, o),
                (ValueError, "v has 6 dimensions; allowed: 0 to 5", "fmha", q, q, np.zeros((1,) * 6, np.float16), o),
                (ValueError, "o at .* overlaps q", "fmha", q, q, q, q)):
            with self.subTest(pattern=pattern):
                self.refused(kind, pattern, *call)

    def test_no_tag_crashes(self):
        """Values as a caller in C could pass them: every tag in every place, without anything behind it."""
        library = ctypes.CDLL(LIBRARY)
        library.tj_last_error.restype = ctypes.c_char_p
        values, result = (Any * 12)(), Any()
        draw = random.Random(7)
        for op in OPS:
            call = getattr(library, "__tvm_ffi_" + op)
            self.assertEqual(-1, call(None, None, 5, None))
            self.assertEqual(-1, call(None, values, -1, ctypes.byref(result)))
            for tag in [*range(-2, 80), 128, 2**31 - 1]:
                for count in (3, 7, 12):
                    for value in values:
                        value.tag, value.value = draw.choice((tag, 0, tag)), 0
                    self.assertEqual(-1, call(None, values, count, ctypes.byref(result)), (op, tag, count))
                    self.assertNotEqual(b"", library.tj_last_error())

    def test_document(self):
        failed, ran = doctest.testfile(os.path.join(ROOT, "src", "ffi", "README.md"), module_relative=False)
        self.assertEqual((0, True), (failed, ran >= 5))


if __name__ == "__main__":
    here.skips.main()
