// Protects that every shipped attention kernel compiles for the real arch with NVRTC, without spills and without the
// compiler serialising the matrix instructions.
#include <doctest/doctest.h>

#include "codegen/device_kernel.hpp"
#include "ops/fmha/fmha.hpp"

using namespace tj;

TEST_CASE("shipped configurations: no spill, no serialised matrix instruction, registers as the schedule gives") {
  const auto compiler = test::nvrtc_or_skip();
  for (const ops::Request& request : ops::fmha_op().requests({{"general-scale", {"both"}}, {"dtype", {"f16"}}}))
    test::check_compiles(*compiler, ops::fmha_op(), request);
}
