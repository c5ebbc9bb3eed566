"""One run of one test, kept away from everything else.

Decides environment, folders and limits of the process: a mutant may fill memory or a disk, wait for ever, or kill the process number -1.
Invariant: when it returns, no process of the run is left, and what the run wrote lies in its own folder.
"""
import functools
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

SKIPPED = 77
MAX_MEMORY_KB = 16 * 1024 * 1024
MAX_FILE_BLOCKS = 8 * 1024 * 1024   # of 512 bytes
# A shell is the first process of the namespace: the test itself would not die of its own signals there.
SHELL = ["sh", "-c", 'ulimit -c 0; ulimit -S -t "$1"; ulimit -f "$2"; [ "$3" = 0 ] || ulimit -v "$3"; shift 3; "$@"; exit $?', "sh"]
OUT_OF_TIME = 128 + signal.SIGXCPU


class Outcome(NamedTuple):
    status: int       # None: it took too long
    seconds: float    # of all its processors
    output: str

    @property
    def failed(self):
        return self.status not in (0, SKIPPED)


@functools.lru_cache(maxsize=None)
def namespace():
    """Words that give a command processes of its own, which /proc shows, too, where that is allowed; none where nothing is allowed here."""
    own = ["unshare", "--pid", "--fork", "--kill-child"]
    for words in ([*own, "--mount-proc"], own) if shutil.which("unshare") else ():
        if subprocess.run([*words, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return words
    return []


def environment_of(test, folder, replaced):
    """The environment of a test in a folder of its own; replaced: {text: other} in what ctest sets."""
    def other(value):
        for old, new in replaced.items():
            value = value.replace(old, new)
        return value
    values = {name: value for name, value in os.environ.items() if not name.startswith("TJ_")}
    for each in test.environment:
        name, _, value = each.partition("=")
        values[name] = other(value)
    for each in test.modifications:
        name, _, rest = each.partition("=")
        operation, _, value = rest.partition(":")
        old = values.get(name, "")
        if operation == "unset":
            values.pop(name, None)
        elif operation == "path_list_append":
            values[name] = f"{old}:{other(value)}" if old else other(value)
        elif operation == "path_list_prepend":
            values[name] = f"{other(value)}:{old}" if old else other(value)
        else:
            values[name] = {"string_append": old + value, "string_prepend": value + old}.get(operation, other(value))
    values.update(TJ_CACHE_DIR=str(folder / "cache"), TMPDIR=str(folder / "tmp"), HOME=str(folder / "home"))
    return values


def run(test, command, folder, limit_s, replaced=None, sanitized=False, busy_s=3600):
    """Ends it after limit_s of the clock, or when one of its processes has computed for busy_s: a loop without end is seen on a busy machine too."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("cache", "tmp", "home"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    words = [*namespace(), *SHELL, str(int(busy_s) + 1), str(MAX_FILE_BLOCKS), "0" if sanitized else str(MAX_MEMORY_KB), *command]
    begin = time.monotonic()
    with open(folder / "output", "wb") as output:
        process = subprocess.Popen(words, cwd=test.folder, env=environment_of(test, folder, replaced or {}), stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        status, usage = wait(process, begin + limit_s)
    text = (folder / "output").read_bytes()[-20000:].decode(errors="replace")
    shutil.rmtree(folder, ignore_errors=True)
    return Outcome(None if status == OUT_OF_TIME else status, usage.ru_utime + usage.ru_stime, text)


def wait(process, end):
    """(status, use of processors); ends the whole group when the time is over."""
    late, pause = False, 0.005
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid != 0:
            break
        if time.monotonic() > end:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
            pid, status, usage = os.wait4(process.pid, 0)
            break
        time.sleep(pause)
        pause = min(0.1, pause * 1.5)
    try:
        os.killpg(process.pid, signal.SIGKILL)  # children that outlived it, where there is no namespace
    except ProcessLookupError:
        pass
    process.returncode = os.waitstatus_to_exitcode(status)
    return (None if late else process.returncode), usage


def overlay(build, folder, made):
    """A folder that looks like the build folder, but for the files that were made anew: {below the build folder: file}."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in Path(build).iterdir():
        if path.name in ("bin", "lib", "tests") and path.is_dir():
            (folder / path.name).mkdir()
            for each in path.iterdir():
                (folder / path.name / each.name).symlink_to(each)
        else:
            (folder / path.name).symlink_to(path)
    for target, file in made.items():
        place = folder / target
        names = [place]
        if ".so" in place.name:  # also under the shorter names, which are links to it
            stem = place.name.split(".so")[0] + ".so"
            names = [each for each in place.parent.iterdir() if each.name.startswith(stem)] + [place]
        for each in dict.fromkeys(names):
            each.unlink(missing_ok=True)
            each.symlink_to(file)
    return folder
