// Signals kept from a thread and from those that it starts meanwhile.
//
// Decides that signals are for the program's own threads. Invariant: a fault stays its thread's, and the calling thread
// has its signals back when this is gone.
#pragma once

#include <pthread.h>

#include <csignal>

namespace tj::support {

/// Signals of a thread's own fault.
constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};

class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : kFaults) ::sigdelset(&all, fault);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace tj::support
