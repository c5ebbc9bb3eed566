// The main of every folder's tests: doctest's, and a skip where the machine lacks what the test's name asks for.
//
// A test is a file of the folder: `tests.sched --source-file=*tests/sched/rings_test.cpp` runs its cases.
// Invariant: exit status 77 means that nothing was run, and the reason was printed; a file without cases fails.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <errno.h>
#include <glob.h>

#include <cstdio>
#include <string_view>

namespace {

constexpr int kSkipped = 77;

bool exists(const char* pattern) {
  glob_t found{};
  const bool any = ::glob(pattern, 0, nullptr, &found) == 0;
  ::globfree(&found);
  return any;
}

/// Counts what the filters let through: doctest calls it a success when nothing is left.
struct CaseCount : doctest::IReporter {
  explicit CaseCount(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats& stats) override { cases = stats.numTestCasesPassingFilters; }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
  static unsigned cases;
};
unsigned CaseCount::cases = 0;

bool needs_gpu(int argc, char** argv) {
  if (std::string_view(program_invocation_short_name) == "tests.gpu") return true;
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]).ends_with("_gpu_test.cpp")) return true;
  return false;
}

}  // namespace

DOCTEST_REGISTER_LISTENER("count", 1, CaseCount);

int main(int argc, char** argv) {
  if (needs_gpu(argc, argv) && !exists("/dev/nvidia[0-9]*") && !exists("/dev/dxg") && !exists("/dev/kfd")) {
    std::puts("skipped: no GPU on this machine (there is neither /dev/nvidia* nor /dev/kfd)");
    return kSkipped;
  }
  doctest::Context context(argc, argv);
  const int status = context.run();
  if (context.shouldExit() || CaseCount::cases > 0) return status;
  std::puts("error: no test case is of such a file or name; --list-test-cases lists them");
  return 1;
}
