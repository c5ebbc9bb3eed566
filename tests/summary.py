"""Reads ctest's JUnit file: one line a test on standard output, "passed|failed|skipped name[: reason]".

What a failed test printed goes to standard error, its last lines only.
"""
import sys
import xml.etree.ElementTree as ElementTree


LINES_OF_A_FAILURE = 60


def reason(case):
    """What the test printed about itself, else what ctest says."""
    output = case.findtext("system-out") or ""
    for line in output.splitlines():
        if line.strip().lower().startswith("skipped:"):
            return line.strip()[len("skipped:"):].strip()
    skipped = case.find("skipped")
    return (skipped.get("message") if skipped is not None else None) or "no reason given"


def main():
    for case in ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
        name, status = case.get("name"), case.get("status")
        if status == "run":
            print("passed", name)
        elif status == "fail":
            print("failed", name)
            output = (case.findtext("system-out") or "").rstrip().splitlines()[-LINES_OF_A_FAILURE:]
            print(f"\n-- {name} failed:", *output, sep="\n   ", file=sys.stderr)
        else:
            print("skipped", f"{name}: {reason(case)}")


main()
