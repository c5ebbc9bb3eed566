"""Calls on the short way: the driver, the compiler and the framework that tests have in the place of real ones, and which way a call takes."""
import ctypes
import os
import tempfile
import unittest

import here
import framework
from framework import Array

FAKES = os.path.join(os.path.dirname(os.environ["TJ_TEST_LIBRARY"]), "..", "tests", "fakes")
driver = ctypes.CDLL(os.path.join(FAKES, "libcuda.so.1"))  # in front of a real one
ctypes.CDLL(os.path.join(FAKES, "libnvrtc.so.1"))
tilejit = here.tilejit
from tilejit import _ops  # noqa: E402


class LongWay(Exception):
    pass


class Short:
    """Calls take the short way, or raise LongWay."""

    def __init__(self):
        self.makers = [name for name in ("_fmha", "_gemm", "_chunk_o", "_chunk_indices")]

    def __enter__(self):
        self.before = {name: getattr(_ops, name) for name in self.makers}
        for name in self.makers:
            setattr(_ops, name, self.refuse)

    def __exit__(self, *_):
        for name, maker in self.before.items():
            setattr(_ops, name, maker)

    @staticmethod
    def refuse(*_, **__):
        raise LongWay


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
