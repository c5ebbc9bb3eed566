// Accidents at a process's system calls, for the tests of what the cache does then. A traced child is the shipped code.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <cerrno>
#include <set>
#include <string>

#include "tests/cache/cache_fixture.hpp"

namespace tj::testing {

inline constexpr int kNotReached = -1000;
inline constexpr int kNoTracing = -2000;

enum class Accident { none, kill, fail };
enum class Which { all, nth, from_nth };
/// Calls that an accident happens to, and what they answer.
struct Kind {
  long call = 0;  ///< this one alone; 0: all that touch files
  int error = EIO;
  Which which = Which::nth;
};

inline bool touches_files(unsigned long long call) {
  static const std::set<unsigned long long> calls = {
      SYS_open,   SYS_openat,    SYS_mkdir, SYS_stat,      SYS_lstat,      SYS_fstat,     SYS_newfstatat, SYS_write,
      SYS_read,   SYS_fsync,     SYS_close, SYS_rename,    SYS_renameat,   SYS_renameat2, SYS_unlink,     SYS_unlinkat,
      SYS_fchmod, SYS_utimensat, SYS_fcntl, SYS_getrandom, SYS_getdents64, SYS_pread64,   SYS_pwrite64};
  return calls.count(call) != 0;
}

class Tracer {
 public:
  /// Runs `work` in a child and lets the accident happen to its n-th file call (from 0), or to those of a kind. Returns
  /// the exit status, or minus the signal, or kNotReached when there were fewer calls (then nothing happened to them).
  template <class Work>
  static int run(Work&& work, Accident accident, int n, Kind kind = {}) {
    const pid_t child = tj::testing::start_child([&] {
      if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 97;
      ::raise(SIGSTOP);
      return work();
    });
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) return kNoTracing;
    ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    return Tracer{child, accident, n, kind}.follow();
  }

 private:
  Tracer(pid_t child, Accident accident, int n, Kind kind) : child_(child), accident_(accident), n_(n), kind_(kind) {}

  int follow() {
    int deliver = 0;
    for (bool entering = true;;) {
      ::ptrace(PTRACE_SYSCALL, child_, nullptr, deliver);
      int status = 0;
      ::waitpid(child_, &status, 0);
      if (WIFSIGNALED(status)) return -WTERMSIG(status);
      if (WIFEXITED(status)) return reached_ ? WEXITSTATUS(status) : kNotReached;
      const bool at_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
      deliver = at_call || WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
      if (!at_call) continue;
      if (entering) {
        at_entry();
      } else if (failing_) {
        at_exit();
      }
      entering = !entering;
    }
  }

  void at_entry() {
    user_regs_struct registers{};
    ::ptrace(PTRACE_GETREGS, child_, nullptr, &registers);
    const bool of_kind =
        kind_.call != 0 ? static_cast<long>(registers.orig_rax) == kind_.call : touches_files(registers.orig_rax);
    if (!of_kind) return;
    const int at = seen_++;
    if (kind_.which == Which::nth ? at != n_ : kind_.which == Which::from_nth && at < n_) return;
    reached_ = true;
    if (accident_ == Accident::kill) ::kill(child_, SIGKILL);
    if (accident_ != Accident::fail) return;
    failing_ = true;
    registers.orig_rax = ~0ull;  // no such call: it does nothing
    ::ptrace(PTRACE_SETREGS, child_, nullptr, &registers);
  }

  void at_exit() {
    failing_ = false;
    user_regs_struct registers{};
    ::ptrace(PTRACE_GETREGS, child_, nullptr, &registers);
    registers.rax = static_cast<unsigned long long>(-static_cast<long long>(kind_.error));
    ::ptrace(PTRACE_SETREGS, child_, nullptr, &registers);
  }

  pid_t child_;
  Accident accident_;
  int n_;
  Kind kind_;
  int seen_ = 0;
  bool reached_ = false;
  bool failing_ = false;
};

inline bool can_trace() {
  if (Tracer::run([] { return 0; }, Accident::none, 0) != kNoTracing) return true;
  MESSAGE("this machine does not allow tracing a child; left out");
  return false;
}

}  // namespace tj::testing
