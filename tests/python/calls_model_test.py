"""Protects the functions of the package on the CPU model with numpy arrays: values against f64, layouts, strides, results that the caller gives,
plans, threads, forks, and refusals that name the argument."""
import gc
import os
import tempfile
import threading
import unittest

import here

tilejit, numpy, ml_dtypes = here.tilejit, here.numpy, here.ml_dtypes


def normal(seed, *shape):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float16)


def attention(q, k, v, causal, scale):
    """(o, lse) in f64."""
    q, k, v = (each.astype(numpy.float64) for each in (q, k, v))
    k, v = (each.repeat(q.shape[1] // k.shape[1], axis=1) for each in (k, v))
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        scores = numpy.where(numpy.tri(q.shape[2], k.shape[2], k.shape[2] - q.shape[2], dtype=bool), scores, -numpy.inf)
    top = scores.max(-1, keepdims=True)
    weights = numpy.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    return weights / total @ v, (top + numpy.log(total))[..., 0]


@unittest.skipUnless(numpy, here.NO_NUMPY)
class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runtime = tilejit.Runtime(target="model:sm_90a")

    def close(self, found, wanted, limit=6e-4):
        self.assertEqual(found.shape, wanted.shape)
        self.assertLessEqual(numpy.linalg.norm(found - wanted) / numpy.linalg.norm(wanted), limit)

    def refused(self, *parts, call, stage="argument", code="invalid_argument"):
        with self.assertRaises(tilejit.Error) as caught:
            call()
        self.assertEqual((caught.exception.stage, caught.exception.code), (stage, code))
        for part in parts:
            self.assertIn(part, str(caught.exception))

    def test_attention(self):
        q, k, v = normal(1, 1, 4, 70, 64), normal(2, 1, 2, 100, 64), normal(3, 1, 2, 100, 64)
        before = [each.copy() for each in (q, k, v)]
        for causal, scale in ((False, None), (True, 0.2)):
            wanted, wanted_lse = attention(q, k, v, causal, scale or 0.125)
            o, lse = self.runtime.fmha(q, k, v, causal=causal, scale=scale, return_lse=True)
            self.close(o, wanted)
            self.assertLess(abs(lse - wanted_lse).max(), 1e-3)
            self.assertEqual((o.dtype, lse.dtype), (numpy.float16, numpy.float32))
            given, given_lse = numpy.full_like(o, numpy.nan), numpy.full_like(lse, numpy.nan)
            returned = self.runtime.fmha(q, k, v, causal=causal, scale=scale, out=given)
            self.assertIs(returned, given)
            numpy.testing.assert_array_equal(given, o)
            pair = self.runtime.fmha(q, k, v, causal=causal, scale=scale, out=(given, given_lse), return_lse=True)
            self.assertIs(pair[1], given_lse)
            numpy.testing.assert_array_equal(given_lse, lse)
            turned = [numpy.ascontiguousarray(each.swapaxes(1, 2)) for each in (q, k, v)]
            other, other_lse = self.runtime.fmha(*turned, causal=causal, scale=scale, layout="bshd", return_lse=True)
            numpy.testing.assert_array_equal(other.swapaxes(1, 2), o)
            numpy.testing.assert_array_equal(other_lse, lse)
        for one, other in zip((q, k, v), before):
            numpy.testing.assert_array_equal(one, other)

    def test_masks_and_modifications_of_scores(self):
        """Beside the same values from the definition: a window, softcap, slopes and sinks, and a mask aligned at the top left."""
        q, k, v = normal(21, 1, 2, 70, 64), normal(22, 1, 2, 100, 64), normal(23, 1, 2, 100, 64)
        slopes, sinks = numpy.array([[0.5, 0.25]], numpy.float32), numpy.array([1, -2], numpy.float32)
        for top_left in (False, True):
            o, lse = self.runtime.fmha(q, k, v, window=(30, 5), top_left=top_left, softcap=9, alibi_slopes=slopes, sinks=sinks, return_lse=True)
            place = numpy.arange(70)[:, None] + (0 if top_left else 30) - numpy.arange(100)[None]
            scores = 9 * numpy.tanh(numpy.einsum("bhqd,bhkd->bhqk", q.astype(float), k.astype(float)) / 8 / 9) - slopes[..., None, None] * abs(place)
            weights = numpy.exp(numpy.where((place > 30) | (place < -5), -numpy.inf, scores))
            total = weights.sum(3) + numpy.exp(sinks.astype(float))[None, :, None]
            self.close(o, numpy.einsum("bhqk,bhkd->bhqd", weights, v.astype(float)) / total[..., None])
            self.assertLess(abs(lse - numpy.log(total)).max(), 1e-3)
        self.refused("window is 3; allowed: (left, right)", call=lambda: self.runtime.fmha(q, k, v, window=3))
        self.refused("window.left is -5", call=lambda: self.runtime.fmha(q, k, v, window=(-5, 0)))
        self.refused("softcap is -1", call=lambda: self.runtime.fmha(q, k, v, softcap=-1))
        self.refused("sinks.dtype is f16", call=lambda: self.runtime.fmha(q, k, v, sinks=sinks.astype(numpy.float16)))

    def test_strides(self):
        """A view of a packed tensor, and a result between others."""
        packed = normal(4, 1, 3, 2, 65, 64)
        q, k, v = (packed[:, i] for i in range(3))
        room = numpy.full((1, 2, 65, 128), numpy.nan, numpy.float16)
        self.runtime.fmha(q, k, v, out=room[..., 64:])
        self.close(room[..., 64:], attention(q, k, v, False, 0.125)[0])
        self.assertTrue(numpy.isnan(room[..., :64]).all())

    def test_products(self):
        a, b, c, bias = normal(5, 65, 72), normal(6, 72, 40), normal(7, 65, 40), normal(8, 40)
        exact = a.astype(numpy.float64) @ b.astype(numpy.float64)
        d = self.runtime.gemm(a, b.T)
        self.assertEqual(d.dtype, numpy.float16)
        self.close(d, exact)
        d = self.runtime.gemm(a, b.T, c=c, bias=bias, alpha=0.5, beta=-2, activation="relu")
        self.close(d, numpy.maximum(0.5 * exact - 2.0 * c + bias, 0))
        d = self.runtime.gemm(a, b.T, dtype="f32")
        self.assertEqual(d.dtype, numpy.float32)
        self.close(d, exact, 1e-5)
        batch = normal(9, 3, 65, 72)
        self.close(self.runtime.gemm(batch, b.T), batch.astype(numpy.float64) @ b.astype(numpy.float64))
        kept = c.copy()
        self.assertIs(self.runtime.gemm(a, b.T, c=kept, beta=1, out=kept), kept)
        scales = numpy.linspace(0.5, 2, exact.shape[1], dtype=numpy.float32)
        d = self.runtime.gemm(a, b.T, c=c, bias=bias, beta=0.5, end_text="return value > 0 ? value * params.f32(column) : -1.0f;", end_params=scales)
        self.close(d, numpy.where(exact + bias > 0, (exact + bias) * scales, -1) + 0.5 * c)
        self.refused("end_text is", "allowed: device code as a text", call=lambda: self.runtime.gemm(a, b.T, end_text=print))
        self.close(kept, exact + c)

    @unittest.skipUnless(ml_dtypes, here.NO_BF16)
    def test_bf16_and_e4m3(self):
        a, b = (normal(seed, 64, 64).astype(ml_dtypes.bfloat16) for seed in (1, 2))
        d = self.runtime.gemm(a, b)
        self.assertEqual(d.dtype, ml_dtypes.bfloat16)
        self.close(d.astype(float), a.astype(float) @ b.astype(float).T, 4e-3)
        a, b = (each.astype(ml_dtypes.float8_e4m3fn) for each in (a, b))
        d = self.runtime.gemm(a, b, scale_a=numpy.array([0.5], numpy.float32))
        self.assertEqual(d.dtype, numpy.float32)
        self.close(d, 0.5 * (a.astype(float) @ b.astype(float).T), 3e-4)

    @unittest.skipUnless(ml_dtypes, here.NO_BF16)
    def test_chunks(self):
        random = numpy.random.default_rng(10)
        tokens, ends = 70, numpy.array([0, 66, 70], numpy.int32)
        rows, total = self.runtime.chunk_indices(ends, tokens=tokens)
        self.assertEqual(rows[:total[0]].tolist(), [[0, 0], [0, 1], [1, 0]])
        q, k = (random.standard_normal((tokens, 1, 128)).astype(ml_dtypes.bfloat16) for _ in range(2))
        v, h = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((3 * 64, 2, 128), (3, 2, 128, 128)))
        lists = {"cu_seqlens": ends, "chunk_indices": rows, "total_chunks": total}
        o = self.runtime.chunk_o(q, k, v, h, **lists, scale=1)
        self.assertEqual(self.runtime.chunk_o(q, k, v, h, **lists, scale=1, num_stages=1, evict_first=True).tobytes(), o.tobytes())
        wanted = numpy.empty(o.shape)
        for chunk, (begin, end) in enumerate(((0, 64), (64, 66), (66, 70))):
            for head in range(2):
                left, right = q[begin:end, 0].astype(float), k[begin:end, 0].astype(float)
                scores = numpy.tril(left @ right.T).astype(ml_dtypes.bfloat16).astype(float)
                values = v[64 * chunk:64 * chunk + end - begin, head].astype(float)
                wanted[begin:end, head] = left @ h[chunk, head].astype(float).T + scores @ values
        self.close(o.astype(float), wanted, 4e-3)

    def test_plans(self):
        q, k, v = normal(11, 1, 2, 64, 64), normal(12, 1, 2, 64, 64), normal(13, 1, 2, 64, 64)
        spec = tilejit.Spec(q.shape, "f16", "cpu")
        plan = self.runtime.plan("fmha", spec, spec, spec, causal=True, return_lse=True)
        self.assertEqual(plan.tensors, ("q", "k", "v", "o", "lse"))
        self.assertEqual((str(plan.device), plan.target, plan.kernel, plan.workspace_bytes), ("cpu", "model:sm_90a", "fmha_f16_d64_causal_packed", 0))
        wanted, wanted_lse = self.runtime.fmha(q, k, v, causal=True, return_lse=True)
        o, lse = numpy.empty_like(wanted), numpy.empty_like(wanted_lse)
        plan.run(q, k, v, o, lse)
        numpy.testing.assert_array_equal(o, wanted)
        o[:] = 0
        plan.run(*(each.ctypes.data for each in (q, k, v, o, lse)))
        numpy.testing.assert_array_equal(o, wanted)
        self.refused("4 tensors are given; allowed: 5 (q, k, v, o, lse)", call=lambda: plan.run(q, k, v, o))
        o.flags.writeable = False
        self.refused("o is read-only", call=lambda: plan.run(q, k, v, o, lse))
        self.refused("q", "null", call=lambda: plan.run(0, k, v, lse, lse))
        self.refused("shape is 'x'; allowed: a whole number", call=lambda: tilejit.Spec(("x",)))
        self.refused("q has the shape", call=lambda: self.runtime.plan("fmha", tilejit.Spec((1, 2, 64, 64), strides=(1,)), spec, spec))
        o.flags.writeable = True
        self.refused("q", "of the type builtins.str", call=lambda: plan.run("q", k, v, o, lse))
        with tilejit.Runtime(target="model:sm_90a") as other:
            kept = other.plan("fmha", q, k, v)
        kept.run(q, k, v, o)  # its runtime was closed
        self.refused("the runtime was closed", call=lambda: other.fmha(q, k, v))

    def test_what_is_asked(self):
        self.assertEqual(self.runtime.target_of("cpu"), "model:sm_90a")
        self.assertEqual([str(each) for each in self.runtime.devices()], ["cpu"])
        spec = tilejit.Spec((2, 8, 999, 64), "bf16")
        report = self.runtime.prepare(tilejit.fmha, spec, spec, spec, causal=True)
        self.assertEqual((report.name, report.target, report.kernels), ("fmha_bf16_d64_causal", "model:sm_90a", 1))
        self.assertEqual(self.runtime.prepare(tilejit.fmha, spec, spec, spec, causal=True).origin, "memory")
        self.assertGreater(report.schedule["ii"], 0)
        self.assertEqual(self.runtime.warm("chunk_indices", "model:sm_90a").kernels, 1)
        self.runtime.synchronize()
        self.refused("chunk_indices", "nothing to measure", code="unsupported",
                     call=lambda: self.runtime.tune("chunk_indices", tilejit.Spec((3,), "i32"), tokens=5))

    def test_logs_and_dumps(self):
        lines = []
        with tempfile.TemporaryDirectory() as folder:
            with tilejit.Runtime(target="model:sm_90a", dump_dir=folder, use_disk_cache=False, log_level="debug",
                                 log_sink=lambda level, text: lines.append((level, text))) as runtime:
                report = runtime.prepare("chunk_indices", tilejit.Spec((3,), "i32"), tokens=5)
                self.assertTrue(os.path.exists(report.source_path), report)
        self.assertTrue(lines)
        self.assertLessEqual({level for level, _ in lines}, {"debug", "info"})

    def test_threads(self):
        q, wanted, found = normal(14, 1, 1, 64, 64), [], []
        wanted.append(self.runtime.fmha(q, q, q))

        def work():
            for _ in range(3):
                try:
                    self.runtime.fmha(q, q, q[0])
                except tilejit.Error as error:
                    found.append((self.runtime.fmha(q, q, q), error.message))
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 18)
        for o, message in found:
            numpy.testing.assert_array_equal(o, wanted[0])
            self.assertIn("v.rank is 3", message)

    def test_closing_while_others_call(self):
        q = normal(15, 1, 1, 64, 64)
        runtime, ended = tilejit.Runtime(target="model:sm_90a"), []

        def work():
            try:
                while True:
                    runtime.fmha(q, q, q)
            except tilejit.Error as error:
                ended.append(error.message)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        runtime.close()
        for thread in threads:
            thread.join()
        self.assertEqual(ended, ["the runtime was closed; make another"] * 4)

    def test_finalizers_of_a_cycle(self):
        """The collector may end a plan and a runtime before the object that uses them in its own finalizer."""
        q, said = normal(19, 64, 64), []

        class Last:
            def __init__(self, work):
                self.work, self.own = work, self

            def __del__(self):
                try:
                    self.work()
                except tilejit.Error as error:
                    said.append(error.message)

        def cycles():
            runtime = tilejit.Runtime(target="model:sm_90a")
            plan, d = runtime.plan("gemm", q, q), numpy.empty_like(q)
            Last(lambda: plan.run(q, q, d))
            Last(lambda: runtime.gemm(q, q, out=d))
        for _ in range(5):
            cycles()
            gc.collect()
        self.assertEqual({message.split(";")[0] for message in said} - {"plan is null", "runtime is null"}, set())

    def test_fork(self):
        q = normal(16, 1, 1, 64, 64)
        wanted = self.runtime.fmha(q, q, q)
        child = os.fork()
        if child == 0:
            right = False
            try:
                right = bool((self.runtime.fmha(q, q, q) == wanted).all() and self.runtime.gemm(q[0, 0], q[0, 0]).shape == (64, 64))
            finally:
                os._exit(0 if right else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_refusals(self):
        q, f = normal(17, 1, 2, 64, 64), self.runtime.fmha
        self.refused("v.rank is 3", call=lambda: f(q, q, q[0]))
        self.refused("q has 3 dimensions ([2, 64, 64]); allowed: 4", call=lambda: f(q[0], q, q))
        self.refused("k", "float64", "float16", call=lambda: f(q, q.astype(numpy.float64), q))
        self.refused("out is read-only", call=lambda: f(q, q, q, out=numpy.broadcast_to(q[:, :1], q.shape)))
        self.refused("fmha: max_sms is -1; allowed: 0, for all multiprocessors, or 1 and more", call=lambda: f(q, q, q, max_sms=-1))
        self.refused("max_sms is 'x'", call=lambda: f(q, q, q, max_sms="x"))
        numpy.testing.assert_array_equal(f(q, q, q, max_sms=1), f(q, q, q))
        self.refused("layout is 'sbhd'; allowed: bhsd, bshd", call=lambda: f(q, q, q, layout="sbhd"))
        self.refused("scale is 'x'", call=lambda: f(q, q, q, scale="x"))
        self.refused("scale", "nan", call=lambda: f(q, q, q, scale=float("nan")))
        self.refused("out is ndarray; allowed: a pair", call=lambda: f(q, q, q, out=q, return_lse=True))
        self.refused("stream is 'x'", call=lambda: f(q, q, q, stream="x"))
        self.refused("q is a Spec", call=lambda: f(tilejit.Spec(q.shape), q, q))
        self.refused("q has 6 dimensions", call=lambda: f(numpy.zeros((1,) * 6, numpy.float16), q, q))
        self.refused("activation is 'tanh'", call=lambda: self.runtime.gemm(q[0, 0], q[0, 0], activation="tanh"))
        self.refused("tokens is missing", call=lambda: self.runtime.chunk_indices(numpy.zeros(2, numpy.int32)))
        self.refused("op is 'fmhb'", call=lambda: self.runtime.plan("fmhb", q))
        self.refused("dtype is 'f64'", call=lambda: tilejit.Spec((1,), "f64"))
        self.refused("device is 'gpu'", call=lambda: self.runtime.target_of("gpu"))
        self.refused("log_level is 'loud'", call=lambda: tilejit.Runtime(log_level="loud"))
        self.refused("wait_limit_s is -1.0", call=lambda: tilejit.Runtime(wait_limit_s=-1))
        self.refused("cache_max_size_bytes is -1", call=lambda: tilejit.Runtime(cache_max_size_bytes=-1))
        self.refused("a zero byte", call=lambda: tilejit.Runtime(target="a\0b"))
        self.refused("target", call=lambda: tilejit.Runtime(target="sm_1"), stage="target")
        with self.assertRaises(TypeError):
            f(q, q, q, casual=True)

    def test_arrays_in_the_place_of_numbers(self):
        a, array = normal(18, 16, 16), numpy.ones((2, 2), numpy.int64)
        gemm = self.runtime.gemm
        for name in ("alpha", "beta"):
            self.refused(f"{name} is", "allowed: a number", call=lambda: gemm(a, a, **{name: array}))
        self.refused("dtype is [1]", call=lambda: gemm(a, a, dtype=[1]))
        self.refused("dtype is", call=lambda: tilejit.Spec((1,), array))
        self.refused("shape is 1; allowed: whole numbers", call=lambda: tilejit.Spec(1))
        self.refused("strides is 1; allowed: whole numbers", call=lambda: tilejit.Spec((1,), strides=1))
        self.refused("causal is", "allowed: True or False", call=lambda: self.runtime.fmha(a, a, a, causal=array))
        self.refused("seq_length is", call=lambda: self.runtime.chunk_o(a, a, a, a, seq_length=array))
        self.refused("runtime is 'x'; allowed: a tilejit.Runtime", call=lambda: tilejit.gemm(a, a, runtime="x"))
        for option in ("log_level", "use_tuning", "use_disk_cache", "cache_max_size_bytes", "log_sink", "allocator"):
            self.refused(f"{option} is", call=lambda: tilejit.Runtime(**{option: array}))
        self.assertEqual(gemm(a, a, alpha=numpy.float32(2)).tolist(), gemm(a, a, alpha=2.0).tolist())

    def test_a_record_of_what_was_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "record")
            with tilejit.Runtime(target="model:sm_90a", record_file=path) as runtime:
                for _ in range(2):
                    runtime.fmha(normal(1, 1, 1, 64, 64), normal(2, 1, 1, 64, 64), normal(3, 1, 1, 64, 64))
            with open(path, encoding="ascii") as file:
                lines = file.readlines()
            self.assertEqual(len(lines), 1)
            self.assertTrue(lines[0].startswith('{"kernel":"fmha","target":"model:sm_90a","fields":{"dtype":"f16","head-dim":"64"'), lines[0])
        self.refused("record_file is 3", call=lambda: tilejit.Runtime(record_file=3))

    def test_counters(self):
        with tempfile.TemporaryDirectory() as folder:
            def counted():
                with tilejit.Runtime(target="model:sm_90a", cache_dir=folder) as runtime:
                    for _ in range(2):
                        runtime.gemm(normal(1, 64, 64), normal(2, 64, 64))
                    return runtime.counters(), runtime.prometheus()
            first, page = counted()
            self.assertEqual((first["misses"], first["compiles"], first["stores"], first["layers"][0]["hits"]), (1, 1, 1, 0))
            self.assertGreater(first["compile_s"], 0)
            self.assertIn("\ntilejit_compiles_total 1\n", page)
            second, page = counted()
            self.assertEqual((second["misses"], second["compiles"], second["layers"][0]["hits"]), (0, 0, 1))
            self.assertIn(f'tilejit_cache_hits_total{{layer="{folder}"}} 1\n', page)
            self.assertEqual(sum(second["rejected"].values()), 0)
        self.assertIn("hits", tilejit.counters()["layers"][0])
        self.assertTrue(tilejit.prometheus().startswith("# HELP tilejit_"))

    def test_numbers_that_are_too_large(self):
        a = normal(62, 16, 16)
        for digits in (400, 5000):  # Python writes down no more than 4300
            large, bits = 10**digits, (10**digits).bit_length()
            self.refused(f"alpha is a whole number of {bits} bits; allowed: a number up to 1.8e308", call=lambda: self.runtime.gemm(a, a, alpha=large))
            self.refused(f"max_sms is a whole number of {bits} bits; allowed: ", call=lambda: self.runtime.gemm(a, a, max_sms=-large))
        self.refused("use_tuning is of type list, with more digits than Python shows; allowed: ", call=lambda: tilejit.Runtime(use_tuning=[large]))
        self.refused("max_sms is 18446744073709551616; allowed: ", call=lambda: self.runtime.gemm(a, a, max_sms=2**64))

    def test_words_in_the_place_of_flags_and_names(self):
        a = normal(61, 64, 64)
        q = a.reshape(1, 1, 64, 64)
        for call in (lambda: self.runtime.fmha(q, q, q, causal="off"), lambda: tilejit.Runtime(use_tuning="off"),
                     lambda: tilejit.Runtime(use_disk_cache="no"), lambda: self.runtime.fmha(q, q, q, return_lse=[False])):
            self.refused("allowed: True or False", call=call)
        for only in ("64x32x128", 3, [3], None):
            self.refused("only is ", "allowed: a list of names", call=lambda: self.runtime.tune("gemm", a, a, only=only))
        self.refused("activation is <memory", call=lambda: self.runtime.gemm(a, a, activation=memoryview(bytearray(2))))
        self.refused("flags is ", call=lambda: self.runtime.warm("fmha", "model:sm_90a", dtype="\ud800"))
        self.refused("device is 'cuda:0' beside tensors", call=lambda: self.runtime.prepare("gemm", a, a, device="cuda:0"))
        self.refused("device is 'cuda:999", call=lambda: self.runtime.prepare("gemm", dtype="f16", device="cuda:" + 5000 * "9"))

    def test_messages_of_large_values(self):
        a = normal(62, 16, 16)
        with self.assertRaises(tilejit.Error) as caught:
            self.runtime.gemm(a, a, max_sms=list(range(10000)))
        self.assertLess(len(caught.exception.message), 400)
        with self.assertRaises(tilejit.Error) as caught:
            self.runtime.gemm(a, a, max_sms=numpy.ones((100, 100)))
        self.assertNotIn("\n", caught.exception.message)

    def test_workspaces(self):
        a, d = numpy.ones((64, 16384), numpy.float16), numpy.zeros((64, 64), numpy.float16)
        plan = self.runtime.plan("gemm", a, a, alpha=0.5)
        size = plan.workspace_bytes
        self.assertGreater(size, 256)
        whole = numpy.zeros(2 * size + 256, numpy.uint8)
        whole = whole[-whole.ctypes.data % 256:][:2 * size]
        for good in (whole, whole[:size], whole.ctypes.data, numpy.uint64(whole.ctypes.data)):
            d[:] = 0
            plan.run(a, a, d, workspace=good)
            self.assertEqual(d.tolist(), [[8192.0] * 64] * 64)
        self.refused(f"workspace has 256 bytes; allowed: {size} and more", call=lambda: plan.run(a, a, d, workspace=whole[:256]))
        fixed = whole[:]
        fixed.flags.writeable = False
        for bad in (fixed, whole[::2], whole[::-1]):
            self.refused("workspace is an array that is read only, or has gaps", call=lambda: plan.run(a, a, d, workspace=bad))
        for bad in (-256, 2**64 + 256):
            self.refused(f"workspace is {bad}; allowed: a whole number from 0", call=lambda: plan.run(a, a, d, workspace=bad))
        self.refused(f"a is {2**64}; allowed: a whole number", call=lambda: plan.run(2**64, a, d))


if __name__ == "__main__":
    here.skips.main()
