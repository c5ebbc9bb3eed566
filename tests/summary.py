"""Reads ctest's JUnit file: one line a test, "passed|failed|skipped name[: reason]"."""
import sys
import xml.etree.ElementTree as ElementTree


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
        else:
            print("skipped", f"{name}: {reason(case)}")


main()
