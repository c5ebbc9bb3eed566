"""What pip asks for a wheel: scikit-build-core's, under the lowest manylinux tag that auditwheel grants it.

Decides the platform tag alone. Invariant: the tag is of the binaries that are inside, whatever machine they were built on.
"""
import os
import re
import subprocess
import sys
import tempfile

from scikit_build_core import build as _backend
from scikit_build_core.build import (  # noqa: F401 -- pip asks this module for them
    build_sdist, get_requires_for_build_sdist, get_requires_for_build_wheel, prepare_metadata_for_build_wheel)


def _run(*words):
    done = subprocess.run([sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout}")
    return done.stdout


def _lowest_tag(wheel):
    said = " ".join(_run("auditwheel", "show", wheel).split())
    found = re.search(r'consistent with the following platform tag: "([a-z0-9_]+)"', said)
    if not found or not found.group(1).startswith("manylinux"):
        raise RuntimeError(f"auditwheel grants no manylinux tag:\n{said}")
    return found.group(1)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as folder:
        wheel = os.path.join(folder, _backend.build_wheel(folder, config_settings, metadata_directory))
        _run("wheel", "tags", "--platform-tag", _lowest_tag(wheel), "--remove", wheel)
        (name,) = os.listdir(folder)
        with open(os.path.join(folder, name), "rb") as made, open(os.path.join(wheel_directory, name), "wb") as out:
            out.write(made.read())
    return name
