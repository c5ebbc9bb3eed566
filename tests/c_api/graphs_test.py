"""Protects tj_schedule(), tj_graph() and tj_describe(): each format is what tj-schedule writes, options reach the scheduler, bad input is a status and a text
that names the argument, its value and what is allowed, and a text lives until its thread's next call."""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import binding as tj
import skips

LIBRARY = tj.Library()
DATA = os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "graph", "data")
TOOL = os.path.join(os.environ["TJ_TEST_BUILD_DIR"], "bin", "tj-schedule")


def graph(name):
    with open(os.path.join(DATA, name + ".json"), encoding="utf-8") as file:
        return file.read()


def schedule(text, options=None, form=None):
    out = ctypes.c_char_p(b"before")
    status = LIBRARY.c.tj_schedule(*(None if each is None else each.encode() for each in (text, options, form)), ctypes.byref(out))
    if status != tj.OK:
        assert out.value is None, out.value
    LIBRARY.check(status)
    return out.value.decode()


def read_graph(text, form=None):
    out = ctypes.c_char_p(b"before")
    LIBRARY.check(LIBRARY.c.tj_graph(text.encode(), None if form is None else form.encode(), ctypes.byref(out)))
    return out.value.decode()


def without_time(text):
    document = json.loads(text)
    del document["solve_ms"]
    return document


class Graphs(unittest.TestCase):
    def refused(self, stage, status, part, *call):
        with self.assertRaises(tj.TilejitError) as caught:
            schedule(*call)
        self.assertEqual((caught.exception.stage, caught.exception.status), (stage, status))
        self.assertIn(part, caught.exception.message)

    @unittest.skipUnless(os.path.exists(TOOL), "the tools are not built (TJ_TOOLS)")
    def test_as_the_tool(self):
        for name in ("simplified_fa", "fa_hopper", "fa_blackwell", "simple_gemm", "coded", "clustered"):
            with tempfile.TemporaryDirectory() as folder:
                svg, trace = os.path.join(folder, "a.svg"), os.path.join(folder, "a.json")
                done = subprocess.run([TOOL, "--graph", os.path.join(DATA, name + ".json"), "--json", "--svg", svg, "--trace", trace],
                                      capture_output=True, text=True, check=True)
                expected = without_time(done.stdout)
                for own in ("kernel", "target", "predicted_tflops"):  # the tool's, which knows ops as well
                    del expected[own]
                named = json.dumps({"name": name, **json.loads(graph(name))})
                self.assertEqual(without_time(schedule(named)), expected)
                self.assertEqual(without_time(schedule(named, "", "json")), expected)
                for path, form in ((svg, "svg"), (trace, "trace")):
                    with open(path, encoding="utf-8") as file:
                        self.assertEqual(schedule(named, None, form), file.read())
                text = subprocess.run([TOOL, "--graph", os.path.join(DATA, name + ".json")], capture_output=True, text=True, check=True).stdout
                lines = [line for line in text.splitlines()[1:] if not line.startswith("search: ")]  # the first line is the tool's
                self.assertEqual([line for line in schedule(named, None, "text").splitlines() if not line.startswith("search: ")], lines)

    def test_options(self):
        self.assertEqual(without_time(schedule(graph("fa_hopper"), '{"streaming_latency_zero": true}'))["length"], 8)
        self.assertEqual(without_time(schedule(graph("fa_hopper"), '{"min_ii": 6}'))["ii"], 6)
        self.assertEqual(without_time(schedule(graph("fa_hopper"), "{}"))["ii"], 4)

    def test_verified(self):
        for name in ("simplified_fa", "fa_hopper", "coded", "clustered"):
            self.assertEqual(schedule(graph(name), None, "verify"), "")

    def test_graphs(self):
        """What is read is what is written, and a machine that has a name has a description."""
        for name in ("simplified_fa", "fa_hopper", "fa_blackwell", "coded", "clustered"):
            written = read_graph(graph(name))
            self.assertEqual(read_graph(written, "json"), written)
            self.assertEqual(without_time(schedule(written))["nodes"], without_time(schedule(graph(name)))["nodes"])
        self.assertIn("K_load", read_graph(graph("fa_hopper"), "text"))
        machine = json.loads(read_graph(graph("fa_hopper"), "machine"))
        self.assertEqual(machine["functional_units"]["TC"], 1)
        named = json.loads(graph("fa_hopper"))
        self.assertEqual(named["machine"], "hopper")
        self.assertEqual(json.loads(read_graph(json.dumps({**named, "machine": machine}), "machine")), machine)
        out = ctypes.c_char_p()
        for call, part in (((None, None, ctypes.byref(out)), b"graph_json is null"), ((b"{", None, ctypes.byref(out)), b"not JSON"),
                           ((b"{}", b"svg", ctypes.byref(out)), b"format is 'svg'; allowed: json, text, machine, resolved, or null for json"),
                           ((b"{}", None, None), b"out is null")):
            self.assertEqual(LIBRARY.c.tj_graph(*call), tj.INVALID_ARGUMENT)
            self.assertIn(part, LIBRARY.c.tj_last_error())
            self.assertIsNone(out.value)

    def test_resolved(self):
        """A graph for one machine and in one form; what it is not for, and has not, is listed."""
        text = json.dumps({"machine": "sm_90a", "targets": ["sm_100a"], "parameters": {"n": 1}, "candidates": [{"name": "wide", "parameters": {"n": 2}}],
                           "instructions": [{"name": "a", "cycles": "n * 3", "fu": "TC"}]}).encode()

        def resolved(target, candidate):
            out = ctypes.c_char_p(b"before")
            LIBRARY.check(LIBRARY.c.tj_graph_resolved(text, target, candidate, ctypes.byref(out)))
            found = json.loads(out.value)
            return found["machine"], found["instructions"][0]["cycles"]

        self.assertEqual(resolved(None, None), ("sm_90a", 3))
        self.assertEqual(resolved(b"", b"wide"), ("sm_90a", 6))
        self.assertEqual(resolved(b"sm_100a", b"wide"), ("sm_100a", 6))
        out = ctypes.c_char_p(b"before")
        for call, part in (((text, b"sm_80", None), b"the target is 'sm_80'; this graph is for sm_90a, sm_100a"), ((None, None, None), b"graph_json is null"),
                           ((text, None, b"tall"), b"the candidate is 'tall'; this graph has wide")):
            self.assertEqual(LIBRARY.c.tj_graph_resolved(*call, ctypes.byref(out)), tj.INVALID_ARGUMENT)
            self.assertIn(part, LIBRARY.c.tj_last_error())
            self.assertIsNone(out.value)

    def test_examples(self):
        """Known graphs with their parameters; each mistake names the parameter, its value and what is allowed."""
        def example(name, parameters=None):
            out = ctypes.c_char_p(b"before")
            LIBRARY.check(LIBRARY.c.tj_graph_example(name, parameters, ctypes.byref(out)))
            return out.value.decode()

        for name in ("simplified_fa", "fa_hopper", "fa_blackwell", "simple_gemm"):
            known, found = json.loads(graph(name)), without_time(schedule(example(name.encode())))
            for key in ("ii", "length", "nodes", "certificate"):
                self.assertEqual(found[key], without_time(schedule(json.dumps({"name": name, **known})))[key], (name, key))
        two = without_time(schedule(example(b"fa_hopper", b'{"costs": {"gemm": 1, "exp": 2}, "sub_tiles": 2}')))
        self.assertEqual((two["ii"], two["proven_ii"], len(two["roles"])), (4, True, 3))
        self.assertEqual([turn["role"] for turn in two["order_barriers"][0]["turns"]], ["compute0", "compute1"])
        other = json.loads(example(b"simple_gemm", b'{"machine": {"functional_units": {"TC": 1, "TMA": 2}}}'))
        self.assertEqual(other["machine"]["functional_units"], {"TC": 1, "TMA": 2})
        for call, part in (((None, None), "name is null"), ((b"fa", None), "example graph 'fa' is not known; use one of simplified_fa, fa_hopper"),
                           ((b"fa_hopper", b'{"costs": {"gem": 1}}'), "cost 'gem' means nothing to example graph 'fa_hopper'; allowed are tma, gemm, exp"),
                           ((b"fa_hopper", b'{"costs": {"gemm": -1}}'), "costs.gemm is -1; it must be a whole number from 0 to 65536"),
                           ((b"fa_hopper", b'{"costs": {"gemm": "2"}}'), "costs.gemm is \"2\"; it must be a whole number from 0 to 65536"),
                           ((b"fa_hopper", b'{"sub_tiles": 4}'), "sub_tiles is 4; it must be a whole number from 1 to 3"),
                           ((b"fa_hopper", b'{"subtiles": 2}'), "the document has the key 'subtiles'"),
                           ((b"fa_hopper", b'{"machine": "ampere"}'), "machine is 'ampere'; allowed are hopper, blackwell, "),
                           ((b"fa_blackwell", b'{"machine": "hopper"}'), "has no unit 'TMEM'; add it")):
            with self.assertRaises(tj.TilejitError) as caught:
                example(*call)
            self.assertEqual(caught.exception.status, tj.INVALID_ARGUMENT)
            self.assertIn(part, caught.exception.message)

    def test_description(self):
        out = ctypes.c_char_p()
        LIBRARY.check(LIBRARY.c.tj_describe(ctypes.byref(out)))
        found = json.loads(out.value)
        self.assertEqual(found["version"], LIBRARY.c.tj_version().decode())
        self.assertEqual(found["build_id"], LIBRARY.c.tj_build_id().decode())
        self.assertTrue(os.path.samefile(found["file"], LIBRARY.path))
        self.assertEqual(found["cache_dir"], os.environ.get("TJ_CACHE_DIR", found["cache_dir"]))
        self.assertLessEqual({"sm_90a", "gfx942"}, set(found["targets"]))
        self.assertEqual(LIBRARY.c.tj_describe(None), tj.INVALID_ARGUMENT)

    def test_mistakes(self):
        good = graph("fa_hopper")
        self.refused("argument", tj.INVALID_ARGUMENT, "graph_json is null; allowed: the JSON text", None)
        self.refused("argument", tj.INVALID_ARGUMENT, "format is 'png'; allowed: json, text, svg, trace, verify, or null for json", good, None, "png")
        self.refused("graph", tj.INVALID_ARGUMENT, "graph 'graph': not JSON", "{")
        self.refused("graph", tj.INVALID_ARGUMENT, "instructions[0].fu names the unit 'XU'",
                     '{"machine": "hopper", "instructions": [{"name": "a", "cycles": 1, "fu": "XU"}]}')
        self.refused("schedule", tj.INVALID_ARGUMENT, "options: max_stages is -1; it must be a whole number", good, '{"max_stages": -1}')
        self.refused("schedule", tj.INVALID_ARGUMENT, "options: the document has the key 'stages'", good, '{"stages": 1}')
        self.refused("schedule", tj.UNSUPPORTED, "SMEM", json.dumps({
            "machine": "hopper",
            "instructions": [{"name": n, "cycles": 1, "fu": "TMA", "variable_latency": True, "memory": {"SMEM": 200000}} for n in "xy"] + [{"name": "z", "cycles": 1, "fu": "TC"}],
            "edges": [{"src": n, "dst": "z", "delay": 1} for n in "xy"]}))
        self.assertEqual(LIBRARY.c.tj_schedule(good.encode(), None, None, None), tj.INVALID_ARGUMENT)
        self.assertIn(b"out is null", LIBRARY.c.tj_last_error())

    def test_texts_belong_to_their_thread(self):
        kept = ctypes.c_char_p()
        LIBRARY.check(LIBRARY.c.tj_schedule(graph("fa_hopper").encode(), None, b"svg", ctypes.byref(kept)))
        before, texts = kept.value, []
        threads = [threading.Thread(target=lambda: texts.append(schedule(graph("simple_gemm"), None, "trace"))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(kept.value, before)
        self.assertEqual(len(set(texts)), 1)
        self.assertEqual(len(texts), 4)


if __name__ == "__main__":
    skips.main()
