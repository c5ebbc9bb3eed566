"""The recipe "new op", done as a user would, shared by its two tests."""
from recipe import Recipe

FILES = ["include/tilejit/affine.hpp", "kernel_templates/ops/affine/params.cuh", "kernel_templates/ops/affine/sm90.cuh", "src/ops/affine/kernel.cpp"]
REGISTRY = "src/ops/registry.cpp"
C_HEADER = "include/tilejit/tilejit.h"


def build(target):
    """(recipe, program): the project's copy with the op, and its test built against it."""
    recipe = Recipe("new_op")
    try:
        added = recipe.add_files("include", "src", "kernel_templates")
        assert added == FILES or sorted(added) == sorted(FILES), added
        structure = (recipe.source / "c_struct.h").read_text()
        recipe.insert(REGISTRY, before=r"/\* in this order", text="  OP(affine)       \\")
        recipe.insert(C_HEADER, before=r"^/\* The kernel that was found or made", text=structure.lstrip("\n") + "\n")
        # The recipe: one line in the registry, a structure for C, and nothing else that was there before.
        touched = recipe.changed()
        wanted = {REGISTRY: (1, 0), C_HEADER: (structure.strip().count("\n") + 2, 0)}
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
