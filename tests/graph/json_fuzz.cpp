// The promise of the reader of user graphs for any bytes: a graph that check() accepts, or a tj::Error of stage graph.
//
// An entry for libFuzzer (built with -DTJ_FUZZ=ON and clang++) that the mutation test calls too. Accepted graphs must
// survive being written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/error.hpp>

#include "graph/json_reader.hpp"
#include "support/fuzz.hpp"

namespace {

/// One that a graph may name besides the normalised ones.
const std::vector<tj::graph::Machine>& machines() {
  static const std::vector<tj::graph::Machine> list = [] {
    tj::graph::Machine machine;
    machine.name = "sm_real";
    machine.units = {{"TC", 1}, {"TMA", 2}};
    machine.memory_bytes = {{"SMEM", 65536}};
    machine.register_roles = true;
    return std::vector<tj::graph::Machine>{machine};
  }();
  return list;
}

}  // namespace

TJ_FUZZ_TARGET(tj::testing::fuzz_json)(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string written;
  try {
    written = tj::graph::to_json(tj::graph::read_json(text, "fuzz", machines()), machines());
  } catch (const tj::Error& e) {
    if (e.stage != tj::Stage::graph || e.code != tj::Code::invalid_argument || e.message.size() > 4096) std::abort();
    return 0;
  }
  if (tj::graph::to_json(tj::graph::read_json(written, "fuzz", machines()), machines()) != written) std::abort();
  return 0;
}
