// Protects how programs are started: what they see and read, where their output goes, which signals they have, and how
// their end is told.
#include "support/process.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/file_descriptor.hpp"
#include "support/scratch.hpp"
#include "support/variable.hpp"

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

/// The end of a shell that ran the text.
Ended shell(const std::string& text, const std::vector<std::string>& environment = {}) {
  return run({"sh", "-c", text}, environment);
}

/// The effect of a signal in this process, for as long as this lives.
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
  explicit Closed(int descriptor) : descriptor_(descriptor), kept_(::fcntl(descriptor, F_DUPFD_CLOEXEC, 100)) {
    ::close(descriptor);
  }
  ~Closed() { ::dup2(kept_.get(), descriptor_); }

 private:
  int descriptor_;
  FileDescriptor kept_;
};

}  // namespace

TEST_CASE("a program reads nothing, sees the variables that it is given, and writes to one place") {
  const Ended ended =
      run({"sh", "-c", "cat; echo \"$1 $WORD\"; echo error >&2; test -z \"$HOME\" && echo end", "sh", "two words"},
          {"WORD=a value"});
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

namespace {

/// Starts a shell in a group of its own and waits for it as compilers are waited for.
Ended limited(const std::string& text, double limit_s, bool& over) {
  const tj::testing::Scratch scratch;
  const FileDescriptor output(::open((scratch / "output").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  Ended ended;
  pid_t child = 0;
  ended.error = tj::support::start_process({"sh", "-c", text}, {"PATH=/usr/bin:/bin"}, output.get(), child,
                                           tj::support::ProcessGroup::own);
  REQUIRE(ended.error == 0);
  ended.status = tj::support::wait_for_process(child, limit_s, over);
  ended.output = tj::testing::read_bytes(scratch / "output");
  return ended;
}

/// Until no such process is left, or only one that nobody has reaped yet.
void wait_until_gone(pid_t process) {
  while (::kill(process, 0) == 0) {
    const std::string state = tj::testing::read_bytes("/proc/" + std::to_string(process) + "/stat");
    if (state.find(") Z ") != std::string::npos) return;
    ::usleep(1000);
  }
}

}  // namespace

TEST_CASE("a program that takes too long is ended with all that it has started") {
  bool over = false;
  Ended slow;
  for (double limit_s = 0.2; slow.output.empty(); limit_s *= 2) {  // until the shell has come so far
    slow = limited("sleep 1000 & echo $!; trap '' TERM; wait", limit_s, over);
    CHECK(over);
    CHECK(slow.status == -SIGKILL);
  }
  wait_until_gone(static_cast<pid_t>(std::stol(slow.output)));
  const Ended quick = limited("exit 3", 100, over);
  CHECK(!over);
  CHECK(quick.status == 3);
  CHECK(limited("exit 4", 0, over).status == 4);
  const Disposition ignored(SIGCHLD, SIG_IGN);
  CHECK(limited("exit 4", 100, over).status == tj::support::kUnknownStatus);
  limited("sleep 1000", 0.1, over);
  CHECK(over);
}

TEST_CASE(
    "programs start, and end with all that they have started, in a namespace of processes that unshare() has made") {
  constexpr int kNoNamespace = 97;
  const tj::testing::Scratch scratch;
  const int status = tj::testing::wait_for(tj::testing::start_child([&] {
    ::alarm(100);
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return kNoNamespace;
    const pid_t first = tj::testing::start_child([] {
      for (;;) ::pause();
      return 0;
    });
    int wrong = 0;
    bool over = false;
    for (int i = 0; i < 3; ++i) wrong += limited("exit 3", 100, over).status != 3;
    if (run({"sh", "-c", "exit 4"}).status != 4) ++wrong;
    // The pipe ends when nobody is left who could write to it.
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return 98;
    pid_t child = 0;
    if (tj::support::start_process({"sh", "-c", "sleep 1000 & echo; wait"}, {"PATH=/usr/bin:/bin"}, ends[1], child,
                                   tj::support::ProcessGroup::own) != 0)
      return 99;
    ::close(ends[1]);
    char byte = 0;
    if (::read(ends[0], &byte, 1) != 1) ++wrong;
    tj::support::wait_for_process(child, 0.01, over);
    if (!over || ::read(ends[0], &byte, 1) != 0) ++wrong;
    ::kill(first, SIGKILL);
    return wrong;
  }));
  if (status == kNoNamespace)
    MESSAGE("not tried: this machine makes no namespace of processes here");
  else
    CHECK(status == 0);
}

TEST_CASE("where a program is the first process of a namespace that unshare() has made, others start behind it") {
  constexpr int kNoNamespace = 97;
  for (const bool ended : {false, true}) {
    CAPTURE(ended);
    int living[2];
    REQUIRE(::pipe(living) == 0);  // all that is started has it: it ends with the last of them
    const int status = tj::testing::wait_for(tj::testing::start_child([&] {
      ::alarm(100);
      if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return kNoNamespace;
      if (ended && tj::testing::wait_for(tj::testing::start_child([] { return 0; })) != 0) return 98;
      bool over = false;
      int wrong = 0;
      if (!ended)
        for (int i = 0; i < 3; ++i) wrong += limited("exit 3", 100, over).status != 3;
      pid_t child = 0;
      const int error = tj::support::start_process({"sh", "-c", "exit 4"}, {}, STDERR_FILENO, child);
      if (error == 0) return wrong + (tj::support::wait_for_process(child) != 4 ? 1 : 0);
      const std::string said = tj::support::start_failure(error, "");
      return ended && said.find("the first process of the PID namespace") != std::string::npos ? 0 : 99;
    }));
    ::close(living[1]);
    ::alarm(100);
    char none = 0;
    CHECK(::read(living[0], &none, 1) == 0);
    ::alarm(0);
    ::close(living[0]);
    if (status == kNoNamespace)
      MESSAGE("not tried: this machine makes no namespace of processes here");
    else
      CHECK(status == 0);
  }
}

TEST_CASE("a program does not outlive the process that started it, whatever ends that") {
  const tj::testing::Scratch scratch;
  int told[2];
  REQUIRE(::pipe2(told, O_CLOEXEC) == 0);
  const pid_t parent = tj::testing::start_child([&] {
    pid_t child = 0;
    if (tj::support::start_process({"sleep", "1000"}, {"PATH=/usr/bin:/bin"}, told[1], child,
                                   tj::support::ProcessGroup::own) != 0)
      return 1;
    if (::write(told[1], &child, sizeof child) != sizeof child) return 2;
    return tj::support::wait_for_process(child);
  });
  pid_t child = 0;
  REQUIRE(::read(told[0], &child, sizeof child) == sizeof child);
  REQUIRE(::kill(parent, SIGKILL) == 0);
  CHECK(tj::testing::wait_for(parent) == -SIGKILL);
  wait_until_gone(child);
  ::close(told[0]);
  ::close(told[1]);
}

TEST_CASE("what a program has started does not outlive the process that waits for it, even one that is killed") {
  const tj::testing::Scratch scratch;
  const std::string note = scratch / "note";
  const pid_t parent = tj::testing::start_child([&] {
    bool over = false;
    return limited("sleep 1000 & echo $! > " + note + ".new; mv " + note + ".new " + note + "; wait", 0, over).status;
  });
  while (!std::filesystem::exists(note)) ::usleep(1000);
  const auto started = static_cast<pid_t>(std::stol(tj::testing::read_bytes(note)));
  REQUIRE(::kill(started, 0) == 0);
  REQUIRE(::kill(parent, SIGKILL) == 0);
  CHECK(tj::testing::wait_for(parent) == -SIGKILL);
  wait_until_gone(started);
}

TEST_CASE("nor does it outlive a process that is killed before it waits, and whose forked child lives on") {
  const tj::testing::Scratch scratch;
  const std::string note = scratch / "note";
  int living[2];
  REQUIRE(::pipe2(living, O_CLOEXEC) == 0);
  const pid_t parent = tj::testing::start_child([&] {
    ::close(living[1]);
    const FileDescriptor output(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    pid_t child = 0;
    tj::support::start_process({"sh", "-c",
                                "sleep 1000 & echo $! > $0.new; until [ -e $0.forked ]; do :; done; "
                                "mv $0.new $0; wait",
                                note},
                               {"PATH=/usr/bin:/bin"}, output.get(), child, tj::support::ProcessGroup::own);
    char none = 0;
    if (::fork() == 0) return static_cast<int>(::read(living[0], &none, 1));  // to the end of the test
    tj::testing::write_bytes(note + ".forked", "");
    for (;;) ::pause();
    return 1;
  });
  while (!std::filesystem::exists(note)) ::usleep(1000);
  const auto started = static_cast<pid_t>(std::stol(tj::testing::read_bytes(note)));
  REQUIRE(::kill(parent, SIGKILL) == 0);
  CHECK(tj::testing::wait_for(parent) == -SIGKILL);
  wait_until_gone(started);
  ::close(living[0]);
  ::close(living[1]);
}

TEST_CASE("a program is found on PATH as a shell finds it, and a text is not given to one") {
  const tj::testing::Scratch scratch;
  tj::testing::write_bytes(scratch / "text", "echo no\n");
  ::chmod((scratch / "text").c_str(), 0700);
  CHECK(run({scratch / "text"}).error == ENOEXEC);
  CHECK(run({"no-such-program-anywhere"}).error == ENOENT);
  CHECK(run({"true"}).status == 0);
  // A file that may not be run is passed over for another that may, and named where there is nothing else.
  std::filesystem::create_directory(scratch / "empty");
  tj::testing::write_bytes(scratch / "true", "of another mode");
  const std::string path = std::getenv("PATH");
  {
    const tj::testing::Variable first("PATH", scratch.path() + ":" + path);
    CHECK(run({"true"}).error == 0);
  }
  const tj::testing::Variable alone("PATH", scratch.path() + ":" + scratch / "empty");
  CHECK(run({"true"}).error == EACCES);
  CHECK(run({"false"}).error == ENOENT);
}
