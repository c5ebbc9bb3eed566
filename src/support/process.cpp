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
    in_forked_children([] { running().groups.clear(); });  // the parent's
    return Running{};
  });
}

/// True once it has ended, false after this time. Leaves it to be reaped.
bool has_ended(pid_t child, const FileDescriptor& watch, std::chrono::nanoseconds most) {
  const auto ms = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(most).count());
  if (watch) {
    pollfd event{watch.get(), POLLIN, 0};
    return ::poll(&event, 1, ms) > 0;
  }
  siginfo_t info{};
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(most, std::chrono::milliseconds(10)));
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

}  // namespace

int start_process(std::vector<std::string> words, std::vector<std::string> environment, int output, pid_t& child,
                  ProcessGroup group) {
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
  return exit_status(status);
}

int wait_for_process(pid_t child, double limit_s, bool& over) {
  constexpr std::chrono::seconds kLongestStep{60};
  Running& list = running();
  {
    const std::lock_guard lock(list.mutex);
    list.groups.insert(child);
  }
  const FileDescriptor watch(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const Patience patience(limit_s);
  over = false;
  while (!has_ended(child, watch, over ? kLongestStep : patience.step(kLongestStep))) {
    if (over || !patience.over()) continue;
    over = true;
    ::kill(-child, SIGKILL);
  }
  if (list.ending.load()) std::this_thread::sleep_for(std::chrono::seconds(2));
  const std::lock_guard lock(list.mutex);
  list.groups.erase(child);  // before its number is free for others
  return wait_for_process(child);
}

void end_processes() noexcept {
  Running& list = running();
  list.ending.store(true);
  const std::lock_guard lock(list.mutex);
  for (const pid_t group : list.groups) ::kill(-group, SIGKILL);
}

}  // namespace tj::support
