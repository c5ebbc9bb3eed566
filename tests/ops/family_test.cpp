// Protects the rows of families: each serves the archs whose family has its name, and no arch has two.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "ops/fmha/family.hpp"

using namespace tj;

TEST_CASE("attention: an arch has the family whose node bodies are for it, or none") {
  int found = 0;
  for (const arch::Arch* arch : arch::all()) {
    CAPTURE(arch->name);
    const ops::FmhaFamily* family = ops::find_fmha_family(*arch);
    CHECK((family != nullptr) == arch::serves(*arch, ops::fmha_needs()));
    if (family == nullptr) continue;
    ++found;
    CHECK(family->needs().families == std::vector<std::string>{family->name});
    CHECK(arch::serves(*arch, {family->needs()}));
    for (const bool causal : {false, true})
      CHECK(!family->candidates(FmhaConfig{DType::f16, 64, causal, false}, *arch).empty());
  }
  CHECK(found > 0);
}
