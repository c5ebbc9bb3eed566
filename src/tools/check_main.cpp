// The process around tools::check().
#include "tools/check.hpp"
#include "tools/process.hpp"

int main(int argc, char** argv) {
  return tj::tools::run_process("tj-check", argc, argv,
                                [](const auto& words, auto& out, auto& err, tj::tools::Terminal terminal) {
                                  return tj::tools::check(words, out, err, terminal.err);
                                });
}
