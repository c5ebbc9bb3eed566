"""python -m tilejit: what is here. --cmake-dir and --include-dir print folders for builds in C++ and C."""
from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import sys

from . import Error, devices
from ._library import FOLDER, check, library


def _describe() -> dict:
    out = ctypes.c_char_p()
    check(library().tj_describe(ctypes.byref(out)))
    return json.loads(out.value)


def _folder(*parts) -> str:
    path = os.path.join(FOLDER, *parts)
    if not os.path.isdir(path):
        raise Error(f"{path} is not there: this package is no wheel; cmake --install has the folder below its prefix", "argument", "not_found")
    return path


def _show() -> None:
    known = _describe()
    print(f"tilejit {known['version']}, build {known['build_id'][:12]}, Python {platform.python_version()}")
    print(f"library  {known['file']}")
    print(f"NVRTC    {known['nvrtc'] or 'none found; pip install tilejit[cuda] brings one'}")
    print(f"cache    {known['cache_dir'] or 'in memory alone: there is no folder for one'}")
    frameworks = [name for name, symbol in (("tvm-ffi", "__tvm_ffi_fmha"), ("JAX", "tj_xla_fmha")) if hasattr(library(), symbol)]
    print(f"symbols  for {', '.join(frameworks) or 'no framework'}")
    found = devices()
    for number, device in enumerate(found):
        print(f"{'devices' if number == 0 else '':8} {device}: {device.target}")
    if not found:
        print("devices  none")
    line = "targets "
    for target in known["targets"]:
        if len(line) + len(target) > 100:
            print(line)
            line = " " * 8
        line += " " + target
    print(line)
    print("         each with a model on the CPU, such as model:sm_90a")


def tool() -> None:
    """The program that the command is named for, in the place of this process."""
    program = os.path.join(FOLDER, "bin", "tj-tools")
    os.execv(program, [os.path.basename(sys.argv[0]), *sys.argv[1:]])


def main() -> int:
    # Its own --help would end the process, and say nothing of an output that cannot be written.
    parser = argparse.ArgumentParser(prog="python -m tilejit", description="Prints devices, targets, cache and versions.", add_help=False)
    parser.add_argument("-h", "--help", action="store_true", help="show this help message and exit")
    parser.add_argument("--cmake-dir", action="store_true", help="print the folder for CMake's tilejit_DIR")
    parser.add_argument("--include-dir", action="store_true", help="print the folder of tilejit/tilejit.hpp")
    given = parser.parse_args()
    if sys.stdout is None:  # closed before Python started
        print("tilejit: standard output is closed", file=sys.stderr)
        return 1
    try:
        if given.help:
            print(parser.format_help(), end="")
        elif given.cmake_dir or given.include_dir:
            if given.cmake_dir:
                print(_folder("lib", "cmake", "tilejit"))
            if given.include_dir:
                print(_folder("include"))
        else:
            _show()
        sys.stdout.flush()
    except Error as error:
        print(f"tilejit: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        sys.stdout = None  # Python would try again at its end
        print(f"tilejit: standard output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
