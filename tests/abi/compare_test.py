"""Protects the comparison that holds the C interface stable: it finds each kind of break, and takes what is allowed for none."""
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(os.environ["TJ_TEST_REPO_DIR"]) / "tests" / "support"))
import compare  # noqa: E402
import skips  # noqa: E402

BEFORE = """
#include <stddef.h>
#include <stdint.h>
#define TJ_C_API __attribute__((visibility("default")))
#define TJ_MAX_RANK 5
enum { TJ_F16 = 0, TJ_BF16 = 1 };
typedef struct tj_runtime tj_runtime;
typedef struct tj_device {
  int32_t kind; /* of it */
  int32_t index;
} tj_device;
typedef void (*tj_log_sink)(void* user, const char* text);
typedef struct tj_args {
  uint64_t size;
  const char* name;
  const char* const* names;
  int64_t shape[TJ_MAX_RANK];
  double first_ms, second_ms;
  float scale;
  int32_t causal;
  int32_t rank;
  int32_t reserved;
  tj_log_sink sink;
  int32_t last;
} tj_args;
TJ_C_API int32_t tj_run(tj_runtime* runtime, const tj_args* args, void* stream);
TJ_C_API const char* tj_version(void);
"""

BREAKS = [  # old text, new text, what is said
    ("const char* tj_version(void);", "const char* tj_release(void);", "tj_version() is gone"),
    ("const tj_args* args, void* stream", "const tj_args* args, int64_t stream", "tj_run has another type"),
    ("const tj_args* args, void* stream", "const tj_args* args", "tj_run has another type"),
    ("(*tj_log_sink)(void* user, const", "(*tj_log_sink)(void* user, int32_t level, const", "tj_log_sink has another type"),
    ("TJ_BF16 = 1", "TJ_BF16 = 2", "TJ_BF16 was 1, and is 2"),
    ("TJ_MAX_RANK 5", "TJ_MAX_RANK 4", "TJ_MAX_RANK was 5, and is 4"),
    (", TJ_BF16 = 1", "", "TJ_BF16 is gone"),
    ("  int32_t index;", "  int32_t index, bus;", "tj_device had 8 bytes, and has 12"),
    ("  const char* name;", "  const char* name;\n  const char* target;", "tj_args.names was at byte 16 with 8 bytes, and is at 24 with 8"),
    ("  float scale;", "  int32_t scale;", "tj_args.scale was a float, and is a int32_t"),
    ("const char* const* names", "const char** names", "tj_args.names was a const char* const*, and is a const char**"),
    ("  int32_t rank;", "  int32_t dims;", "tj_args.rank is gone"),
    ("  int32_t last;", "  int32_t last;\n  int32_t more;", "tj_args.more is new, and lies among the 112 bytes of before"),
    ("second_ms", "third_ms", "tj_args.second_ms is gone"),
]

ALLOWED = [
    ("TJ_BF16 = 1", "TJ_BF16 = 1, TJ_F32 = 2"),
    ("TJ_C_API const char*", "TJ_C_API int32_t tj_stop(tj_runtime* runtime);\nTJ_C_API const char*"),
    ("  int32_t reserved;", "  int32_t flags;"),
    ("/* of it */", "/* TJ_CPU */"),
    ("const tj_args* args, void* stream", "const tj_args* request, void* queue"),
    ("} tj_args;", "} tj_args;\ntypedef struct tj_more {\n  uint64_t size;\n  tj_args* args;\n} tj_more;"),
]


@unittest.skipUnless(compare.compiler(), "no C compiler")
class Compare(unittest.TestCase):
    def breaks(self, old, new):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("old", BEFORE), ("new", BEFORE.replace(old, new, 1))):
                (Path(folder) / name).mkdir()
                (Path(folder) / name / "tilejit.h").write_text(text)
            return compare.breaks(Path(folder) / "old/tilejit.h", Path(folder) / "new/tilejit.h")

    def test_breaks_are_found(self):
        for old, new, said in BREAKS:
            self.assertIn(old, BEFORE)
            found = self.breaks(old, new)
            self.assertTrue(any(sentence.startswith(said) for sentence in found), f"{old} -> {new}: {found}")

    def test_growth_is_none(self):
        for old, new in ALLOWED:
            self.assertIn(old, BEFORE)
            self.assertEqual([], self.breaks(old, new), f"{old} -> {new}")

    def test_a_field_behind_the_end_is_none(self):
        whole = BEFORE.replace("  int32_t last;", "  int64_t last;")
        grown = whole.replace("  int64_t last;", "  int64_t last;\n  int32_t more;")
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, text in (("old", whole), ("new", grown)):
                (Path(folder) / name).mkdir()
                paths.append(Path(folder) / name / "tilejit.h")
                paths[-1].write_text(text)
            self.assertEqual([], compare.breaks(*paths))

    def test_what_cannot_be_read_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "the field .* of tj_args cannot be read"):
            self.breaks("  float scale;", "  void (*f)(void);")


if __name__ == "__main__":
    skips.main()
