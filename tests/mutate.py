"""How strong the tests are: changes host code at random, one place at a time, and sees whether a test fails.

    python3 tests/mutate.py                          # 60 mutants of a new seed, which is printed
    python3 tests/mutate.py --seed 7 --count 200 --folder sched --folder cache --jobs 2
    python3 tests/mutate.py --list --seed 7          # which they are; nothing is run
    python3 tests/mutate.py --replay 3fa9c1d2e0      # one of them again, with its test's output
    python3 tests/mutate.py --check                  # mutants that are known to be killed (mutation/known.json) still are

Decides nothing of the mutants themselves (mutation/kinds.py), nor of their verdicts (mutation/judge.py): options, order and reports. The tree
and the build folder stay as they are; what was found is kept in <build>/mutation, so that an interrupted run goes on.
Exit status: 0 done; 1 a known mutant survives or does not apply, or the score is below --at-least; 2 bad use.
"""
import argparse
import collections
import concurrent.futures
import difflib
import fcntl
import json
import os
import queue
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutation import judge, kinds, lists, memory, patches, suite  # noqa: E402
from mutation.build import Build  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
COUNTED = (judge.KILLED, judge.SURVIVED)
MAX_READERS = 6  # objects that include a header, for its mutants to be worth their compilation


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "release"), help="a build folder of Ninja (default: build/release)")
    parser.add_argument("--seed", type=int, help="of the choice; default: a new one, which is printed")
    parser.add_argument("--count", type=int, default=60, help="mutants (default: 60)")
    parser.add_argument("--per-file", type=int, default=2, help="at most so many of a file (default: 2)")
    parser.add_argument("--folder", action="append", default=[], help="of sources: sched, cache, \".\" for src/*.cpp; may be repeated")
    parser.add_argument("--file", action="append", default=[], help="a source below the root; may be repeated")
    parser.add_argument("--headers", action="store_true", help=f"also headers that at most {MAX_READERS} sources include")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: 2)")
    parser.add_argument("--time-limit", type=float, default=0, help="seconds after which no further mutant is begun")
    parser.add_argument("--test-seconds", type=float, default=120, help="of tests for a mutant that survives (default: 120)")
    parser.add_argument("--list", action="store_true", help="print the choice and end")
    parser.add_argument("--replay", metavar="ID", action="append", default=[], help="run a mutant that was chosen before or is listed; may be repeated")
    parser.add_argument("--check", action="store_true", help="run mutation/known.json")
    parser.add_argument("--json", metavar="FILE", help="write all results")
    parser.add_argument("--at-least", type=float, default=0, metavar="PERCENT", help="fail below this score")
    parser.add_argument("--test", action="append", default=[], metavar="NAME", help="only these tests; may be repeated")
    parser.add_argument("--no-build", action="store_true", help="take the build as it is; leave out tests that are not built")
    parser.add_argument("--forget", action="store_true", help="judge again what is known")
    options = parser.parse_args()
    for name in ("count", "per_file", "jobs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(options, name)}: at least 1")
    for name in options.file:
        if not (ROOT / name).is_file():
            parser.error(f"--file {name}: no such file below {ROOT}")
    return options


def sources(options, build):
    """{path: text} of what may be mutated."""
    paths = sorted([*ROOT.glob("src/**/*.cpp"), *ROOT.glob("cache/*.cpp")])
    if options.headers:
        headers = [path for path in sorted([*ROOT.glob("src/**/*.hpp"), *ROOT.glob("cache/*.hpp")])]
        paths += [path for path in headers if 0 < len(build.objects_reading(path.relative_to(ROOT))) <= MAX_READERS]
    names = [str(path.relative_to(ROOT)) for path in paths]
    if options.file:
        names = options.file
    if options.folder:
        wanted = {"" if folder == "." else folder for folder in options.folder}
        unknown = wanted - {suite.folder_of(name) for name in names}
        if unknown:
            raise SystemExit(f"error: --folder {', '.join(sorted(unknown))}: no source there; allowed: "
                             + ", ".join(sorted({suite.folder_of(name) or "." for name in names})))
        names = [name for name in names if suite.folder_of(name) in wanted]
    return {name: (ROOT / name).read_text() for name in names}


def shown(patch, text):
    """One line, or where that says too little the change as a diff."""
    lines = difflib.unified_diff(text.splitlines(), patches.apply(patch, text).splitlines(), f"a/{patch.file}", f"b/{patch.file}", lineterm="", n=2)
    return "\n".join("    " + line for line in lines)


class Job:
    def __init__(self, kind, patch, tests, left_out, entry=None):
        self.kind, self.patch, self.tests, self.left_out, self.entry = kind, patch, tests, left_out, entry
        self.text = (ROOT / patch.file).read_text()
        self.found = judge.Verdict(judge.NOT_RUN, "the time is over")

    def line(self):
        return (f"{self.found.verdict:12} {self.found.seconds:6.1f} s  {self.patch.id}  {self.patch.file}:{patches.line_of(self.patch, self.text)}"
                f"  {self.kind}{'  by ' + self.found.by if self.found.by else ''}")


def run(jobs, judging, options):
    """Judges all, so many at a time; a line for each as it is done."""
    workers = queue.SimpleQueue()
    for worker in range(options.jobs):
        workers.put(worker)
    begin, done = time.monotonic(), 0

    def one(job):
        worker = workers.get()
        try:
            if not options.time_limit or time.monotonic() - begin < options.time_limit:
                job.found = judging.judge(job.patch, job.tests, job.left_out, worker)
        finally:
            workers.put(worker)
        return job

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for each in concurrent.futures.as_completed([pool.submit(one, job) for job in jobs if job.found.verdict == judge.NOT_RUN]):
            done += 1
            print(f"[{done}/{len(jobs)}] {each.result().line()}", flush=True)


def score_of(jobs):
    counts = collections.Counter(job.found.verdict for job in jobs)
    counted = sum(counts[verdict] for verdict in COUNTED)
    return counts, counts[judge.KILLED], counted, 100.0 * counts[judge.KILLED] / counted if counted else 0.0


def table(title, jobs, name_of):
    print(f"\n{title:14} killed/counted")
    for name in sorted({name_of(job) for job in jobs}):
        _, killed, counted, _ = score_of([job for job in jobs if name_of(job) == name])
        if counted:
            print(f"  {name or 'src':12} {killed}/{counted}")


def report(jobs):
    survivors = [job for job in jobs if job.found.verdict == judge.SURVIVED]
    for job in survivors:
        ran = ", ".join(job.found.ran[:12]) + (f" and {len(job.found.ran) - 12} more" if len(job.found.ran) > 12 else "")
        left = f"; {job.found.left_out} tests left out, see --test-seconds" if job.found.left_out else ""
        print(f"\nsurvived: {job.patch.id} ({job.kind})\n{shown(job.patch, job.text)}\n    passed: {ran}{left}")
    table("folder", jobs, lambda job: suite.folder_of(job.patch.file))
    table("kind", jobs, lambda job: job.kind)
    counts, killed, counted, score = score_of(jobs)
    print("\n" + ", ".join(f"{counts[verdict]} {verdict}" for verdict in
                           (judge.KILLED, judge.SURVIVED, judge.EQUIVALENT, judge.SPEED, judge.NOT_COMPILED, judge.NOT_RUN) if counts[verdict]))
    return score, f"score: {killed} of {counted} killed ({score:.0f}%)"


def write_json(path, jobs, **more):
    rows = [{"id": job.patch.id, "kind": job.kind, **lists.entry_of(job.patch), **job.found._asdict()} for job in jobs]
    Path(path).write_text(json.dumps({**more, "mutants": rows}, indent=1) + "\n")


def random_jobs(options, build, listed, cost, kept):
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}", flush=True)
    texts = sources(options, build)
    mutants = kinds.choose(texts, seed, options.count, options.per_file)
    kept.keep_patches([mutant.patch for mutant in mutants])
    known = lists.Equivalents(ROOT, lists.read(lists.EQUIVALENTS))
    for problem in known.stale:
        print(f"warning: equivalents.json: {problem}")
    jobs = []
    for mutant in mutants:
        job = Job(mutant.kind, mutant.patch, *suite.chosen(mutant.patch.file, listed, cost, options.test_seconds))
        entry = known.reason(mutant.kind, mutant.patch, job.text)
        if entry:
            job.found = judge.Verdict(entry["class"], entry["reason"])
        jobs.append(job)
    return seed, jobs


def known_jobs(listed, entries):
    """(jobs, problems) of the recorded mutants, each with its own tests alone. Those of a kind that another entry stands for, "full", are run
    with TJ_TEST_FULL=1 alone, as tests/run.sh --full sets it; whether they apply is looked at each time."""
    full = os.environ.get("TJ_TEST_FULL", "0") not in ("", "0")
    by_name, jobs, problems = {test.name: test for test in listed}, [], []
    for entry in entries:
        patch = lists.patch_of(entry)
        missing = [name for name in entry["tests"] if name not in by_name]
        try:
            patches.apply(patch, (ROOT / patch.file).read_text())
            if full or not entry.get("full"):
                jobs.append(Job("known", patch, [by_name[name] for name in entry["tests"] if name in by_name], 0, entry))
        except (patches.Stale, OSError) as problem:
            problems.append(f"{problem}; write the entry anew, or take it out with the code that it was for")
        problems += [f"{patch.file}: there is no test {name}" for name in missing]
    return jobs, problems


def replayed(options, listed, cost, kept):
    found = [patches.Patch(*entry) for entry in map(kept.patch, options.replay) if entry]
    found += [lists.patch_of(each) for each in lists.read(lists.KNOWN) + lists.read(lists.EQUIVALENTS) if "kind" not in each]
    found += [mutant.patch for name in options.file for mutant in kinds.mutants_of(name, (ROOT / name).read_text())]
    patch_of = {patch.id: patch for patch in found}
    for name in options.replay:
        if name not in patch_of:
            raise SystemExit(f"error: --replay {name}: neither chosen before nor listed; with --file all mutants of a file are looked at")
    chosen = [patch_of[name] for name in options.replay]
    return [Job("replay", patch, *suite.chosen(patch.file, listed, cost, options.test_seconds)) for patch in chosen]


def alone(folder):
    """A file that is held while this run lasts: two would compile into the same place and lose each other's verdicts."""
    folder.mkdir(parents=True, exist_ok=True)
    held = open(folder / "lock", "w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"error: another run uses {folder}; wait for its end, or take another --build") from None
    return held


def main():
    options = arguments()
    build = Build(ROOT, options.build)
    held = None if options.list else alone(build.folder / "mutation")  # noqa: F841
    kept = memory.Memory(build.folder / "mutation" / "memory.json", options.forget)
    listed = suite.tests(build.folder)
    unknown = set(options.test) - {test.name for test in listed}
    if unknown:
        raise SystemExit(f"error: --test {', '.join(sorted(unknown))}: no such test; ctest --test-dir {build.folder} -N names them")
    listed = [test for test in listed if not options.test or test.name in options.test]
    cost = {**suite.costs(build.folder), **kept.seconds()}
    seed, problems = None, []
    if options.check:
        jobs, problems = known_jobs(listed, lists.read(lists.KNOWN))
    elif options.replay:
        jobs = replayed(options, listed, cost, kept)
    else:
        seed, jobs = random_jobs(options, build, listed, cost, kept)
    if options.list:
        for job in jobs:
            print(f"{job.patch.id}  {job.patch.file}:{patches.line_of(job.patch, job.text)}  {job.kind}  {job.patch.before}  ->  {job.patch.after}")
        return 0
    if not options.no_build:
        build.make(sorted({target for job in jobs for test in job.tests for target in test.targets}), options.jobs)
    judging = judge.Judge(build, kept, build.folder / "mutation", confirm=not options.check)
    run(jobs, judging, options)
    for job in jobs if options.replay else []:
        print(f"\n{job.patch.id}:\n{shown(job.patch, job.text)}\n{job.found.said}")
    score, text = report(jobs)
    if judging.failing:
        print(f"warning: left out, as they fail without a mutant: {', '.join(sorted(judging.failing))}")
    if options.json:
        write_json(options.json, jobs, seed=seed, score=score)
    if options.check:
        alive = [job for job in jobs if job.found.verdict != judge.KILLED and job.found.by != "the time is over"]
        problems += [f"{job.patch.file}: not killed but {job.found.verdict} ({job.found.by}): {job.entry['why']}" for job in alive]
        for problem in problems:
            print(f"error: {problem}")
        print(text)
        return 1 if problems else 0
    print(text + (f", seed {seed}" if seed is not None else ""))
    return 1 if score < options.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
