"""The package of this repository over the library that was built: tests import this first.

A tree that is neither a wheel nor installed has no library of its own. The loader finds one of that name that is loaded already.
"""
import ctypes
import os
import sys

ROOT = os.environ["TJ_TEST_REPO_DIR"]
ctypes.CDLL(os.environ["TJ_TEST_LIBRARY"])
sys.path[:0] = [os.path.join(ROOT, "src", "python"), os.path.join(ROOT, "tests", "support"), os.path.join(ROOT, "tests", "c_api")]
if os.path.isdir(os.path.join(ROOT, ".deps", "python")):  # ml_dtypes, where tests/setup.sh could fetch it
    sys.path.append(os.path.join(ROOT, ".deps", "python"))

import skips  # noqa: E402, F401
import tilejit  # noqa: E402, F401

try:
    import numpy  # noqa: F401
except ImportError:
    numpy = None
try:
    import ml_dtypes  # noqa: F401
except Exception:  # of another Python's, too
    ml_dtypes = None
NO_NUMPY = "no numpy for this Python"
NO_BF16 = "no ml_dtypes for this Python: numpy has no bf16 without it"
