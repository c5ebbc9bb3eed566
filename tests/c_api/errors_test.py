"""Protects the C ABI's promise: bad input is a status and a text that names the argument, its value and what is
allowed; no call crashes on null; texts belong to a thread; nothing needs a compiler to be refused."""
import ctypes
import os
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import binding as tj

CPU0 = tj.Device(tj.CPU, 0)
LIBRARY = tj.Library()


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.runtime = tj.Runtime(LIBRARY, cache_dir=self.folder.name + "/cache", target="model:sm_90a")
        self.memory = [ctypes.create_string_buffer(2 * 64 * 64 + 256) for _ in range(4)]
        self.addresses = [(ctypes.addressof(m) + 127) // 128 * 128 for m in self.memory]

    def tearDown(self):
        self.runtime.close()
        self.folder.cleanup()

    def good(self):
        """q, k, v, o of B 1, H 2, S 16, D 64."""
        return [tj.tensor(address, CPU0, tj.F16, [1, 2, 16, 64]) for address in self.addresses]

    def refused(self, status, *parts, change=None, **call):
        tensors = self.good()
        if change:
            change(*tensors)
        with self.assertRaises(tj.TilejitError) as caught:
            self.runtime.fmha(*tensors, **call)
        error = caught.exception
        self.assertEqual(error.status, status, error)
        self.assertEqual(error.stage, "argument")
        for part in parts:
            self.assertIn(part, error.message)


class BadArguments(Case):
    def test_values(self):
        def set_data(q, *_):
            q.data = None

        def set_dim(*tensors):
            for t in tensors:
                t.shape[3] = 84

        def set_heads(q, k, v, o):
            q.shape[1] = o.shape[1] = 3

        def set_stride(q, *_):
            q.strides[2] = 68

        def set_rank(q, k, *_):
            k.rank = 3

        def set_dtype(q, k, v, o):
            v.dtype = tj.BF16

        def set_device(q, k, v, o):
            o.device = tj.Device(tj.CUDA, 0)

        def set_index(q, k, v, o):
            o.device = tj.Device(tj.CPU, 1)

        def set_all(*tensors):
            for tensor in tensors:
                tensor.device = tj.Device(tj.CPU, 1)

        def set_overflow(q, k, *_):
            k.strides[0], k.shape[0], q.shape[0] = 2**62, 2, 2

        self.refused(tj.INVALID_ARGUMENT, "q.data", "null", change=set_data)
        self.refused(tj.UNSUPPORTED, "84", "multiples of 8 up to 256", change=set_dim)
        self.refused(tj.INVALID_ARGUMENT, "H", "3", "2", "multiple", change=set_heads)
        self.refused(tj.UNSUPPORTED, "q.strides[2]", "136 bytes", "16 bytes", change=set_stride)
        self.refused(tj.INVALID_ARGUMENT, "k.rank is 3", "4", change=set_rank)
        self.refused(tj.INVALID_ARGUMENT, "v.dtype is bf16", "f16", change=set_dtype)
        self.refused(tj.INVALID_ARGUMENT, "o.device is cuda:0", "cpu", change=set_device)
        self.refused(tj.INVALID_ARGUMENT, "o.device is cpu:1", change=set_index)
        self.refused(tj.INVALID_ARGUMENT, "q.device is cpu:1; allowed with a model target: cpu", change=set_all)
        self.refused(tj.INVALID_ARGUMENT, "scale is inf", "finite", scale=float("inf"))
        with self.assertRaises(tj.TilejitError):
            tensors = self.good()
            set_overflow(*tensors)
            self.runtime.fmha(*tensors)

    def test_numbers_outside_the_enums(self):
        def set_dtype(q, *_):
            q.dtype = 9

        def set_kind(q, k, *_):
            k.device.kind = -1

        def set_rank(q, k, v, o):
            v.rank = 6

        self.refused(tj.INVALID_ARGUMENT, "q.dtype is 9", "f16", change=set_dtype)
        self.refused(tj.INVALID_ARGUMENT, "k.device.kind is -1", "cuda", change=set_kind)
        self.refused(tj.INVALID_ARGUMENT, "v.rank is 6", "5", change=set_rank)

    def test_structure_sizes(self):
        def set_size(q, *_):
            q.size = 8

        def set_large(q, *_):
            q.size = 1 << 40

        self.refused(tj.INVALID_ARGUMENT, "q.size is 8", change=set_size)
        self.refused(tj.INVALID_ARGUMENT, "q.size is 1099511627776", "and at most 4096", change=set_large)

    def test_sizes_of_a_report(self):
        flags = b"--head-dim 84"  # refused as well, behind the report
        calls = [lambda report: LIBRARY.c.tj_prepare_flags(self.runtime.handle, b"fmha", flags, CPU0, report, None),
                 lambda report: LIBRARY.c.tj_warm_flags(self.runtime.handle, b"fmha", flags, b"model:sm_90a", report, None)]
        known = ctypes.sizeof(tj.KernelReport)
        for call in calls:
            for size in (0, 8, known - 1, 4097, 1 << 40):
                report = tj.KernelReport()
                report.size = size
                self.assertEqual(call(ctypes.byref(report)), tj.INVALID_ARGUMENT)
                self.assertIn(b"report.size is %d" % size, LIBRARY.c.tj_last_error())
            for size in (known, 4096):
                report = tj.KernelReport()
                report.size = size
                self.assertEqual(call(ctypes.byref(report)), tj.INVALID_ARGUMENT)
                self.assertIn(b"--head-dim is '84'; allowed are 64, 128", LIBRARY.c.tj_last_error())

    def test_a_newer_caller_may_leave_new_fields_zero(self):
        class Newer(ctypes.Structure):
            _fields_ = [("known", tj.FmhaArgs), ("news", ctypes.c_int64)]

        newer = Newer()
        newer.known.size = ctypes.sizeof(Newer)
        run = lambda: LIBRARY.c.tj_run(self.runtime.handle, b"fmha", ctypes.byref(newer), None)  # noqa: E731
        self.assertEqual(run(), tj.INVALID_ARGUMENT)
        self.assertIn(b"q is null", LIBRARY.c.tj_last_error())
        newer.news = 1
        self.assertEqual(run(), tj.UNSUPPORTED)
        self.assertIn(b"args sets a field at byte", LIBRARY.c.tj_last_error())

    def test_options_with_another_size_or_a_reserved_field(self):
        options, handle = LIBRARY.options(), ctypes.c_void_p()
        for field, value, status, said in (("size", tj.Options.allocate.offset, tj.INVALID_ARGUMENT, b"options.size is"),
                                           ("reserved", 7, tj.UNSUPPORTED, b"options.reserved is 7")):
            options = LIBRARY.options(**{field: value})
            self.assertEqual(LIBRARY.c.tj_runtime_create(ctypes.byref(options), ctypes.byref(handle)), status)
            self.assertIn(said, LIBRARY.c.tj_last_error())

    def test_options_that_are_none(self):
        for field, value, allowed in (("log_level", 99, b"-1 (default) to 5 (off)"), ("log_level", -2, b"-1 (default)"), ("use_disk_cache", 7, b"0 (no), 1 (yes)"),
                                      ("use_disk_cache", -1, b"0 (no), 1 (yes)"), ("use_tuning", 9, b"-1 (TJ_TUNE, else on), 0 (off), 1 (on)"), ("use_tuning", -2, b"-1 (TJ_TUNE")):
            options, handle = LIBRARY.options(), ctypes.c_void_p()
            setattr(options, field, value)
            self.assertEqual(LIBRARY.c.tj_runtime_create(ctypes.byref(options), ctypes.byref(handle)), tj.INVALID_ARGUMENT, field)
            said = LIBRARY.c.tj_last_error()
            self.assertIn(f"options.{field} is {value}; allowed: ".encode() + allowed, said)
            self.assertIsNone(handle.value)

    def test_op_and_target(self):
        self.assertEqual(LIBRARY.c.tj_warm_flags(self.runtime.handle, b"conv", b"", b"sm_90a", None, None), tj.INVALID_ARGUMENT)
        self.assertIn(b"op 'conv' is unknown; ops are fmha", LIBRARY.c.tj_last_error())
        self.assertNotEqual(LIBRARY.c.tj_warm_flags(self.runtime.handle, b"fmha", b"--head-dim 64", b"sm_1", None, None), tj.OK)
        self.assertEqual(LIBRARY.c.tj_last_error_stage(), b"target")
        self.assertIn(b"sm_1", LIBRARY.c.tj_last_error())
        self.assertIn(b"sm_90a", LIBRARY.c.tj_last_error())

    def test_unknown_target_of_a_runtime(self):
        with self.assertRaises(tj.TilejitError) as caught:
            with tj.Runtime(LIBRARY, target="pdp11") as runtime:
                runtime.target_of(CPU0)
        self.assertIn("pdp11", caught.exception.message)
        self.assertEqual(caught.exception.stage, "target")


class Nulls(Case):
    def test_null_runtime(self):
        c, out, device = LIBRARY.c, ctypes.c_void_p(), tj.Device()
        text = ctypes.c_char_p()
        for status in (c.tj_run(None, None, None, None), c.tj_prepare(None, None, None, None), c.tj_prepare_flags(None, None, None, CPU0, None, None),
                       c.tj_warm_flags(None, None, None, None, None, None), c.tj_run_rung(None, None, None, 0, None),
                       c.tj_prepare_rung(None, None, None, 0, None), c.tj_tune(None, None, None, None, None),
                       c.tj_plan_create(None, None, None, ctypes.byref(out)), c.tj_custom_create(None, None, ctypes.byref(out)),
                       c.tj_time_ms(None, CPU0, tj.Work(), None, ctypes.byref(ctypes.c_double())),
                       c.tj_default_device(None, ctypes.byref(device)), c.tj_target_of(None, CPU0, ctypes.byref(text)),
                       c.tj_allocate(None, CPU0, 8, ctypes.byref(out)), c.tj_free(None, None),
                       c.tj_copy(None, None, CPU0, None, CPU0, 0), c.tj_synchronize(None, CPU0, None)):
            self.assertEqual(status, tj.INVALID_ARGUMENT)
            self.assertIn(b"runtime is null", c.tj_last_error())
        for ignored in (c.tj_runtime_destroy, c.tj_options_init, c.tj_plan_destroy, c.tj_custom_destroy):
            ignored(None)

    def test_null_arguments(self):
        c, runtime = LIBRARY.c, self.runtime.handle
        place, out = ctypes.create_string_buffer(8), ctypes.c_void_p()
        for status, name in ((lambda: c.tj_run(runtime, None, None, None), b"op"),
                             (lambda: c.tj_run(runtime, b"fmha", None, None), b"args"),
                             (lambda: c.tj_run(runtime, b"fmha", ctypes.byref(tj.FmhaArgs()), None), b"q"),
                             (lambda: c.tj_prepare(runtime, b"gemm", None, None), b"args"),
                             (lambda: c.tj_prepare_flags(runtime, None, None, CPU0, None, None), b"op"),
                             (lambda: c.tj_prepare_flags(runtime, b"fmha", None, CPU0, None, None), b"flags"),
                             (lambda: c.tj_warm_flags(runtime, b"fmha", b"", None, None, None), b"target"),
                             (lambda: c.tj_plan_create(runtime, b"fmha", None, ctypes.byref(out)), b"args"),
                             (lambda: c.tj_plan_create(runtime, b"fmha", None, None), b"out"),
                             (lambda: c.tj_plan_run(None, None, 0, None, None), b"plan"),
                             (lambda: c.tj_plan_get_info(None, None), b"plan"),
                             (lambda: c.tj_custom_create(runtime, None, ctypes.byref(out)), b"description"),
                             (lambda: c.tj_custom_prepare(None, CPU0, None), b"kernel"),
                             (lambda: c.tj_custom_launch(None, CPU0, None, 0, 1, None), b"kernel"),
                             (lambda: c.tj_time_ms(runtime, CPU0, tj.Work(), None, None), b"out"),
                             (lambda: c.tj_default_device(runtime, None), b"out"),
                             (lambda: c.tj_target_of(runtime, CPU0, None), b"out"),
                             (lambda: c.tj_allocate(runtime, CPU0, 8, None), b"out"),
                             (lambda: c.tj_copy(runtime, None, CPU0, None, CPU0, 8), b"dst"),
                             (lambda: c.tj_copy(runtime, None, CPU0, place, CPU0, 8), b"dst"),
                             (lambda: c.tj_copy(runtime, place, CPU0, None, CPU0, 8), b"src"),
                             (lambda: c.tj_runtime_create(None, None), b"out"),
                             (lambda: c.tj_runtime_instance(None), b"out")):
            self.assertEqual(status(), tj.INVALID_ARGUMENT)
            self.assertIn(name + b" is null", c.tj_last_error())

    def test_copy_between_places_that_there_are(self):
        c, runtime, bytes_ = LIBRARY.c, self.runtime.handle, ctypes.create_string_buffer(16)
        other, place = tj.Device(tj.CPU, 1), ctypes.addressof(bytes_)
        for to, of, name in ((CPU0, other, b"src_device"), (other, CPU0, b"dst_device")):
            self.assertEqual(c.tj_copy(runtime, place, to, place, of, 8), tj.INVALID_ARGUMENT)
            self.assertIn(name + b" is cpu with index", c.tj_last_error())
            self.assertIn(b"allowed: 0", c.tj_last_error())


class Memory(Case):
    def test_allocate_copy_free(self):
        c, runtime, out = LIBRARY.c, self.runtime.handle, ctypes.c_void_p()
        LIBRARY.check(c.tj_allocate(runtime, CPU0, 1000, ctypes.byref(out)))
        self.assertEqual(out.value % 256, 0)
        there, back = ctypes.create_string_buffer(b"tilejit", 1000), ctypes.create_string_buffer(1000)
        LIBRARY.check(c.tj_copy(runtime, out, CPU0, ctypes.addressof(there), CPU0, 1000))
        LIBRARY.check(c.tj_copy(runtime, ctypes.addressof(back), CPU0, out, CPU0, 1000))
        LIBRARY.check(c.tj_synchronize(runtime, CPU0, None))
        self.assertEqual(back.value, b"tilejit")
        LIBRARY.check(c.tj_free(runtime, out))
        self.assertEqual(c.tj_free(runtime, out), tj.INVALID_ARGUMENT)
        self.assertIn(b"memory is", c.tj_last_error())
        LIBRARY.check(c.tj_free(runtime, None))

    def test_bad_sizes(self):
        out = ctypes.c_void_p(1)
        self.assertEqual(LIBRARY.c.tj_allocate(self.runtime.handle, CPU0, 0, ctypes.byref(out)), tj.INVALID_ARGUMENT)
        self.assertIsNone(out.value)
        self.assertNotEqual(LIBRARY.c.tj_allocate(self.runtime.handle, CPU0, 1 << 62, ctypes.byref(out)), tj.OK)
        self.assertIsNone(out.value)


class Texts(Case):
    def test_last_error_is_per_thread_and_cleared(self):
        c = LIBRARY.c
        self.assertEqual(c.tj_run(None, None, None, None), tj.INVALID_ARGUMENT)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(c.tj_last_error()))
        thread.start()
        thread.join()
        self.assertEqual(seen, [b""])
        self.assertNotEqual(c.tj_last_error(), b"")
        LIBRARY.check(c.tj_free(self.runtime.handle, None))
        self.assertEqual((c.tj_last_error(), c.tj_last_error_stage(), c.tj_last_error_log(), c.tj_last_error_source_path()), (b"",) * 4)

    def test_names(self):
        names = [LIBRARY.c.tj_status_name(i) for i in range(-1, 14)]
        self.assertEqual(names[0], b"unknown")
        self.assertEqual(names[1], b"ok")
        self.assertEqual(names[-1], b"unknown")
        self.assertEqual(len(set(names)), 14)
        self.assertRegex(LIBRARY.c.tj_version().decode(), r"^\d+\.\d+\.\d+")
        self.assertGreaterEqual(len(LIBRARY.c.tj_build_id()), 32)

    def test_instance_survives_destroy(self):
        first, second, device = ctypes.c_void_p(), ctypes.c_void_p(), tj.Device()
        LIBRARY.check(LIBRARY.c.tj_runtime_instance(ctypes.byref(first)))
        LIBRARY.c.tj_runtime_destroy(first)
        LIBRARY.check(LIBRARY.c.tj_runtime_instance(ctypes.byref(second)))
        self.assertEqual(first.value, second.value)
        LIBRARY.check(LIBRARY.c.tj_default_device(second, ctypes.byref(device)))

    def test_default_device_under_a_model_target(self):
        device = self.runtime.default_device()
        self.assertEqual((device.kind, device.index), (tj.CPU, 0))
        self.assertEqual(self.runtime.target_of(device), "model:sm_90a")


if __name__ == "__main__":
    unittest.main()
