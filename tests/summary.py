"""Says what a run of the tests gave, and where its time went.

summary.py RESULTS             reads ctest's JUnit file: one line a test on standard output, "passed|failed|skipped name[: reason]".
                               What a failed test printed goes to standard error, its last lines only.
summary.py --times SPENT STAGE=RESULTS...
                               prints a table of SPENT, whose lines are "stage kind wall_ms cpu_ms", and the slowest tests.
"""
import sys
import xml.etree.ElementTree as ElementTree


LINES_OF_A_FAILURE = 60


def reason(case):
    """The reason that the test printed, else the one that ctest says."""
    output = case.findtext("system-out") or ""
    for line in output.splitlines():
        if line.strip().lower().startswith("skipped:"):
            return line.strip()[len("skipped:"):].strip()
    skipped = case.find("skipped")
    return (skipped.get("message") if skipped is not None else None) or "no reason given"


def print_results(path):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name, status = case.get("name"), case.get("status")
        if status == "run":
            print("passed", name)
        elif status == "fail":
            print("failed", name)
            output = (case.findtext("system-out") or "").rstrip().splitlines()[-LINES_OF_A_FAILURE:]
            print(f"\n-- {name} failed:", *output, sep="\n   ", file=sys.stderr)
        else:
            print("skipped", f"{name}: {reason(case)}")


def time_table(spent):
    """One row a stage: seconds on the wall, then seconds of CPU by kind. The rows are those of CONTRIBUTING.md."""
    rows, stages = {}, []
    for line in spent.splitlines():
        stage, kind, wall_ms, cpu_ms = line.split()
        if stage not in stages:
            stages.append(stage)
        for column, value in (("wall", wall_ms), (kind, cpu_ms)):
            for row in (stage, "all"):
                rows.setdefault(row, {})[column] = rows.get(row, {}).get(column, 0) + int(value) / 1000
    yield "| stage | s | CPU s: configure | compile | link | run |"
    yield "|---|---|---|---|---|---|"
    for row in stages + ["all"]:
        cells = [f"{rows[row][column]:.0f}" if column in rows[row] else "" for column in ("wall", "configure", "compile", "link", "run")]
        yield f"| {row} | {' | '.join(cells)} |"


def slowest(results, count=10):
    """(seconds, stage, test) of the slowest tests of all stages."""
    cases = [(float(case.get("time") or 0), stage, case.get("name"))
             for stage, path in (result.split("=", 1) for result in results) for case in ElementTree.parse(path).getroot().iter("testcase")]
    return sorted(cases, reverse=True)[:count]


def print_times(spent, results):
    print("\nTime:", *time_table(spent), sep="\n")
    print("\nSlowest tests:", *(f"  {seconds:6.1f} s  {stage}: {name}" for seconds, stage, name in slowest(results)), sep="\n")


if __name__ == "__main__":
    if sys.argv[1] == "--times":
        print_times(sys.argv[2], sys.argv[3:])
    else:
        print_results(sys.argv[1])
