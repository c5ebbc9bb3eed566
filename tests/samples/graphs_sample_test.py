"""Protects sample 06_graphs: its four graphs, built in code from their parameters, schedule as the library's examples of the same names
do, and as theory says; it writes graphs, pictures and traces; the same graph from C; mistakes are named."""
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = os.environ["TJ_TEST_REPO_DIR"]
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
import skips  # noqa: E402

BUILD = os.environ["TJ_TEST_BUILD_DIR"]
PROGRAM = os.path.join(BUILD, "samples", "06_graphs")
TOOL = os.path.join(BUILD, "bin", "tj-schedule")
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
GRAPHS = ("simplified_fa", "fa_hopper", "fa_blackwell", "simple_gemm")


@unittest.skipUnless(os.path.exists(PROGRAM), "the samples are not built (TJ_SAMPLES)")
class Sample(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def run_sample(self, *words):
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True)

    def schedules(self, *words):
        """The schedules of the graphs, by name, and the nodes of each by name."""
        done = self.run_sample("--output-dir", self.folder.name, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("check    ok", done.stdout)
        found = {}
        for name in GRAPHS:
            path = os.path.join(self.folder.name, name + ".schedule.json")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    found[name] = json.load(file)
                os.remove(path)
        return found, {name: {node["name"]: node for node in each["nodes"]} for name, each in found.items()}

    def test_prints_and_writes(self):
        done = self.run_sample("--output-dir", self.folder.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for part in ("fa_hopper on hopper: 5 instructions, 5 edges", "II 4 (proven); units allow 4, recurrences 2", "one iteration takes 9 (proven), 3 in flight",
                     "fa_blackwell on blackwell: 7 instructions, 7 edges", "role load, 1 warp:", "ring K: ", "own_kernel on its own machine: 4 instructions, 4 edges",
                     "one_place on its own machine: 5 instructions, 5 edges", "ring o: 1 slot of 16384 bytes, in the place of q", "wrote 24 files"):
            self.assertIn(part, done.stdout)
        self.assertEqual(sorted(os.listdir(self.folder.name)), sorted(f"{name}.{end}" for name in (*GRAPHS, "own_kernel", "one_place") for end in ("json", "schedule.json", "svg", "trace.json")))
        for name in GRAPHS:
            picture = xml.etree.ElementTree.parse(os.path.join(self.folder.name, name + ".svg")).getroot()
            self.assertTrue(picture.tag.endswith("svg"))
            with open(os.path.join(self.folder.name, name + ".trace.json"), encoding="utf-8") as file:
                self.assertTrue(json.load(file)["traceEvents"])
            if os.path.exists(TOOL):  # the graph that was written is the one that was scheduled
                again = json.loads(subprocess.run([TOOL, "--graph", os.path.join(self.folder.name, name + ".json"), "--json"], capture_output=True, text=True, check=True).stdout)
                with open(os.path.join(self.folder.name, name + ".schedule.json"), encoding="utf-8") as file:
                    self.assertEqual(again["nodes"], json.load(file)["nodes"])
                example = json.loads(subprocess.run([TOOL, "--graph-example", name, "--json"], capture_output=True, text=True, check=True).stdout)
                for key in ("ii", "length", "res_mii", "rec_mii", "nodes", "units", "certificate"):
                    self.assertEqual(again[key], example[key], (name, key))

    def test_pipelines(self):
        """S of a later iteration runs ahead of this one's O; loads have a role of their own; on a GPU with faster products the exponentials bind."""
        found, nodes = self.schedules()
        for name in ("simplified_fa", "fa_hopper", "fa_blackwell"):
            self.assertLess(nodes[name]["S"]["stage"], nodes[name]["O"]["stage"], name)
        for name, loads, rest in (("fa_hopper", ("K_load", "V_load"), ("S", "P", "O")), ("fa_blackwell", ("K_load", "V_load"), ("S", "S_read", "P", "P_write", "O")),
                                  ("simple_gemm", ("A_load", "B_load"), ("C",))):
            self.assertEqual({nodes[name][each]["role"] for each in loads}, {"load"})
            self.assertNotIn("load", {nodes[name][each]["role"] for each in rest})
        found, _ = self.schedules("--graph", "fa_blackwell", "--exp-cycles", "3")
        self.assertEqual(found["fa_blackwell"]["ii"], 3)
        self.assertIn("EXP", found["fa_blackwell"]["certificate"])

    def test_parameters(self):
        """The interval is what the busiest unit holds, or the one recurrence; both bounds say so."""
        for tma, gemm, exp, tmem in itertools.product((1, 3), (1, 2), (1, 2, 5), (1, 2)):
            words = ["--tma-cycles", tma, "--gemm-cycles", gemm, "--exp-cycles", exp, "--tmem-cycles", tmem, "--load-cycles", tma, "--compute-cycles", exp]
            found, _ = self.schedules(*map(str, words))
            units = {"simplified_fa": max(2 * gemm, exp), "fa_hopper": max(2 * gemm, exp, 2 * tma),
                     "fa_blackwell": max(2 * gemm, exp, 2 * tma, 2 * tmem), "simple_gemm": max(2 * tma, exp)}
            recurrence = {"simplified_fa": gemm, "fa_hopper": gemm, "fa_blackwell": gemm, "simple_gemm": exp}
            for name in GRAPHS:
                self.assertEqual((found[name]["res_mii"], found[name]["rec_mii"]), (units[name], recurrence[name]), (name, words))
                self.assertEqual(found[name]["ii"], max(units[name], recurrence[name]), (name, words))

    def test_machine(self):
        found, _ = self.schedules("--graph", "simple_gemm", "--machine", "blackwell")
        self.assertEqual(list(found), ["simple_gemm"])
        self.assertEqual([unit["name"] for unit in found["simple_gemm"]["units"]], ["TC", "EXP", "TMA", "TMEM"])

    def test_sub_tiles(self):
        """Two sub-tiles: exponentials of one run under products of the other; where they take longer than a product, roles take turns on TC."""
        for gemm, exp, turns in ((2, 2, False), (1, 2, True), (2, 4, True)):
            found, nodes = self.schedules("--graph", "fa_hopper", "--sub-tiles", "2", "--gemm-cycles", str(gemm), "--exp-cycles", str(exp))
            schedule, nodes = found["fa_hopper"], nodes["fa_hopper"]
            self.assertEqual(schedule["ii"], max(4 * gemm, 2 * exp))
            self.assertEqual({nodes[each + ".0"]["role"] for each in "SPO"} & {nodes[each + ".1"]["role"] for each in "SPO"}, set())
            self.assertEqual([[turn["role"] for turn in each["turns"]] for each in schedule["order_barriers"]], [["compute0", "compute1"]] if turns else [])
        found, _ = self.schedules("--graph", "fa_hopper", "--sub-tiles", "3")
        self.assertEqual(len(found["fa_hopper"]["nodes"]), 11)

    def test_mistakes(self):
        for words, part in ((["--graph", "fa"], "--graph is 'fa'; allowed: simplified_fa"), (["--gemm-cycles", "-1"], "--gemm-cycles"),
                            (["--graph", "fa_hopper", "--tmem-cycles", "1"], "--tmem-cycles means nothing to fa_hopper"), (["--colour"], "--colour"),
                            (["--graph", "own_kernel", "--gemm-cycles", "3"], "--gemm-cycles means nothing to own_kernel"),
                            (["--graph", "own_kernel", "--machine", "hopper"], "--machine means nothing to own_kernel"),
                            (["--graph", "own_kernel", "--sub-tiles", "1"], "--sub-tiles means nothing to own_kernel"), (["--sub-tiles", "4"], "--sub-tiles"),
                            (["--graph", "fa_hopper", "--machine", "gfx90a"], "machine 'gfx90a' has no unit 'TMA'; add it"),
                            (["--machine", "ampere"], "machine is 'ampere'; allowed are hopper, blackwell"), (["--output-dir", "/dev/null/a"], "/dev/null")):
            done = self.run_sample(*words)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(part, done.stderr)

    @unittest.skipUnless(COMPILER, "no C compiler")
    def test_from_c(self):
        program, picture, library = os.path.join(self.folder.name, "from_c"), os.path.join(self.folder.name, "c.svg"), os.environ["TJ_TEST_LIBRARY"]
        subprocess.run([COMPILER, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", os.path.join(ROOT, "include"), os.path.join(ROOT, "samples", "06_graphs", "from_c.c"),
                        "-o", program, library, "-Wl,-rpath," + os.path.dirname(library)], check=True)
        for words in (("1", "2", "2"), ("2", "1", "4")):
            done = subprocess.run([program, *words, picture], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            tma, gemm, exp = map(int, words)
            self.assertIn(f"II {max(2 * tma, 2 * gemm, exp)} (proven)", done.stdout)
            name = re.match(r"graph (\S+) on hopper", done.stdout)
            self.assertEqual(name and name[1], "fa_hopper")
            cycles = ("--tma-cycles", words[0], "--gemm-cycles", words[1], "--exp-cycles", words[2])
            self.assertEqual(self.run_sample("--graph", "fa_hopper", "--output-dir", self.folder.name, *cycles).returncode, 0)
            with open(picture, encoding="utf-8") as by_c, open(os.path.join(self.folder.name, "fa_hopper.svg"), encoding="utf-8") as by_code:
                self.assertEqual(by_c.read(), by_code.read())
        done = subprocess.run([program, "1", "1", "2", picture, "2"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("turns on TC: compute0 (O.0 S.0), then compute1 (O.1 S.1)", done.stdout)
        refused = subprocess.run([program, "1", "1", "2", picture, "4"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("sub_tiles is 4", refused.stderr)
        for name, parameters, result in (("simplified_fa", "{}", "II 2"), ("fa_hopper", '{"costs": {"gemm": 1, "exp": 3}}', "II 3"), ("fa_blackwell", "{}", "II 2"),
                                         ("simple_gemm", '{"costs": {"compute": 5}}', "II 5"),
                                         ("custom", '{"machine": "hopper", "instructions": [{"name": "S", "cycles": 2, "fu": "TC"}], '
                                                    '"edges": [{"src": "S", "dst": "S", "delay": 3, "delta": 1}]}', "II 3")):
            file = os.path.join(self.folder.name, name + ".json")
            with open(file, "w", encoding="utf-8") as written:
                written.write(parameters)
            texts = [subprocess.run([program, name, given, picture], capture_output=True, text=True) for given in (parameters, file)]
            self.assertEqual([done.returncode for done in texts], [0, 0], texts[0].stderr + texts[1].stderr)
            self.assertIn(result + " (proven)", texts[0].stdout)
            self.assertEqual(*([line for line in done.stdout.splitlines() if not line.startswith("search: ")] for done in texts))  # the search is timed
        for words, part in ((("fa",), "use one of simplified_fa, fa_hopper, fa_blackwell, simple_gemm"), (("fa_hopper", "/nowhere/x.json"), "/nowhere/x.json"), (("custom", "{}"), "machine is missing")):
            refused = subprocess.run([program, *words], capture_output=True, text=True)
            self.assertEqual(refused.returncode, 2, refused.stdout)
            self.assertIn(part, refused.stderr)
        refused = subprocess.run([program, "-1"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("graph: graph 'fa_hopper': instructions[0].cycles is -1", refused.stderr)


if __name__ == "__main__":
    skips.main()
