"""Protects tests/gpu/compare.py where there is no GPU: its references and metrics, its command line, that it says clearly what is missing, and that parts
of a run become one table in RESULTS.md."""
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = os.environ["TJ_TEST_REPO_DIR"]
sys.path[:0] = [os.path.join(ROOT, "tests", "support"), os.path.join(ROOT, "tests", "gpu")]
import compare  # noqa: E402
import drawing  # noqa: E402
import record  # noqa: E402
import skips  # noqa: E402
import timing  # noqa: E402

SCRIPT = os.path.join(ROOT, "tests", "gpu", "compare.py")
# NumPy may belong to another interpreter than the one that runs the tests: the system's.
INTERPRETERS = [sys.executable, shutil.which("python3", path=os.defpath)]


def run(interpreter, *words):
    return subprocess.run([interpreter, "-B", SCRIPT, *words], capture_output=True, text=True)


def run_here(*words):
    """The same in this process, for what needs no other interpreter."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            code = compare.main(list(words))
        except SystemExit as stopped:
            code = stopped.code
    return types.SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def row_of(problem, graph, again=None, slower=None):
    """A row as speed.py makes it, with these ratios over cuBLAS."""
    def timing(ratio):
        one = {"median_us": 10.0, "p10_us": 9.0, "p90_us": 11.0, "runs": 50}
        times = {way: {"tilejit": one, "cublas": {**one, "median_us": 10 * ratio}} for way in ("single", "graph")}
        return {"times": times, "ratios": {way: {"cublas": ratio} for way in times}}
    tiles = {"tiles": {"tiles": 3, "predicted": "a", "best": "a" if slower == 1 else "b", "predicted_us": 10 * slower, "best_us": 10.0, "slower": slower}} if slower else {}
    return {**problem, "timings": [timing(ratio) for ratio in (graph, again) if ratio], "rates": {"single": {"tflops": 400.0}, "graph": {"tflops": 500.0}}, "refused": {},
            "check": {"error": 1e-4, "limit": 5e-4, "ok": True}, "wrong": False, "kernel": "gemm_f16_x", **tiles}


def document_of(problems, part, date="2026-01-02 03:04 UTC", **machine):
    """A document as a run of one slice leaves it."""
    rows = [row_of(problem, 0.9 + problem["number"] / 100, 0.95 if problem["number"] < 3 else None, 1.0 + problem["number"] / 50) for problem in drawing.slice_of(problems, part)]
    return {"date": date, "draw": {"op": "gemm", "sizes": "drawn", "seed": 5, "count": len(problems), "digest": "d", "tile": None, "tuned": False, "rounds": 10, "runs": 5},
            "machine": {"gpu": "GPU X", "driver": "1.2", "cuda": "13.0", "pytorch": "2", "cudnn": "9", "triton": "3", "python": "3", "target": "sm_90a", "tilejit": "0.1.0",
                        "build_id": "0123456789abcdef", "commit": "abc", **machine},
            "rows": rows, "missing": [p["number"] for p in problems if p["number"] not in {row["number"] for row in rows}],
            "parts": [{"command": f"python3 tests/gpu/compare.py --slice {part}", "date": date}]}


class Order(unittest.TestCase):
    def test_each_comes_as_often_behind_each_other_one(self):
        for count in range(1, 7):
            names = [f"kernel {n}" for n in range(count)]
            behind = []
            for turn in range(2 * count):
                order = timing.order_of(names, turn)
                self.assertEqual(names, sorted(order))
                behind += zip(order, order[1:])
            self.assertEqual(2 * count * (count - 1), len(behind))
            self.assertEqual({2} if count > 1 else set(), {behind.count(pair) for pair in set(behind)})


class Compare(unittest.TestCase):
    def test_self_test(self):
        done = [run(interpreter, "--self-test") for interpreter in INTERPRETERS if interpreter]
        if all(d.returncode == 77 for d in done):
            self.skipTest("NumPy is not installed (Debian: python3-numpy)")
        for d in done:
            self.assertIn(d.returncode, (0, 77), d.stderr)

    def test_says_what_is_missing(self):
        # An isolated interpreter sees no PyTorch, whatever this machine has.
        done = subprocess.run([sys.executable, "-B", "-S", SCRIPT, "--library", os.environ["TJ_TEST_LIBRARY"]], capture_output=True, text=True)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("PyTorch is not installed", done.stderr)

    def test_bad_use(self):
        """Each is refused with what is allowed."""
        for words, said in ((["--what", "nothing"], "chunk_o"), (["--op", "fmha", "--tile", "128x256x64"], "--op gemm"), (["--op", "gemm", "--tune", "--tile", "128x256x64"], "one of them"),
                            (["--op", "chunk_o", "--dtype", "f16"], "allowed with --op chunk_o: bf16"), (["--op", "chunk_o", "--chunk-heads", "16/33"], "multiple of H"),
                            (["--op", "chunk_o", "--chunk-tokens", "1000"], "multiples of 256"), (["--slice", "3/2"], "'3/2'"), (["--slice", "0/2"], "I from 1 to N"),
                            (["--op", "gemm", "--sizes", "3x4"], "MxNxK"), (["--sizes", "4096"], "--op gemm"), (["--count", "0"], "from 1 on"), (["--seed", "x"], "'x'"),
                            (["--time-limit", "0"], "seconds above 0"), (["--head-dim", "80"], "64, 128"), (["--sizes", "fixed", "--count", "3"], "--sizes drawn"),
                            (["--op", "gemm", "--fa3", "x.so"], "--op fmha"), (["--op", "gemm", "--dtype", "f16,e4m3"], "by itself"), (["--op", "gemm", "--seq", "5"], "--op fmha"),
                            (["--op", "fmha", "--seq", "512,1000", "--tokens", "16384"], "multiples of all lengths, which are 512, 1000"),
                            (["--op", "fmha", "--tokens", "16384"], "--op fmha --seq"), (["--op", "gemm", "--tokens", "100"], "--op fmha --seq"),
                            (["--kv-heads", "5"], "divisors"), (["--op", "gemm", "--sizes", "peers", "--scales", "row"], "--scales block"),
                            (["--op", "fmha", "--sizes", "peers"], "--op gemm"), (["--op", "gemm", "--dtype", "e4m3", "--sizes", "64x24x64"], "multiples of 16"),
                            (["--fa3", "/nowhere/x.so"], "fa3_forward"), (["--merge", "/nowhere/a.json"], "/nowhere/a.json"), (["--merge", SCRIPT], "JSON")):
            with self.subTest(words=words):
                done = run_here(*words)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(said, done.stderr)

    def test_list_repeats_by_its_seed(self):
        first = run(sys.executable, "--op", "fmha", "--list", "--count", "9")
        self.assertEqual(first.returncode, 0, first.stderr)
        line, *problems = first.stdout.splitlines()
        self.assertEqual(len(problems), 9)
        seed = line.split()[1]
        self.assertEqual(run_here("--op", "fmha", "--list", "--count", "9", "--seed", seed).stdout, first.stdout)
        self.assertNotEqual(run_here("--op", "fmha", "--list", "--count", "9").stdout, first.stdout)
        parts = [run_here("--op", "fmha", "--list", "--count", "9", "--seed", seed, "--slice", f"{i}/2").stdout.splitlines()[1:] for i in (1, 2)]
        self.assertEqual(sorted(sum(parts, [])), sorted(problems))


    def test_list_of_peers(self):
        done = run_here("--op", "gemm", "--sizes", "peers", "--list")
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 13), done.stderr)
        self.assertIn("--scales block", done.stdout)


class Merge(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tilejit_compare_")
        self.addCleanup(self.folder.cleanup)
        self.problems = drawing.draw("gemm", 5, 12)

    def write(self, name, document):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        return path

    def parts(self, count):
        return [self.write(f"{i}.json", document_of(self.problems, (i, count))) for i in range(1, count + 1)]

    def test_parts_are_the_whole(self):
        whole = document_of(self.problems, None)
        merged = record.merge([document_of(self.problems, (i, 5)) for i in (3, 1, 2, 5, 4)], list("abcde"))
        self.assertEqual(merged["rows"], whole["rows"])
        self.assertEqual(merged["missing"], [])

    def test_into_a_record(self):
        results, joined = (os.path.join(self.folder.name, name) for name in ("RESULTS.md", "all.json"))
        first, second, third = self.parts(3)
        done = run_here("--merge", first, third, "--record", results, "--json", joined)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Missing of 12: 1, 4, 7, 10.", done.stdout)
        done = run_here("--merge", joined, second, "--record", results, "--markdown", os.path.join(self.folder.name, "all.md"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("poisoned: 12, of them 0 wrong", done.stdout)
        with open(results, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(len(record.entries(text)), 2)
        self.assertEqual(record.changed_by_hand(text), [])
        self.assertNotIn("Missing", record.entries(text)[0])  # the newer one
        again = run_here("--merge", *self.parts(3), "--record", results)
        self.assertEqual(again.returncode, 0, again.stderr)  # made of other parts: another record
        twice = run_here("--merge", *self.parts(3), "--record", results)
        self.assertEqual(twice.returncode, 2)
        self.assertIn("there already", twice.stderr)

    def test_refused(self):
        one, two = document_of(self.problems, (1, 2)), document_of(self.problems, (2, 2))
        for other, said in ((one, "share none"), ({**two, "draw": {**two["draw"], "seed": 6}}, "seed 6"), (document_of(self.problems, (2, 2), commit="def"), "commit def")):
            with self.subTest(said=said):
                done = run_here("--merge", self.write("one.json", one), self.write("other.json", other))
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)

    def test_wrong_results_fail(self):
        document = document_of(self.problems, None)
        document["rows"][3]["wrong"] = True
        done = run_here("--merge", self.write("all.json", document))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("12, of them 1 wrong", done.stdout)

    def test_what_is_missing_can_be_listed(self):
        first, _, third = self.parts(3)
        done = run_here("--op", "gemm", "--seed", "5", "--count", "12", "--list", "--without", first, third)
        self.assertEqual([int(line.split()[0]) for line in done.stdout.splitlines()[1:]], [1, 4, 7, 10])


class Predict(unittest.TestCase):
    def run_script(self, *words, **more):
        return subprocess.run([sys.executable, "-B", os.path.join(ROOT, "tests", "gpu", "gemm_predict.py"), *words], capture_output=True, text=True, **more)

    def test_self_test(self):
        done = self.run_script("--self-test")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_bad_use(self):
        self.assertEqual(self.run_script().returncode, 2)
        done = self.run_script("--library", "/nowhere/lib/libtilejit.so")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/bin/tj-schedule is missing", done.stderr)


if __name__ == "__main__":
    skips.main()
