// Protects what a process leaves when it ends beside threads that compile: no folder comes back, and none is begun.
#include "compile/private_directory.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace {

using tj::compile::PrivateDirectory;
using tj::testing::error_of;
using tj::testing::has;
using tj::testing::Scratch;
using tj::testing::start_child;
using tj::testing::wait_for;

TEST_CASE("files stand in folders of their own names") {
  const PrivateDirectory directory;
  CHECK(tj::testing::read_bytes(directory.write("include/ops/a.cuh", "text")) == "text");
  CHECK(std::filesystem::exists(directory.path() + "/include/ops/a.cuh"));
}

TEST_CASE("a compile that goes on while its process ends leaves nothing") {
  const Scratch scratch;
  CHECK(wait_for(start_child([&] {
          ::setenv("TMPDIR", scratch.path().c_str(), 1);
          const PrivateDirectory directory;
          tj::compile::abandon_compiles();
          const tj::Error late = error_of([&] { directory.write("include/ops/a.cuh", "text"); });
          const tj::Error begun = error_of([] { const PrivateDirectory another; });
          if (!has(late.message, "No such file or directory")) return 1;
          return has(begun.message, "this process is ending") ? 0 : 2;
        })) == 0);
  CHECK(tj::testing::names_in(scratch.path()).empty());
}

}  // namespace
