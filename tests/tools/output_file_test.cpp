// Protects the files that a tool writes because its user named them. They are there whole or as they were, whatever
// ends the tool. A signal leaves nothing beside them.
#include "tools/output_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <iostream>
#include <string>

#include "support/scratch.hpp"
#include "tests/cache/tracer.hpp"
#include "tools/options.hpp"

namespace {

using namespace tj;
using testing::names_in;
using testing::read_bytes;

const std::string kText(300000, 't');

/// The mode of a file.
mode_t mode_of(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

}  // namespace

TEST_CASE("a new file is whole at once wherever its writer is killed, and so is the one that is replaced") {
  if (!testing::can_trace()) return;
  int seen = 0;
  for (const bool old : {false, true})
    for (int n = 0; n < 100; ++n) {
      const testing::Scratch scratch;
      const std::string path = scratch / "out.svg";
      if (old) testing::write_bytes(path, "of before");
      const int ended = testing::Tracer::run(
          [&] {
            tools::write_output_file("--svg", path, kText);
            return 0;
          },
          testing::Accident::kill, n);
      if (ended == testing::kNotReached) break;
      ++seen;
      CAPTURE(n);
      const std::string there = read_bytes(path);
      const bool whole = there == kText || there == (old ? "of before" : "");
      CHECK(whole);
      if (!old && there.empty()) CHECK(::access(path.c_str(), F_OK) != 0);
    }
  CHECK(seen > 10);
}

TEST_CASE("a file that standard output goes to has the words of both") {
  for (const int kind : {0, 1, 2, 3}) {
    const bool by_name = kind % 2 != 0, two_names = kind >= 2;
    CAPTURE(by_name);
    CAPTURE(two_names);
    const testing::Scratch scratch;
    const std::string path = scratch / "out";
    if (two_names) {
      testing::write_bytes(path, "");
      REQUIRE(::link(path.c_str(), (scratch / "other").c_str()) == 0);
    }
    std::cout.flush();  // what a runner has said so far
    CHECK(testing::wait_for(testing::start_child([&] {
            const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            ::dup2(file, STDOUT_FILENO);
            const bool first = ::write(STDOUT_FILENO, "first ", 6) == 6;
            tools::write_output_file("--svg", by_name ? path : "/dev/stdout", kText);
            return first && ::write(STDOUT_FILENO, " last", 5) == 5 ? 0 : 1;
          })) == 0);
    const bool all = read_bytes(path) == "first " + kText + " last";
    CHECK(all);
  }
}

TEST_CASE("files that belong together are written both or none, over nothing that is there") {
  const testing::Scratch scratch;
  const std::array<tools::NewFile, 2> files = {{{scratch / "one", kText, 0600}, {scratch / "two", "text", 0666}}};
  std::size_t which = 9;
  const mode_t before = ::umask(027);
  CHECK(tools::write_new_files(files, &which) == 0);
  ::umask(before);
  CHECK(read_bytes(scratch / "one") == kText);
  CHECK(mode_of(scratch / "one") == 0600);
  CHECK(mode_of(scratch / "two") == 0640);
  CHECK(tools::write_new_files(files, &which) == EEXIST);
  CHECK(which == 0);
  ::unlink(files[0].path.c_str());
  CHECK(tools::write_new_files(files, &which) == EEXIST);
  CHECK(which == 1);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"two"});
  const tools::NewFile nowhere{scratch / "none/x", "text", 0600}, folder{scratch / "x/", "text", 0600};
  CHECK(tools::write_new_files({&nowhere, 1}, nullptr) == ENOENT);
  CHECK(tools::write_new_files({&folder, 1}, nullptr) == EISDIR);
  REQUIRE(::symlink("nothing", (scratch / "link").c_str()) == 0);
  const tools::NewFile link{scratch / "link", "text", 0600};
  CHECK(tools::write_new_files({&link, 1}, nullptr) == EEXIST);
  CHECK(names_in(scratch.path()).size() == 2);
}

TEST_CASE("a file system that cannot refuse to replace lets new files be written, by a link or in their place") {
  if (!testing::can_trace()) return;
  const auto is_written = [](int n, const testing::Kind& kind) {
    const testing::Scratch scratch;
    CHECK(testing::Tracer::run(
              [&] {
                tools::write_output_file("--svg", scratch / "out.svg", kText);
                return 0;
              },
              testing::Accident::fail, n, kind) == 0);
    CHECK(read_bytes(scratch / "out.svg") == kText);
    CHECK(names_in(scratch.path()).size() == 1);
  };
  for (const int error : {EINVAL, ENOSYS, EPERM}) {
    CAPTURE(error);
    is_written(0, {SYS_renameat2, error, testing::Which::all});
  }
  for (int n = 0; n < 2; ++n) {  // the folder, or any name but the file's own, is refused
    CAPTURE(n);
    is_written(n, {SYS_openat, EACCES, testing::Which::nth});
  }
}
