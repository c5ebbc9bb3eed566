// The process around tools::schedule().
#include "tools/process.hpp"
#include "tools/schedule.hpp"

int main(int argc, char** argv) {
  return tj::tools::run_process("tj-schedule", argc, argv,
                                [](const auto& words, auto& out, auto& err, tj::tools::Terminal) {
                                  return tj::tools::schedule(words, out, err);
                                });
}
