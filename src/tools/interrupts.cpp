// See interrupts.hpp. A thread waits for the signals: a handler could not take a lock or remove a file.
#include "tools/interrupts.hpp"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "compile/private_directory.hpp"

namespace tj::tools {
namespace {

[[noreturn]] void end_by(int signal) {
  compile::abandon_compiles();
  std::signal(signal, SIG_DFL);
  sigset_t own;
  ::sigemptyset(&own);
  ::sigaddset(&own, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  ::kill(::getpid(), signal);
  for (;;) ::pause();
}

}  // namespace

void clean_up_on_signals() {
  sigset_t ending;
  ::sigemptyset(&ending);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action{};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) ::sigaddset(&ending, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  std::thread([ending] {
    int signal = 0;
    if (::sigwait(&ending, &signal) == 0) end_by(signal);
  }).detach();
}

}  // namespace tj::tools
