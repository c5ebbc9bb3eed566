// What the reader of user graphs must do with any bytes: a graph that check() accepts, or a tj::Error of stage graph.
//
// An entry for libFuzzer (built with -DTJ_FUZZ=ON and clang++) that the mutation test calls too. Accepted graphs must
// survive being written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <tilejit/error.hpp>

#include "graph/json_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string written;
  try {
    written = tj::graph::to_json(tj::graph::read_json(text, "fuzz"));
  } catch (const tj::Error& e) {
    if (e.stage != tj::Stage::graph || e.code != tj::Code::invalid_argument || e.message.size() > 4096) std::abort();
    return 0;
  }
  if (tj::graph::to_json(tj::graph::read_json(written, "fuzz")) != written) std::abort();
  return 0;
}
