// The process around tools::warm().
#include <unistd.h>

#include <iostream>

#include "tools/warm.hpp"

int main(int argc, char** argv) {
  return tj::tools::warm({argv + (argc > 0 ? 1 : 0), argv + argc}, std::cout, std::cerr, ::isatty(STDOUT_FILENO) == 1);
}
