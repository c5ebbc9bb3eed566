// Protects what the device's assembler makes of products in tensor memory: its own instructions for products, bulk
// copies, loads and stores of tensor memory and registers that move, and no access to local memory. And that no matrix
// instruction of a warpgroup waits for the registers of its operands' addresses, nor states of the delta rule for more
// products than they ask for. Skips itself without NVRTC or nvdisasm, which comes with CUDA's toolkit or, as NVRTC
// does, in a wheel of its own (nvidia-cuda-nvdisasm).
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "codegen/device_kernel.hpp"
#include "codegen/disassembled.hpp"
#include "ops/chunk_o/chunk_o.hpp"
#include "ops/delta_chunks/delta_chunks.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/full.hpp"

using namespace tj;
using test::count;
using test::disassembled;
using test::disassembler_or_skip;

namespace {

void check_sass(compile::Compiler& compiler, const std::string& tool, const ops::Op& op, const ops::Request& request,
                const std::vector<const char*>& expected) {
  CAPTURE(request.name);
  const std::string sass =
      disassembled(tool, test::check_compiles(compiler, op, request, *arch::find("sm_100a")).binary.bytes);
  for (const char* instruction : expected) {
    CAPTURE(std::string(instruction));
    CHECK(count(sass, std::string(" ") + instruction) > 0);
  }
  for (const char* local : {" STL", " LDL"}) CHECK(count(sass, local) == 0);
  for (const char* other : {" HGMMA", " HMMA"}) CHECK(count(sass, other) == 0);  // those of the families before
}

/// Moves to the registers that all lanes share, between one matrix instruction and the next of the same iteration.
int moves_between_products(const std::string& sass) {
  int moves = 0;
  for (std::size_t at = sass.find(" HGMMA"); at != std::string::npos;) {
    const std::size_t next = sass.find(" HGMMA", at + 1);
    const std::string between = next == std::string::npos ? "" : sass.substr(at, next - at);
    if (count(between, " BRA") == 0) moves += count(between, " R2UR");
    at = next;
  }
  return moves;
}

}  // namespace

// Loops whose length the compiler took for one of each lane kept addresses in the lanes' registers. Each product then
// waited for four moves: an iteration of 64 x 64 x 128 took 690 cycles instead of 550 on an H200.
TEST_CASE("products for sm_90a: however tiles come to blocks, all lanes know addresses of operands as one value") {
  const auto compiler = test::nvrtc_or_skip();
  const std::string tool = disassembler_or_skip();
  for (const ops::Request& request : ops::gemm_op().requests({{"dtype", {"f16"}},
                                                              {"tile", {"64x256x64", "128x256x64c2x1", "64x64x128"}},
                                                              {"walk", {"usual", "dynamic", "split"}}})) {
    CAPTURE(request.name);
    const std::string sass = disassembled(
        tool, test::check_compiles(*compiler, ops::gemm_op(), request, *arch::find("sm_90a")).binary.bytes);
    CHECK(count(sass, " HGMMA") >= 4);
    CHECK(moves_between_products(sass) == 0);
  }
}

// States that faded under the product with keys, ahead of the wait for it, made ptxas wait for the product with queries
// as well.
TEST_CASE("states of the delta rule for sm_90a: consumers wait for all products at a step's end alone") {
  const auto compiler = test::nvrtc_or_skip();
  const std::string tool = disassembler_or_skip();
  int consumers = 0;
  for (const char* step : {"state", "wide-state"}) {
    const auto requests = ops::delta_chunks_op().requests(
        {{"step", {step}}, {"dtype", {"bf16"}}, {"state", {"f32"}}, {"head-dim", {"128"}}, {"keeps", {"false"}}});
    REQUIRE(!requests.empty());
    CAPTURE(requests[0].name);
    const std::string sass = disassembled(
        tool, test::check_compiles(*compiler, ops::delta_chunks_op(), requests[0], *arch::find("sm_90a")).binary.bytes);
    CHECK(count(sass, " WARPGROUP.DEPBAR.LE gsb0, 0x0") == ++consumers);
  }
}

TEST_CASE("attention, products and chunk output for sm_100a: UTCHMMA, UTMALDG, LDTM, STTM, and no local memory") {
  const auto compiler = test::nvrtc_or_skip();
  const std::string tool = disassembler_or_skip();
  int index = 0;  // width by mask: each width with one of the two
  for (const ops::Request& request : ops::fmha_op().requests({{"dtype", {"f16"}}, {"causal", {"both"}}})) {
    const int place = index++;
    if (testing::sampled_out(place / 2 + place % 2)) continue;
    check_sass(*compiler, tool, ops::fmha_op(), request,
               {"UTCHMMA", "UTMALDG.4D", "UTCBAR", "LDTM", "STTM", "UTCATOMSWS", "USETMAXREG", "MUFU.EX2", "FFMA.SAT",
                "FMNMX3"});
  }
  const auto product = [&](const char* tile, const std::vector<const char*>& more) {
    for (const ops::Request& request : ops::gemm_op().requests({{"dtype", {"f16"}}, {"tile", {tile}}})) {
      std::vector<const char*> expected = {"UTCHMMA", "UTMALDG.4D", "UTCBAR", "LDTM.16dp256bit", "UTCATOMSWS"};
      expected.insert(expected.end(), more.begin(), more.end());
      check_sass(*compiler, tool, ops::gemm_op(), request, expected);
    }
  };
  product("256x128x64", {"USETMAXREG"});
  product("128x128x64", {"UTMASTG.4D"});  // d through shared memory, by the copy engine
  product("128x128x64c1x2",
          {"UTMALDG.4D.MULTICAST", "UTCBAR.MULTICAST", "UTMASTG.4D"});  // a copy for two blocks, which both hand back
  product("128x256x64c2x1", {"UTCHMMA.2CTA", "UTMALDG.4D.2CTA", "UTCBAR.2CTA.MULTICAST", "UTMASTG.4D",
                             "UTCATOMSWS.2CTA"});  // by pairs of blocks
  std::vector<std::string> ratios = {"2"};
  if (testing::full_run()) ratios.emplace_back("1");
  for (const ops::Request& request : ops::chunk_o_op().requests({{"head-ratio", ratios}}))
    check_sass(*compiler, tool, ops::chunk_o_op(), request,
               {"UTCHMMA", "UTMALDG.4D", "UTMASTG.4D", "UTCBAR", "LDTM.16dp256bit", "STTM.16dp128bit", "UTCATOMSWS",
                "USETMAXREG", "MUFU.EX2"});
}
