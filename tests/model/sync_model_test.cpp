// Protects the model's synchronisation, exchange between lanes, numbers and ordinary accesses, by the checks that a
// device passes too (gpu.sm90a_primitives_gpu), under several orders of events.
#include <doctest/doctest.h>

#include "model/primitive_unit.hpp"

namespace {

using tj::testing::PrimitiveUnit;

PrimitiveUnit on_model(std::string_view text) { return PrimitiveUnit::on_model(text, "sm_90a"); }

}  // namespace

TEST_CASE("rings, turns, meetings, clusters, grids and registers under every order of events") {
  PrimitiveUnit unit = on_model(tj::testing::sync_text());
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    dynamic_cast<tj::model::ModelDriver&>(unit.driver()).set_options({seed, {}, 1, {}});
    tj::testing::check_block_syncs(unit);
    tj::testing::check_lanes(unit);
    tj::testing::check_cluster_arrivals(unit);
    tj::testing::check_words_between_blocks(unit);
    tj::testing::check_registers(unit);
  }
  tj::testing::check_grids_behind(unit);
}

TEST_CASE("roundings to 16 bits are exact, approximations within what they promise, NaN loses against any number") {
  tj::testing::check_numbers(on_model);
  tj::testing::check_unpacked(on_model);
}

TEST_CASE("ordinary accesses of every size move what they name, and no more") { tj::testing::check_accesses(on_model); }
