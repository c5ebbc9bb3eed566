// Protects a program that has closed its standard output or errors. No file of the library takes their place, so
// nothing that the program prints ends up in a file.
#include "support/file_descriptor.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "support/atomic_file.hpp"
#include "support/lock_file.hpp"
#include "support/scratch.hpp"

namespace {

using tj::support::FileDescriptor;
using tj::testing::Scratch;
using tj::testing::start_child;
using tj::testing::wait_for;

bool is_closed(int descriptor) { return ::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF; }

bool three_are_closed() { return is_closed(STDIN_FILENO) && is_closed(STDOUT_FILENO) && is_closed(STDERR_FILENO); }

void close_three() {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(standard);
}

TEST_CASE("no file takes the place of a closed standard output") {
  const Scratch scratch;
  CHECK(wait_for(start_child([&] {
          close_three();
          const FileDescriptor folder(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
          tj::support::AtomicFile file(folder.get(), "entry", 0600);
          const tj::support::LockFile lock(folder.get(), "lock", O_CREAT);
          if (!three_are_closed() || !lock || !file.write("text") || !file.commit()) return 1;
          return (::fcntl(lock.get(), F_GETFD) & ::fcntl(folder.get(), F_GETFD)) == FD_CLOEXEC ? 0 : 2;
        })) == 0);
  CHECK(tj::testing::read_bytes(scratch / "entry") == "text");
}

TEST_CASE("a file that cannot be opened keeps its reason") {
  const FileDescriptor none(::open("/nonexistent/file", O_RDONLY | O_CLOEXEC));
  CHECK(errno == ENOENT);
  CHECK(!none);
}

}  // namespace
