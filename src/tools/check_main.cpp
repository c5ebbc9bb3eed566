// The process around tools::check().
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "tools/check.hpp"
#include "tools/options.hpp"

namespace {

/// A file that is opened later must not get the number of one of the three. False: the output was closed.
bool keep_the_three() {
  bool output = true;
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    ::open("/dev/null", O_RDWR);
    output = output && fd != STDOUT_FILENO;
  }
  return output;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGCHLD, SIG_DFL);  // who starts this may ignore it, and then nobody learns how a program ended
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is told as a full disk is
  if (!keep_the_three()) {
    std::cerr << "tj-check: argument: standard output is 'closed'; allowed: one that can be written\n";
    return tj::tools::kExitBadUse;
  }
  return tj::tools::check({argv + (argc > 0 ? 1 : 0), argv + argc}, std::cout, std::cerr, ::isatty(STDERR_FILENO) == 1);
}
