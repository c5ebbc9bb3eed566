// The process around tools::schedule().
#include <iostream>

#include "tools/schedule.hpp"

int main(int argc, char** argv) { return tj::tools::schedule({argv + (argc > 0 ? 1 : 0), argv + argc}, std::cout, std::cerr); }
