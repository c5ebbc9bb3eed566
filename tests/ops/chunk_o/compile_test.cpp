// Protects that chunk_o kernels compile for the real arch with NVRTC, without spills and without the compiler
// serialising the matrix instructions: every number of heads an item, every form.
#include <doctest/doctest.h>

#include "codegen/device_kernel.hpp"
#include "ops/chunk_o/chunk_o.hpp"

using namespace tj;

TEST_CASE("no spill, no serialised matrix instruction, registers as the schedule gives") {
  const auto compiler = test::nvrtc_or_skip();
  using Flags = std::map<std::string, std::vector<std::string>>;
  const Flags sets[] = {
      {{"head-ratio", {"1", "2", "3"}}},
      {{"head-ratio", {"6"}}, {"item-heads", {"1", "2"}}, {"h-transposed", {"true"}}},
      {{"head-ratio", {"2", "3"}}, {"gated", {"false"}}, {"variable", {"false"}}},
      {{"head-ratio", {"2"}}, {"num-stages", {"1", "2"}}, {"evict-first", {"true"}}},
      {{"head-ratio", {"1"}}, {"gated", {"both"}}, {"variable", {"both"}}, {"h-transposed", {"true"}}},
  };
  for (const Flags& flags : sets)
    for (const ops::Request& request : ops::chunk_o_op().requests(flags))
      test::check_compiles(*compiler, ops::chunk_o_op(), request);
}
