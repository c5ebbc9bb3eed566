"""Protects the recipe "new mask on attention": a sliding window, its size an argument of the call, is a member of the public
descriptor, a row of the table of fields, the rule of which keys a row sees, a number of the kernel's parameter, what a call
says of it, and its check. These are six files; the four families' node bodies and graphs are not touched."""
import unittest

from recipe import Recipe, run

AT_MOST = 6
DESCRIPTORS, MASK, PARAMS = "include/tilejit/fmha.hpp", "kernel_templates/ops/fmha/mask.cuh", "kernel_templates/ops/fmha/params.cuh"
FIELDS, CALLS, CHECKS = "src/ops/fmha/fields.hpp", "src/ops/fmha/mask.cpp", "src/ops/fmha/validate.cpp"

ROW = """,
     {.name = "windowed",
      .get = [](const FmhaKernel& config) { return unsigned{config.windowed}; },
      .set = [](FmhaKernel& config, unsigned place) { config.windowed = place != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"false", "true", "both"},
      .tag = "_window",
      .tagged = [](const FmhaKernel& config) { return config.windowed; },
      .optional = true,
      .constant = "kWindowed",
      .kind = Constant::boolean}}};

}  // namespace tj::ops"""

CHECK = """  if (args.window < 0 || (args.window > 0 && !args.causal))
    refuse(kOp, Code::invalid_argument,
           cat("window is ", args.window, "; allowed: 0, or with causal any number of keys"));
  if (!args.lse) return;"""


def edit(recipe):
    """Makes the edits that a user makes."""
    recipe.replace(DESCRIPTORS, "  bool causal = false;\n  /// Multiprocessors", "  bool causal = false;\n"
                   "  /// Besides causal: a query sees the last so many keys of those alone. 0: all.\n  std::int32_t window = 0;\n"
                   "  /// Multiprocessors")
    recipe.replace(DESCRIPTORS, "  bool general_scale = false;\n", "  bool general_scale = false;\n"
                   "  bool windowed = false;  ///< FmhaArgs::window is not 0\n")
    recipe.replace(FIELDS, "std::array<Field<FmhaKernel>, 7>", "std::array<Field<FmhaKernel>, 8>")
    recipe.replace(FIELDS, "}};\n\n}  // namespace tj::ops", ROW)
    recipe.replace(MASK, "  int queries, keys;\n", "  int queries, keys;\n  int window;  ///< keys that a row sees at most; 0: all\n")
    recipe.replace(MASK, "    return {0, end < keys ? end : keys};\n", "    return {window > 0 && end > window ? end - window : 0, end < keys ? end : keys};\n")
    recipe.replace(MASK, "tiles_differ() const { return causal; }", "tiles_differ() const { return causal && window == 0; }")
    recipe.replace(MASK, "from_first_key() const { return true; }", "from_first_key() const { return window == 0; }")
    recipe.replace(MASK, "  return {C::kCausal, params.queries, params.keys};", "  return {C::kCausal, params.queries, params.keys, C::kWindowed ? params.window : 0};")
    recipe.replace(PARAMS, "  int queries, keys;\n", "  int queries, keys;\n  int window;\n")
    recipe.replace(CALLS, "{ config.causal = args.causal; }", "{\n  config.causal = args.causal;\n  config.windowed = args.window > 0;\n}")
    recipe.replace(CALLS, "{ args.causal = config.causal; }", "{\n  args.causal = config.causal;\n  args.window = config.windowed ? kTypicalWindow : 0;\n}")
    recipe.replace(CALLS, "  params.keys = static_cast<int>(args.k.shape[2]);\n", "  params.keys = static_cast<int>(args.k.shape[2]);\n  params.window = args.window;\n")
    recipe.replace(CALLS, "static_cast<int>(keys)};", "static_cast<int>(keys), config.windowed ? kTypicalWindow : 0};")
    recipe.replace(CALLS, "namespace tj::ops {\n", "namespace tj::ops {\n\nconstexpr int kTypicalWindow = 512;\n")
    recipe.replace(CHECKS, "  if (!args.lse) return;", CHECK)


class NewMask(unittest.TestCase):
    def test_on_the_model_of_each_family(self):
        recipe = Recipe("new_mask")
        self.addCleanup(recipe.close)
        edit(recipe)
        touched = recipe.changed()
        self.assertEqual({DESCRIPTORS, MASK, PARAMS, FIELDS, CALLS, CHECKS}, set(touched))
        self.assertLessEqual(len(touched), AT_MOST)
        recipe.add_files("tests")
        recipe.compile_all("src/ops/fmha")  # whatever knows the descriptor's members
        recipe.embed_templates()
        recipe.compile_test("tests/ops/fmha/window_test.cpp")
        print(run([recipe.link()]))


if __name__ == "__main__":
    unittest.main(verbosity=1)
