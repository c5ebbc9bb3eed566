// Protects how programs are started: what they see and read, where their output goes, which signals they have, and how their end is told.
#include "support/process.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "support/file_descriptor.hpp"
#include "support/scratch.hpp"

namespace {

using tj::support::FileDescriptor;

struct Ended {
  int error = 0, status = 0;
  std::string output;
};

Ended run(const std::vector<std::string>& words, const std::vector<std::string>& environment = {}) {
  const tj::testing::Scratch scratch;
  const std::string path = scratch / "output";
  const FileDescriptor output(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  REQUIRE(output);
  Ended ended;
  pid_t child = 0;
  ended.error = tj::support::start_process(words, environment, output.get(), child);
  if (ended.error == 0) ended.status = tj::support::wait_for_process(child);
  ended.output = tj::testing::read_bytes(path);
  return ended;
}

/// Of a shell.
Ended shell(const std::string& text, const std::vector<std::string>& environment = {}) { return run({"sh", "-c", text}, environment); }

/// What a signal does in this process, for as long as this lives.
class Disposition {
 public:
  Disposition(int signal, void (*does)(int)) : signal_(signal), before_(std::signal(signal, does)) {}
  ~Disposition() { std::signal(signal_, before_); }

 private:
  int signal_;
  void (*before_)(int);
};

/// One of the three that every process begins with, closed for as long as this lives.
class Closed {
 public:
  explicit Closed(int descriptor) : descriptor_(descriptor), kept_(::fcntl(descriptor, F_DUPFD_CLOEXEC, 100)) { ::close(descriptor); }
  ~Closed() { ::dup2(kept_.get(), descriptor_); }

 private:
  int descriptor_;
  FileDescriptor kept_;
};

}  // namespace

TEST_CASE("a program reads nothing, sees the variables that it is given, and writes to one place") {
  const Ended ended = run({"sh", "-c", "cat; echo \"$1 $WORD\"; echo error >&2; test -z \"$HOME\" && echo end", "sh", "two words"}, {"WORD=a value"});
  CHECK(ended.error == 0);
  CHECK(ended.status == 0);
  CHECK(ended.output == "two words a value\nerror\nend\n");
}

TEST_CASE("a status, a signal and what cannot be started are told apart") {
  CHECK(shell("exit 3").status == 3);
  CHECK(shell("kill -9 $$").status == -SIGKILL);
  CHECK(run({"/nonexistent/program"}).error == ENOENT);
  CHECK(run({"/"}).error == EACCES);
  const Disposition ignored(SIGCHLD, SIG_IGN);
  CHECK(shell("exit 3").status == tj::support::kUnknownStatus);
}

TEST_CASE("a program has no signal blocked or ignored because this process has") {
  const Disposition ignored(SIGPIPE, SIG_IGN);
  sigset_t blocked, before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  REQUIRE(::sigprocmask(SIG_BLOCK, &blocked, &before) == 0);
  const Ended terminated = shell("kill -TERM $$; exit 3"), piped = shell("kill -PIPE $$; exit 3");
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  CHECK(terminated.status == -SIGTERM);
  CHECK(piped.status == -SIGPIPE);
}

TEST_CASE("output arrives from a process that has closed one of its first three descriptors") {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    std::string output;
    {
      const Closed closed(descriptor);
      output = shell("cat; echo out; echo error >&2").output;
    }
    CAPTURE(descriptor);
    CHECK(output == "out\nerror\n");
  }
}
