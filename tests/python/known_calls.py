"""Calls on the short way: the driver, the compiler and the framework that tests have in the place of real ones, and which way a call takes."""
import ctypes
import os
import re
import tempfile
import unittest
from unittest import mock

import here
import framework
from framework import Array

FAKES = os.path.join(os.path.dirname(os.environ["TJ_TEST_LIBRARY"]), "..", "tests", "fakes")
driver = ctypes.CDLL(os.path.join(FAKES, "libcuda.so.1"))  # in front of a real one
ctypes.CDLL(os.path.join(FAKES, "libnvrtc.so.1"))
tilejit = here.tilejit
from tilejit import _ops, _plan, _products  # noqa: E402

Hook = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
log = ctypes.CFUNCTYPE(ctypes.c_char_p)(("fake_cuda_log", driver))


class LongWay(Exception):
    pass


class Short:
    """Calls take the short way, or raise LongWay."""

    def __init__(self):
        self.makers = [(_ops, "_fmha"), (_products, "_gemm"), (_ops, "_chunk_o"), (_ops, "_chunk_indices")]

    def __enter__(self):
        self.before = [getattr(*maker) for maker in self.makers]
        for maker in self.makers:
            setattr(*maker, self.refuse)

    def __exit__(self, *_):
        for maker, before in zip(self.makers, self.before):
            setattr(*maker, before)

    @staticmethod
    def refuse(*_, **__):
        raise LongWay


def parameter_bytes(call, folder):
    """How many bytes a call's launch has: a driver that says another number is told it."""
    driver.fake_cuda_set_param_bytes(4095)
    with tilejit.Runtime(cache_dir=folder, target="sm_90a", log_level="off") as runtime:
        try:
            call(runtime)
        except tilejit.Error as error:
            return int(re.search(r"was given (\d+)", str(error)).group(1))
        finally:
            driver.fake_cuda_set_param_bytes(0)


class Launch:
    """The launches while this is entered: their lines in the driver's log, and their parameters."""

    def __init__(self, size=0):
        self.params, self.hook = [], Hook(lambda params, _: self.params.append(ctypes.string_at(params, size)))

    def __enter__(self):
        self.skip = len(log().decode().splitlines())
        driver.fake_cuda_on_launch(self.hook, None)
        return self

    def __exit__(self, *_):
        driver.fake_cuda_on_launch(Hook(), None)
        self.lines = [line for line in log().decode().splitlines()[self.skip:] if line.startswith("cuLaunch")]

    def __eq__(self, other):
        return self.lines == other.lines and self.params == other.params


def short_plan():
    """Runs of plans take the short way, or raise LongWay."""
    return mock.patch.object(_plan, "address_of", Short.refuse)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        driver.fake_cuda_reset()
        self.runtime = tilejit.Runtime(cache_dir=folder.name, target="sm_90a", log_level="off")
        self.addCleanup(self.runtime.close)
        framework.reset()

    def known(self, call):
        """Makes a call until it is known, and once more on the short way; returns what that gave."""
        call()
        with self.assertRaises(LongWay), Short():
            call()
        call()  # the second one makes the plan
        with Short():
            return call()

    def product(self, *shape, **options):
        m, n, k = shape or (64, 32, 128)
        return Array((m, k)), Array((n, k)), options.pop("out", None) or Array((m, n))
