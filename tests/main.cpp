// The main of every test: doctest's, and a skip where the machine lacks what the test's name asks for.
//
// Invariant: exit status 77 means that nothing was run, and the reason was printed.
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

}  // namespace

int main(int argc, char** argv) {
  const std::string_view program = program_invocation_short_name;
  const bool needs_gpu = program.ends_with("_gpu") || program.starts_with("gpu.");
  if (needs_gpu && !exists("/dev/nvidia[0-9]*") && !exists("/dev/dxg") && !exists("/dev/kfd")) {
    std::puts("skipped: no GPU on this machine (there is neither /dev/nvidia* nor /dev/kfd)");
    return kSkipped;
  }
  doctest::Context context(argc, argv);
  return context.run();
}
