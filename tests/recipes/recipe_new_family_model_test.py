"""Protects the recipe "new family of an op": files of the host and of the device that nothing else names, and one line in the op's
list, are enough for chunk_o on archs that have only a warp's matrix instructions. The shipped family is taken out of a copy of the
project, which then names it nowhere, and added again as the recipe says. It is right on the CPU model, and checked by tj-check."""
import unittest

from recipe import COPIED, REPO, Recipe, run

FILES = ["kernel_templates/ops/chunk_o/sm80.cuh", "kernel_templates/ops/chunk_o/sm80_load.cuh", "src/ops/chunk_o/sm80.cpp"]
FAMILIES = "src/ops/chunk_o/family.cpp"
LINE = "  FAMILY(sm80)                      \\\n"


class NewFamily(unittest.TestCase):
    def test_on_the_model(self):
        recipe = Recipe("new_family")
        self.addCleanup(recipe.close)
        recipe.replace(FAMILIES, LINE, "")
        texts = {name: (recipe.copy / name).read_text() for name in FILES}
        for name in FILES:
            (recipe.copy / name).unlink()
        self.assertEqual([], self.that_name_it(recipe.copy))
        for name, text in texts.items():
            (recipe.copy / name).write_text(text)
        recipe.insert(FAMILIES, before=r"  FAMILY\(sm90\)", text=LINE)
        self.assertEqual({}, recipe.changed())  # these files and one line are all of it
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

    @staticmethod
    def that_name_it(root):
        """Files of the copy that name the family's files or its function."""
        paths = [path for part in COPIED for path in sorted((root / part).rglob("*")) if path.suffix in (".cpp", ".hpp", ".cuh", ".h")]
        return [str(path.relative_to(root)) for path in paths
                if any(word in path.read_text() for word in ("chunk_o_sm80", "chunk_o/sm80"))]


if __name__ == "__main__":
    unittest.main(verbosity=1)
