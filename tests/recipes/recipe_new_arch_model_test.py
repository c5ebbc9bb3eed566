"""Protects the recipe "new arch of a known vendor": its data, its primitives on the device and on the model, and one line in
the registry are enough for a target that attention is scheduled for and runs on, on the CPU model."""
import unittest

from recipe import Recipe, run

FILES = ["kernel_templates/arch/sm95.cuh", "kernel_templates/model/arch/sm95.cuh", "src/arch/sm95.cpp"]
REGISTRY = "src/arch/registry.cpp"


class NewArch(unittest.TestCase):
    def test_on_the_model(self):
        recipe = Recipe("new_arch")
        self.addCleanup(recipe.close)
        self.assertEqual(FILES, sorted(recipe.add_files("src", "kernel_templates")))
        recipe.insert(REGISTRY, before=r"/\* in this order", text="  ARCH(sm95z)          \\")
        self.assertEqual({REGISTRY: (1, 0)}, recipe.changed())  # the recipe: one line, and nothing else that was there before
        recipe.add_files("tests")
        recipe.compile("src/arch/sm95.cpp")
        recipe.compile(REGISTRY)
        recipe.embed_templates()
        recipe.compile_test("tests/arch/sm95_test.cpp")
        print(run([recipe.link()]))


if __name__ == "__main__":
    unittest.main(verbosity=1)
