// Protects that every kernel that tj-warm makes for archs with tensor memory compiles with NVRTC without a spill and
// fits the device: registers of all roles together, shared memory and columns of tensor memory. And that the tool makes
// them without a GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "codegen/device_kernel.hpp"
#include "codegen/emit.hpp"
#include "codegen/layout.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/full.hpp"
#include "support/scratch.hpp"
#include "tools/options.hpp"
#include "tools/warm.hpp"

using namespace tj;

namespace {

constexpr const char* kArchs[] = {"sm_100a", "sm_103a"};
constexpr int kThreadsOfGroup = 128, kColumns = 512, kLeastColumns = 32, kLeastRegisters = 24;

/// Registers that move are those of the launch: none too many, and as many as the assembler counts on, else who asks
/// for more waits for ever.
void check_registers(const codegen::Layout& layout, const test::DeviceKernel& made, const arch::Arch& arch) {
  const bool move = std::any_of(layout.groups.begin(), layout.groups.end(),
                                [&](const codegen::Group& each) { return each.registers > layout.entry_registers; });
  CHECK((made.unit.text.find("registers_grow<") != std::string::npos) == move);
  if (!move) return;
  std::int64_t given = 0;
  for (const codegen::Group& group : layout.groups) {
    given += std::int64_t{kThreadsOfGroup} * (group.registers == 0 ? layout.entry_registers : group.registers);
    CHECK(group.registers % arch.register_step == 0);
    CHECK((group.registers == 0 || group.registers >= kLeastRegisters));
    CHECK(group.registers <= arch.max_registers_per_thread);
  }
  CHECK(given <= std::int64_t{made.binary.registers} * made.unit.shape.threads);
  CHECK(made.binary.registers == layout.entry_registers);
}

void check_fits(const ops::Op& op, const ops::Request& request, const arch::Arch& arch,
                const test::DeviceKernel& made) {
  CAPTURE(request.name);
  CAPTURE(arch.name);
  const Choice choice = choose(op, request, arch);
  const codegen::Layout layout = codegen::make_layout(choice.candidate.graph, choice.schedule);
  CHECK(made.unit.shape.threads <= 1024);
  CHECK(made.unit.shape.smem_bytes <= arch.smem_per_block_bytes);
  CHECK(made.unit.shape.blocks_per_sm * (made.unit.shape.smem_bytes + arch.smem_reserved_bytes) <=
        arch.smem_per_sm_bytes);
  CHECK(layout.tensor_columns <= kColumns);
  if (layout.tensor_columns > 0) {
    CHECK(std::has_single_bit(static_cast<unsigned>(layout.tensor_columns)));
    CHECK(layout.tensor_columns >= kLeastColumns);
    CHECK(made.unit.shape.blocks_per_sm * layout.tensor_columns <= kColumns);
    for (const codegen::RingPlace& ring : layout.rings) CHECK(ring.column + ring.slot_columns <= layout.tensor_columns);
  }
  check_registers(layout, made, arch);
}

nlohmann::json warmed(const std::vector<std::string>& words) {
  std::ostringstream out, err;
  REQUIRE_MESSAGE(tools::warm(words, out, err, false) == tools::kExitOk, err.str());
  CHECK(err.str() == "");
  return nlohmann::json::parse(out.str());
}

}  // namespace

TEST_CASE("what tj-warm makes by default: no spill, no warning, within the device") {
  const auto compiler = test::nvrtc_or_skip();
  int kernels = 0, same = 0, left_out = 0, place = 0;
  std::map<std::string, std::string> texts;  // of the first arch: what the other has alike is compiled once
  for (const char* name : kArchs) {
    ++place;
    for (const ops::Op* op : ops::all())
      for (const ops::Request& request : op->requests_for({}, *arch::find(name))) {
        const arch::Arch& arch = *arch::find(name);
        if (!tools::serves(*op, request, arch)) continue;
        if (op == &ops::gemm_op() && ops::gemm_kernel(request).dtype != DType::f16)
          continue;  // of bf16: ops/gemm_tensor_compile_test.cpp
        if (const auto first = texts.find(request.name); first != texts.end()) {
          const Choice choice = choose(*op, request, arch);
          if (codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives).text == first->second) {
            ++same;
            continue;
          }
        }
        // Every sixth, and for the second arch others: a compile takes half a second.
        if (!testing::full_run() && place++ % 6 != 1) {
          ++left_out;
          continue;
        }
        const test::DeviceKernel made = test::check_compiles(*compiler, *op, request, arch);
        texts.emplace(request.name, made.unit.text);
        check_fits(*op, request, arch, made);
        ++kernels;
      }
  }
  MESSAGE(kernels, " kernels, ", same, " of another arch's text, ", left_out, " left out");
  CHECK(kernels + left_out >= 30);
  CHECK(5 * kernels + 5 >= left_out);
  CHECK(kernels + same + left_out >= 50);
}

TEST_CASE("the tool makes them for both archs at once, and finds them again") {
  test::nvrtc_or_skip();
  const testing::Scratch folder;
  for (const char* origin : {"compiled", "cached"}) {
    const auto json = warmed({"--op", "fmha", "--dtype", "f16", "--head-dim", "128", "--causal", "true", "--target",
                              "sm_100a,sm_103a", "--cache-dir", folder / "cache", "--json"});
    REQUIRE(json["kernels"].size() == 2);
    for (const auto& kernel : json["kernels"]) CHECK(kernel["origin"] == origin);
  }
}
