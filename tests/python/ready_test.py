"""Protects the short way of calls on a GPU: it launches what the long way launches, with the same bytes, and leaves to the long way all that it
does not know. The driver, the compiler and the framework are stand-ins, so nothing is computed."""
import ctypes
import gc
import sys
import threading
import types
import weakref
from unittest import mock

import here
import framework
from framework import Array
from known_calls import Case, Launch, LongWay, Short, driver, parameter_bytes, short_plan, tilejit
from tilejit import _plan, _ready, _results
from tilejit._tensors import dense


class Ready(Case):
    def test_the_same_launch(self):
        """Every op, at other addresses than those that the plan was made with."""
        def q():
            return Array((2, 4, 96, 64))
        for name, make in (
                ("fmha", lambda: ((q(), q(), q()), {"causal": True, "out": q()})),
                ("fmha", lambda: ((q(), q(), q()), {"scale": 0.3, "return_lse": True, "out": (q(), Array((2, 4, 96), "f32"))})),
                ("fmha", lambda: ((Array((2, 96, 4, 64)),) * 3, {"layout": "bshd", "out": Array((2, 96, 4, 64))})),
                ("gemm", lambda: ((Array((64, 128)), Array((32, 128))), {"bias": Array((32,)), "c": Array((64, 32)), "beta": 2, "out": Array((64, 32))})),
                ("gemm", lambda: ((Array((3, 64, 128)), Array((32, 128))), {"activation": "relu", "out": Array((3, 64, 32))})),
                ("chunk_indices", lambda: ((Array((4,), "i32"),), {"out": (Array((9, 2), "i32"), Array((1,), "i32"))})),
                ("chunk_o", lambda: ((Array((128, 1, 128), "bf16"), Array((128, 1, 128), "bf16"), Array((128, 1, 128), "bf16"),
                                      Array((2, 1, 128, 128), "bf16")), {"seq_length": 128, "g_cu": Array((128, 1), "f32"), "out": Array((128, 1, 128), "bf16")}))):
            with self.subTest(name):
                arguments, options = make()
                self.known(lambda: getattr(self.runtime, name)(*arguments, **options))
                others, other_options = make()
                size = parameter_bytes(lambda runtime: getattr(runtime, name)(*arguments, **options), self.folder)
                with Launch(size) as short, Short():
                    returned = getattr(self.runtime, name)(*others, **other_options)
                self.runtime.ready.clear()
                with Launch(size) as long:
                    getattr(self.runtime, name)(*others, **other_options)
                self.assertEqual((len(short.params), short), (1, long))
                self.assertIs(returned, other_options["out"])

    def test_the_host_that_was_given_away_stays(self):
        """A signal's handler, or another thread, may ask for it while it is made."""
        given, real = [], _ready._host
        def made():
            if not given:
                given.append(None)
                given[0] = _ready.host()
            return real()
        with mock.patch.object(_ready, "_hosts", {}), mock.patch.object(_ready, "_host", made):
            self.assertEqual(_ready.host(), given[0])
            self.assertEqual(_ready.host(), given[0])

    def test_made_results(self):
        q = Array((1, 2, 96, 64))
        o = self.known(lambda: self.runtime.fmha(q, q, q))
        self.assertEqual((type(o), o.shape, o.dtype, o.strides), (Array, q.shape, "f16", None))
        size = parameter_bytes(lambda runtime: runtime.fmha(q, q, q), self.folder)
        with Launch(size) as launch, Short():
            o = self.runtime.fmha(q, q, q)
        self.assertIn(o.address.to_bytes(8, "little"), launch.params[0])
        made = self.known(lambda: self.runtime.fmha(q, q, q, return_lse=True))
        self.assertEqual([(type(each), each.shape, each.dtype) for each in made], [(Array, q.shape, "f16"), (Array, (1, 2, 96), "f32")])
        self.assertIs(type(made), tuple)
        del o, made
        gc.collect()
        self.assertEqual(framework.managed_alive(), 0)  # what the framework gave is given back

    def test_results_by_the_framework_s_own_function(self):
        """What makes a result where DLPack's allocator does less. What it gives is the result; what is no such result, or raises, goes the long way."""
        q, given = Array((1, 2, 96, 64)), []

        def maker_of(view):
            shape, dtype = view.shape, view.dtype

            def make():
                given.append(make.broken() if make.broken is not None else Array(shape, dtype))
                return given[-1]
            make.broken = None
            makers.append(make)
            return make
        for options, count in (({}, 1), ({"return_lse": True}, 2)):
            makers, _ = [], given.clear()
            with mock.patch.object(_ready, "maker_of", maker_of):
                found = self.known(lambda: self.runtime.fmha(q, q, q, **options))
            self.assertEqual((len(makers), len(given)), (count, count))
            for made, each in zip(given, found if count == 2 else [found]):
                self.assertIs(made, each)
            size = parameter_bytes(lambda runtime: runtime.fmha(q, q, q), self.folder)
            with Launch(size) as launch, Short():
                self.runtime.fmha(q, q, q, **options)
            self.assertIn(given[count].address.to_bytes(8, "little"), launch.params[0])
            shape, dtype = (q.shape, "f16") if count == 1 else (q.shape[:3], "f32")
            wide = Array((*shape[:-1], 2 * shape[-1]), dtype)
            for broken in (lambda: 1 // 0, lambda: 5, lambda: Array(shape[1:], dtype), lambda: Array((*shape[:-1], shape[-1] - 1), dtype),
                           lambda: Array(shape, "i32"), lambda: Array(shape, dtype, device=1), lambda: Array(shape, dtype, address=0),
                           lambda: Array(shape, dtype, strides=tuple(2 * step for step in dense(shape)), base=wide)):
                makers[-1].broken = broken
                alive = sys.getrefcount(None)
                with Launch() as launch, self.assertRaises(LongWay), Short():
                    self.runtime.fmha(q, q, q, **options)
                self.assertEqual(launch.lines, [])
                self.assertLess(abs(sys.getrefcount(None) - alive), 20)
            makers[-1].broken = None
            with Short():
                self.runtime.fmha(q, q, q, **options)
            kept = [weakref.ref(each) for each in (*makers, *given[:count], *given[-count:])]
            makers.clear(), given.clear()
            del found, made, each
            self.assertEqual([each() is None for each in kept], [False] * count + [True] * 2 * count)
            self.runtime.ready.clear()
            gc.collect()
            self.assertEqual([each() for each in kept], [None] * len(kept))  # makers are given back with the calls that they belong to

    def test_whose_function_makes_results(self):
        torch = types.SimpleNamespace(Tensor=Array, empty=lambda *arguments, **options: (arguments, options))
        with mock.patch.dict(sys.modules, {"torch": torch}):
            like = types.SimpleNamespace(framework="torch", owner=types.SimpleNamespace(shape=[2, 3], dtype="half", device="cuda:1"))
            self.assertEqual(_results.maker_of(like)(), (((2, 3),), {"dtype": "half", "device": "cuda:1"}))
            like.framework = ""
            self.assertIsNone(_results.maker_of(like))

    def test_numbers_are_part_of_the_key(self):
        a, b, d = self.product()
        self.known(lambda: self.runtime.gemm(a, b, alpha=0.0, out=d))
        for options in ({"alpha": -0.0}, {"alpha": 2}, {"activation": "relu"}, {"dtype": "f16", "alpha": 0.0}, {"bias": Array((32,)), "alpha": 0.0}):
            with self.subTest(options), self.assertRaises(LongWay), Short():
                self.runtime.gemm(a, b, out=d, **options)

    def test_other_tensors_go_the_long_way(self):
        a, b, d = self.product()
        self.known(lambda: self.runtime.gemm(a, b, out=d))
        wide = Array((64, 256))
        for others in ((Array((65, 128)), b, Array((65, 32))), (Array((64, 128), "bf16"), Array((32, 128), "bf16"), Array((64, 32), "bf16")),
                       (Array((64, 128), strides=(256, 1), base=wide), b, d), (Array((64, 128), device=1), b, d), (a, b, Array((64, 32), strides=(64, 1)))):
            with self.assertRaises(LongWay), Short():
                self.runtime.gemm(others[0], others[1], out=others[2])

    def test_a_transposed_operand(self):
        """The usual b.T of a matrix [K, N]."""
        a, _, d = self.product()
        b = Array((32, 128), strides=(1, 32))
        self.assertIs(self.known(lambda: self.runtime.gemm(a, b, out=d)), d)

    def test_gaps_in_every_dimension_go_the_long_way(self):
        """torch's views of negated numbers have them, and DLPack does not say that they are negated."""
        a, b, d = self.product()
        for bias, c in ((Array((32,), strides=(2,)), None), (None, Array((64, 32), strides=(64, 2)))):
            for _ in range(3):
                self.long_or_refused(lambda: self.runtime.gemm(a, b, bias=bias, c=c, beta=0 if c is None else 1, out=d))
            with self.assertRaises(LongWay), Short():
                self.runtime.gemm(a, b, bias=bias, c=c, beta=0 if c is None else 1, out=d)
        for strides in ((2, 2), (1, 1), None):  # of one number, each can be such a view
            one = Array((1, 1), strides=strides), Array((1, 1)), Array((1, 1))
            for _ in range(3):
                self.long_or_refused(lambda: self.runtime.gemm(one[0], one[1], out=one[2]))
            with self.assertRaises(LongWay), Short():
                self.runtime.gemm(one[0], one[1], out=one[2])

    @staticmethod
    def long_or_refused(call):
        try:
            call()
        except tilejit.Error:
            pass

    def test_what_is_wrong_is_said_by_the_long_way(self):
        a, b, d = self.product()
        self.known(lambda: self.runtime.gemm(a, b, out=d))
        for others, part in (((a, b, Array((64, 32), base=a)), "overlap"), ((Array((64, 128), address=0), b, d), "a"), ((Array((64, 128), shift=1), b, d), "a")):
            with self.subTest(part), self.assertRaises(tilejit.Error) as caught:
                self.runtime.gemm(others[0], others[1], out=others[2])
            self.assertIn(part, str(caught.exception))

    def test_the_stream_is_asked_at_each_call(self):
        a, b, d = self.product()
        self.known(lambda: self.runtime.gemm(a, b, out=d))
        seen = []
        for stream in (0, 0x5000, 0x6000):
            framework.set_stream(stream)
            with Launch() as short, Short():
                self.runtime.gemm(a, b, out=d)
            known, self.runtime.ready = self.runtime.ready, {}
            with Launch() as long:
                self.runtime.gemm(a, b, out=d)
            self.runtime.ready = known
            self.assertEqual(short, long)
            seen += short.lines
        self.assertEqual([line.endswith(" in another") for line in seen], [False, True, True])
        framework.set_stream(0)
        with Launch() as launch, Short():
            self.runtime.gemm(a, b, out=d, stream=0x5000)
        self.assertEqual(launch.lines, seen[1:2])

    def test_many_shapes(self):
        """More shapes than there are plans kept: each call is served, and the last ones are known."""
        b = Array((32, 64))
        for m in range(8, 8 * 271, 8):
            a, d = Array((m, 64)), Array((m, 32))
            for _ in range(2):
                self.runtime.gemm(a, b, out=d)
            if m % 800 == 8:
                self.runtime.gemm(Array((8, 64)), b, out=Array((8, 32)))
        with Short():
            self.runtime.gemm(a, b, out=d)
            self.runtime.gemm(Array((8, 64)), b, out=Array((8, 32)))  # in use all the time
        with self.assertRaises(LongWay), Short():
            self.runtime.gemm(Array((16, 64)), b, out=Array((16, 32)))

    def test_a_closed_runtime(self):
        a, b, d = self.product()
        self.known(lambda: self.runtime.gemm(a, b, out=d))
        self.runtime.close()
        with self.assertRaisesRegex(tilejit.Error, "closed"):
            self.runtime.gemm(a, b, out=d)

    def test_a_runtime_that_is_closed_while_a_call_runs(self):
        """The call is served, and nothing is kept of it."""
        a, b, d = self.product()
        with tilejit.Runtime(cache_dir=self.folder, target="sm_90a", log_level="trace", log_sink=lambda *_: runtime.close()) as runtime:
            self.assertIs(runtime.gemm(a, b, out=d), d)
            with self.assertRaisesRegex(tilejit.Error, "closed"):
                runtime.gemm(a, b, out=d)
            self.assertEqual(runtime.ready, {})

    def test_other_choices(self):
        """Behind tune() the next call has the kernel that was measured, and a plan says that it has not."""
        a, b, d = self.product(1024, 1024, 1024)
        driver.fake_cuda_set_param_bytes(0)
        driver.fake_cuda_set_block_ms(ctypes.c_double(0.001))
        plan = self.runtime.plan("gemm", a, b, out=d)
        self.known(lambda: self.runtime.gemm(a, b, out=d))
        self.assertTrue(plan.current)
        other = "64x64x128" if "64x64x128" not in plan.kernel else "128x192x64"
        self.assertTrue(self.runtime.tune("gemm", a, b, out=d, only=[other], rounds=1).kept)
        self.assertFalse(plan.current)
        with self.assertRaises(LongWay), Short():
            self.runtime.gemm(a, b, out=d)
        again = self.runtime.plan("gemm", a, b, out=d)
        self.assertEqual((again.current, other in again.kernel), (True, True))
        self.runtime.gemm(a, b, out=d)
        with Short():
            self.runtime.gemm(a, b, out=d)

    def test_threads(self):
        """Threads that learn and use the same shapes, while others close runtimes of their own."""
        problems, errors = [self.product(64, 32, 64 * i) for i in range(1, 5)], []

        def work():
            try:
                for i in range(60):
                    a, b, d = problems[i % len(problems)]
                    self.runtime.gemm(a, b, out=d)
                    self.runtime.gemm(a, b)
            except Exception as error:
                errors.append(error)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])

    def test_whose_gradients_are_asked_for(self):
        """torch's, where a tensor is of its types."""
        torch = types.SimpleNamespace(Tensor=Array, is_grad_enabled=lambda: True)
        with mock.patch.dict(sys.modules, {"torch": torch}):
            for kinds, found in (((Array,), torch.is_grad_enabled), ((int, framework.Chained), torch.is_grad_enabled), ((int, float), None)):
                self.assertIs(_ready.records_of(kinds), found)
        with mock.patch.dict(sys.modules):
            sys.modules.pop("torch", None)
            self.assertIsNone(_ready.records_of((Array,)))

    def test_gradients_go_the_long_way(self):
        """Tensors that require grad, while their framework records what is computed. What says neither yes nor no counts as yes."""
        a, b, d = self.product()
        state = types.SimpleNamespace(answer=False)

        def records():
            if isinstance(state.answer, Exception):
                raise state.answer
            return state.answer

        def ways():
            """Which way a call, one that makes its result, and a plan's run take."""
            for call, patched in ((lambda: self.runtime.gemm(a, b, out=d), Short()), (lambda: self.runtime.gemm(a, b), Short()),
                                  (lambda: plan.run(a, b, d), short_plan())):
                try:
                    with patched:
                        call()
                    yield "short"
                except LongWay:
                    yield "long"
        with mock.patch.object(_ready, "records_of", lambda kinds: records), mock.patch.object(_plan, "records_of", lambda kinds: records):
            plan = self.runtime.plan("gemm", a, b)
            plan.run(a, b, d)
            self.known(lambda: self.runtime.gemm(a, b, out=d))
            self.known(lambda: self.runtime.gemm(a, b))
        for x in (a, b, d):
            x.requires_grad = False
        for answer, wanting, way in ((False, a, "short"), (True, None, "short"), (True, a, "long"), (True, b, "long"), (ValueError("no"), a, "long"),
                                     (ValueError("no"), None, "short"), ("maybe", b, "long"), (False, None, "short")):
            for wants in (True, 1, "maybe"):
                with self.subTest(answer=answer, wants=wants):
                    state.answer = answer
                    if wanting is not None:
                        wanting.requires_grad = wants
                    self.assertEqual(list(ways()), [way] * 3)
                    for x in (a, b, d):
                        x.requires_grad = False
        state.answer, d.requires_grad = True, True  # a result that the caller gives
        self.assertEqual(list(ways()), ["long", "short", "long"])
        del b.requires_grad
        self.assertEqual(list(ways()), ["long"] * 3)

    def test_mixed_frameworks_go_the_long_way(self):
        a, b, d = self.product()
        other = framework.Chained((32, 128))
        for _ in range(3):
            self.runtime.gemm(a, other, out=d)
        with self.assertRaises(LongWay), Short():
            self.runtime.gemm(a, other, out=d)
        # Each producer but the first one's own framework is told the stream that reads what it has begun to write.
        result = framework.Chained((64, 32))
        for asked, options in ((0x5000, {}), (0x6000, {"stream": 0x6000})):
            framework.set_stream(0x5000)
            self.runtime.gemm(a, other, out=result, **options)
            self.assertEqual((other.asked, result.asked, b.asked), (asked, asked, None))
        self.runtime.gemm(a, b, out=d)
        self.assertEqual((a.asked, b.asked), (-1, -1))
        framework.set_stream(0)
        self.runtime.gemm(a, other, out=d)
        self.assertEqual(other.asked, 1)



if __name__ == "__main__":
    here.skips.main()
