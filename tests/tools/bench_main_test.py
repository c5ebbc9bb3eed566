"""Protects the process around tj-bench: it counts what a call allocates, and tells of compilers that a process opens, which no test inside of another
process can see.

The driver is the fake one, which keeps a log: that alone takes memory for each call.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

BUILD = os.environ["TJ_TEST_BUILD_DIR"]
TOOL = os.path.join(BUILD, "bin", "tj-bench")
FAKES = os.path.join(BUILD, "tests", "fakes")


@unittest.skipUnless(os.path.exists(TOOL), "the tools are not built (TJ_TOOLS)")
class Allocations(unittest.TestCase):
    def test_those_of_one_call_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.join(FAKES, "libnvrtc.so.1"), os.path.join(folder, "libnvrtc.so.13"))
            written = os.path.join(folder, "written.json")
            environment = {**os.environ, "LD_LIBRARY_PATH": folder + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
            done = subprocess.run([TOOL, "--dispatch", "--driver", os.path.join(FAKES, "libcuda.so.1"), "--op", "chunk_indices", "--rounds", "1",
                                   "--cache-dir", os.path.join(folder, "cache"), "--json", written], capture_output=True, text=True, env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(written) as file:
                problem = json.load(file)["problems"][0]
        for name in ("allocations", "plan_allocations"):
            self.assertIn(problem[name], range(1, 100), name)


@unittest.skipUnless(os.path.exists(TOOL), "the tools are not built (TJ_TOOLS)")
class Start(unittest.TestCase):
    """Fifty kernels from a pack, where a compiler is at hand that nobody may open."""
    SHARES = [("", "packs verified"), ("", "choosing"),
              ("", "look-ups"), *(("look-ups", name) for name in ("layers opened", "entries read", "checksums", "the rest")),
              ("", "loads"), *(("loads", name) for name in ("modules", "functions", "code", "attributes", "the rest"))]
    FLAGS = ["--op", "fmha", "--dtype", "f16,bf16", "--head-dim", "64,80,96,112,128", "--causal", "true,false", "--softcap", "true,false"]

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        os.symlink(os.path.join(FAKES, "libnvrtc.so.1"), os.path.join(self.folder, "libnvrtc.so.13"))
        self.with_compiler = {**os.environ, "LD_LIBRARY_PATH": self.folder + ":" + os.environ.get("LD_LIBRARY_PATH", "")}

    def run_tool(self, tool, *words):
        return subprocess.run([os.path.join(BUILD, "bin", tool), *words], capture_output=True, text=True, env=self.with_compiler)

    def start(self, cache, *more):
        written = os.path.join(self.folder, "written.json")
        done = self.run_tool("tj-bench", "--start", "--driver", FAKES, *self.FLAGS, "--cache-dir", cache, "--json", written, *more)
        with open(written) as file:
            return done, json.load(file)

    def test_fifty_kernels_from_a_pack(self):
        kernels, pack = os.path.join(self.folder, "kernels"), os.path.join(self.folder, "model.tjp")
        for words in ([*self.FLAGS, "--target", "sm_90a", "--cache-dir", kernels], ["--pack", pack, "--cache-dir", kernels]):
            done = self.run_tool("tj-warm", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
        done, found = self.start(pack)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreaterEqual(found["kernels"], 50)
        self.assertEqual((found["missing"], found["compilers_opened"]), ("", []))
        self.assertIn(f"{found['kernels']} of {found['kernels']} kernels were in the cache, none was compiled\ncompiler libraries opened: none\n", done.stdout)
        for threads in 1, 4:
            done, there = self.start(pack, "--threads", str(threads))
            self.assertEqual((done.returncode, there["kernels"], there["threads"]), (0, found["kernels"], threads), done.stderr)
            self.assertEqual([(share.get("of", ""), share["name"]) for share in there["shares"]], self.SHARES)
            for share in there["shares"]:
                self.assertGreaterEqual(min(share["wall_ms"], share.get("cpu_ms", 0)), 0, share)
                self.assertEqual("cpu_ms" in share, "of" not in share, share)
        another = os.path.join(self.folder, "another")  # a node whose compiler is another file
        os.mkdir(another)
        os.symlink(os.path.join(FAKES, "libnvrtc.so.1"), os.path.join(another, "libnvrtc.so.13"))
        self.with_compiler["LD_LIBRARY_PATH"] = another
        done, there = self.start(pack)
        self.assertEqual((done.returncode, there["kernels"], there["compilers_opened"]), (0, found["kernels"], []), done.stderr)
        self.with_compiler["TJ_PACK_COMPILER"] = "own"
        done, there = self.start(pack)
        self.assertEqual((done.returncode, there["kernels"], there["compilers_opened"]), (1, 0, []), done.stderr)

    def test_the_first_kernel_that_the_cache_lacks_ends_the_run(self):
        """Nobody waits for kernels to be made, and none is."""
        self.FLAGS = ["--op", "fmha", "--head-dim", "64,128"]
        there = os.path.join(self.folder, "there")
        os.mkdir(there)
        for lacked in range(2):
            done, found = self.start(there)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(f"tj-bench: stopped, as the cache '{there}' does not serve {found['missing']}; ", done.stderr)
            self.assertIn("Make them ahead by tj-warm", done.stderr)
            self.assertIn("fmha_", found["missing"])
            self.assertEqual(found["compilers_opened"], [])
            self.assertIn("compiler libraries opened: none\n", done.stdout)
            self.assertEqual(0 if lacked == 0 else 1, min(found["kernels"], 1))
            if lacked == 0:
                self.assertEqual([], os.listdir(there))
                self.assertEqual(0, self.run_tool("tj-warm", "--op", "fmha", "--head-dim", "64", "--target", "sm_90a", "--cache-dir", there).returncode)

    def test_a_cache_that_is_not_there_is_refused_by_its_name_and_not_made(self):
        self.FLAGS = ["--op", "chunk_indices"]
        mistyped, plain = os.path.join(self.folder, "modle.tjp"), os.path.join(self.folder, "plain")
        with open(plain, "w") as file:
            file.write("no pack")
        for cache, named, why in ((mistyped, mistyped, "No such file or directory"), (plain, plain, "no pack that can be used"),
                                  (f"{self.folder}:{mistyped}", mistyped, "it does not exist")):
            done = self.run_tool("tj-bench", "--start", "--driver", FAKES, *self.FLAGS, "--cache-dir", cache)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(f"--start: the cache '{named}' cannot be used: ", done.stderr)
            self.assertIn(why, done.stderr)
            self.assertFalse(os.path.exists(mistyped))


if __name__ == "__main__":
    skips.main()
