"""Protects the short way's dealings with frameworks: functions that fail, tables that lack one, references and memory that it must give back, and the
library's calls beneath it. The driver and the frameworks are stand-ins."""
import ctypes
import os
import subprocess
import sys
from unittest import mock

import here
import framework
from framework import Array
from known_calls import Case, LongWay, Short, tilejit
from tilejit import _c, _exchange, _plan, _ready


class Exchange(Case):
    def test_a_framework_that_fails(self):
        a, b, d = self.product()
        self.known(lambda: self.runtime.gemm(a, b, out=d))
        framework.fail("tensor_of_object")
        self.runtime.gemm(a, b, out=d)  # through __dlpack__
        framework.reset()
        with framework.raising():
            self.runtime.gemm(a, b, out=d)  # without an error left behind
        with Short():
            self.runtime.gemm(a, b, out=d)
        self.known(lambda: self.runtime.gemm(a, b))
        framework.fail("allocate")
        with self.assertRaises(tilejit.Error) as caught:
            self.runtime.gemm(a, b)
        self.assertEqual(caught.exception.code, "out_of_memory")
        self.assertIn("MemoryError: no memory left", str(caught.exception))
        framework.reset()
        framework.fail("object_of_managed")
        with self.assertRaisesRegex(tilejit.Error, "made no object of the memory"):
            self.runtime.gemm(a, b)
        self.assertEqual(framework.managed_alive(), 0)
        framework.reset()
        self.assertIsInstance(self.runtime.gemm(a, b), Array)

    def test_tables_that_cannot_be_used(self):
        for kind in (framework.Newer, framework.NoCapsule, *framework.INCOMPLETE):
            with self.subTest(kind.__name__):
                a, b, d = (kind(shape) for shape in ((64, 128), (32, 128), (64, 32)))
                for _ in range(3):
                    self.runtime.gemm(a, b, out=d)
                with self.assertRaises(LongWay), Short():
                    self.runtime.gemm(a, b, out=d)

    def test_an_older_table_behind_a_newer_one(self):
        a, b, d = (framework.Chained(shape) for shape in ((64, 128), (32, 128), (64, 32)))
        self.known(lambda: self.runtime.gemm(a, b, out=d))

    def test_references(self):
        """Calls that are served, and such as are not, leave as many references to everything as there were."""
        a, b, d = self.product()
        a.requires_grad = b.requires_grad = d.requires_grad = False
        plan = self.runtime.plan("gemm", a, b)
        with mock.patch.object(_ready, "records_of", lambda _: lambda: True), mock.patch.object(_plan, "records_of", lambda _: lambda: True):
            self.known(lambda: self.runtime.gemm(a, b))
            plan.run(a, b, d)
        known, ran, deep, calls = next(iter(self.runtime.ready.values())), plan._last, Array((1,) * 2000), (a, b, d)
        for run, arguments, served in ((known.run, ((a, b),), True), (ran.run, (calls,), True), (ran.run, (calls, 0x5000), True),
                                       (known.run, ((deep, deep),), False), (known.run, ((a,),), False), (known.run, (a,), False), (known.run, (), False),
                                       (known.run, ((a, b), 0, 0), False), (ran.run, ((a, b, 7),), False), (ran.run, ((a, b, d, d),), False),
                                       (ran.run, (None, 0), False)):
            kept = (None, True, False, Array, int, a, b, d, deep, known.run, "requires_grad")
            before = [sys.getrefcount(each) for each in kept]
            for _ in range(1000):
                self.assertIs(run(*arguments) is not None, served)
            for each, old in zip(kept, before):
                self.assertLess(abs(sys.getrefcount(each) - old), 500, (arguments, each))

    def test_bounds(self):
        """Numbers, types and kinds of tensors that vary without end take no memory without end."""
        with mock.patch.object(_ready, "_MOST_KEYS", 3), mock.patch.object(_exchange, "_MOST_TYPES", 4), mock.patch.object(_plan, "_MOST_KINDS", 3):
            plan = self.runtime.plan("gemm", *self.product()[:2])
            for i in range(8):
                kind = type(f"Kind{i}", (Array,), {})
                a, b, d = kind((64, 128)), kind((32, 128)), kind((64, 32))
                for _ in range(3):
                    self.runtime.gemm(a, b, out=d)
                plan.run(a, b, d)
                for each, most in ((self.runtime.ready, 3), (_exchange._apis, 4), (plan._known, 3)):
                    self.assertLessEqual(len(each), most)

    def test_bad_arguments_of_the_library_s_calls(self):
        from tilejit._library import keeping, library
        tj, out = library(), ctypes.c_void_p(1)
        names = (ctypes.c_char_p * 2)(b"a", b"b")
        lacking = list(self.lacking())
        for arguments, part in (((names, 0, 0, framework.TABLE, _ready.host()), "count is 0"), ((names, 10, 0, framework.TABLE, _ready.host()), "count is 10"),
                                ((None, 2, 0, framework.TABLE, _ready.host()), "names is null"), ((names, 2, 2, framework.TABLE, _ready.host()), "made is 2"),
                                ((names, 2, 0, None, _ready.host()), "exchange_api is null"), ((names, 2, 0, framework.TABLE, None), "host is null"),
                                *(((names, 2, 0, framework.TABLE, ctypes.addressof(table)), "host has a null member") for table in lacking)):
            self.assertEqual(tj.tj_object_calls_create(*arguments, None, ctypes.byref(out)), 1, part)
            self.assertIn(part, tj.tj_last_error().decode())
            self.assertIsNone(out.value)
        self.assertEqual(tj.tj_object_calls_create(names, 2, 0, framework.NEWER_TABLE, _ready.host(), None, ctypes.byref(out)), 2)
        self.assertEqual(keeping().tj_object_calls_keep(None, None, None, None, None), 1)
        self.assertEqual(tj.tj_object_plan_create(None, None, framework.TABLE, _ready.host(), None, ctypes.byref(out)), 1)
        plan = self.runtime.plan("gemm", *self.product()[:2])
        self.assertEqual(tj.tj_object_plan_create(plan._handle.value, None, framework.TABLE, _ready.host(), None, ctypes.byref(out)), 1)
        self.assertIn("types is null", tj.tj_last_error().decode())
        keeping().tj_object_calls_destroy(None)
        tj.tj_object_plan_destroy(None)
        for name in ("tj_object_calls_serve", "tj_object_plan_serve"):
            with self.assertRaises(SystemError):
                _ready.serving(name, 0)((self,), 0)

    def test_functions_outlive_the_module(self):
        """Finalizers at the interpreter's end call them behind the end of the module's own names. Freed memory is overwritten there."""
        script = """if True:
            import ctypes, here, framework
            from tilejit import _ready
            from tilejit._library import library
            out = ctypes.c_void_p()
            library().tj_object_calls_create((ctypes.c_char_p * 1)(b"a"), 1, 0, framework.TABLE, _ready.host(), None, ctypes.byref(out))
            serve = _ready.serving("tj_object_calls_serve", out.value)
            vars(_ready).clear()
            print(serve(()), serve((0,)))"""
        environment = {**os.environ, "PYTHONMALLOC": "pymalloc_debug", "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}
        ran = subprocess.run([sys.executable, "-B", "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual((ran.returncode, ran.stdout), (0, b"None None\n"), ran.stderr)

    @staticmethod
    def lacking():
        """The language's table without one of its members each."""
        whole = _c.ObjectHost.from_address(_ready.host())
        members = [name for name, _ in _c.ObjectHost._fields_]
        for each in members[1:]:
            yield _c.ObjectHost(**{name: getattr(whole, name) for name in members[1:] if name != each})


if __name__ == "__main__":
    here.skips.main()
