"""Keeps a copy of tilejit.h with its parts, as the version in CMakeLists.txt has them: tests/abi/<version>/tilejit.h, against which later libraries are tested.

    python3 tests/abi/freeze.py             # for a release; CONTRIBUTING.md says when
    python3 tests/abi/freeze.py --replace   # while the version is not released, when the header has changed

The copy of a released version is never changed. program.c beside it is written by hand: it calls every function of the copy. For a new version this
script takes the one of the version before, and says what it lacks.
"""
import argparse
import re
import shutil
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
sys.path.insert(0, str(FOLDER))
from header import PART, Header, parts  # noqa: E402


def current_version():
    return re.search(r"^project\(tilejit VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)


def frozen():
    """Folders of the frozen versions, the oldest first."""
    return sorted((p.parent for p in FOLDER.glob("*/tilejit.h")), key=lambda p: tuple(map(int, p.name.split("."))))


def not_called(folder):
    program = (folder / "program.c").read_text()
    return [name for name in Header(folder / "tilejit.h").functions if not re.search(rf"\b{name}\(", program)]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--replace", action="store_true", help="write over the copy of a version that is not released yet")
    replace = arguments.parse_args().replace
    folder = FOLDER / current_version()
    before = [other for other in frozen() if other != folder]
    if (folder / "tilejit.h").exists() and not replace:
        sys.exit(f"{folder.relative_to(ROOT)}/tilejit.h is there; raise the version, or, if this one is not released, give --replace")
    folder.mkdir(exist_ok=True)
    for part in parts(ROOT / "include/tilejit/tilejit.h"):
        text = re.sub(PART, r'#include "\1"\2', part.read_text(encoding="utf-8"), flags=re.M)
        (folder / part.name).write_text(text, encoding="utf-8")
        print(f"wrote {folder.relative_to(ROOT)}/{part.name}")
    if not (folder / "program.c").exists():
        if not before:
            sys.exit(f"write {folder.relative_to(ROOT)}/program.c, a program that calls every function")
        shutil.copyfile(before[-1] / "program.c", folder / "program.c")
    if not_called(folder):
        sys.exit(f"{folder.relative_to(ROOT)}/program.c does not call {', '.join(not_called(folder))}: add the calls, and what they must give")


if __name__ == "__main__":
    main()
