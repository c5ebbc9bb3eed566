"""Protects the calls of tests/gpu/beside.py, which needs a GPU: small ones of each op are accepted with and without a limit of multiprocessors, take the
kernels that their names say, write all of their results, and give equal bits twice."""
import os
import sys
import unittest

import here
from with_torch import WHY, torch

sys.path.insert(0, os.path.join(here.ROOT, "tests", "gpu"))
import beside_cases  # noqa: E402

tilejit = here.tilejit
FULL = os.environ.get("TJ_TEST_FULL", "0") not in ("", "0")
TARGET, LIMIT = "model:sm_90a", 3
WORDS = {"attention, one query": "_packed", "gated_delta_rule, chunks": "delta_chunks", "gemm, e4m3": "blockscales", "grouped_gemm, counts": "_counts",
         "grouped_gemm, depths": "_depths", "grouped_gemm, e4m3, silu": "_gate_silu"}  # how a name begins: a part of its kernel's name without a limit


def word_of(case):
    return next((word for begin, word in WORDS.items() if case.name.startswith(begin)), "")


def small_cases():
    return [case for case in beside_cases.other_cases(True) if not case.only]  # tiles are timed on a GPU alone


@unittest.skipIf(torch is None, WHY)
class Calls(unittest.TestCase):
    def test_each_op(self):
        with tilejit.Runtime(target=TARGET) as runtime:
            for number, case in enumerate(small_cases()):
                for limit in (0, LIMIT) if FULL else (0 if word_of(case) else number % 2 * LIMIT,):
                    with self.subTest(case=case.name, limit=limit):
                        self.check(case, limit, runtime)

    def check(self, case, limit, runtime):
        call = beside_cases.Call(torch, tilejit, case, limit, runtime, "cpu")
        self.assertTrue(limit or word_of(case) in call.kernel, call.kernel)
        call.poison()
        self.assertFalse(call.filled())
        call.run(None)
        self.assertTrue(call.filled())
        bits = call.bits()
        call.poison()
        self.assertFalse(call.same(bits))
        call.run(None)
        self.assertTrue(call.same(bits))

    def test_equal_seeds_give_equal_tensors(self):
        for case in small_cases():
            if case.op == "quantise":
                with tilejit.Runtime(target=TARGET) as runtime:
                    calls = [beside_cases.Call(torch, tilejit, case, 0, runtime, "cpu", seed) for seed in (7, 7, 8)]
                same = [torch.equal(calls[0].given[0], call.given[0]) for call in calls]
                self.assertEqual(same, [True, True, False])


class Names(unittest.TestCase):
    def test_no_two_cases_share_one(self):
        names = [case.name for case in beside_cases.all_cases()]
        self.assertEqual(len(names), len(set(names)))

    def test_small_cases_are_those_of_the_gpu(self):
        small, large = ([(case.name, case.op, case.only, case.options.keys(), len(case.inputs)) for case in beside_cases.other_cases(each)]
                        for each in (True, False))
        self.assertEqual(small, large)

    def test_every_op_has_one(self):
        ops = {case.op for case in beside_cases.all_cases()}
        self.assertEqual(ops, set(tilejit._ops._MAKERS))


if __name__ == "__main__":
    unittest.main()
