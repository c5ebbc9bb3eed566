// Protects that chunk_o kernels on tensor memory compile with NVRTC, without spills: both numbers of heads an item,
// every form.
#include <doctest/doctest.h>

#include "codegen/device_kernel.hpp"
#include "ops/chunk_o/chunk_o.hpp"

using namespace tj;

TEST_CASE("no spill, registers as the schedule gives") {
  const auto compiler = test::nvrtc_or_skip();
  using Flags = std::map<std::string, std::vector<std::string>>;
  const Flags sets[] = {
      {{"head-ratio", {"1", "2"}}, {"h-transposed", {"true"}}},
      {{"head-ratio", {"1", "2"}}, {"gated", {"false"}}, {"variable", {"false"}}},
      {{"head-ratio", {"2"}}, {"num-stages", {"1", "2"}}, {"evict-first", {"true"}}},
      {{"head-ratio", {"6"}}, {"item-heads", {"1", "2"}}, {"variable", {"false"}}},
  };
  for (const Flags& flags : sets)
    for (const ops::Request& request : ops::chunk_o_op().requests(flags))
      test::check_compiles(*compiler, ops::chunk_o_op(), request, *arch::find("sm_100a"));
}
