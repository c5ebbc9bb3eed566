"""The build's tests, as ctest lists them, and which of them may notice a change in a folder.

Decides the order in which a mutant meets tests: cheap ones and those of its own name first. Takes commands, labels and limits from ctest, and
arrows between folders from tests/layout. Invariant: no test is chosen that cannot run here (a GPU's) or whose files lack the mutated object.
"""
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "layout"))
import rules  # noqa: E402

USUAL_COST_S = {"unit": 0.5, "model": 4.0, "compile": 15.0}
OWN_TESTS = {"": ("runtime", "c_api", "custom"), "api": ("c_api", "runtime", "python"), "ffi": ("ffi", "python"), "tuning": ("runtime",)}  # "": src/*.cpp
CROSS = {"sched": ("ops", "custom", "samples"), "codegen": ("ops", "custom"), "graph": ("custom",), "launch": ("ops",), "tools": ("check",)}
NEAR = {"": ("check.program_model",), "codegen": ("tools.units",), "ops": ("tools.units", "arch.needs")}  # tests elsewhere that are as near as a folder's own
NEAR_FILES = {"c_args": "c_api"}  # by a source's name, wherever it lies: a folder of tests
CHEAP_S = 1.0  # tests of the own folder that cost no more are never left out for dearer ones
SAME_WORD, SAME_FOLDER = 4.0, 3.0  # how much more a test with a word of the source's name, or of its folder, may cost for its turn
NO_WORDS = {"model", "compile", "gpu", "test"}  # of tests: labels


class Test(NamedTuple):
    name: str
    command: tuple
    labels: tuple
    environment: tuple   # of "NAME=value"
    modifications: tuple  # of "NAME=operation:value"
    limit_s: float
    folder: str          # it runs in
    targets: tuple       # files of the build folder that it runs, below it


def properties_of(entry):
    return {each["name"]: each["value"] for each in entry.get("properties", [])}


def targets_of(command, environment, folder):
    """Files of the build folder that a test's behaviour comes from."""
    prefix = f"{folder}/"
    if command and command[0].startswith(prefix):
        return (command[0][len(prefix):],)
    script = next((Path(word) for word in command if word.endswith(".py")), None)
    text = text_of(script) if script and script.is_file() else ""
    found = [value.split("=", 1)[1][len(prefix):] for value in environment
             if re.search("TJ_TEST_(LIBRARY|BUILD_DIR)", text) and value.startswith("TJ_TEST_LIBRARY=" + prefix)]
    if "TJ_TEST_BUILD_DIR" in text:
        found += sorted(str(path.relative_to(folder)) for path in (folder / "bin").glob("tj-*"))
    return tuple(found)


def text_of(script):
    """A script's text and that of the modules beside it that it imports."""
    text = script.read_text()
    beside = [script.parent / f"{name}.py" for name in re.findall(r"^(?:import|from)\s+(\w+)", text, re.M)]
    return text + "".join(path.read_text() for path in beside if path.is_file())


def not_built(folder):
    """{name: command} of all tests: ctest itself names no command of a program that was not built."""
    text = (folder / "CTestTestfile.cmake").read_text()
    return {name: re.findall(r'"((?:\\.|[^"\\])*)"', words) for name, words in re.findall(r"add_test\(\[=+\[(.*?)\]=+\]\s+([^\n]*)\)", text)}


def tests(folder):
    shown = subprocess.run(["ctest", "--test-dir", str(folder), "--show-only=json-v1"], stdout=subprocess.PIPE, text=True, check=True).stdout
    commands, found = not_built(folder), []
    for entry in json.loads(shown)["tests"]:
        has = properties_of(entry)
        command = entry.get("command") or commands.get(entry["name"], [])
        environment = has.get("ENVIRONMENT", [])
        found.append(Test(entry["name"], tuple(command), tuple(has.get("LABELS", [])), tuple(environment), tuple(has.get("ENVIRONMENT_MODIFICATION", [])),
                          float(has.get("TIMEOUT", 600)), has.get("WORKING_DIRECTORY", str(folder)), targets_of(command, environment, folder)))
    return found


def costs(folder):
    """Seconds of each test when ctest last ran it."""
    listed = folder / "Testing" / "Temporary" / "CTestCostData.txt"
    found = {}
    for line in listed.read_text().splitlines() if listed.is_file() else []:
        words = line.split()
        if len(words) == 3 and float(words[2]) > 0:
            found[words[0]] = float(words[2])
    return found


def folder_of(path):
    parts = Path(path).parts
    if parts[0] == "src":
        return parts[1] if len(parts) > 2 else ""
    return parts[0]


def folders_for(folder):
    """(own, others): folders of tests that may notice a change in a folder of sources: its own, and those of who includes it."""
    own = OWN_TESTS.get(folder, (folder,))
    readers = [each for each, may in rules.ARROWS.items() if folder in may]
    others = [name for each in readers for name in OWN_TESTS.get(each, (each,))] + list(CROSS.get(folder, ()))
    return own, tuple(name for name in dict.fromkeys(others) if name not in own)


def usual_cost(test):
    return next((cost for label, cost in USUAL_COST_S.items() if label in test.labels), 10.0)


def words_of(name):
    """One for many: picture.cpp is tested by pictures_test.cpp."""
    return {word.removesuffix("s") for word in name.split("_")}


def chosen(path, listed, cost, limit_s):
    """Tests for a mutant of a file, in order, of at most that cost together; and how many were left out for it.

    Those of its own folder are taken before others, cheap ones and those of its own name first. They are run by what they cost for their worth.
    """
    own, others = folders_for(folder_of(path))
    near, near_folder = NEAR.get(folder_of(path), ()), NEAR_FILES.get(Path(path).stem)
    stem = set().union(*(words_of(part) for part in Path(path).with_suffix("").parts[1:])) - words_of(own[0])
    ranked = []
    for test in listed:
        folder, _, name = test.name.partition(".")
        if not test.targets or not set(test.labels) & set(USUAL_COST_S) or folder not in own + others + (near_folder,):
            continue
        is_own = folder in own or folder == near_folder or test.name in near
        common = len(stem & (words_of(name) - NO_WORDS))
        worth = (SAME_FOLDER if is_own else 1.0) * SAME_WORD ** common
        seconds = cost.get(test.name, usual_cost(test))
        ranked.append(((not is_own, seconds > CHEAP_S, -common, seconds, test.name), (seconds + 0.2) / worth, test))
    taken, spent = [], 0.0
    for first, turn, test in sorted(ranked, key=lambda each: each[0]):
        if spent + first[3] <= limit_s:
            taken.append((turn, test.name, test))
            spent += first[3]
    return [test for _, _, test in sorted(taken, key=lambda each: each[:2])], len(ranked) - len(taken)
