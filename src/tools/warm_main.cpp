// The process around tools::warm().
#include "tools/process.hpp"
#include "tools/warm.hpp"

int main(int argc, char** argv) {
  return tj::tools::run_process("tj-warm", argc, argv,
                                [](const auto& words, auto& out, auto& err, tj::tools::Terminal terminal) {
                                  return tj::tools::warm(words, out, err, terminal.out);
                                });
}
