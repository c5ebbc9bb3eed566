"""The judgement of one mutant: compiled, linked test by test, and run until a test fails.

Decides the verdict. Does not choose mutants. Invariant: a mutant is killed only by a test that passes on the build as it is, within a bound
that follows from that run. Where asked to confirm, it fails twice with the mutant and passes in between without it: a busy machine kills nothing.
"""
import hashlib
import shutil
import threading
import time
from pathlib import Path
from typing import NamedTuple

from mutation import patches, sandbox

KILLED, SURVIVED, NOT_COMPILED, EQUIVALENT, SPEED, NOT_RUN = "killed", "survived", "not compiled", "equivalent", "speed", "not run"
HANG_FACTOR, HANG_EXTRA_S = 10, 15  # beside the time of the build as it is


class Verdict(NamedTuple):
    verdict: str
    by: str = ""        # the test, or why
    ran: tuple = ()     # names of tests that passed with the mutant
    left_out: int = 0   # tests that would have cost too much
    seconds: float = 0.0
    said: str = ""      # the end of what the test wrote that failed


class Judge:
    def __init__(self, build, memory, folder, confirm=True):
        self.build, self.memory, self.folder, self.confirm = build, memory, Path(folder), confirm
        self.sanitized = "fsanitize" in " ".join(next(iter(build.commands.values()))[0])
        self.failing = set()  # names of tests that fail on the build as it is, and say nothing of a mutant
        self._locks, self._lock = {}, threading.Lock()
        self._hashes, self._plain = {}, {}

    # --- the build as it is ------------------------------------------------------------------------------------------

    def hash_of(self, test):
        """The hash of the files that a test runs and of its own text: two builds with equal hashes behave alike."""
        digest = hashlib.sha256(" ".join(test.command[1:]).encode())
        files = [self.build.folder / target for target in test.targets]
        files += [Path(word) for word in test.command if word.endswith(".py")]
        for path in files:
            with self._lock:
                if path not in self._hashes:
                    self._hashes[path] = hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"?"
                digest.update(self._hashes[path])
        return digest.hexdigest()[:16]

    def baseline(self, test, folder):
        """(passes, seconds of processors, of the clock) without a mutant; run once for each state of its files."""
        with self._lock:
            lock = self._locks.setdefault(test.name, threading.Lock())
        with lock:
            key = self.hash_of(test)
            known = self.memory.baseline(test.name, key)
            if known is None:
                outcome, known = self.plain(test, folder)
                if outcome.failed:
                    self.failing.add(test.name)  # not kept: it may have been late, or another hand may mend it
                else:
                    self.memory.keep_baseline(test.name, key, known)
            return known

    def plain(self, test, folder):
        """(outcome, what baseline() gives) of a run without a mutant."""
        begin = time.monotonic()
        outcome = sandbox.run(test, test.command, folder / "run", test.limit_s, sanitized=self.sanitized)
        return outcome, (outcome.status == 0, outcome.seconds, time.monotonic() - begin)

    # --- a mutant ----------------------------------------------------------------------------------------------------

    def judge(self, patch, tests, left_out, worker):
        """The verdict over these tests, from memory where nothing has changed."""
        text = (self.build.root / patch.file).read_text()
        mutated = patches.apply(patch, text)
        key = hashlib.sha256(f"{patch.file}\n{mutated}".encode()).hexdigest()[:24]
        hashes = {test.name: self.hash_of(test) for test in tests}
        known = self.memory.verdict(key, hashes)
        if known is not None:
            return Verdict(*known)
        begin = time.monotonic()
        folder = self.folder / f"job{worker}"
        shutil.rmtree(folder, ignore_errors=True)
        passed = self.memory.passed(key, hashes)
        found = self._run(patch, mutated, [test for test in tests if test.name not in passed], passed, folder)
        found = found._replace(left_out=left_out, seconds=round(time.monotonic() - begin, 1))
        if found.verdict in (KILLED, SURVIVED, EQUIVALENT, NOT_COMPILED):
            needed = [found.by.split(" ")[0]] if found.verdict == KILLED else [test.name for test in tests] if found.verdict == SURVIVED else []
            self.memory.keep_verdict(key, {name: hashes[name] for name in needed}, found)
        shutil.rmtree(folder, ignore_errors=True)
        return found

    def _run(self, patch, mutated, tests, passed, folder):
        tree = folder / "tree"
        place = tree / patch.file
        place.parent.mkdir(parents=True)
        place.write_text(f'#line 1 "{self.build.root / patch.file}"\n{mutated}' if patch.file.endswith(".cpp") else mutated)
        affected = self.build.objects_reading(patch.file)
        objects, linked, ran, doubtful = {}, {}, list(passed), []
        for test in tests:
            parts = {made for target in test.targets for made in self.build.objects(target)}
            if not parts & set(affected):
                continue
            if not (all((self.build.folder / target).is_file() for target in test.targets) and self.baseline(test, folder)[0]):
                continue
            for made in (made for made in affected if made in parts and made not in objects):
                objects[made] = folder / f"{len(objects)}.o"
                problem = self.build.compile(made, patch.file, tree, objects[made])
                if problem:
                    return Verdict(NOT_COMPILED, first_error(problem))
            problem = self._link(test, objects, linked, folder)
            if problem:
                return Verdict(NOT_COMPILED, first_error(problem))
            outcome = self._test(test, linked, folder, self.baseline(test, folder))
            if outcome.failed and self.confirm:
                passes, *cost = self.plain(test, folder)[1]  # as slow as the machine is now
                outcome = self._test(test, linked, folder, (passes, *cost)) if passes else None
            if outcome is None:
                doubtful.append(test.name)
            elif outcome.failed:
                return Verdict(KILLED, test.name + (" (hangs)" if outcome.status is None else ""), tuple(ran), said=outcome.output[-2000:])
            else:
                ran.append(test.name)
        if doubtful or not ran:
            why = f"fails without it too: {', '.join(doubtful)}" if doubtful else "no test that passes here is linked with it"
            return Verdict(NOT_RUN, why, tuple(ran))
        if patch.file.endswith(".cpp") and self._same_code(patch, tree, affected[0], folder):
            return Verdict(EQUIVALENT, "the same machine code")
        return Verdict(SURVIVED, "", tuple(ran))

    def _link(self, test, objects, linked, folder):
        for target in test.targets:
            parts = set(self.build.objects(target))
            if target in linked or not parts & set(objects):
                continue
            linked[target] = folder / "linked" / target
            linked[target].parent.mkdir(parents=True, exist_ok=True)
            problem = self.build.link(target, {made: other for made, other in objects.items() if made in parts}, linked[target])
            if problem:
                return problem
        return ""

    def _test(self, test, linked, folder, plain):
        _, busy_s, seconds = plain
        busy_s = HANG_FACTOR * busy_s + HANG_EXTRA_S
        limit_s = min(test.limit_s, HANG_FACTOR * seconds + HANG_EXTRA_S)
        first = test.targets[0]
        if test.command[0] == str(self.build.folder / first):
            return sandbox.run(test, [str(linked[first]), *test.command[1:]], folder / "run", limit_s, None, self.sanitized, busy_s)
        other = sandbox.overlay(self.build.folder, folder / "build", linked)
        replaced = {str(self.build.folder): str(other)}
        return sandbox.run(test, test.command, folder / "run", limit_s, replaced, self.sanitized, busy_s)

    def _same_code(self, patch, tree, made, folder):
        """Whether an optimizing compiler makes the same of the file with and without the mutant."""
        bytes_of = []
        source = (self.build.root / patch.file).read_text()
        for name, text in (("mutated", None), ("plain", f'#line 1 "{self.build.root / patch.file}"\n{source}')):
            if text is not None:
                (tree / patch.file).write_text(text)
            output = folder / "same.o"  # one name for both: it may stand in the object
            if self.build.compile(made, patch.file, tree, output, ("-O2", "-w", "-g0")):
                return False
            bytes_of.append(output.read_bytes())
        return bytes_of[0] == bytes_of[1]


def first_error(text):
    lines = [line for line in text.splitlines() if "error" in line or "undefined" in line]
    return (lines or text.splitlines() or [""])[0].strip()[-300:]
