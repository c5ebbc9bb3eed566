"""Protects the recipe "new family of an op": one file of the host, one of the device and one line in the op's list are enough
for chunk_o on archs that have only a warp's matrix instructions. The copy of the project loses its own family of them first.
The recipe's is scheduled, emitted, right on the CPU model, and checked by tj-check."""
import unittest

from recipe import REPO, Recipe, run

FILES = ["kernel_templates/ops/chunk_o/sm80.cuh", "src/ops/chunk_o/sm80.cpp"]
FAMILIES = "src/ops/chunk_o/family.cpp"


class NewFamily(unittest.TestCase):
    def test_on_the_model(self):
        recipe = Recipe("new_family")
        self.addCleanup(recipe.close)
        recipe.replace(FAMILIES, "  FAMILY(sm80)                      \\\n", "")
        for name in FILES:
            (recipe.copy / name).unlink()
        self.assertEqual(FILES, sorted(recipe.add_files("src", "kernel_templates", replaces=FILES)))
        recipe.insert(FAMILIES, before=r"  FAMILY\(sm90\)", text="  FAMILY(sm80)                      \\")
        self.assertEqual(set(FILES), set(recipe.changed()))  # the recipe: one line, and nothing else that was there before
        recipe.add_files("tests")
        recipe.compile("src/ops/chunk_o/sm80.cpp")
        recipe.compile(FAMILIES)
        recipe.embed_templates()
        recipe.compile_test("tests/ops/chunk_o/sm80_test.cpp")
        recipe.compile_test(REPO / "tests/ops/chunk_o/problem.cpp")
        print(run([recipe.link()]))
        tool = recipe.link_tool("check")
        if tool is not None:
            self.assertIn("clean: chunk_o", run([tool, "--op", "chunk_o", "--target", "model:sm_90", "--seeds", "1"]))


if __name__ == "__main__":
    unittest.main(verbosity=1)
