// See interrupts.hpp. A thread waits for the signals: a handler could not take a lock or remove a file.
#include "tools/interrupts.hpp"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "support/environment.hpp"
#include "support/private_directory.hpp"
#include "support/process.hpp"
#include "support/temporaries.hpp"
#include "support/text_stream.hpp"

namespace tj::tools {
namespace {

constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGUSR1, SIGUSR2};

constinit std::atomic<bool> ending{false};

/// The facts that /proc has about a process: its state, its parent and its session.
struct Stat {
  char state = 'Z';
  pid_t parent = 0, session = 0;
};
Stat stat_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');  // the name may hold anything
  Stat stat;
  pid_t group = 0;
  if (name_end != std::string::npos)
    support::TextReader(line.substr(name_end + 1)) >> stat.state >> stat.parent >> group >> stat.session;
  return stat;
}

/// The children that run in this session. A process that went into a session of its own is to outlive its parent.
std::vector<pid_t> children_in_session() {
  const pid_t own = ::getpid(), session = ::getsid(0);
  std::vector<pid_t> children;
  std::error_code failed;
  for (std::filesystem::directory_iterator at("/proc", failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const Stat stat = stat_of(name);
    if (stat.parent == own && stat.session == session && stat.state != 'Z')
      children.push_back(static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10)));
  }
  return children;
}

/// Children of a child that has ended become this process's, and are ended in the next round.
void end_children() {
  constexpr int kTries = 200;
  for (int i = 0; i < kTries; ++i) {
    const std::vector<pid_t> children = children_in_session();
    if (children.empty()) return;
    for (const pid_t child : children) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

[[noreturn]] void end_by(int signal) {
  ending.store(true);
  support::end_processes();
  try {
    end_children();
    support::abandon_compiles();
    // A program of the user that was ended has had no chance to remove its own.
    support::sweep_private_directories(support::environment_variable("TMPDIR").value_or("/tmp"));
  } catch (...) {  // no memory: the next process removes them
    support::abandon_compiles();
  }
  support::remove_temporaries();
  std::signal(signal, SIG_DFL);
  sigset_t own;
  ::sigemptyset(&own);
  ::sigaddset(&own, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  ::raise(signal);
  // The kernel drops what the first process of a container sends itself, unless that handles it.
  constexpr int kSignalled = 128;  // as a shell tells such an end
  ::_exit(kSignalled + signal);
}

}  // namespace

void clean_up_on_signals() {
  sigset_t waited, before;
  ::sigemptyset(&waited);
  for (const int signal : kEnding) {
    struct sigaction action{};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) ::sigaddset(&waited, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &waited, &before);
  try {
    std::thread([waited] {
      int signal = 0;
      if (::sigwait(&waited, &signal) == 0) end_by(signal);
    }).detach();
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);  // a compiler's driver may end before what it has started
  } catch (const std::system_error&) {            // the signals do what they would without us
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
}

void stop_if_ending() noexcept {
  while (ending.load()) ::pause();
}

}  // namespace tj::tools
