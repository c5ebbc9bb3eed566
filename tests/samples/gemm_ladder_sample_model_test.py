"""Protects sample 02_gemm_ladder as a user runs it on the CPU model: all rungs right, its table, JSON and Markdown, exit codes, mistakes named."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

BUILD = os.environ["TJ_TEST_BUILD_DIR"]
PROGRAM = os.path.join(BUILD, "samples", "02_gemm_ladder")


@unittest.skipUnless(os.path.exists(PROGRAM), "the samples are not built (TJ_SAMPLES)")
class Sample(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def file(self, name):
        return os.path.join(self.folder.name, name)

    def run_sample(self, *words):
        environment = {**os.environ, "TJ_CACHE_DIR": self.file("cache"), "LD_LIBRARY_PATH": os.path.join(BUILD, "lib") + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
        environment.pop("TJ_TARGET", None)
        words = words if "--target" in words else ("--target", "model:sm_90a", *words)
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment)

    def test_all(self):
        done = self.run_sample("--size", "100,300,136", "--json", self.file("l.json"), "--markdown", self.file("l.md"), "--seed", "7")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for part in ("model:sm_90a on cpu", "seed 7", "say nothing of a GPU", "what the schedule changed", "check    ok"):
            self.assertIn(part, done.stdout)
        with open(self.file("l.json"), encoding="utf-8") as file:
            ladder = json.load(file)
        rungs = {rung["rung"]: rung for rung in ladder["rungs"]}
        self.assertEqual(list(rungs), [f"v{i}" for i in range(1, 11)])
        self.assertTrue(ladder["right"])
        for rung in rungs.values():
            self.assertLessEqual(rung["error"], rung["limit"])
            self.assertEqual(rung["rows_compared"], rung["m"])
        self.assertEqual([rungs[v]["k"] for v in ("v1", "v2", "v3")], [64, 136, 136])
        self.assertEqual([rungs[v]["m"] for v in ("v1", "v2", "v3")], [100, 100, 100])
        self.assertEqual([rungs[v]["n"] for v in ("v1", "v2", "v3")], [128, 128, 300])
        self.assertIsNone(rungs["v3"]["gain"])
        self.assertIsNotNone(rungs["v4"]["gain"])
        self.assertEqual([len(rungs[v]["roles"]) for v in ("v6", "v7")], [1, 3])  # copies, a consumer and what stores
        self.assertEqual([rungs[v]["slots"]["a"] for v in ("v4", "v5", "v8")], [1, 2, 4])
        self.assertEqual([rungs[v]["cluster"] for v in ("v8", "v9")], [1, 2])
        self.assertGreater(rungs["v4"]["ii"], rungs["v5"]["ii"])
        self.assertTrue(any("load_a" in change for change in rungs["v4"]["changes"]))
        self.assertTrue(any(change == "b: one copy for 1 -> 2 blocks" for change in rungs["v9"]["changes"]))
        for name, rung in rungs.items():  # a paragraph each: what it adds, and lines that change
            self.assertIn(f"\n{name}: {rung['adds']}\n", done.stdout)
            if name not in ("v1", "v2"):
                self.assertTrue(any(line.startswith("+ ") for line in rung["unit_lines"]), name)
        self.assertTrue(any(line.startswith("+ static constexpr unsigned kSlots = 2") for line in rungs["v5"]["unit_lines"]), rungs["v5"]["unit_lines"])
        self.assertTrue(any(line.startswith("+ role store") for line in rungs["v7"]["schedule_lines"]), rungs["v7"]["schedule_lines"])
        self.assertFalse([line for line in rungs["v5"]["unit_lines"] if "_v5" in line or "//" in line])
        with open(self.file("l.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn(f"\nv4: {rungs['v4']['adds']}\n", text)
        for rung in rungs.values():
            self.assertIn(f"| {rung['rung']} |", text)

    def test_some_in_bf16(self):
        done = self.run_sample("--rungs", "v5,v3", "--size", "70,20,64", "--dtype", "bf16", "--lines", "0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("unit, lines", done.stdout)
        self.assertLess(done.stdout.index("\nv5"), done.stdout.index("\nv3"))

    def test_archs(self):
        """The last rung in tensor memory, in pairs of blocks with two consumers each; archs without a ladder, which are named."""
        done = self.run_sample("--target", "model:sm_100a", "--rungs", "v10", "--size", "300,64,64", "--lines", "0", "--json", self.file("l.json"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.file("l.json"), encoding="utf-8") as file:
            rung = json.load(file)["rungs"][0]
        self.assertEqual(rung["cluster"], 2)
        self.assertRegex(rung["kernel"], "256x(128|256)x64c2x1")
        elsewhere = "; targets with all rungs, v1 to v10: sm_90a, sm_100a, sm_103a"
        for target, more in (("sm_100", "; TJ_TARGET=sm_100a has v1 to v10"), ("sm_80", elsewhere), ("gfx1100", elsewhere)):
            for name in ("v1", "v10"):
                done = self.run_sample("--target", "model:" + target, "--rungs", name, "--size", "64,64,64")
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(f"rung is {name}; allowed on {target}: 0 (none){more}\n", done.stderr)

    def test_mistakes(self):
        for words, part in ((["--rungs", "v11"], "v11"), (["--size", "1,2"], "M,N,K"), (["--size", "8,8,12"], "multiple of 8"), (["--size", "8,x,8"], "'x'"),
                            (["--dtype", "f32"], "f16, bf16"), (["--colour"], "--colour"), (["--rungs", "v4", "--size", "8,8,8", "--json", self.file("no/l.json")], "No such file or directory; give a file in a folder that exists"),
                            (["--rungs", "v4", "--size", "8,8,8", "--json", "/dev/full"], "cannot write '/dev/full': No space left on device"),
                            (["--json", self.file("x"), "--markdown", self.file("./x")], "the file that --json is to write")):
            done = self.run_sample(*words)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    skips.main()
