"""Protects the recipe "new op" on the way to a GPU: NVRTC accepts what is emitted for the op, and nothing spills."""
import os
import unittest

import new_op
from recipe import cached, run, skip


class NewOp(unittest.TestCase):
    def test_with_nvrtc(self):
        recipe, program = new_op.build("sm_90a")
        try:
            print(run([program, "-tc=compile*"]))
        finally:
            recipe.close()


if __name__ == "__main__":
    if not os.path.isdir(cached("TJ_NVRTC_DIR")):
        skip("no NVRTC on this machine")
    unittest.main(verbosity=1)
