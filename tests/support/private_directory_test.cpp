// Protects what a process leaves when it ends beside threads that compile: no folder comes back, and none is begun.
// Folders that a process could not remove are removed by a later one, and nothing that is not such a folder.
#include "support/private_directory.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/file_descriptor.hpp"
#include "support/full.hpp"
#include "support/scratch.hpp"
#include "support/variable.hpp"

namespace {

using tj::support::PrivateDirectory;
using tj::testing::error_of;
using tj::testing::has;
using tj::testing::Scratch;
using tj::testing::start_child;
using tj::testing::wait_for;

TEST_CASE("a second thread in exit() leaves the first one time to remove the folders of this process") {
  const Scratch scratch;
  const int status = wait_for(start_child([&] {
    ::alarm(60);
    ::setenv("TMPDIR", scratch.path().c_str(), 1);
    constexpr int kFiles = 2000;
    static auto* const directory = new PrivateDirectory;  // of a thread that never comes to its end
    for (int i = 0; i < kFiles; ++i) directory->write(std::to_string(i), "");
    std::atomic<bool> begun{false};
    std::thread([&] {
      begun = true;
      for (int i = 0; std::filesystem::exists(directory->path() + "/" + std::to_string(i));)
        i = (i + 1) % kFiles;  // until the folder is being removed
      std::exit(7);
    }).detach();
    while (!begun) std::this_thread::yield();
    std::exit(7);
    return 1;
  }));
  CHECK(status == 7);
  CHECK(tj::testing::names_in(scratch.path()).empty());
}

TEST_CASE("files stand in folders of their own names") {
  const PrivateDirectory directory;
  CHECK(tj::testing::read_bytes(directory.write("include/ops/a.cuh", "text")) == "text");
  CHECK(std::filesystem::exists(directory.path() + "/include/ops/a.cuh"));
}

TEST_CASE("a folder that cannot be removed is removed when the process ends") {
  const Scratch base;
  const tj::testing::Variable place("TMPDIR", base.path());
  CHECK(wait_for(start_child([&] {
          auto directory = std::make_unique<PrivateDirectory>();
          directory->write("a/file", "text");
          rlimit before{};
          ::getrlimit(RLIMIT_NOFILE, &before);
          const rlimit none{0, before.rlim_max};
          ::setrlimit(RLIMIT_NOFILE, &none);
          directory.reset();
          ::setrlimit(RLIMIT_NOFILE, &before);
          if (tj::testing::names_in(base.path()).size() != 1) return 1;
          tj::support::abandon_compiles();
          return 0;
        })) == 0);
  CHECK(tj::testing::names_in(base.path()).empty());
}

TEST_CASE("a folder that cannot be marked is gone again, and the reason is told") {
  if (tj::testing::kSanitized) return;  // the sanitizer opens pipes to look at objects, and has no descriptor here
  const Scratch base;
  const tj::testing::Variable place("TMPDIR", base.path());
  CHECK(wait_for(start_child([&] {
          {
            const PrivateDirectory first;
          }  // looks for leftovers, which takes file descriptors
          rlimit before{};
          ::getrlimit(RLIMIT_NOFILE, &before);
          const rlimit none{0, before.rlim_max};
          ::setrlimit(RLIMIT_NOFILE, &none);
          const std::string said = error_of([] { const PrivateDirectory second; }).message;
          ::setrlimit(RLIMIT_NOFILE, &before);
          return has(said, ".owner: Too many open files; raise the limit of open files") ? 0 : 1;
        })) == 0);
  CHECK(tj::testing::names_in(base.path()).empty());
}

TEST_CASE("no program that is started meanwhile gets a file that is being written") {
  const PrivateDirectory directory;
  const std::string name = directory.path() + "/pipe";
  REQUIRE(::mkfifo(name.c_str(), 0600) == 0);
  const tj::support::FileDescriptor reader(::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::thread writer([&] { directory.write("pipe", std::string(200'000, 'x')); });  // more than a pipe holds
  pollfd event{reader.get(), POLLIN, 0};
  while (::poll(&event, 1, -1) < 1) continue;
  int found = 0;
  for (const std::string& each : tj::testing::names_in("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink("/proc/self/fd/" + each, gone) != name) continue;
    ++found;
    CHECK((::fcntl(std::stoi(each), F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(found == 2);
  char bytes[4096];
  while (::poll(&event, 1, -1) > 0 && ::read(reader.get(), bytes, sizeof bytes) > 0) continue;
  writer.join();
}

#ifndef TJ_SANITIZED  // the sanitizer looks at memory through a pipe, and here is no descriptor for one
TEST_CASE("a path of TMPDIR that is too long is told in short, with its own next step") {
  const tj::testing::Variable place("TMPDIR", "/tmp/" + std::string(9000, 'x'));
  const std::string said = error_of([] { const PrivateDirectory directory; }).message;
  CHECK_MESSAGE(has(said, "File name too long; give a shorter path"), said);
  CHECK(said.size() < 1000);
}

TEST_CASE("a limit of open files is named with its own next step") {
  const Scratch scratch;
  CHECK(wait_for(start_child([&] {
          ::setenv("TMPDIR", scratch.path().c_str(), 1);
          const PrivateDirectory directory;
          const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
          rlimit limit{};
          ::getrlimit(RLIMIT_NOFILE, &limit);
          const rlimit before = limit;
          limit.rlim_cur = static_cast<rlim_t>(next);
          ::setrlimit(RLIMIT_NOFILE, &limit);
          const tj::Error unwritten = error_of([&] { directory.write("a.cuh", "text"); });
          ::setrlimit(RLIMIT_NOFILE, &before);
          return has(unwritten.message, "ulimit -n") && !has(unwritten.message, "TMPDIR to") ? 0 : 1;
        })) == 0);
}
#endif

TEST_CASE("a compile that goes on while its process ends leaves nothing") {
  const Scratch scratch;
  CHECK(wait_for(start_child([&] {
          ::setenv("TMPDIR", scratch.path().c_str(), 1);
          const PrivateDirectory directory;
          tj::support::abandon_compiles();
          const tj::Error late = error_of([&] { directory.write("include/ops/a.cuh", "text"); });
          const tj::Error begun = error_of([] { const PrivateDirectory another; });
          if (!has(late.message, "this process is ending")) return 1;
          return has(begun.message, "this process is ending") ? 0 : 2;
        })) == 0);
  CHECK(tj::testing::names_in(scratch.path()).empty());
}

TEST_CASE(
    "what an ended process left is removed: folders of that name with the mark of nobody who is alive, no other") {
  const Scratch scratch;
  const std::string mark = "tilejit: removed when its owner, who holds a lock on this file, is gone\n";
  const auto folder = [&](const std::string& name, const std::string& owner) {
    std::filesystem::create_directories(scratch / name + "/inside");
    tj::testing::write_bytes(scratch / name + "/inside/file", "text");
    if (!owner.empty()) tj::testing::write_bytes(scratch / name + "/.owner", owner);
  };
  for (const char* name : {"tilejit-left01", "tilejit-left02"}) folder(name, mark);
  folder("elsewhere", mark);
  folder("tilejit_left03", mark);
  folder("tilejit-left4", mark);
  folder("tilejit-left005", mark);
  folder("tilejit-left06", "");
  folder("tilejit-left07", mark.substr(1));
  folder("tilejit-left08", mark.substr(0, mark.size() - 1));
  folder("tilejit-left09", "T" + mark.substr(1));
  tj::testing::write_bytes(scratch / "tilejit-file10", mark);
  std::filesystem::create_directory_symlink(scratch / "elsewhere", scratch / "tilejit-link11");
  const auto names = [&] {
    std::vector<std::string> all = tj::testing::names_in(scratch.path());
    std::sort(all.begin(), all.end());
    return all;
  };
  std::vector<std::string> kept = names();
  std::erase_if(kept, [](const std::string& name) { return name == "tilejit-left01" || name == "tilejit-left02"; });
  tj::support::sweep_private_directories(scratch.path());
  CHECK(names() == kept);
  for (const std::string& name : kept)
    CHECK(std::filesystem::exists(scratch / name + "/inside/file") == (name != "tilejit-file10"));
}

// A folder without its mark is nobody's any more: a later process removes it only where it is empty.
TEST_CASE("a process that is ended while its folder is being removed leaves nothing in it but its mark") {
  const Scratch scratch;
  int lost = 0;
  for (int round = 0; round < 100; ++round) {
    const int status = wait_for(start_child([&] {
      ::alarm(60);
      ::setenv("TMPDIR", scratch.path().c_str(), 1);
      static auto* const directory = new PrivateDirectory;
      static std::atomic<bool> begun{false};
      std::thread([] {
        for (;; begun = true) {
          try {
            directory->write("include/text", "");
          } catch (const tj::Error&) {  // the process ends
          }
        }
      }).detach();
      std::thread([] {
        while (::access((directory->path() + "/.owner").c_str(), F_OK) == 0) continue;
        ::_exit(0);
      }).detach();
      while (!begun) std::this_thread::yield();
      tj::support::abandon_compiles();
      ::_exit(0);
      return 1;
    }));
    CHECK(status == 0);
    for (const std::string& name : tj::testing::names_in(scratch.path())) {
      const auto names = tj::testing::names_in(scratch.path() + "/" + name);
      lost += !names.empty() && std::find(names.begin(), names.end(), ".owner") == names.end() ? 1 : 0;
      std::filesystem::remove_all(scratch.path() + "/" + name);
    }
  }
  CHECK(lost == 0);
}

TEST_CASE("an empty folder, of a process that ended before it wrote its mark, is removed once it is old") {
  const Scratch scratch;
  const auto folder = [&](const char* name, bool owner, bool file, int age_s) {
    std::filesystem::create_directory(scratch / name);
    if (owner) tj::testing::write_bytes(scratch / name + "/.owner", "");
    if (file) tj::testing::write_bytes(scratch / name + "/file", "text");
    std::filesystem::last_write_time(scratch / name,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::seconds(age_s));
  };
  folder("tilejit-bare01", false, false, 3700);
  folder("tilejit-bare02", true, false, 3700);
  const std::vector<std::string> kept = {"tilejit-file03", "tilejit-file04", "tilejit-new005", "tilejit-new006"};
  folder("tilejit-file03", false, true, 3700);
  folder("tilejit-file04", true, true, 3700);
  folder("tilejit-new005", false, false, 3000);
  folder("tilejit-new006", true, false, 3000);
  tj::support::sweep_private_directories(scratch.path());
  std::vector<std::string> left = tj::testing::names_in(scratch.path());
  std::sort(left.begin(), left.end());
  CHECK(left == kept);
  CHECK(std::filesystem::exists(scratch / "tilejit-file04" + "/.owner"));
}

TEST_CASE("a folder of a process that is alive is not swept") {
  const Scratch scratch;
  const tj::testing::Variable temporary("TMPDIR", scratch.path());
  const PrivateDirectory directory;
  CHECK(wait_for(start_child([&] {
          tj::support::sweep_private_directories(scratch.path());
          return std::filesystem::exists(directory.path()) ? 0 : 1;
        })) == 0);
}

}  // namespace
