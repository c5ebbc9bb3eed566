"""Protects tilejit.graphs: the four loops are the library's examples with their parameters, a graph from dictionaries has a schedule, mistakes are named."""
import unittest

import here

np = here.numpy
tilejit = here.tilejit
from tilejit import graphs  # noqa: E402
from tilejit.graph import Machine  # noqa: E402


class Graphs(unittest.TestCase):
    def refused(self, part, call, *arguments, **named):
        with self.assertRaises(tilejit.Error) as caught:
            call(*arguments, **named)
        self.assertIn(part, str(caught.exception))

    def test_known_intervals(self):
        for make, ii, length in ((graphs.flash_attention_forward_simplified, 2, 4), (graphs.flash_attention_forward_hopper, 4, 9),
                                 (graphs.flash_attention_forward_blackwell, 2, 7), (graphs.simple_gemm_pipeline, 2, 4)):
            schedule = make().schedule()
            self.assertEqual((schedule.ii, schedule.length, schedule.proven_ii, schedule.proven_length), (ii, length, True, True), make.__name__)
            self.assertEqual(schedule.verify(), [])

    def test_parameters(self):
        self.assertEqual(graphs.flash_attention_forward_simplified("blackwell", 3, 7).schedule().ii, 7)
        self.assertEqual(graphs.flash_attention_forward_hopper(5, 1, 1).schedule().ii, 10)
        self.assertEqual(graphs.flash_attention_forward_blackwell(1, 1, 1, 4).schedule().ii, 8)
        self.assertEqual(graphs.simple_gemm_pipeline(Machine({"TC": 1, "TMA": 2}), load_cycles=3, compute_cycles=1).schedule().ii, 3)
        self.refused("costs.gemm is -1; it must be a whole number from 0 to 65536",
                     graphs.flash_attention_forward_simplified, gemm_cycles=-1)
        self.refused("machine is 'ampere'; allowed are hopper, blackwell", graphs.simple_gemm_pipeline, "ampere")
        self.refused("sub_tiles is 0; it must be a whole number from 1 to 3", graphs.simple_gemm_pipeline, sub_tiles=0)

    @unittest.skipUnless(here.numpy, here.NO_NUMPY)
    def test_numpy(self):
        """Costs, cycles and tables of numpy's, as the other project's dictionaries have them."""
        self.assertEqual(graphs.flash_attention_forward_simplified(gemm_cycles=np.int64(2)).schedule().ii, 4)
        table = np.array([[1, 0], [1, 0]])
        plain = [{"name": "S", "cycles": 2, "rrt": {"TC": [1, 1]}, "memory": {"SMEM": 64}}]
        given = [{"name": "S", "cycles": np.int32(2), "rrt": {"TC": table[:, 0]}, "memory": {"SMEM": np.uint16(64)}}]
        edges = [{"src": "S", "dst": "S", "delay": np.int64(3), "delta": np.int8(1)}]
        graph = graphs.custom_kernel("hopper", given, edges)
        self.assertEqual(graph.json(), graphs.custom_kernel("hopper", plain, [{"src": "S", "dst": "S", "delay": 3, "delta": 1}]).json())
        self.refused("no JSON", graphs.custom_kernel, "hopper", [{"name": "S", "cycles": object()}], [])

    def test_sub_tiles(self):
        """Each sub-tile of attention has a role; they take turns where an exponential takes longer than a product."""
        for make in (graphs.flash_attention_forward_hopper,):
            schedule = make(gemm_cycles=1, exp_cycles=2, sub_tiles=2).schedule()
            roles = [{schedule.node(f"{name}.{c}").role for name in "SPO"} for c in (0, 1)]
            self.assertEqual(roles, [{"compute0"}, {"compute1"}])
            self.assertEqual([(turns.unit, [turn.nodes for turn in turns.turns]) for turns in schedule.turns], [("TC", [["O.0", "S.0"], ["O.1", "S.1"]])])
            self.assertEqual(make(gemm_cycles=2, exp_cycles=2, sub_tiles=2).schedule().turns, [])
        for make in (graphs.flash_attention_forward_simplified, graphs.flash_attention_forward_hopper, graphs.flash_attention_forward_blackwell,
                     graphs.simple_gemm_pipeline):
            for n in (2, 3):
                schedule = make(sub_tiles=n).schedule()
                self.assertEqual(schedule.verify(), [], (make.__name__, n))

    def test_custom_kernel(self):
        """As the dictionaries of the other project have it."""
        instructions = [{"name": "load", "cycles": 1, "fu": "TMA", "variable_latency": True, "streaming": True, "memory": {"SMEM": 32768}},
                        {"name": "mma", "cycles": 2, "fu": "TC"}]
        edges = [{"src": "load", "dst": "mma", "delay": 1}, {"src": "mma", "dst": "mma", "delay": 2, "delta": 1}]
        graph = graphs.custom_kernel("hopper", instructions, edges)
        self.assertEqual((graph.schedule().ii, graph.instructions[1].fu, graph.edges[1].delta), (2, "TC", 1))
        self.refused("instructions[1].fu names the unit 'XU'", graphs.custom_kernel, "hopper", [instructions[0], {**instructions[1], "fu": "XU"}], edges)
        self.refused("edges[0].src is 'a', which no instruction is called", graphs.custom_kernel, "hopper", instructions, [{"src": "a", "dst": "mma", "delay": 1}])
        self.refused("graph 'custom': instructions[0] has the key 'fo'", graphs.custom_kernel, "hopper", [{"name": "a", "cycles": 1, "fo": "TC"}], [])


if __name__ == "__main__":
    here.skips.main()
