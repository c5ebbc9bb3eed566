// Protects, on the CPU model, kernels of blocks that have no barriers in shared memory. They are right for every trip
// count, also tile after tile. A barrier of the block or of a warp that is switched off is missed.
#include <doctest/doctest.h>

#include <cstdint>

#include "codegen/toy_kernel.hpp"

using namespace tj;
using test::ToyKernel;

TEST_CASE("right for every trip count, depth and number of tiles") {
  for (const bool persistent : {false, true})
    for (const int slots : {1, 2}) {
      ToyKernel kernel({.load_latency = slots == 1 ? 600 : 1500, .slots = slots, .persistent = persistent});
      CAPTURE(persistent);
      CAPTURE(slots);
      for (int n = 0; n <= 8; ++n) {
        CAPTURE(n);
        for (std::uint64_t seed = 1; seed <= 3; ++seed) CHECK(kernel.run(seed, {}, persistent ? 3 : 1, n) == "");
      }
    }
}

TEST_CASE("each barrier is missed when it is switched off") {
  int sites = 0;
  for (const bool persistent : {false, true})
    for (const int max_stages : {0, 1}) {
      ToyKernel kernel({.persistent = persistent, .max_stages = max_stages});
      CAPTURE(persistent);
      for (std::uint64_t seed = 1; seed <= 6; ++seed) REQUIRE(kernel.run(seed, {}, persistent ? 3 : 1, 6) == "");
      for (const codegen::Site& site : kernel.unit.sites) {
        CAPTURE(site.what);
        bool missed = false;
        for (const int n :
             {6, 3, 2, 1, 0})  // tiles without iterations follow each other without the barriers of the loop
          for (std::uint64_t seed = 1; seed <= 40 && !missed; ++seed)
            missed = kernel.run(seed, {site.id}, persistent ? 3 : 1, n) != "";
        CHECK(missed);
        ++sites;
      }
    }
  MESSAGE(sites, " sites");
}
