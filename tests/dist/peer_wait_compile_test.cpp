// Protects that the wait for other ranks compiles for the real arch with NVRTC.
#include <doctest/doctest.h>

#include "codegen/device_kernel.hpp"
#include "ops/peer_wait/peer_wait.hpp"

using namespace tj;

TEST_CASE("the wait for other ranks compiles, without spills") {
  const auto compiler = test::nvrtc_or_skip();
  for (const ops::Request& request : ops::peer_wait_op().requests({}))
    test::check_compiles(*compiler, ops::peer_wait_op(), request);
}
