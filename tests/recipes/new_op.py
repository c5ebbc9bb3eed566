"""The recipe "new op", done as a user would, shared by its two tests."""
from recipe import Recipe

FILES = ["kernel_templates/ops/affine/params.cuh", "kernel_templates/ops/affine/sm90.cuh", "src/ops/affine/kernel.cpp"]
REGISTRY = "src/ops/registry.cpp"
DESCRIPTORS = "include/tilejit/ops.hpp"


def build(target):
    """(recipe, program): the project's copy with the op, and its test built against it."""
    recipe = Recipe("new_op")
    try:
        added = recipe.add_files("src", "kernel_templates")
        assert added == FILES or sorted(added) == sorted(FILES), added
        descriptor = (recipe.source / "descriptor.hpp").read_text()
        recipe.insert(REGISTRY, before=r"/\* in this order", text="  OP(affine)       \\")
        recipe.insert(DESCRIPTORS, before=r"^}  // namespace tj", text=descriptor.lstrip("\n") + "\n")
        # The recipe: one line in the registry, the descriptor, and nothing else that was there before.
        touched = recipe.changed()
        wanted = {REGISTRY: (1, 0), DESCRIPTORS: (descriptor.strip().count("\n") + 2, 0)}
        assert touched == wanted, f"the recipe touches {touched}, it promises {wanted}"
        recipe.add_files("tests")
        recipe.compile("src/ops/affine/kernel.cpp")
        recipe.compile(REGISTRY)
        recipe.embed_templates()
        recipe.compile_test("tests/ops/affine/run_test.cpp", TJ_RECIPE_TARGET=target)
        return recipe, recipe.link()
    except BaseException:
        recipe.close()
        raise
