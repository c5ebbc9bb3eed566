"""The memory of earlier runs, so that an interrupted run goes on and nothing is judged twice.

Decides when an old verdict still holds: the mutated file is the same, and so are all files of the tests that it rests on. Invariant: the
file is replaced as a whole, so that a run which is ended at any moment leaves one that can be read.
"""
import json
import os
import threading
from pathlib import Path

FORMAT = 2


class Memory:
    def __init__(self, path, forget=False):
        self.path = Path(path)
        self._lock = threading.Lock()
        self.data = {"format": FORMAT, "baselines": {}, "verdicts": {}, "patches": {}}
        if not forget and self.path.is_file():
            try:
                read = json.loads(self.path.read_text())
                if read.get("format") == FORMAT:
                    self.data.update(read)
            except ValueError:
                pass  # of another hand: begin anew

    def baseline(self, name, key):
        known = self.data["baselines"].get(name)
        return tuple(known[1]) if known and known[0] == key else None

    def keep_baseline(self, name, key, found):
        with self._lock:
            self.data["baselines"][name] = [key, list(found)]
            self._write()

    def seconds(self):
        """The seconds of each test, on the build as it was."""
        return {name: found[1][1] for name, found in self.data["baselines"].items()}

    def verdict(self, key, hashes):
        """The verdict that was kept; None where a test that it rests on has changed, or where a test is to be run that it has not met."""
        known = self.data["verdicts"].get(key)
        if known is None or any(hashes.get(name, value) != value for name, value in known["tests"].items()):
            return None
        verdict, by, ran, left_out, seconds, said = known["verdict"]
        if (verdict == "killed" and by.split(" ")[0] not in hashes) or (verdict == "survived" and set(hashes) - set(known["tests"])):
            return None
        return verdict, by, tuple(ran), left_out, seconds, said

    def passed(self, key, hashes):
        """Names of tests, as they are now, that this mutant is known to survive."""
        known = self.data["verdicts"].get(key, {"tests": {}, "verdict": ["", "", [], 0, 0, ""]})
        if known["verdict"][0] != "survived":
            return []
        return [name for name, value in known["tests"].items() if hashes.get(name) == value]

    def keep_verdict(self, key, hashes, verdict):
        with self._lock:
            self.data["verdicts"][key] = {"tests": hashes, "verdict": list(verdict)}
            self._write()

    def patch(self, name):
        return self.data["patches"].get(name)

    def keep_patches(self, found):
        with self._lock:
            self.data["patches"].update({patch.id: list(patch) for patch in found})
            self._write()

    def _write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(self.data))
        fresh.replace(self.path)
