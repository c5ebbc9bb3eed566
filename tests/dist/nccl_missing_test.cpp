// Protects what is said without NCCL, and that nothing stays half done. Ranks of the model work, and an NCCL that is
// there later is taken. It has a process of its own, as one that has opened NCCL keeps it.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <tilejit/tilejit.hpp>

#include "dist/split_problem.hpp"
#include "fakes/fake_nccl.hpp"
#include "support/environment.hpp"
#include "support/expect.hpp"
#include "support/model_runtime.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

using namespace tj;

#define TJ_WITHOUT_NCCL "in a process whose path has an NCCL that does not open"

TEST_CASE(TJ_WITHOUT_NCCL* doctest::skip()) {
  ::setenv("NCCL_NVLS_ENABLE", "0", 1);
  Runtime& runtime = testing::model_runtime();
  constexpr Device kCpu{DeviceKind::cpu, 0};
  const std::string id(128, 'i');
  int no_communicator = 0;
  const auto missing = [](const std::string& said) {
    CHECK_MESSAGE(testing::has(said,
                               "load: NCCL is missing: libnccl.so.2 does not open; install NCCL, or put its folder on "
                               "LD_LIBRARY_PATH; tried "),
                  said);
  };
  for (int n = 0; n < 2; ++n) {
    missing(testing::said_by([] { dist::Group::unique_id(); }));
    missing(testing::said_by([&] { dist::Group(runtime, id, 0, 1, kCpu); }));
    missing(testing::said_by([&] { dist::Group(runtime, static_cast<void*>(&no_communicator), kCpu); }));
  }
  CHECK(testing::has(testing::said_by([&] { dist::Group(runtime, "short", 0, 1, kCpu); }), "id has 5 bytes"));
  const test::SplitCase what = test::split_case(dist::Split::zigzag, {8, 8}, true);
  auto members = dist::Group::on_model(runtime, 2);
  test::FmhaProblem whole(what.shape, 3);
  CHECK(run_split(whole, what, members) == std::vector<std::string>(2));
  CHECK(whole.problem() == "");
  const test::FakeNccl nccl;
  CHECK(nccl.comms() == 0);
  CHECK(testing::said_by([&] { dist::Group(runtime, dist::Group::unique_id(), 0, 1, kCpu); }) == "");
}

TEST_CASE("a missing NCCL is named with what to do, and one that comes later is taken") {
  const testing::Scratch scratch;
  std::ofstream(scratch / "libnccl.so.2") << "the loader takes the first of its path, which is no library\n";
  pid_t child = 0;
  REQUIRE(support::start_process({std::filesystem::read_symlink("/proc/self/exe"), "--no-skip",
                                  "--source-file=*dist/nccl_missing_test.cpp", "--test-case=" TJ_WITHOUT_NCCL},
                                 support::environment_with({{"LD_LIBRARY_PATH", scratch.path()}}), STDOUT_FILENO,
                                 child) == 0);
  CHECK(support::wait_for_process(child) == 0);
}
