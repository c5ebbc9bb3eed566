"""Protects the short way's dealings with frameworks: functions that fail, tables that lack one, references and memory that it must give back, and the
library's calls beneath it. The driver and the frameworks are stand-ins."""
import ctypes
import sys
from unittest import mock

import here
import framework
from framework import Array
from known_calls import Case, LongWay, Short, tilejit
from tilejit import _exchange, _plan, _ready


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

    def test_what_is_not_known_leaves_no_trace(self):
        """Tensors of more dimensions than any op takes, and references to None."""
        a, b, _ = self.product()
        self.known(lambda: self.runtime.gemm(a, b))
        known, deep, before = next(iter(self.runtime.ready.values())), Array((1,) * 2000), sys.getrefcount(None)
        for _ in range(1000):
            self.assertIsNone(known.run(known.value, _ready.CURRENT, deep, deep))
        self.assertLess(abs(sys.getrefcount(None) - before), 500)

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
        for arguments, part in (((names, 0, 0, framework.TABLE, _ready.host()), "count is 0"), ((names, 10, 0, framework.TABLE, _ready.host()), "count is 10"),
                                ((None, 2, 0, framework.TABLE, _ready.host()), "names is null"), ((names, 2, 2, framework.TABLE, _ready.host()), "made is 2"),
                                ((names, 2, 0, None, _ready.host()), "exchange_api is null"), ((names, 2, 0, framework.TABLE, None), "host is null")):
            self.assertEqual(tj.tj_object_calls_create(*arguments, ctypes.byref(out)), 1, part)
            self.assertIn(part, tj.tj_last_error().decode())
            self.assertIsNone(out.value)
        self.assertEqual(tj.tj_object_calls_create(names, 2, 0, framework.NEWER_TABLE, _ready.host(), ctypes.byref(out)), 2)
        self.assertEqual(keeping().tj_object_calls_keep(None, None, None, None), 1)
        self.assertEqual(tj.tj_object_plan_create(None, framework.TABLE, _ready.host(), ctypes.byref(out)), 1)
        tj.tj_object_calls_destroy(None)
        tj.tj_object_plan_destroy(None)
        run = _ready.runner("tj_object_calls_run", ctypes.c_int32, 1)
        self.assertEqual(run(None, None, self), -1)


if __name__ == "__main__":
    here.skips.main()
