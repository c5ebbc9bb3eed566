// See process.hpp. As posix_spawn() does it, with memory shared until the program runs; but that call cannot tie a
// program's life to its parent's. What runs in the child calls the kernel alone, so that no lock of a library and no
// sanitizer is in the way.
#include "support/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "support/environment.hpp"
#include "support/file_descriptor.hpp"
#include "support/lasting.hpp"
#include "support/patience.hpp"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TJ_THREAD_SANITIZER 1
#endif
#endif
#if defined(TJ_THREAD_SANITIZER) || defined(__SANITIZE_THREAD__)
// The sanitizer's own clone() takes the child for a fork, though it shares our memory: the C library's is called by its
// other name.
extern "C" int __clone(int (*)(void*), void*, int, void*, ...);
constexpr auto clone_process = &__clone;
#else
constexpr auto clone_process = &::clone;
#endif

namespace tj::support {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// The files that a name may mean, as execvp() would try them.
std::vector<std::string> candidates(const std::string& name) {
  if (name.find('/') != std::string::npos) return {name};
  const std::string path = environment_variable("PATH").value_or("/bin:/usr/bin");
  std::vector<std::string> files;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find(':', start), path.size());
    files.push_back(end == start ? name : path.substr(start, end - start) + "/" + name);
    start = end + 1;
  }
  return files;
}

struct Start {
  char* const* files;
  char* const* words;
  char* const* environment;
  int output;
  bool own_group;
  pid_t parent;
  int error = 0;  ///< written by the child
};

// A program that blocks signals or ignores them must not pass that on; handlers of this process must not run in the
// child.
void default_signals() {
  constexpr std::array kNeverIgnored = {SIGPIPE, SIGCHLD, SIGINT, SIGTERM};
  constexpr std::size_t kMaskBytes = 8;
  for (int signal = 1; signal < 65; ++signal) {
    std::array<unsigned long, 8>
        action{};  // the kernel's structure: the first word is the handler, all zero is the default
    if (::syscall(SYS_rt_sigaction, signal, nullptr, action.data(), kMaskBytes) != 0 || action[0] == 0) continue;
    bool keep = action[0] == 1;  // SIG_IGN
    for (const int never : kNeverIgnored) keep = keep && signal != never;
    action = {};
    if (!keep) ::syscall(SYS_rt_sigaction, signal, action.data(), nullptr, kMaskBytes);
  }
  const unsigned long none = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, kMaskBytes);
}

bool prepare(const Start& start) {
  ::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::syscall(SYS_getppid) != start.parent) return false;  // gone before that
  if (start.own_group) ::syscall(SYS_setpgid, 0, 0);
  const long nothing = ::syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY, 0);
  if (nothing < 0 || (nothing != STDIN_FILENO && ::syscall(SYS_dup3, nothing, STDIN_FILENO, 0) < 0)) return false;
  if (nothing > STDERR_FILENO) ::syscall(SYS_close, nothing);
  return ::syscall(SYS_dup3, start.output, STDOUT_FILENO, 0) >= 0 &&
         ::syscall(SYS_dup3, start.output, STDERR_FILENO, 0) >= 0;
}

// It never returns, which a sanitizer of threads would wait for.
__attribute__((no_sanitize("thread"))) int child_main(void* given) {
  Start& start = *static_cast<Start*>(given);
  if (prepare(start)) {
    default_signals();
    bool refused = false;
    for (char* const* file = start.files; *file != nullptr; ++file) {
      ::syscall(SYS_execve, *file, start.words, start.environment);
      refused = refused || errno == EACCES;
      if (errno != EACCES && errno != ENOENT && errno != ENOTDIR) break;
    }
    if (refused && (errno == ENOENT || errno == ENOTDIR)) errno = EACCES;
  }
  start.error = errno != 0 ? errno : ECHILD;
  ::syscall(SYS_exit_group, 127);
  return 0;
}

/// Blocks all signals and cancellation of this thread: neither must come while its memory is the child's, too.
class Undisturbed {
 public:
  Undisturbed() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &signals_);
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_);
  }
  ~Undisturbed() {
    ::pthread_setcancelstate(cancel_, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
  }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  sigset_t signals_;
  int cancel_ = 0;
};

int exit_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

// ---- programs with a limit
// -------------------------------------------------------------------------------------------------

struct Running {
  Mutex mutex;
  std::set<pid_t> groups;
  std::atomic<bool> ending{false};
};
Running& running() {
  static constinit Lasting<Running> list;
  return list.get([] {
    in_forked_children([] {
      running().groups.clear();  // the parent's
      running().ending.store(false);
    });
    return Running{};
  });
}

/// True once it has ended, false after this time or when there is something to read. Leaves it to be reaped.
bool has_ended(pid_t child, const FileDescriptor& watch, int output, std::chrono::nanoseconds most) {
  const auto ms = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(most).count());
  if (watch) {
    pollfd events[2] = {{watch.get(), POLLIN, 0}, {output, POLLIN, 0}};  // one of -1 is passed over
    return ::poll(events, 2, ms) > 0 && events[0].revents != 0;
  }
  siginfo_t info{};
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(most, std::chrono::milliseconds(10)));
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

/// While a process ends, nobody learns what its end has done to programs.
void stay_if_ending() {
  if (running().ending.load()) std::this_thread::sleep_for(std::chrono::seconds(2));
}

}  // namespace

int start_process(std::vector<std::string> words, std::vector<std::string> environment, int output, pid_t& child,
                  ProcessGroup group) {
  if (running().ending.load()) return ECANCELED;
  // Away from the three that the child's own take the place of: a process that has closed one of its own gets that
  // number for `output`.
  const FileDescriptor aside(::fcntl(output, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!aside) return errno;
  std::vector<std::string> files = candidates(words.front());
  const std::vector<char*> file_list = pointers_to(files), word_list = pointers_to(words),
                           variable_list = pointers_to(environment);
  Start start{file_list.data(), word_list.data(),           variable_list.data(),
              aside.get(),      group == ProcessGroup::own, ::getpid()};
  constexpr std::size_t kStackBytes = 64 * 1024, kAlignment = 64;
  const std::unique_ptr<std::byte[]> stack(new std::byte[kStackBytes]);
  const auto top = reinterpret_cast<std::uintptr_t>(stack.get() + kStackBytes) / kAlignment * kAlignment;
  const Undisturbed undisturbed;
  child = clone_process(&child_main, reinterpret_cast<void*>(top), CLONE_VM | CLONE_VFORK | SIGCHLD, &start);
  if (child < 0) return errno;
  if (start.error != 0) wait_for_process(child);
  return start.error;
}

int wait_for_process(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return kUnknownStatus;  // SIGCHLD ignored: the child has ended, but nobody knows how
  }
  stay_if_ending();
  return exit_status(status);
}

ProgramOutput::ProgramOutput() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    error_ = errno;
    return;
  }
  into_ = FileDescriptor(ends[1]);
  from_ = FileDescriptor(ends[0]);
  if (!into_ || !from_ || ::fcntl(from_.get(), F_SETFL, O_NONBLOCK) != 0) error_ = errno;
}

/// At most this much at a time, so that the time is looked at beside a program that writes for ever.
void ProgramOutput::read_some() {
  constexpr int kTimes = 16;
  std::vector<char> bytes(std::size_t{64} * 1024);
  for (int i = 0; i < kTimes && from_; ++i) {
    const ssize_t count = ::read(from_.get(), bytes.data(), bytes.size());
    if (count > 0) {
      log_.append({bytes.data(), static_cast<std::size_t>(count)});
    } else if (count == 0) {
      from_.reset();
    } else if (errno != EINTR) {
      return;
    }
  }
}

int wait_for_process(pid_t child, double limit_s, bool& over, ProgramOutput* output) {
  constexpr std::chrono::seconds kLongestStep{60};
  Running& list = running();
  {
    const std::lock_guard lock(list.mutex);
    list.groups.insert(child);
    if (list.ending.load()) ::kill(-child, SIGKILL);
  }
  const FileDescriptor watch(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const Patience patience(limit_s);
  over = false;
  if (output != nullptr) output->started();
  const auto read_some = [output] {
    if (output != nullptr) output->read_some();
  };
  while (!has_ended(child, watch, output != nullptr ? output->from_.get() : -1,
                    over ? kLongestStep : patience.step(kLongestStep))) {
    read_some();
    if (over || !patience.over()) continue;
    over = true;
    ::kill(-child, SIGKILL);
  }
  read_some();
  stay_if_ending();
  const std::lock_guard lock(list.mutex);
  list.groups.erase(child);  // before its number is free for others
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return kUnknownStatus;
  return exit_status(status);
}

void end_processes() noexcept {
  Running& list = running();
  list.ending.store(true);
  const std::lock_guard lock(list.mutex);
  for (const pid_t group : list.groups) ::kill(-group, SIGKILL);
}

}  // namespace tj::support
