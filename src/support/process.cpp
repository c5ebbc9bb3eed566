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
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

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
  char* const* files = nullptr;
  char* const* words = nullptr;
  char* const* environment = nullptr;
  int input = -1;  ///< -1: nothing
  int output = -1;
  pid_t group = 0;   ///< 0: its own; kCallersGroup; else that one, which has a leader
  pid_t parent = 0;  ///< the process whose end ends the program; 0: none
  int error = 0;     ///< written by the child
};
constexpr pid_t kCallersGroup = -1;

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
  if (start.parent != 0) {
    ::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (::syscall(SYS_getppid) != start.parent) return false;  // gone before that
  }
  if (start.group != kCallersGroup && ::syscall(SYS_setpgid, 0, start.group) != 0) return false;
  const long input = start.input >= 0 ? start.input : ::syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY, 0);
  if (input < 0 || (input != STDIN_FILENO && ::syscall(SYS_dup3, input, STDIN_FILENO, 0) < 0)) return false;
  if (start.input < 0 && input > STDERR_FILENO) ::syscall(SYS_close, input);
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

/// The end of a process, as wait_for_process() gives it.
int reap(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return kUnknownStatus;  // SIGCHLD ignored: the child has ended, but nobody knows how
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
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

int start(std::vector<std::string> words, std::vector<std::string> environment, pid_t& child, Start how) {
  std::vector<std::string> files = candidates(words.front());
  const std::vector<char*> file_list = pointers_to(files), word_list = pointers_to(words),
                           variable_list = pointers_to(environment);
  how.files = file_list.data();
  how.words = word_list.data();
  how.environment = variable_list.data();
  constexpr std::size_t kStackBytes = 64 * 1024, kAlignment = 64;
  const std::unique_ptr<std::byte[]> stack(new std::byte[kStackBytes]);
  const auto top = reinterpret_cast<std::uintptr_t>(stack.get() + kStackBytes) / kAlignment * kAlignment;
  const Undisturbed undisturbed;
  child = clone_process(&child_main, reinterpret_cast<void*>(top), CLONE_VM | CLONE_VFORK | SIGCHLD, &how);
  if (child < 0) return errno;
  if (how.error != 0) reap(child);
  return how.error;
}

// ---- programs with a limit ------------------------------------------------------------------------------------------

/// The group of a program. It ends when this process is gone, however that came. The kernel ends the program alone
/// then: a compiler's driver, say, but not the compiler. A small program leads the group and reads from a pipe that
/// nobody writes to. Its end is that of this process, and of its forked children. It is there before the program, so
/// that no moment is left out. Where it cannot be started, the program leads the group, and that end is missing.
/// Invariant: while it lives, the group's number is no other's.
class Watcher {
 public:
  Watcher() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    into_ = FileDescriptor(ends[1]);
    const FileDescriptor from(ends[0]);
    if (!into_ || !from) return;
    Start how;
    how.input = how.output = from.get();  // nothing is written
    pid_t child = -1;
    if (start({"/bin/sh", "-c", "read gone; kill -s KILL -- \"-$$\""}, {}, child, how) != 0) return;
    leader_ = child;
    handle_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  }
  ~Watcher() {
    if (leader_ <= 0) return;
    // It may have ended with its group. Where nobody reaps children, its number may be another's then.
    if (handle_)
      ::syscall(SYS_pidfd_send_signal, handle_.get(), SIGKILL, nullptr, 0);
    else
      ::kill(leader_, SIGKILL);
    reap(leader_);
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  pid_t group() const noexcept { return leader_; }  ///< 0: there is none

 private:
  FileDescriptor into_, handle_;
  pid_t leader_ = 0;
};
using Watchers = std::map<pid_t, std::unique_ptr<Watcher>>;  ///< by their programs

struct Running {
  Mutex mutex;
  Watchers watchers;  ///< of programs that nobody waits for yet
  std::set<pid_t> groups;
  std::atomic<bool> ending{false};
};
Running& running() {
  static constinit Lasting<Running> list;
  return list.get([] {
    in_forked_children([] {
      running().groups.clear();  // the parent's
      for (auto& each : running().watchers) static_cast<void>(each.second.release());
      running().watchers.clear();
      running().ending.store(false);
    });
    return Running{};
  });
}

std::unique_ptr<Watcher> watcher_of(pid_t child) {
  Running& all = running();
  const std::lock_guard lock(all.mutex);
  const auto found = all.watchers.find(child);
  if (found == all.watchers.end()) return nullptr;
  std::unique_ptr<Watcher> watcher = std::move(found->second);
  all.watchers.erase(found);
  return watcher;
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

/// A program that somebody waits for, which does not outlive him: where no memory is left to go on, its group is ended
/// and it is reaped. Invariant: its number is listed no longer than it is its own.
class Reaped {
 public:
  explicit Reaped(pid_t child)
      : child_(child),
        watcher_(watcher_of(child)),
        group_(watcher_ && watcher_->group() > 0 ? watcher_->group() : child) {}
  ~Reaped() {
    if (child_ <= 0) return;
    end_group();
    reap_now();
  }
  Reaped(const Reaped&) = delete;
  Reaped& operator=(const Reaped&) = delete;

  /// From now on the end of this process ends it.
  void list() {
    list_ = &running();
    const std::lock_guard lock(list_->mutex);
    list_->groups.insert(group_);
    if (list_->ending.load()) end_group();
  }
  void end_group() const noexcept { ::kill(-group_, SIGKILL); }
  int reap_now() {
    const pid_t child = std::exchange(child_, 0);
    if (list_ == nullptr) return reap(child);
    const std::lock_guard lock(list_->mutex);
    list_->groups.erase(group_);  // before its number is free for others
    return reap(child);
  }

 private:
  pid_t child_;
  const std::unique_ptr<Watcher> watcher_;
  const pid_t group_;
  Running* list_ = nullptr;
};

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
  Start how;
  how.output = aside.get();
  how.parent = ::getpid();
  how.group = kCallersGroup;
  if (group == ProcessGroup::callers) return start(std::move(words), std::move(environment), child, how);
  Watchers one;  // no memory is asked for once the program runs
  how.group = one.emplace(0, std::make_unique<Watcher>()).first->second->group();
  if (const int error = start(std::move(words), std::move(environment), child, how); error != 0) return error;
  auto of_child = one.extract(one.begin());
  of_child.key() = child;
  const std::lock_guard lock(running().mutex);
  running().watchers.insert(std::move(of_child));
  return 0;
}

int wait_for_process(pid_t child) {
  const auto watcher = watcher_of(child);
  const int status = reap(child);
  stay_if_ending();
  return status;
}

ProgramOutput::ProgramOutput() : part_(std::size_t{64} * 1024) {
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
  for (int i = 0; i < kTimes && from_; ++i) {
    const ssize_t count = ::read(from_.get(), part_.data(), part_.size());
    if (count > 0) {
      log_.append({part_.data(), static_cast<std::size_t>(count)});
    } else if (count == 0) {
      from_.reset();
    } else if (errno != EINTR) {
      return;
    }
  }
}

int wait_for_process(pid_t child, double limit_s, bool& over, ProgramOutput* output) {
  constexpr std::chrono::seconds kLongestStep{60};
  Reaped reaped(child);
  reaped.list();
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
    reaped.end_group();
  }
  read_some();
  stay_if_ending();
  return reaped.reap_now();
}

void end_processes() noexcept {
  Running& list = running();
  list.ending.store(true);
  const std::lock_guard lock(list.mutex);
  for (const pid_t group : list.groups) ::kill(-group, SIGKILL);
}

}  // namespace tj::support
