// See program_start.hpp.
#include "support/program_start.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "support/environment.hpp"
#include "support/process.hpp"

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

// A stop of the caller's group may have come before the child left it. The child would stop when it unblocks signals,
// and no SIGCONT to that group would reach it. To ignore a signal drops one that is pending.
void forget_stops() {
  constexpr std::size_t kMaskBytes = 8;
  for (const int signal : {SIGTSTP, SIGTTIN, SIGTTOU}) {
    std::array<unsigned long, 8> before{}, ignored{};
    ignored[0] = 1;  // SIG_IGN
    if (::syscall(SYS_rt_sigaction, signal, ignored.data(), before.data(), kMaskBytes) == 0)
      ::syscall(SYS_rt_sigaction, signal, before.data(), nullptr, kMaskBytes);
  }
}

bool prepare(ProgramStart& start) {
  const bool foreign = start.parent != 0 && ::syscall(SYS_getppid) == 0;  // in a namespace that unshare() has made
  if (start.parent != 0) {
    ::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (!foreign && ::syscall(SYS_getppid) != start.parent) {
      errno = ECHILD;  // gone before that
      return false;
    }
  }
  if (start.group != kCallersGroup) {
    if (foreign) start.group = 0;  // in there the number is nobody's, or another's
    if (::syscall(SYS_setpgid, 0, start.group) != 0) return false;
    forget_stops();
  }
  const long input = start.input >= 0 ? start.input : ::syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY, 0);
  if (input < 0 || (input != STDIN_FILENO && ::syscall(SYS_dup3, input, STDIN_FILENO, 0) < 0)) return false;
  if (start.input < 0 && input > STDERR_FILENO) ::syscall(SYS_close, input);
  return ::syscall(SYS_dup3, start.output, STDOUT_FILENO, 0) >= 0 &&
         ::syscall(SYS_dup3, start.output, STDERR_FILENO, 0) >= 0;
}

// It never returns, which a sanitizer of threads would wait for.
__attribute__((no_sanitize("thread"))) int child_main(void* given) {
  ProgramStart& start = *static_cast<ProgramStart*>(given);
  start.first = ::syscall(SYS_getpid) == 1;
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

}  // namespace

int reap_process(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return kUnknownStatus;  // SIGCHLD ignored: the child has ended, but nobody knows how
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int start_program(std::vector<std::string> words, std::vector<std::string> environment, pid_t& child,
                  ProgramStart& how) {
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
  if (how.error != 0) reap_process(child);
  return how.error;
}

}  // namespace tj::support
