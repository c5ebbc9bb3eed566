// Protects that tensor memory serves what warpgroups' instructions do: every form of every kernel, but for those that
// are named here, which say what is allowed.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/op.hpp"
#include "support/expect.hpp"

using namespace tj;

namespace {

using Flags = std::map<std::string, std::vector<std::string>>;

/// Why an arch refuses it; "" where it does not.
std::string refusal(const ops::Op& op, const ops::Request& request, const char* arch) {
  try {
    return op.candidates(request, *arch::find(arch)).empty() ? "no candidate" : "";
  } catch (const Error& e) {
    return e.message;
  }
}

/// The reasons of sm_100a and sm_103a for refusing forms that sm_90a takes, up to the list of what is allowed.
std::set<std::string> refused(const char* name, const Flags& flags) {
  const ops::Op& op = *ops::find(name);
  std::set<std::string> reasons;
  int taken = 0;
  for (const ops::Request& request : op.requests(flags)) {
    if (!refusal(op, request, "sm_90a").empty()) continue;
    ++taken;
    for (const char* arch : {"sm_100a", "sm_103a"}) {
      const std::string reason = refusal(op, request, arch);
      if (reason.empty()) continue;
      CHECK_MESSAGE(testing::has(reason, "allowed on " + std::string(arch) + ": "), reason);
      reasons.insert(reason.substr(0, reason.find("; allowed")));
    }
  }
  CHECK(taken > 0);
  return reasons;
}

using Reasons = std::set<std::string>;

}  // namespace

TEST_CASE("attention: every type, head dim, mask and scale") {
  CHECK(
      refused(
          "fmha",
          {{"dtype", {"f16", "bf16"}}, {"head-dim", {"64", "128"}}, {"causal", {"both"}}, {"general-scale", {"both"}}})
          .empty());
}

TEST_CASE("chunk output: every ratio and form; items of three heads, which nobody has to ask for, are Hopper's") {
  const Flags forms = {
      {"gated", {"both"}}, {"variable", {"both"}}, {"h-transposed", {"both"}}, {"head-ratio", {"1", "2", "3", "6"}}};
  CHECK(refused("chunk_o", forms).empty());
  Flags items = forms;
  items["item-heads"] = {"1", "2", "3"};
  CHECK(refused("chunk_o", items) == Reasons{"--item-heads is '3'"});
}

TEST_CASE(
    "products: every rung, order, output and end of rows, by every tile but those of 16 and 192 rows, and of columns "
    "that are neither 32 nor a multiple of 64, and but swapped ones; e4m3 is Hopper's") {
  CHECK(refused("gemm", {{"dtype", {"f16", "bf16"}},
                         {"rung", {"v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10"}},
                         {"a-major", {"k", "m"}},
                         {"b-major", {"k", "n"}}})
            .empty());
  Flags tiles = {{"dtype", {"f16"}},      {"a-major", {"k", "m"}}, {"b-major", {"k", "n"}},
                 {"out", {"f16", "f32"}}, {"d-aligned", {"both"}}, {"parts", {"both"}}};
  Reasons others;
  for (const ops::GemmTile& tile : ops::gemm_tiles()) {
    if (tile.element_bytes != 2) continue;
    tiles["tile"].push_back(ops::gemm_tile_name(tile));
    if (tile.swapped || tile.sliced() || tile.block_m == 16 || tile.block_m == 192 ||
        (tile.block_n != 32 && tile.block_n % 64 != 0))
      others.insert("gemm: tile is " + ops::gemm_tile_name(tile));
  }
  CHECK(refused("gemm", tiles) == others);
  CHECK(refused("gemm", {{"dtype", {"bf16"}},
                         {"tile", {"128x128x64"}},
                         {"bias", {"both"}},
                         {"add-c", {"both"}},
                         {"activation", {"none", "relu", "gelu", "silu", "gelu_tanh"}}})
            .empty());
  CHECK(refused("gemm", {{"dtype", {"e4m3"}}, {"tile", {"128x128x128"}}}) == Reasons{"gemm: a.dtype is e4m3"});
}

TEST_CASE("what goes before and after: sums of parts, copies of rows, the list of chunks") {
  CHECK(refused("sum_parts", {{"out", {"f16", "bf16", "f32"}}}).empty());
  CHECK(refused("copy_rows", {}).empty());
  CHECK(refused("chunk_indices", {}).empty());
}
