// The process around tools::check().
#include <unistd.h>

#include <iostream>

#include "tools/check.hpp"

int main(int argc, char** argv) {
  return tj::tools::check({argv + (argc > 0 ? 1 : 0), argv + argc}, std::cout, std::cerr, ::isatty(STDERR_FILENO) == 1);
}
