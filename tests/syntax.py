"""Compiles by clang++ what no other stage does, for its warnings alone: nothing is linked, nothing is run.

Usage: syntax.py BUILD [DONE...]. BUILD is a configured build folder whose compiler is clang++, with -DTJ_PCH=ON or without. DONE are other build
folders of the same compiler: what they have compiled is left out. Errors go to standard output; the exit status is 0 only without one.
"""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path


def commands(build):
    """Source file -> its command, by the path below the repository."""
    return {entry["file"]: entry for entry in json.loads((Path(build) / "compile_commands.json").read_text())}


def sources_of(file):
    """The files that are compiled by compiling this one: those that are compiled as one, or the file itself."""
    if "/Unity/unity_" not in file:
        return {file}
    return set(re.findall(r'^#include "(/.+\.cpp)"$', Path(file).read_text(), re.MULTILINE))


def made_by(build):
    """Sources whose objects lie in a build folder: a target that was not asked for has none."""
    for file, entry in commands(build).items():
        words = shlex.split(entry["command"])
        if (Path(entry["directory"]) / words[words.index("-o") + 1]).is_file():
            yield from sources_of(file)


def make_inputs(build, entries):
    """Precompiled headers and generated sources, which the commands below read."""
    wanted = {header for entry in entries for header in re.findall(r"-include-pch -Xclang (\S+)", entry["command"])}
    wanted |= {entry["file"] for entry in entries if Path(entry["file"]).is_relative_to(Path(build).resolve() / "generated")}
    names = sorted(os.path.relpath(name, build) for name in wanted)
    if names:
        subprocess.run(["cmake", "--build", build, "--target", *names], check=True, stdout=subprocess.DEVNULL)


def check(entry):
    words = shlex.split(entry["command"])
    words[words.index("-o"):words.index("-o") + 2] = ["-fsyntax-only"]
    done = subprocess.run(words, cwd=entry["directory"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def main(build, *others):
    own, done = commands(build), set()
    for other in others:
        if (Path(other) / "compile_commands.json").exists():
            done.update(made_by(other))
    entries = [entry for file, entry in own.items() if not sources_of(file) <= done and "cmake_pch" not in file]
    make_inputs(build, entries)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for status, output in pool.map(check, entries):
            if output:
                print(output, end="")
            failed += status != 0
    print(f"{len(entries)} files checked by clang++, {failed} refused")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
