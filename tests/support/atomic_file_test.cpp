// Protects publication: under the final name there is the old content or all of the new, and failures leave no trace.
#include "support/atomic_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <deque>
#include <string>
#include <vector>

#include "tests/support/scratch.hpp"

using tj::support::AtomicFile;
using tj::support::FileDescriptor;
using tj::testing::names_in;
using tj::testing::read_bytes;
using tj::testing::Scratch;

namespace {

FileDescriptor open_dir(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

TEST_CASE("nothing shows before commit, everything after, with the exact mode") {
  const Scratch scratch;
  const FileDescriptor dir = open_dir(scratch.path());
  const mode_t before = ::umask(0777);
  {
    AtomicFile file(dir.get(), "name", 0640);
    CHECK(file.write("half"));
    CHECK_FALSE(std::filesystem::exists(scratch / "name"));
    CHECK(file.write(" whole"));
    file.stamp();
    CHECK(file.commit());
    CHECK(read_bytes(scratch / "name") == "half whole");
    CHECK_FALSE(file.commit());
  }
  ::umask(before);
  struct stat status{};
  REQUIRE(::stat((scratch / "name").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0640);
  CHECK(names_in(scratch.path()).size() == 1);
}

TEST_CASE("without commit the old content stays and the temporary goes") {
  const Scratch scratch;
  tj::testing::write_bytes(scratch / "name", "old");
  {
    const FileDescriptor dir = open_dir(scratch.path());
    AtomicFile file(dir.get(), "name", 0600);
    file.write("new");
  }
  CHECK(read_bytes(scratch / "name") == "old");
  CHECK(names_in(scratch.path()).size() == 1);
}

TEST_CASE("a symbolic link under the name is replaced, not followed") {
  const Scratch scratch;
  tj::testing::write_bytes(scratch / "victim", "untouched");
  REQUIRE(::symlink("victim", (scratch / "name").c_str()) == 0);
  std::string problem;
  CHECK(tj::support::write_file_atomically(scratch / "name", "new", 0600, &problem));
  CHECK(problem.empty());
  CHECK(read_bytes(scratch / "victim") == "untouched");
  CHECK(read_bytes(scratch / "name") == "new");
}

TEST_CASE("failures name the file and the reason, and leave nothing") {
  const Scratch scratch;
  std::string problem;
  CHECK_FALSE(tj::support::write_file_atomically(scratch / "missing/name", "x", 0600, &problem));
  CHECK(problem.find("missing: No such file or directory") != std::string::npos);
  CHECK_FALSE(tj::support::write_file_atomically(scratch / "", "x", 0600, &problem));
  CHECK(problem.find("does not end in a file name") != std::string::npos);
  CHECK_FALSE(tj::support::write_file_atomically(scratch / (std::string(9000, 'x') + "/name"), "x", 0600, &problem));
  CHECK(problem.find("File name too long") != std::string::npos);
  CHECK(problem.size() < 1000);
  std::filesystem::create_directory(scratch / "name");
  CHECK_FALSE(tj::support::write_file_atomically(scratch / "name", "x", 0600, &problem));
  CHECK(problem.find("cannot rename to name: Is a directory") != std::string::npos);
  CHECK(names_in(scratch.path()).size() == 1);
}

TEST_CASE("a full disk publishes nothing") {
  const Scratch scratch;
  tj::testing::write_bytes(scratch / "name", "old");
  const int status = tj::testing::wait_for(tj::testing::start_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::string problem;
    const bool written = tj::support::write_file_atomically(scratch / "name", std::string(100000, 'x'), 0600, &problem);
    return !written && problem.find("cannot write name") == 0 ? 0 : 1;
  }));
  CHECK(status == 0);
  CHECK(read_bytes(scratch / "name") == "old");
  CHECK(names_in(scratch.path()).size() == 1);
}

TEST_CASE("a limit on the size of files is an error, and what its signal does stays the program's") {
  const Scratch scratch;
  CHECK(tj::testing::wait_for(tj::testing::start_child([&] {
          ::signal(SIGXFSZ, SIG_DFL);
          const rlimit limit{1000, 1000};
          ::setrlimit(RLIMIT_FSIZE, &limit);
          const FileDescriptor file(::open((scratch / "name").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
          if (tj::support::write_all(file.get(), std::string(900, 'x')) != 0) return 1;
          if (tj::support::write_all(file.get(), std::string(900, 'x')) != EFBIG) return 2;
          if (tj::support::write_all(file.get(), "note", 2000) != EFBIG) return 3;
          if (tj::support::write_all(file.get(), "note", 500) != 0) return 4;
          sigset_t seen;
          ::sigpending(&seen);
          if (::sigismember(&seen, SIGXFSZ) != 0) return 5;
          ::sigprocmask(SIG_BLOCK, nullptr, &seen);
          if (::sigismember(&seen, SIGXFSZ) != 0) return 6;
          if (::signal(SIGXFSZ, SIG_DFL) != SIG_DFL) return 7;
          return read_bytes(scratch / "name").substr(500, 5) == "notex" ? 0 : 8;
        })) == 0);
}

TEST_CASE("a pipe whose reader has gone is an error, and ends no process") {
  const int status = tj::testing::wait_for(tj::testing::start_child([] {
    int ends[2];
    if (::pipe(ends) != 0) return 1;
    ::close(ends[0]);
    if (tj::support::write_all(ends[1], "text") != EPIPE) return 2;
    sigset_t pending;
    ::sigemptyset(&pending);
    ::sigpending(&pending);
    return ::sigismember(&pending, SIGPIPE) == 0 ? 0 : 3;
  }));
  CHECK(status == 0);
}

TEST_CASE("limits of the system have a next step of their own") {
  using tj::support::next_step;
  CHECK(next_step(EMFILE, "other").find("ulimit -n") != std::string::npos);
  CHECK(next_step(ENFILE, "other").find("fs.file-max") != std::string::npos);
  CHECK(next_step(EAGAIN, "other").find("ulimit -u") != std::string::npos);
  CHECK(next_step(ENOMEM, "other").find("ulimit -v") != std::string::npos);
  CHECK(next_step(EFBIG, "other").find("ulimit -f") != std::string::npos);
  CHECK(next_step(ENAMETOOLONG, "other").find("shorter") != std::string::npos);
  CHECK(next_step(ENOSPC, "other") == "other");
}

TEST_CASE("a stamp is the time of now, whatever the file's was") {
  const Scratch scratch;
  const FileDescriptor dir = open_dir(scratch.path());
  AtomicFile file(dir.get(), "name", 0600);
  REQUIRE(names_in(scratch.path()).size() == 1);
  const std::string temporary = names_in(scratch.path()).front();
  CHECK(tj::support::is_temporary_name(temporary));
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  REQUIRE(::utimensat(dir.get(), temporary.c_str(), old, 0) == 0);
  file.stamp();
  struct stat status{};
  REQUIRE(::fstatat(dir.get(), temporary.c_str(), &status, 0) == 0);
  CHECK(status.st_mtim.tv_sec > 1000);
  CHECK(status.st_atim.tv_sec > 1000);
}

TEST_CASE("an ending process removes its temporaries and makes none; a child that it has forked leaves them alone") {
  const Scratch scratch;
  const int status = tj::testing::wait_for(tj::testing::start_child([&] {
    const FileDescriptor dir = open_dir(scratch.path());
    AtomicFile first(dir.get(), "name", 0600), second(dir.get(), "other", 0600);
    if (!first.write("text") || names_in(scratch.path()).size() != 2) return 1;
    const int child = tj::testing::wait_for(tj::testing::start_child([&] {
      tj::support::remove_temporaries();
      return AtomicFile(dir.get(), "of the child", 0600).error() == ECANCELED ? 0 : 1;
    }));
    if (child != 0 || names_in(scratch.path()).size() != 2) return 2;
    if (!second.commit() || names_in(scratch.path()).size() != 2) return 3;
    tj::support::remove_temporaries();
    if (names_in(scratch.path()) != std::vector<std::string>{"other"}) return 4;
    if (first.commit() || first.error() != ENOENT) return 5;
    AtomicFile late(dir.get(), "late", 0600);
    if (late.ok() || late.error() != ECANCELED || names_in(scratch.path()).size() != 1) return 6;
    return tj::testing::wait_for(tj::testing::start_child([&] {  // which is not ending
      AtomicFile own(dir.get(), "own", 0600);
      return own.write("text") && own.commit() ? 0 : 7;
    }));
  }));
  CHECK(status == 0);
}

TEST_CASE("more temporaries than are noted work as others do") {
  const Scratch scratch;
  const FileDescriptor dir = open_dir(scratch.path());
  std::deque<AtomicFile> files;
  for (int i = 0; i < tj::support::kMostTemporaries + 3; ++i) files.emplace_back(dir.get(), std::to_string(i), 0600);
  for (AtomicFile& file : files) CHECK((file.write("text") && file.commit()));
  CHECK(names_in(scratch.path()).size() == files.size());
}

TEST_CASE("a new file is published over nothing that has its name") {
  const Scratch scratch;
  const FileDescriptor dir = open_dir(scratch.path());
  for (const bool there : {false, true}) {
    AtomicFile file(dir.get(), "name", 0600);
    CHECK(file.write(there ? "second" : "first"));
    CHECK(file.commit_new() == !there);
    CHECK(file.error() == (there ? EEXIST : 0));
  }
  CHECK(read_bytes(scratch / "name") == "first");
  CHECK(names_in(scratch.path()).size() == 1);
}

TEST_CASE("only names of temporaries are taken for some: a prefix and sixteen digits") {
  using tj::support::is_temporary_name;
  const std::string prefix(tj::support::kTemporaryPrefix);
  CHECK(is_temporary_name(prefix + "0123456789abcdef"));
  for (const std::string& rest : {std::string("0123456789abcde"), std::string("0123456789abcdef0"),
                                  std::string("0123456789abcdeg"), std::string("0123456789ABCDEF")})
    CHECK_FALSE(is_temporary_name(prefix + rest));
  CHECK_FALSE(is_temporary_name(std::string(prefix.size(), 'x') + "0123456789abcdef"));
}

TEST_CASE("the folder of a path is all before its last name") {
  CHECK(tj::support::folder_of("x") == ".");
  CHECK(tj::support::folder_of("a/x") == "a");
  CHECK(tj::support::folder_of("/x") == "/");
  CHECK(tj::support::folder_of("/a/b/x") == "/a/b");
  CHECK(tj::support::folder_of("a/") == "a");
}
