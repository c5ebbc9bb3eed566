// The process around tools::check().
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "tools/check.hpp"

int main(int argc, char** argv) {
  std::signal(SIGCHLD, SIG_DFL);  // who starts this may ignore it, and then nobody learns how a program ended
  return tj::tools::check({argv + (argc > 0 ? 1 : 0), argv + argc}, std::cout, std::cerr, ::isatty(STDERR_FILENO) == 1);
}
