"""Protects the layout: no new arrow between folders, no word where it does not belong, no file that grows too long.

Runs the rules on the repository, then plants one violation of each kind in a copy and expects exactly that to be found.
"""
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import rules  # noqa: E402

ROOT = Path(os.environ.get("TJ_TEST_REPO_DIR", Path(__file__).resolve().parents[2]))

# file, text to append, what must be said about it
PLANTS = [
    ("src/sched/planted.cpp", '#include "ops/op.hpp"\n', "sched includes ops/op.hpp"),
    ("src/ops/planted.cpp", '#include "sched/schedule.hpp"\n', "ops includes sched/schedule.hpp"),
    ("src/graph/planted.hpp", '#include "arch/arch.hpp"\n', "graph includes arch/arch.hpp"),
    ("src/support/planted.hpp", '#include "graph/graph.hpp"\n', "support includes graph/graph.hpp"),
    ("src/compile/planted.cpp", '#include "launch/driver.hpp"\n', "compile includes launch/driver.hpp"),
    ("src/launch/planted.cpp", '  #  include "cache/cache.hpp"\n', "launch includes cache/cache.hpp"),
    ("cache/planted.cpp", '#include "compile/compiler.hpp"\n', "cache includes compile/compiler.hpp"),
    ("src/codegen/planted.cpp", '#include "arch/arch.hpp"\n', "codegen includes arch/arch.hpp"),
    ("src/arch/planted.cpp", '#include <CLI/CLI.hpp>\n', "CLI/CLI.hpp may be included in tools"),
    ("src/graph/planted.cpp", '#include <nlohmann/json.hpp>\n', "nlohmann/json.hpp may be included in support"),
    ("src/ops/planted.cpp", '#include <cuda.h>\n', "cuda.h may be included in launch"),
    ("src/ops/planted.cpp", '#include "nowhere.hpp"\n', "nowhere.hpp names no file"),
    ("src/model/planted.cpp", '#include "pipeline.cuh"\n', "pipeline.cuh is device code; model may read model/abi.h only"),
    ("src/launch/cuda/planted.cpp", '#include "model/model.hpp"\n', "launch includes model/model.hpp"),
    ("src/sched/modulo/planted.cpp", '#include "sched/joint/joint.hpp"\n', "sched/modulo includes sched/joint/joint.hpp"),
    ("src/sched/joint/planted.cpp", '#include "sched/picture/svg.hpp"\n', "sched/joint includes sched/picture/svg.hpp"),
    ("src/launch/hip/planted.cpp", '#include "launch/cuda/driver.hpp"\n', "launch/hip includes launch/cuda/driver.hpp"),
    ("src/tuning/planted.cpp", '#include "backends.hpp"\n', "tuning includes backends.hpp, an arrow to runtime"),
    ("src/custom/planted.cpp", '#include "maker.hpp"\n', "custom includes maker.hpp, an arrow to runtime"),
    ("src/planted.cpp", '#include "api/c_runtime.hpp"\n', "runtime includes api/c_runtime.hpp, an arrow to api"),
    ("src/sched/planted.cpp", '#include "types.cuh"\n', "sched includes types.cuh"),
    ("include/tilejit/planted.hpp", '#include "support/hash.hpp"\n', "a public header includes support/hash.hpp"),
    ("src/runtime_planted.cpp", '#include "ops/gemm/gemm.hpp"\n', "the runtime names an op: gemm"),
    ("src/runtime_planted.hpp", "KernelReport prepare(const FmhaConfig& config);\n", "the runtime names an op: Fmha"),
    ("src/codegen/planted.cpp", "// as fmha does it\n", "names an op or a node: fmha"),
    ("src/codegen/planted.cpp", 'const char* k = "softmax";\n', "names an op or a node: softmax"),
    ("src/codegen/planted.cpp", "if (family == sm90) wgmma_fence();\n", "names an arch or its instructions: sm90"),
    ("src/codegen/planted.cpp", "wgmma_fence();\n", "names an arch or its instructions: wgmma"),
    ("src/codegen/planted.cpp", "int tma_bytes;\n", "names an arch or its instructions: tma"),
    ("src/codegen/planted.cpp", "// as on Blackwell\n", "names an arch or its instructions: Blackwell"),
    ("src/sched/planted.cpp", 'bool five = machine.name == "sm_100a";\n', "sched names an arch or its instructions: sm_100a"),
    ("src/sched/planted.hpp", "// Blackwell's columns\n", "sched names an arch or its instructions: Blackwell"),
    ("src/sched/planted.cpp", "int tcgen05_roles;\n", "sched names an arch or its instructions: tcgen05"),
    ("cache/planted.cpp", 'if (target == "gfx1100") return;\n', "cache names an arch or its instructions: gfx1100"),
    ("cache/planted.hpp", "// of sm100 alone\n", "cache names an arch or its instructions: sm100"),
    ("src/codegen/planted.cpp", '#include "ops/op.hpp"\n', "codegen includes ops/op.hpp"),
    ("kernel_templates/ops/planted.cuh", '#include <cstdint>\n', "<cstdint>"),
    ("kernel_templates/planted.cuh", '#include "nowhere.cuh"\n', "nowhere.cuh is no file"),
    ("kernel_templates/ops/planted.cuh", 'void f() { asm volatile("" ::); }\n', "asm belongs in kernel_templates/arch"),
    ("kernel_templates/ops/planted.cuh", "int f() { return __builtin_clz(1); }\n", "__builtin_clz belongs"),
    ("kernel_templates/ops/planted.cuh", "#if __CUDA_ARCH__ >= 900\n#endif\n", "an arch condition belongs"),
    ("src/launch/planted.cpp", 'auto* v = std::getenv("HOME");\n', "the environment is read in src/support only"),
    ("src/support/planted.cpp", 'const auto v = environment_variable("TJ_PLANTED");\n', "TJ_PLANTED is not in the list of src/support/variables.cpp"),
    ("tests/ops/planted_test.cpp", 'namespace {\nconst char* v = std::getenv("TJ_PLANTED");\n}\n', "TJ_PLANTED is not in the list"),
    ("tests/tools/planted.py", 'import os\nV = os.environ["TJ_PLANTED"]\n', "TJ_PLANTED is not in the list"),
    ("cache/planted.cpp", 'void f() { std::cerr << "no"; }\n', "never prints"),
    ("src/ops/gemm/planted.cpp", 'bool f(const Arch& arch) { return arch.family == "sm80"; }\n', "only family.cpp of an op decides"),
    ("src/ops/planted.cpp", "bool f(const Arch* arch) { return kFamily != arch->family; }\n", "only family.cpp of an op decides"),
    ("src/ops/planted.cpp", "void f() { std::abort(); }\n", "never prints, exits or aborts"),
    ("src/ops/planted.cpp", "const Op& op() {\n  static const Gemm kept;\n  return kept;\n}\n", "static const Gemm kept: destroyed at the process's end"),
    ("cache/planted.hpp", "struct S {\n  int f() {\n    static std::map<int, int> kept = make();\n    return kept[0];\n  }\n};\n", "static std::map<int, int> kept: destroyed"),
    ("src/ops/planted.cpp", "const arch::Needs kNeeds = {{1}};\n", "const arch::Needs kNeeds: destroyed at the process's end"),
    ("src/planted.cpp", "std::vector<int> list;\n", "destroyed at the process's end"),
    ("src/planted.cpp", "int f() {\n  thread_local std::string text;\n  return 0;\n}\n", "thread_local: calls may come while the thread ends"),
    ("src/planted.cpp", "int f() {\n  thread_local constinit std::string text;\n  return 0;\n}\n", "thread_local: calls may come while the thread ends"),
    ("src/launch/planted.hpp", "class C {\n  std::mutex mutex_;\n};\n", "std::mutex: a forked child may find it taken"),
    ("src/codegen/planted.cpp", "void f() {\n  std::ostringstream out;\n}\n", "ostringstream: a program's locale changes what it does"),
    ("src/codegen/planted.cpp", "void f() {\n  std::istringstream in;\n}\n", "istringstream: a program's locale changes what it does"),
    ("cache/planted.cpp", "bool f(char c) { return std::isalnum(c); }\n", "isalnum: a program's locale"),
    ("src/ops/planted.cpp", "int x;\n" * 401, "401 lines"),
    ("src/ops/planted.cpp", "namespace tj {\nint f(int x) {\n" + "  ++x;\n" * 58 + "  return x;\n}\n}\n", "a function of 61 lines"),
    ("cache/planted.hpp", "struct S {\n  void f() const {\n" + "    if (a) {\n      b();\n    }\n" * 20 + "  }\n};\n", "a function of 62 lines"),
    ("kernel_templates/ops/planted.cuh", "template <int A, class B, class C = D<1, 2>, int... E,\n          bool F>\nvoid f();\n", "5 template parameters"),
    ("tests/ops/planted.cpp", "// TO" + "DO later\n", "finish it or leave it out"),
    ("tests/ops/planted_test.cpp", "namespace {\nstruct A {};\n}\nstruct Params {\n  int x;\n};\n", "struct Params: belongs in an unnamed namespace"),
    ("tests/ops/planted_test.cpp", "namespace tj::test {\nint helper() { return 1; }\n}\n", "int helper(): belongs in an unnamed namespace"),
    ("utils/planted.txt", "x\n", "utils/: the design has no such folder"),
    ("planted-1.0-py3-none-any.whl", "x\n", ".whl is fetched or built"),
    ("tests/isa/planted.cubin", "x\n", ".cubin is fetched or built"),
]

# Texts that must not be taken for a violation.
HARMLESS = [
    ("src/sched/planted.cpp", '// #include "ops/op.hpp" would be wrong\nconst char* k = "#include <x>";\n'),
    ("src/support/planted.cpp", 'auto* v = std::getenv("HOME");\n'),
    ("src/support/planted.cpp", 'auto* v = std::getenv("TJ_TEST_PLANTED");\n// as TJ_PLANTED(x) does\n'),
    ("src/ops/planted.cpp", "const Op& op() {\n  static constinit support::Lasting<const Gemm> kept;\n  return kept.get();\n}\nstatic Op make(int x) { return Op{x}; }\n"
                            "struct S {\n  static Op of() {\n    static constexpr int kOne = 1;\n    return {kOne};\n  }\n};\nconst arch::Needs& kNeeds = support::lasting<arch::Needs>({});\n"),
    ("src/tools/planted.cpp", "std::mutex& f(S& s) { return s.mutex; }\n"),
    ("src/sched/planted.cpp", 'add("mma", products);  // a role\n'),
    ("src/codegen/planted.cpp", "bool in_bulk(const Node& node) { return node.async == Async::store; }\n"),
    ("src/launch/planted.cpp", '// getenv and printf( are not called here\nvoid f() { log.exit(); }\n'),
    ("kernel_templates/arch/planted.cuh", 'void f() { asm volatile("" ::); }\n'),
    ("kernel_templates/model/planted.hpp", "#include <vector>\n"),
    ("src/ops/planted.cpp", '#include <vector>\n#include <sys/stat.h>\n#include "graph/graph.hpp"\n'),
    ("src/ops/planted.cpp", "struct S {\n  S() : a{1}, b(2) {\n" + "    x();\n" * 58 + "  }\n" + "  int c;\n" * 70 + "};\nconst char kBrace = '{';\n"),
    ("src/ops/planted.cpp", "const Fact kFacts[] = {\n" + "    {measured(1), \"}\"},\n" * 80 + "};\n"),
    ("include/tilejit/planted.hpp", "template <class A, class B = C<1, 2, 3, 4>, class D = E<(1, 2)>, int F = 0>\nvoid f();\n"),
    ("src/planted.cpp", '#include "launch/driver.hpp"\n#include "cache/cache.hpp"\n'),
    ("tests/ops/planted_test.cpp", "namespace tj {\nnamespace {\nstruct A {\n  void f() {}\n};\n}\nTEST_CASE(\"a\") {\n  if (x) {\n  }\n}\n}\n"),
    ("src/tools/planted.cpp", '#include <CLI/CLI.hpp>\nvoid f() { std::printf("x"); }\n'),
]


def copy_of(root, folder):
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in rules.TOP_FOLDERS:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=ignore)


class Layering(unittest.TestCase):
    maxDiff = None

    def test_repository(self):
        self.assertEqual([], rules.violations(ROOT))

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tilejit_layout_")
        cls.copy = Path(cls.folder.name)
        copy_of(ROOT, cls.copy)
        cls.before = set(rules.violations(cls.copy))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def planted(self, files):
        """For each (name, text) the violations that appear while the copy has these files, which are all there at once: a look at the
        whole copy takes a second. Each gets a name of its own, and a violation belongs to the file or folder that it names."""
        placed, folders = [], []
        for number, (name, text) in enumerate(files):
            path = self.copy / name.replace("planted", f"planted{number}")
            if not path.parent.exists():
                path.parent.mkdir(parents=True)
                folders.append(path.parent)
            self.assertFalse(path.exists())
            path.write_text(text)
            placed.append(path)
        found = [line for line in rules.violations(self.copy) if line not in self.before]
        for path in placed:
            path.unlink()
        for folder in folders:
            folder.rmdir()
        names = [(str(path.relative_to(self.copy)), f"{path.parent.name}/:") for path in placed]
        return [[line for line in found if line.startswith(names[number])] for number in range(len(files))]

    def test_each_violation_is_seen(self):
        for (name, text, message), found in zip(PLANTS, self.planted([plant[:2] for plant in PLANTS])):
            with self.subTest(file=name, text=text[:60]):
                self.assertTrue(any(message in line for line in found), f"expected: {message}\nfound: {found}")

    def test_harmless_text_is_left_alone(self):
        for (name, _), found in zip(HARMLESS, self.planted(HARMLESS)):
            with self.subTest(file=name):
                self.assertEqual([], found)

    def test_the_words_of_the_ops_are_known(self):
        """The word list is read from the templates: it must not silently become empty."""
        ops, bodies = rules.codegen_words(ROOT)
        self.assertLessEqual({"fmha"}, ops)
        self.assertLessEqual({"qk", "softmax", "pv", "load_k"}, bodies)


if __name__ == "__main__":
    unittest.main(verbosity=1)
