"""Protects the recipe "new mask on attention": chunks of keys, their size an argument of the call, are a member of the public
descriptor, a row of the table of fields, the rule of which keys a row sees, a number of the kernel's parameter, what a call
says of it, and its check. These are six files; the four families' node bodies and graphs are not touched."""
import unittest

from recipe import Recipe, run

AT_MOST = 6
DESCRIPTORS, MASK, PARAMS = "include/tilejit/fmha.hpp", "kernel_templates/ops/fmha/mask.cuh", "kernel_templates/ops/fmha/params.cuh"
FIELDS, CALLS, CHECKS = "src/ops/fmha/fields.hpp", "src/ops/fmha/mask.cpp", "src/ops/fmha/validate.cpp"

ROW = """,
     {.name = "chunked",
      .get = [](const FmhaKernel& config) { return unsigned{config.chunked}; },
      .set = [](FmhaKernel& config, unsigned place) { config.chunked = place != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"false", "true", "both"},
      .tag = "_chunk",
      .tagged = [](const FmhaKernel& config) { return config.chunked; },
      .optional = true,
      .constant = "kChunked",
      .kind = Constant::boolean}}};

}  // namespace tj::ops"""

CHECK = """  check_fmha_numbers(args);
  if (args.chunk < 0 || (args.chunk > 0 && !args.causal))
    refuse(kOp, Code::invalid_argument,
           cat("chunk is ", args.chunk, "; allowed: 0, or with causal any number of keys"));"""


def edit(recipe):
    """Makes the edits that a user makes."""
    recipe.replace(DESCRIPTORS, "  FmhaWindow window;\n", "  FmhaWindow window;\n"
                   "  /// Besides causal: keys come in chunks of so many, and a query sees those of its own chunk alone. 0: all.\n"
                   "  std::int32_t chunk = 0;\n")
    recipe.replace(DESCRIPTORS, "  bool general_scale = false;\n", "  bool general_scale = false;\n"
                   "  bool chunked = false;  ///< FmhaArgs::chunk is not 0\n")
    recipe.replace(FIELDS, "std::array<Field<FmhaKernel>, 20>", "std::array<Field<FmhaKernel>, 21>")
    recipe.replace(FIELDS, "}};\n\n}  // namespace tj::ops", ROW)
    recipe.replace(MASK, "  int left, right;      ///< at most queries + keys\n", "  int left, right;      ///< at most queries + keys\n"
                   "  int chunk;             ///< keys of a chunk; 0: all are one\n")
    recipe.replace(MASK, "    if (!windowed) return {0, end < keys ? end : keys};\n",
                   "    if (!windowed) return {chunk > 0 && place > 0 ? place / chunk * chunk : 0, end < keys ? end : keys};\n")
    recipe.replace(MASK, "from_first_key() const { return !windowed && !any; }",
                   "from_first_key() const { return !windowed && !any && chunk == 0; }")
    recipe.replace(MASK, "          params.right,\n", "          params.right,\n          C::kChunked ? params.chunk : 0,\n")
    recipe.replace(PARAMS, "  int queries, keys;\n", "  int queries, keys;\n  int chunk;\n")
    recipe.replace(CALLS, "  config.causal = args.causal || args.window.right == 0;\n",
                   "  config.causal = args.causal || args.window.right == 0;\n  config.chunked = args.chunk > 0;\n")
    recipe.replace(CALLS, "  args.causal = config.causal;\n", "  args.causal = config.causal;\n  args.chunk = config.chunked ? kTypicalChunk : 0;\n")
    recipe.replace(CALLS, "  params.right = mask.right;\n", "  params.right = mask.right;\n  params.chunk = mask.chunk;\n")
    recipe.replace(CALLS, "                const FmhaWindow& window) {\n", "                const FmhaWindow& window, int chunk) {\n")
    recipe.replace(CALLS, "          bounded(window.right, all),\n", "          bounded(window.right, all),\n          chunk,\n")
    recipe.replace(CALLS, "args.top_left, args.window);", "args.top_left, args.window, args.chunk);")
    recipe.replace(CALLS, ": FmhaWindow{});\n", ": FmhaWindow{}, config.chunked ? kTypicalChunk : 0);\n")
    recipe.replace(CALLS, "constexpr std::int64_t kTypicalWindow = 1024;\n", "constexpr std::int64_t kTypicalWindow = 1024;\nconstexpr int kTypicalChunk = 512;\n")
    recipe.replace(CHECKS, "  check_fmha_numbers(args);", CHECK)


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
        recipe.compile_test("tests/ops/fmha/chunk_test.cpp")
        print(run([recipe.link()]))


if __name__ == "__main__":
    unittest.main(verbosity=1)
