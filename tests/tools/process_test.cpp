// Protects the process around a tool: which signals end it and what goes before that, which it ignores, and what it
// takes for a terminal. A closed output is refused. Each case is a process of its own.
#include "tools/process.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "support/atomic_file.hpp"
#include "support/private_directory.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "tools/options.hpp"
#include "tools/output_file.hpp"
#include "tools/warm_make.hpp"

namespace {

using namespace tj;
using testing::start_child;
using testing::wait_for;

constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGUSR1, SIGUSR2};
constexpr unsigned kBoundS = 60;  // after which SIGALRM ends a process that nothing else has ended

struct Seen {
  std::vector<std::string> words;
  tools::Terminal terminal;
};

/// A tool in a child: its words are "one" and "two".
int run(const std::function<int(const Seen&, std::ostream&)>& work) {
  ::alarm(kBoundS);
  std::array<char, 5> name{"tool"};
  std::array<char, 4> one{"one"}, two{"two"};
  std::array<char*, 4> arguments{name.data(), one.data(), two.data(), nullptr};
  return tools::run_process("tool", 3, arguments.data(),
                            [&](const std::vector<std::string>& words, std::ostream& out, std::ostream&,
                                tools::Terminal terminal) { return work({words, terminal}, out); });
}

/// Gives a child what a program starts with, whatever the test's runner handles: signals as in any process, folders
/// there, no core.
void begin(const std::string& folder) {
  ::setenv("TMPDIR", folder.c_str(), 1);
  for (const int each : kEnding) std::signal(each, SIG_DFL);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

/// The end of a tool that is sent a signal while it compiles, and may ignore it.
int ended_by(int signal, const std::string& folder, bool ignored = false) {
  return wait_for(start_child([&] {
    begin(folder);
    if (ignored) std::signal(signal, SIG_IGN);
    return run([&](const Seen&, std::ostream&) {
      const support::PrivateDirectory directory;
      ::kill(::getpid(), signal);
      if (!ignored)
        for (;;) ::pause();
      return std::filesystem::exists(directory.path()) ? 7 : 8;
    });
  }));
}

bool is_running(pid_t process) {
  const std::string stat = testing::read_bytes("/proc/" + std::to_string(process) + "/stat");
  return !stat.empty() && stat.find(") Z ") == std::string::npos;
}

constexpr int kNoOtherUser = 98;

/// From now on this process can make no thread. The limit does not hold for root, which may have no other user here.
void forbid_threads() {
  if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(kNoOtherUser);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_NPROC, &none);
}

}  // namespace

TEST_CASE("signals that end a tool still do, and no compiler's folder stays; one that is ignored stays so") {
  const testing::Scratch scratch;
  for (const int signal : kEnding) {
    CAPTURE(signal);
    CHECK(ended_by(signal, scratch.path()) == -signal);
    CHECK(testing::names_in(scratch.path()).empty());
    CHECK(ended_by(signal, scratch.path(), true) == 7);
    CHECK(testing::names_in(scratch.path()).empty());
  }
}

TEST_CASE("a signal that ends a tool leaves no temporary of a file that it writes, or begins to write meanwhile") {
  const testing::Scratch scratch;
  testing::write_bytes(scratch / "name", "of before");
  for (const int signal : kEnding) {
    CAPTURE(signal);
    CHECK(wait_for(start_child([&] {
            begin(scratch.path());
            return run([&](const Seen&, std::ostream&) {
              const support::FileDescriptor folder(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
              support::AtomicFile file(folder.get(), "name", 0600);
              file.write("half");
              if (testing::names_in(scratch.path()).size() != 2) return 9;
              ::kill(::getpid(), signal);
              for (;;) support::AtomicFile(folder.get(), "another", 0600).write("half");
            });
          })) == -signal);
    CHECK(testing::names_in(scratch.path()) == std::vector<std::string>{"name"});
  }
  CHECK(testing::read_bytes(scratch / "name") == "of before");
}

TEST_CASE("files that belong together are there both or not at all, whenever a signal ends the tool that writes them") {
  for (const int signal : kEnding) {
    CAPTURE(signal);
    const testing::Scratch scratch;
    CHECK(wait_for(start_child([&] {
            begin(scratch.path());
            return run([&](const Seen&, std::ostream&) {
              for (int i = 0;; ++i) {
                if (i == 20) ::kill(::getpid(), signal);
                const std::string number = std::to_string(i);
                const std::array<tools::NewFile, 2> files = {
                    {{scratch / ("a" + number), "text", 0600}, {scratch / ("b" + number), "text", 0600}}};
                tools::write_new_files(files, nullptr);
              }
              return 1;
            });
          })) == -signal);
    int ones = 0, others = 0;
    for (const std::string& name : testing::names_in(scratch.path())) {
      CHECK_MESSAGE((name[0] == 'a' || name[0] == 'b'), name);
      ++(name[0] == 'a' ? ones : others);
    }
    CHECK(ones >= 20);
    CHECK(ones == others);
  }
}

TEST_CASE("what fails because a signal ends the tool is not told as a failure") {
  const testing::Scratch scratch;
  const std::string said = scratch / "said";
  CHECK(wait_for(start_child([&] {
          ::mkdir((scratch / "own").c_str(), 0700);
          begin(scratch / "own");
          return run([&](const Seen&, std::ostream& out) {
            std::ofstream err(said);
            tools::Progress progress(out, err, false, false, LogLevel::warn);
            const support::PrivateDirectory directory;
            for (int i = 0; i < 300; ++i) directory.write(std::to_string(i), "text");
            ::kill(::getpid(), SIGTERM);
            for (int i = 0; std::filesystem::exists(directory.path() + "/" + std::to_string(i));) i = (i + 1) % 300;
            progress.failed("a problem", "it cannot be written");
            return 1;
          });
        })) == -SIGTERM);
  CHECK(testing::read_bytes(said).empty());
}

TEST_CASE("a signal ends a tool that is process 1 of its namespace, as in a container") {
  constexpr int kNoNamespace = 97;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    CAPTURE(signal);
    const testing::Scratch scratch;
    const int ended = wait_for(start_child([&] {
      begin(scratch.path());
      if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return kNoNamespace;
      ::alarm(2 * kBoundS);  // a thread cannot be had from here on
      const pid_t first = start_child([&] {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        return run([&](const Seen&, std::ostream&) {
          const support::PrivateDirectory directory;
          if (::getpid() != 1) return 1;
          ::kill(::getpid(), signal);
          for (;;) ::pause();
        });
      });
      return wait_for(first);
    }));
    if (ended == kNoNamespace) {
      MESSAGE("not tried: this machine makes no namespace of processes here");
      return;
    }
    CHECK(ended == 128 + signal);
    CHECK(testing::names_in(scratch.path()).empty());
  }
}

TEST_CASE("a tool that fails while a signal ends it ends by the signal, and leaves no folder") {
  const testing::Scratch scratch;
  CHECK(wait_for(start_child([&] {
          begin(scratch.path());
          return run([](const Seen&, std::ostream&) {
            const support::PrivateDirectory directory;
            for (int i = 0; i < 300; ++i) directory.write(std::to_string(i), "text");
            ::kill(::getpid(), SIGTERM);
            for (int i = 0; i < 300;)  // until the folder is being removed
              if (std::filesystem::exists(directory.path() + "/" + std::to_string(i)))
                i = (i + 1) % 300;
              else
                break;
            return 1;
          });
        })) == -SIGTERM);
  CHECK(testing::names_in(scratch.path()).empty());
}

TEST_CASE("what a tool's programs have started ends with the tool, and so does what they left in folders") {
  for (const auto group : {support::ProcessGroup::own, support::ProcessGroup::callers}) {
    const testing::Scratch scratch;
    CHECK(wait_for(start_child([&] {
            begin(scratch.path());
            return run([&](const Seen&, std::ostream&) {
              const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
              pid_t child = 0;
              const std::string note = scratch / "note";
              if (support::start_process({"sh", "-c", "sleep 1000 & echo $! > $0.new; mv $0.new $0; wait", note},
                                         {"PATH=/usr/bin:/bin"}, null, child, group) != 0)
                return 1;
              while (!std::filesystem::exists(note)) ::usleep(1000);
              ::kill(::getpid(), SIGQUIT);
              for (;;) ::pause();
            });
          })) == -SIGQUIT);
    CHECK_FALSE(is_running(static_cast<pid_t>(std::stol(testing::read_bytes(scratch / "note")))));
  }
}

TEST_CASE("a tool works where no thread can be made, and a signal ends it as any program") {
  const int worked = wait_for(start_child([] {
    forbid_threads();
    return run([](const Seen& seen, std::ostream&) { return static_cast<int>(seen.words.size()) + 3; });
  }));
  if (worked == kNoOtherUser) return;
  CHECK(worked == 5);
  CHECK(wait_for(start_child([] {
          std::signal(SIGTERM, SIG_DFL);
          forbid_threads();
          return run([](const Seen&, std::ostream&) {
            ::kill(::getpid(), SIGTERM);
            return 1;
          });
        })) == -SIGTERM);
}

TEST_CASE("a tool has its words, no terminal where there is none, and the signals that it needs") {
  CHECK(wait_for(start_child([] {
          std::signal(SIGCHLD, SIG_IGN);
          const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
          ::dup2(null, STDOUT_FILENO);
          ::dup2(null, STDERR_FILENO);
          return run([](const Seen& seen, std::ostream&) {
            if (seen.words != std::vector<std::string>{"one", "two"}) return 1;
            if (seen.terminal.out || seen.terminal.err) return 2;
            if (std::signal(SIGPIPE, SIG_DFL) != SIG_IGN) return 3;
            if (std::signal(SIGXFSZ, SIG_DFL) != SIG_IGN) return 4;
            return std::signal(SIGCHLD, SIG_DFL) != SIG_DFL ? 5 : 6;
          });
        })) == 6);
}

TEST_CASE("a terminal is one that can go back in its line, by what TERM says") {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) return;  // none to be had here
  const std::string name = ::ptsname(terminal);
  const auto seen = [&](const char* term, int which) {
    return wait_for(start_child([&] {
      const int other = ::open(name.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC),
                null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      if (term != nullptr)
        ::setenv("TERM", term, 1);
      else
        ::unsetenv("TERM");
      ::dup2(which == STDOUT_FILENO ? other : null, STDOUT_FILENO);
      ::dup2(which == STDERR_FILENO ? other : null, STDERR_FILENO);
      return run([](const Seen& what, std::ostream&) { return what.terminal.out + 2 * what.terminal.err; });
    }));
  };
  CHECK(seen("xterm", STDOUT_FILENO) == 1);
  CHECK(seen("xterm", STDERR_FILENO) == 2);
  CHECK(seen("dumb", STDOUT_FILENO) == 0);
  CHECK(seen(nullptr, STDERR_FILENO) == 0);
  ::close(terminal);
}

TEST_CASE("a tool without an output does no work; another stream that is closed leaves its number to no file") {
  const auto closed = [](int descriptor) {
    return wait_for(start_child([descriptor] {
      ::dup2(::open("/dev/null", O_RDWR | O_CLOEXEC), STDERR_FILENO);  // where it says why it does nothing
      ::close(descriptor);
      return run([descriptor](const Seen&, std::ostream&) {
        const int opened = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        return opened > STDERR_FILENO && ::fcntl(descriptor, F_GETFD) >= 0 ? 9 : 10;
      });
    }));
  };
  CHECK(closed(STDIN_FILENO) == 9);
  CHECK(closed(STDERR_FILENO) == 9);
  CHECK(closed(STDOUT_FILENO) == tools::kExitBadUse);
}
