"""torch and tilejit.torch for tests: of this Python, else of the python3 that the program's user has, else what tests/setup.sh has put below .deps/.

WHY says why there is none; it is empty where there is one.
"""
import importlib.util
import os
import shutil
import subprocess
import sys

import here

FOLDER = os.path.join(here.ROOT, ".deps", "torch")
_FIND = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'


def _start_again():
    """By the python3 of the PATH, where that one has torch."""
    other = shutil.which("python3")
    if other and not os.path.samefile(other, sys.executable) and "TJ_TEST_STARTED_AGAIN" not in os.environ:
        if subprocess.run([other, "-c", _FIND], stderr=subprocess.DEVNULL).returncode == 0:
            os.environ["TJ_TEST_STARTED_AGAIN"] = "1"
            os.execv(other, [other, "-B", *sys.argv])


def _import():
    """(torch or None, why there is none)"""
    if importlib.util.find_spec("torch") is None:
        _start_again()
        sys.path.append(FOLDER)
    try:
        import torch
        import tilejit.torch  # which refuses old ones
        return torch, ""
    except Exception as error:  # one for another Python, too
        why = str(error).splitlines()[0]
    if os.path.exists(FOLDER + ".why") and not os.path.isdir(os.path.join(FOLDER, "torch")):
        with open(FOLDER + ".why", encoding="utf-8") as file:
            why = file.read().strip()
    return None, f"no torch: {why}"


torch, WHY = _import()
