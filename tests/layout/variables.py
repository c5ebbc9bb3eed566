"""The rule of the environment's variables: each TJ_ name that is read stands in the one list, by which misspelt ones are found, and in the README.

Decides nothing about what a variable means. Names that begin with TJ_TEST_ are the tests' own and in no list.
"""
import re

FOLDERS = ("src", "cache", "tests", "samples")
SUFFIXES = {".cpp", ".hpp", ".h", ".py"}


def known_variables(root):
    """(the library's list of TJ_ variables, those of the README's table)."""
    listed = re.search(r"kNames\[\] = \{(.*?)\};", (root / "src/support/variables.cpp").read_text(), re.S)
    readme = root / "README.md"
    rows = re.findall(r"^\|[^|]*`TJ_[^|]*\|", readme.read_text(), re.M) if readme.exists() else []
    return set(re.findall(r'"(TJ_\w+)"', listed.group(1) if listed else "")), set(re.findall(r"`(TJ_\w+)`", " ".join(rows)))


def check_variables(root):
    """A variable that is read is in the one list, from which misspelt ones are told; the README's table has the same names."""
    known, documented = known_variables(root)
    for name in sorted(known ^ documented) if documented else []:
        yield f"src/support/variables.cpp:1: {name} is in the list of variables or in README.md's table, not in both"
    ours = r"(?!TJ_TEST_)(TJ_[A-Z]\w*)"
    for folder in FOLDERS:
        for path in sorted(each for each in (root / folder).rglob("*") if each.suffix in SUFFIXES):
            text = path.read_text()
            read = [] if path.parent.name == "layout" else re.findall(rf'(?:getenv\(|environment_variable\(|environ\[|environ\.get\()\s*"{ours}"', text)
            if path.is_relative_to(root / "src/support"):
                read += re.findall(rf'"{ours}"', text)
            for name in sorted(set(read) - known):
                yield f"{path.relative_to(root)}:{text[:text.find(name)].count(chr(10)) + 1}: {name} is not in the list of src/support/variables.cpp"
