"""Protects the measure of the tests themselves: what tests/mutate.py takes for code, which mutants it finds and how it finds them again.

Nothing is compiled here; tests/run.sh runs the listed mutants.
"""
import os
import random
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(os.environ.get("TJ_TEST_REPO_DIR", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(ROOT / "tests"))
from mutation import judge, kinds, lists, memory, patches, sandbox, suite  # noqa: E402
from mutation.tokens import Code  # noqa: E402

SAMPLE = r'''// a < b && c in a comment
#include <vector>
#define LESS(a, b) \
  ((a) < (b))
namespace tj {
constexpr int kSlots = 2;
static_assert(kSlots < 3, "1 + 1");
std::vector<int> made(const std::map<int, std::vector<int>>& from);
struct Ring {
  Ring() : slots{1}, names(2) { slots += 4; }
  bool full(int used) const { return used >= kSlots && open; }
  void close() {
    if (open) open = false;
    log_.warn("closed", kSlots + 5);
    support::fail(Stage::load, cat("a < b: ", kSlots - 6));
  }
};
int sum(const int* from, int count) {
  const char* text = "x + 7 < y"; char quote = '"';
  int total = 0;  /* total - 8 */
  for (int i = 0; i < count; ++i) total += from[i];
  take(std::max(total, 9), -total);
  return text[0] == quote ? total - 1 : R"(a && b)"[0];
}
}
'''


def found(kind, text=SAMPLE):
    return [(mutant.patch.before, mutant.patch.after) for mutant in kinds.mutants_of("src/sample.cpp", text) if mutant.kind == kind]


class Tokens(unittest.TestCase):
    def test_only_code_is_seen(self):
        words = [token.text for token in Code(SAMPLE).tokens]
        self.assertNotIn("LESS", words)
        self.assertNotIn("comment", words)
        self.assertIn('R"(a && b)"', words)
        self.assertIn('"x + 7 < y"', words)

    def test_functions_have_names(self):
        code = Code(SAMPLE)
        self.assertEqual(["Ring", "full", "close", "sum"], [function.name for function in code.functions])
        self.assertIsNone(code.function_of[[t.text for t in code.tokens].index("kSlots")])

    def test_numbers_with_marks_and_exponents(self):
        self.assertEqual(["1'000", "0x1fu", "1e-5", "2.5f", ".5"], patches.words_of("1'000 0x1fu 1e-5 2.5f .5"))

    def test_nested_brackets_and_attributes(self):
        code = Code("void f() { if (a[b[c]]) [[likely]] return; }")
        self.assertEqual(1, len(code.functions))


class Kinds(unittest.TestCase):
    def test_comparisons_but_no_brackets_of_templates(self):
        self.assertTrue(any("used > kSlots" in after for _, after in found("comparison")))
        self.assertTrue(any("i <= count" in after for _, after in found("comparison")))
        self.assertFalse([after for _, after in found("comparison") if "vector" in after or "map" in after])

    def test_what_is_text_or_checked_at_compile_time_stays(self):
        for mutant in kinds.mutants_of("src/sample.cpp", SAMPLE):
            wanted = sorted(mark for mark in ("static_assert(kSlots < 3, \"1 + 1\")", "kSlots + 5", 'R"(a && b)"', "x + 7 < y"))
            text = patches.apply(mutant.patch, SAMPLE)
            self.assertEqual(wanted, [mark for mark in wanted if mark in text], mutant)
            if mutant.kind != "statement":
                self.assertIn('support::fail(Stage::load, cat("a < b: ", kSlots - 6));', text)

    def test_each_kind_is_found(self):
        self.assertIn(("return used >= kSlots && open;", "return used >= kSlots || open;"), found("and-or"))
        self.assertTrue(any("std::min(total, 9)" in after for _, after in found("min-max")))
        self.assertTrue(any("if (!(open))" in after for _, after in found("condition")))
        self.assertTrue(any("), total)" in after for _, after in found("arithmetic")))
        self.assertTrue(any("return false; return used" in after for _, after in found("return")))
        self.assertTrue(any("{ return; if (open)" in after for _, after in found("return")))
        self.assertTrue(any("kSlots = 3" in after for _, after in found("constant")))

    def test_statements_are_dropped_but_no_declarations(self):
        dropped = found("statement")
        self.assertTrue(any("total += from[i]" in before and "total" not in after for before, after in dropped))
        self.assertTrue(any(before.startswith("support::fail") or "support::fail" in before for before, _ in dropped))
        self.assertFalse([before for before, after in dropped if "int total = 0" in before and "int total = 0" not in after])
        self.assertFalse([before for before, after in dropped if before.startswith("++i") and "++i" not in after])
        self.assertFalse([before for before, after in dropped if "log_" in before and "log_" not in after])

    def test_the_choice_follows_from_the_seed(self):
        texts = {f"src/a{i}.cpp": SAMPLE for i in range(20)}
        once, again = kinds.choose(texts, 3, 30, 2), kinds.choose(texts, 3, 30, 2)
        self.assertEqual(once, again)
        self.assertNotEqual(once, kinds.choose(texts, 4, 30, 2))
        self.assertEqual(30, len(once))
        self.assertLessEqual(max(sum(m.patch.file == name for m in once) for name in texts), 2)
        self.assertGreater(len({m.kind for m in once}), 4)


class Patches(unittest.TestCase):
    def test_each_mutant_is_found_again_after_lines_have_moved_and_the_layout_has_changed(self):
        moved = SAMPLE.replace("namespace tj {", "namespace tj {\nint early() { return 12; }\n\n")
        laid_out = moved.replace(" && open", "\n      && open  // why\n").replace("std::max(total, 9)", "std::max(total,\n        9)")
        for mutant in kinds.mutants_of("src/sample.cpp", SAMPLE):
            with self.subTest(patch=mutant.patch):
                wanted = lists.words(patches.apply(mutant.patch, SAMPLE))
                self.assertNotEqual(lists.words(SAMPLE), wanted)
                early = lists.words("int early() { return 12; }")
                for text in (moved, laid_out):
                    self.assertEqual(wanted, lists.words(patches.apply(mutant.patch, text)).replace("\n" + early, "", 1))

    def test_one_that_does_not_apply_says_so(self):
        with self.assertRaisesRegex(patches.Stale, "src/x.cpp"):
            patches.apply(patches.Patch("src/x.cpp", "sum", "total + 99", "total"), SAMPLE)

    def test_names_are_short_and_differ(self):
        names = [mutant.patch.id for mutant in kinds.mutants_of("src/sample.cpp", SAMPLE)]
        self.assertEqual(len(names), len(set(names)))

    def test_mutants_of_the_repository_apply(self):
        paths = sorted(ROOT.glob("src/**/*.cpp"))
        for path in random.Random(0).sample(paths, 4):
            text, name = path.read_text(), str(path.relative_to(ROOT))
            found = kinds.mutants_of(name, text)
            for mutant in random.Random(1).sample(found, min(5, len(found))):
                self.assertNotEqual(text, patches.apply(mutant.patch, text))


class Lists(unittest.TestCase):
    def test_every_entry_applies_and_has_its_reason(self):
        for path in (lists.KNOWN, lists.EQUIVALENTS):
            for entry in lists.read(path):
                if "kind" not in entry:
                    with self.subTest(file=entry["file"], before=entry["before"]):
                        patch = lists.patch_of(entry)
                        patches.apply(patch, (ROOT / patch.file).read_text())
                self.assertTrue(entry["why"] if path == lists.KNOWN else entry["reason"])
                if path == lists.EQUIVALENTS:
                    self.assertIn(entry["class"], lists.CLASSES)

    def test_an_equivalent_is_known_by_what_it_gives(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "src").mkdir()
            Path(folder, "src/sample.cpp").write_text(SAMPLE)
            entry = {"file": "src/sample.cpp", "function": "full", "before": "used >= kSlots", "after": "used > kSlots", "class": "equivalent", "reason": "so"}
            known = lists.Equivalents(folder, [entry, {**entry, "before": "gone"}])
            self.assertEqual(1, len(known.stale))
            reasons = [m for m in kinds.mutants_of("src/sample.cpp", SAMPLE) if known.reason(m.kind, m.patch, SAMPLE)]
            self.assertEqual(["used > kSlots" in m.patch.after for m in reasons], [True])

    def test_a_rule_is_for_a_kind_a_function_and_a_text(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "src").mkdir()
            Path(folder, "src/sample.cpp").write_text(SAMPLE)
            rule = {"kind": "comparison", "file": "src/*.cpp", "function": "full", "within": "used >= kSlots", "class": "equivalent", "reason": "so"}
            others = [{**rule, "kind": "constant"}, {**rule, "function": "early"}, {**rule, "file": "cache/*.cpp"}]
            known = lists.Equivalents(folder, [rule])
            found = [m for m in kinds.mutants_of("src/sample.cpp", SAMPLE) if known.reason(m.kind, m.patch, SAMPLE)]
            self.assertTrue(found)
            for mutant in found:
                self.assertEqual(("comparison", "full"), (mutant.kind, mutant.patch.function))
            known = lists.Equivalents(folder, others)
            self.assertFalse([m for m in kinds.mutants_of("src/sample.cpp", SAMPLE) if known.reason(m.kind, m.patch, SAMPLE)])
            self.assertEqual(1, len(known.stale))  # the one for files that are not there


class Suite(unittest.TestCase):
    @staticmethod
    def one(name, label="unit"):
        return suite.Test(name, ("x",), (label,), (), (), 600, "/", ("tests/" + name,))

    def test_own_folder_first_and_nothing_that_needs_a_gpu(self):
        listed = [self.one(n) for n in ("sched.verify", "sched.rings", "codegen.emit", "cache.store")] + [self.one("gpu.fmha_gpu", "gpu")]
        taken, left = suite.chosen("src/sched/verify.cpp", listed, {}, 100)
        self.assertEqual(["sched.verify", "sched.rings", "codegen.emit"], [test.name for test in taken])
        self.assertEqual(0, left)
        self.assertEqual(([], 3), suite.chosen("src/sched/verify.cpp", listed, {}, 0))
        self.assertEqual(["sched.rings", "sched.verify"],
                         [test.name for test in suite.chosen("src/sched/verify.cpp", listed, {"sched.verify": 60, "sched.rings": 0.2}, 60.5)[0]])
        self.assertEqual(["sched.rings", "codegen.emit"],
                         [test.name for test in suite.chosen("src/sched/verify.cpp", listed, {"sched.verify": 60, "sched.rings": 1}, 60)[0]])

    def test_readers_of_structures_of_c_meet_the_tests_in_c(self):
        listed = [self.one(n) for n in ("ops.gemm_plan", "c_api.gemm_model", "cache.store")]
        first = {file: [test.name for test in suite.chosen(f"src/ops/gemm/{file}.cpp", listed, {}, 0.5)[0]] for file in ("c_args", "plan")}
        self.assertEqual({"c_args": ["c_api.gemm_model"], "plan": ["ops.gemm_plan"]}, first)

    def test_folders_that_read_a_folder_test_it_too(self):
        self.assertIn("codegen", suite.folders_for("sched")[1])
        self.assertIn("ops", suite.folders_for("arch")[1])
        self.assertEqual(("runtime", "c_api", "custom"), suite.folders_for("")[0])


class Runs(unittest.TestCase):
    def outcome(self, script, limit_s=20.0, busy_s=20):
        with tempfile.TemporaryDirectory() as folder:
            test = suite.Test("a.b", (), (), ("WHO=/old/place",), ("LIST=path_list_append:/old/more",), limit_s, folder, ())
            return sandbox.run(test, ["sh", "-c", script], Path(folder) / "run", limit_s, {"/old": "/new"}, busy_s=busy_s)

    def test_status_and_environment(self):
        self.assertEqual(0, self.outcome('[ "$WHO" = /new/place ] && [ -d "$TJ_CACHE_DIR" ] && [ -d "$TMPDIR" ]').status)
        self.assertTrue(self.outcome("exit 3").failed)
        self.assertTrue(self.outcome("kill -SEGV $$").failed)
        self.assertFalse(self.outcome("exit 77").failed)

    def test_a_hang_ends_with_all_its_processes(self):
        found = self.outcome("sleep 1000 & sleep 1000", 0.3)
        self.assertIsNone(found.status)
        self.assertTrue(found.failed)

    def test_a_run_sees_its_own_processes(self):
        """Tests that look at /proc would find strangers there, or nobody, and pass whatever a mutant did."""
        if sandbox.namespace() and "--mount-proc" not in sandbox.namespace():
            self.skipTest("no /proc of its own is allowed here")
        self.assertEqual(0, self.outcome('[ "$(cat /proc/$$/comm)" = sh ]').status)

    def test_a_loop_without_end_is_ended_by_what_it_computes(self):
        found = self.outcome("while :; do :; done", 120.0, 0)
        self.assertIsNone(found.status)
        self.assertLess(found.seconds, 30)


class OneBuild:
    """A build with one object in one program; what is compiled and linked is nothing."""

    def __init__(self, folder):
        self.root = self.folder = Path(folder)
        self.commands = {"a.o": (["g++", "-c", "a.cpp"], Path("a.cpp"))}
        (self.root / "src").mkdir()
        (self.root / "src/sample.cpp").write_text(SAMPLE)
        (self.root / "program").write_text("")

    def objects_reading(self, path):
        return ["a.o"]

    def objects(self, target):
        return ["a.o"]

    def compile(self, made, path, tree, output, extra=()):
        output.write_text((tree / path).read_text())
        return ""

    def link(self, target, objects, output):
        return ""


class Verdicts(unittest.TestCase):
    def verdict(self, with_mutant, without, confirm=True):
        """The verdict on a mutant whose one test ends so in turn, with it and without it; None: too late."""
        left = {True: list(with_mutant), False: list(without)}

        def run(test, command, folder, limit_s, *more, **others):
            status = left["linked" in command[0]].pop(0)
            return sandbox.Outcome(status, 0.1, "what it said")
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(sandbox, "run", run):
            build = OneBuild(folder)
            test = suite.Test("a.b", (str(build.folder / "program"),), ("unit",), (), (), 600, folder, ("program",))
            mutant = kinds.mutants_of("src/sample.cpp", SAMPLE)[0]
            return judge.Judge(build, memory.Memory(Path(folder) / "memory.json"), Path(folder) / "m", confirm).judge(mutant.patch, [test], 0, 0)

    def test_a_test_that_fails_twice_with_the_mutant_and_not_without_it_kills(self):
        found = self.verdict([1, 1], [0, 0])
        self.assertEqual((judge.KILLED, "a.b", "what it said"), (found.verdict, found.by, found.said))
        self.assertEqual("a.b (hangs)", self.verdict([None, None], [0, 0]).by)

    def test_a_test_that_fails_now_and_then_kills_nothing(self):
        self.assertEqual(judge.SURVIVED, self.verdict([1, 0], [0, 0]).verdict)
        self.assertEqual(judge.SURVIVED, self.verdict([None, 0], [0, 0]).verdict)

    def test_where_the_test_fails_without_the_mutant_too_nothing_is_said(self):
        found = self.verdict([1], [0, 1])
        self.assertEqual((judge.NOT_RUN, "fails without it too: a.b"), (found.verdict, found.by))

    def test_a_first_failure_is_enough_where_nobody_asks_for_more(self):
        self.assertEqual(judge.KILLED, self.verdict([1], [0], confirm=False).verdict)


class Memories(unittest.TestCase):
    def test_a_verdict_holds_while_its_tests_do(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = memory.Memory(Path(folder) / "m" / "memory.json")
            kept.keep_verdict("k", {"a.b": "1"}, judge.Verdict("killed", "a.b"))
            kept.keep_verdict("s", {"a.b": "1"}, judge.Verdict("survived", "", ("a.b",)))
            again = memory.Memory(Path(folder) / "m" / "memory.json")
            self.assertEqual("killed", again.verdict("k", {"a.b": "1", "a.c": "2"})[0])
            self.assertIsNone(again.verdict("k", {"a.b": "2"}))
            self.assertIsNone(again.verdict("s", {"a.b": "1", "a.c": "2"}))  # a new test may kill it
            self.assertEqual("survived", again.verdict("s", {"a.b": "1"})[0])
            self.assertEqual(["a.b"], again.passed("s", {"a.b": "1", "a.c": "2"}))
            self.assertEqual([], again.passed("s", {"a.b": "2"}))


if __name__ == "__main__":
    unittest.main(verbosity=1)
