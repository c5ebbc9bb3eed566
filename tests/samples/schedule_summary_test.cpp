// Protects the few lines that samples print of a schedule, and that odd JSON never ends a sample.
#include <doctest/doctest.h>

#include <string>

#include "common/schedule_summary.hpp"

namespace {

TEST_CASE("II, length, stages, roles and rings") {
  const std::string text = tj::samples::schedule_summary(
      R"({"ii": 100, "length": 190, "proven_ii": true, "certificate": "unit TC is full",
          "nodes": [{"name": "load_q", "cycle": 0, "stage": 0, "role": "load", "scope": "tile_begin"},
                    {"name": "load_k", "cycle": 5, "stage": 0, "role": "load", "scope": "iteration"},
                    {"name": "pv", "cycle": 120, "stage": 1, "role": "compute", "scope": "iteration"}],
          "roles": [{"name": "load", "warps": 1, "registers": 24}],
          "rings": [{"value": "k", "slots": 3}]})",
      "  ");
  CHECK(text ==
        "II 100 cycles (proven), length 190, 2 stages\n"
        "  role load (1 warp, 24 registers a thread): load_q load_k@5\n"
        "  role compute: pv@120\n"
        "  rings: k x3\n"
        "  unit TC is full");
}

TEST_CASE("JSON that is not a schedule") {
  CHECK(tj::samples::schedule_summary("", "") == "(no schedule in the report)");
  CHECK(tj::samples::schedule_summary("[1, 2]", "") == "(no schedule in the report)");
  CHECK(tj::samples::schedule_summary("{\"nodes\": 5, \"rings\": [7]}", "").find("II ? cycles") == 0);
}

}  // namespace
