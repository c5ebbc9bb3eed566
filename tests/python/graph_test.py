"""Protects graphs and schedules in Python: what is built is what is parsed, known intervals, each part of a schedule, pictures, refusals."""
import json
import os
import unittest

import here

tilejit = here.tilejit
from tilejit.graph import Code, Edge, Graph, Instruction, Machine, Value  # noqa: E402

DATA = os.path.join(here.ROOT, "tests", "graph", "data")


def text(name):
    with open(os.path.join(DATA, name + ".json"), encoding="utf-8") as file:
        return file.read()


class Array:
    """Compares element by element, as arrays do: the result is neither true nor false."""

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise ValueError("the truth value is ambiguous")


def hopper(gemm=2, exp=2):
    copy = {"fu": "TMA", "variable_latency": True, "streaming": True, "memory": {"SMEM": 128 * 128 * 2}}
    return Graph("fa_hopper", "hopper", [Instruction("K_load", 1, **copy), Instruction("V_load", 1, **copy), Instruction("S", gemm, "TC"),
                                         Instruction("P", exp, "EXP"), Instruction("O", gemm, "TC")],
                 [Edge("K_load", "S", 1), Edge("V_load", "O", 1), Edge("S", "P", gemm), Edge("P", "O", exp), Edge("O", "O", gemm, delta=1)])


class Graphs(unittest.TestCase):
    def test_examples_survive(self):
        """A graph that is parsed and written is the same graph, for every example."""
        names = sorted(name[:-5] for name in os.listdir(DATA) if name.endswith(".json"))
        self.assertGreater(len(names), 4)
        for name in names:
            graph = Graph.parse(text(name), name)
            self.assertEqual(Graph.parse(graph.json()).json(), graph.json(), name)
            given = dict(json.loads(text(name)))
            given.setdefault("name", name)
            self.assertEqual(graph.json(), Graph.parse(json.dumps(given)).json(), name)
            self.assertEqual(tilejit.schedule(graph).nodes, tilejit.schedule(json.dumps(given)).nodes, name)

    def test_expressions_and_candidates(self):
        """One document for two GPUs and two sizes of tile."""
        graph = Graph("forms", "sm_90a", [Instruction("mma", "2 * 128 * n * 64 / matrix_flops_per_cycle", "TC")], targets=["sm_100a"], parameters={"n": 64},
                      candidates=[{"name": "narrow", "parameters": {"n": 64}}, {"name": "wide", "parameters": {"n": "4 * 64"}}],
                      typical_iterations=32, flops_per_iteration="2 * 128 * n * 64", overhead_cycles=2000, options={"min_ii": 100})
        schedule = tilejit.schedule(graph)
        self.assertEqual((schedule.candidate, schedule.ii), ("wide", 1024))
        again = Graph.parse(graph.json())
        self.assertEqual(again.json(), graph.json())
        self.assertEqual((again.candidates[1].parameters, again.options), ({"n": "4 * 64"}, {"min_ii": 100}))
        one = graph.resolved()
        self.assertEqual((one.instructions[0].cycles, one.flops_per_iteration, one.candidates), (256, 1048576, []))
        self.assertEqual(tilejit.schedule(one).ii, 256)
        self.assertEqual(tilejit.schedule(one, min_ii=300).ii, 300)
        self.assertGreater(tilejit.schedule(one).predicted_tflops(132, 1.5, 32), 0)
        wide = graph.resolved(candidate="wide")
        self.assertEqual((wide.instructions[0].cycles, wide.flops_per_iteration), (1024, 4194304))
        self.assertAlmostEqual(schedule.predicted_tflops(132, 1.5, 32), tilejit.schedule(wide).predicted_tflops(132, 1.5, 32))
        self.assertEqual(graph.resolved("sm_100a", "narrow").machine, "sm_100a")
        for call, part in ((("sm_80",), "the target is 'sm_80'; this graph is for sm_90a, sm_100a"), (("", "tall"), "the candidate is 'tall'; this graph has narrow, wide")):
            with self.assertRaises(tilejit.Error) as caught:
                graph.resolved(*call)
            self.assertIn(part, str(caught.exception))
        for change, part in (({"parameters": {"m": 64}}, "candidates[0].parameters.n is no entry of parameters"), ({"targets": ["sm_1"]}, "targets[0] is 'sm_1'"),
                             ({"overhead_cycles": "x"}, "overhead_cycles is 'x': there is no 'x'; machine 'sm_90a' with the graph's parameters has"),
                             ({"options": {"roles": 1}}, "options has the key 'roles'")):
            wrong = Graph.parse(graph.json())
            for name, value in change.items():
                setattr(wrong, name, value)
            with self.assertRaises(tilejit.Error) as caught:
                wrong.check()
            self.assertIn(part, str(caught.exception))

    def test_built_in_code(self):
        graph = hopper()
        self.assertEqual(Graph.parse(graph.json()), graph)
        self.assertIn("K_load", graph.text())
        built = Graph("fa_hopper", "hopper", [{"name": "a", "cycles": 3, "fu": "TC"}], [{"src": "a", "dst": "a", "delay": 3, "delta": 1}])
        self.assertEqual(tilejit.schedule(built).ii, 3)
        coded = Graph.parse(text("coded"))
        self.assertIsInstance(coded.code, Code)
        self.assertTrue(all(isinstance(value, Value) for value in coded.values))
        coded.instructions[0].async_ = "store"
        self.assertEqual(json.loads(coded._given())["instructions"][0]["async"], "store")

    def test_walks(self):
        loop = [Instruction("load", 1, "TMA", variable_latency=True), Instruction("mma", 2, "TC"),
                Instruction("add", 2, "TC", scope="tile_end", merges=True)]
        edges = [Edge("load", "mma", 1), Edge("mma", "add", 2)]
        for walk in ("one_tile", "persistent", "dynamic", "split", "sliced"):
            graph = Graph("shared", "sm_90a" if walk == "sliced" else "hopper", loop, edges, walk=walk, piece_bytes=512, cluster=2 if walk == "sliced" else 1)
            again = Graph.parse(graph.json())
            self.assertEqual((again.walk, again.piece_bytes, again.instructions[2].merges), (walk, 512, True))
            schedule = tilejit.schedule(graph)
            self.assertEqual(json.loads(schedule.json())["walk"], walk)
            tile = schedule.tile
            self.assertEqual((tile.ii, tile.walks, tile.proven), (schedule.ii, walk in ("persistent", "dynamic", "split"), True))
            self.assertEqual(tile.periods[tile.n0], tile.n0 * tile.ii + tile.c)
            self.assertEqual([each.role for each in tile.overlaps], [each.name for each in schedule.roles])
        graph = Graph("slices", "sm_90a", loop, edges, walk="sliced", piece_bytes=512, cluster=4, slices=2)
        self.assertEqual(Graph.parse(graph.json()).slices, 2)
        with self.assertRaisesRegex(tilejit.Error, "has 3 slices; allowed are 0"):
            graph.slices = 3
            tilejit.schedule(graph)
        with self.assertRaisesRegex(tilejit.Error, "walk is \"all\"; allowed are one_tile, persistent, dynamic, split, sliced"):
            tilejit.schedule(Graph("shared", "hopper", loop, edges, walk="all"))
        with self.assertRaisesRegex(tilejit.Error, "has the walk 'split' and 0 bytes a piece"):
            tilejit.schedule(Graph("shared", "hopper", loop, edges, walk="split"))

    def test_machines(self):
        described = Machine.described("sm_90a")
        self.assertIn("TC", described.functional_units)
        self.assertGreater(described.memory["SMEM"], 200000)
        by_name, by_text = hopper(), hopper()
        by_text.machine = Machine.described("hopper")
        one, other = tilejit.schedule(by_name), tilejit.schedule(by_text)
        self.assertEqual((one.nodes, one.roles, one.rings), (other.nodes, other.roles, other.rings))
        by_text.machine.functional_units["TC"] = 2
        self.assertLess(tilejit.schedule(by_text).ii, one.ii)

    def test_schedule(self):
        schedule = hopper().schedule()
        self.assertEqual((schedule.ii, schedule.length, schedule.stages, schedule.resource_bound, schedule.recurrence_bound), (4, 9, 3, 4, 2))
        self.assertTrue(schedule.proven_ii and schedule.proven_length and schedule.certificate)
        self.assertEqual(schedule.verify(), [])
        self.assertEqual([node.name for node in schedule.nodes], ["K_load", "V_load", "S", "P", "O"])
        self.assertEqual(schedule.node("S").stage, schedule.node("S").cycle // 4)
        self.assertIn("load", [role.name for role in schedule.roles])
        self.assertEqual(sum(role.warps > 0 for role in schedule.roles), len(schedule.roles))
        self.assertEqual({ring.value for ring in schedule.rings}, {"K_load", "V_load"})
        self.assertEqual({unit.name: unit.cycles for unit in schedule.units}["TC"], 4)
        svg = schedule._repr_svg_()
        self.assertTrue(svg.startswith("<svg") or svg.startswith("<?xml"), svg[:80])
        self.assertIn("traceEvents", json.loads(schedule.trace()))
        self.assertIn("II 4 (proven)", schedule.text())
        self.assertEqual(json.loads(schedule.json())["ii"], 4)
        self.assertIn("II 4, length 9, proven", repr(schedule))
        graph = hopper()
        graph.flops_per_iteration, graph.overhead_cycles = 1000.0, 3.0
        self.assertAlmostEqual(graph.schedule().predicted_tflops(2, 1.5, 10), 1000 * 10 / (3 + 9 * 4 + 9) * 1.5 * 2 / 1e3)

    def test_parameters(self):
        for gemm, exp, ii in ((1, 1, 2), (2, 2, 4), (1, 3, 3), (2, 5, 5)):
            self.assertEqual(tilejit.schedule(hopper(gemm, exp)).ii, ii)
        self.assertEqual(tilejit.schedule(hopper(), streaming_latency_zero=True).length, 8)
        self.assertEqual(tilejit.schedule(hopper(), min_ii=6, max_stages=None).ii, 6)

    def refused(self, part, call, stage, code="invalid_argument"):
        with self.assertRaises(tilejit.Error) as caught:
            call()
        self.assertEqual((caught.exception.stage, caught.exception.code), (stage, code), caught.exception)
        self.assertIn(part, caught.exception.message)

    def test_refusals(self):
        self.refused("not JSON", lambda: Graph.parse("{"), "graph")
        self.refused("graph is 3; allowed: a text", lambda: Graph.parse(3), "argument")
        self.refused("XU", lambda: Graph(instructions=[Instruction("a", 1, "XU")]).check(), "graph")
        self.refused("no JSON", lambda: Graph(instructions=[Instruction("a", {1, 2})]).check(), "graph")
        self.refused("no JSON", lambda: Graph(instructions=[Instruction("a", 1, issue_cycles=Array())]).check(), "graph")
        self.refused("no JSON", lambda: tilejit.schedule(hopper(), max_stages=Array()), "schedule")
        self.refused("no JSON", lambda: tilejit.graph.Machine.described(Array()), "graph")
        self.refused("'stages'", lambda: tilejit.schedule(hopper(), stages=1), "schedule")
        self.refused("max_stages", lambda: tilejit.schedule(hopper(), max_stages=-1), "schedule")
        self.refused("K_load, V_load", lambda: hopper().schedule().node("x"), "schedule")
        self.refused("clock_ghz is 0", lambda: hopper().schedule().predicted_tflops(1, 0, 1), "schedule")
        big = Graph("big", "hopper", [Instruction(n, 1, "TMA", variable_latency=True, memory={"SMEM": 200000}) for n in "xy"] + [Instruction("z", 1, "TC")],
                    [Edge(n, "z", 1) for n in "xy"])
        self.refused("SMEM", lambda: tilejit.schedule(big), "schedule", "unsupported")


if __name__ == "__main__":
    here.skips.main()
