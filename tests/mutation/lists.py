"""The two lists that are kept: mutants that no test can kill, and mutants that a test is known to kill.

Decides how an entry is matched: by the text that it gives, so that neither a shift of lines nor another layout loses it. An entry with a
"kind" is a rule for all mutants of that kind whose statement has the text "within". Invariant: an entry that no longer applies is reported,
never passed over; a rule's text stands somewhere in its files.
"""
import json
from fnmatch import fnmatch
from pathlib import Path

from mutation import patches

FOLDER = Path(__file__).resolve().parent
EQUIVALENTS, KNOWN = FOLDER / "equivalents.json", FOLDER / "known.json"
CLASSES = ("equivalent", "speed")


def read(path):
    return json.loads(Path(path).read_text())


def patch_of(entry):
    return patches.Patch(entry["file"], entry.get("function", ""), entry["before"], entry["after"], entry.get("nth", 1))


def entry_of(patch, **more):
    entry = {"file": patch.file, "function": patch.function, "before": patch.before, "after": patch.after}
    if patch.nth != 1:
        entry["nth"] = patch.nth
    return {**entry, **more}


class Equivalents:
    """Looks up the reason for which a mutant does not count."""

    def __init__(self, root, entries):
        self.rules = [entry for entry in entries if "kind" in entry]
        self.found, self.stale = {}, []
        for rule in self.rules:
            if not any(rule["within"] in path.read_text() for path in Path(root).glob(rule["file"])):
                self.stale.append(f"{rule['file']}: the rule's text \"{rule['within']}\" is in none of these files")
        for entry in entries:
            if "kind" in entry:
                continue
            patch = patch_of(entry)
            try:
                self.found[(patch.file, words(patches.apply(patch, (Path(root) / patch.file).read_text())))] = entry
            except (patches.Stale, OSError) as problem:
                self.stale.append(str(problem))

    def reason(self, kind, patch, text):
        """The entry for a mutant of a file with this text, or None."""
        for rule in self.rules:
            own = rule["kind"] == kind and fnmatch(patch.file, rule["file"]) and rule.get("function", patch.function) == patch.function
            if own and rule["within"] in patch.before:
                return rule
        if not any(file == patch.file for file, _ in self.found):
            return None
        return self.found.get((patch.file, words(patches.apply(patch, text))))


def words(text):
    return "\n".join(patches.words_of(text))
