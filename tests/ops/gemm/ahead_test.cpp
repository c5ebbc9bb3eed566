// Protects what is made ahead where no tile is named: what large products take on each arch is among it, whatever their
// order and type; the list of an arch stays short, and begins with the tiles that are usual on every arch.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "ops/gemm/gemm.hpp"

using namespace tj;

namespace {

using Flags = std::map<std::string, std::vector<std::string>>;

std::vector<std::string> names(const std::vector<ops::Request>& requests) {
  std::vector<std::string> list;
  for (const ops::Request& request : requests) list.push_back(request.name);
  return list;
}

/// The kernel of dense squares that a call of these sizes asks for.
std::string taken(GemmConfig config, std::int64_t size, const arch::Arch& arch) {
  config.m = config.n = config.k = size;
  return ops::gemm_request(ops::gemm_kernel(config, arch)).name;
}

void check_ahead(const Flags& flags, const GemmConfig& config, const arch::Arch& arch) {
  const std::vector<std::string> ahead = names(ops::gemm_op().requests_for(flags, arch));
  for (const std::int64_t size : {2048, 4096, 6144, 8192, 12288, 16384}) {
    const std::string name = taken(config, size, arch);
    CHECK_MESSAGE(std::count(ahead.begin(), ahead.end(), name) == 1, arch.name, " ", size, ": ", name);
  }
}

}  // namespace

TEST_CASE("what large products take is made ahead, on archs whose blocks share copies or multiply in pairs, too") {
  for (const char* name : {"sm_90a", "sm_100a", "sm_103a", "sm_120a", "sm_80", "sm_90", "gfx942"}) {
    const arch::Arch& arch = *arch::find(name);
    for (const DType dtype : {DType::f16, DType::bf16}) {
      GemmConfig config;
      config.dtype = config.out = dtype;
      check_ahead({}, config, arch);
    }
    GemmConfig config;
    config.a_transposed = config.b_transposed = true;
    config.out = DType::f32;
    check_ahead({{"a-major", {"m"}}, {"b-major", {"n"}}, {"out", {"f32"}}, {"dtype", {"f16"}}}, config, arch);
  }
  GemmConfig narrow;
  narrow.dtype = DType::e4m3;
  narrow.out = DType::bf16;
  check_ahead({{"dtype", {"e4m3"}}}, narrow, *arch::find("sm_90a"));
}

TEST_CASE("the list of an arch begins with the usual tiles, has each kernel once and stays short") {
  const std::vector<std::string> usual = names(ops::gemm_op().requests({}));
  for (const arch::Arch* arch : arch::all()) {
    CAPTURE(arch->name);
    const std::vector<std::string> list = names(ops::gemm_op().requests_for({}, *arch));
    REQUIRE(list.size() >= usual.size());
    CHECK(std::equal(usual.begin(), usual.end(), list.begin()));
    CHECK(std::set<std::string>(list.begin(), list.end()).size() == list.size());
    CHECK_MESSAGE(list.size() <= 48, list.size());
  }
}

TEST_CASE("each choice that large products take is told once") {
  for (const arch::Arch* arch : arch::all()) {
    CAPTURE(arch->name);
    std::set<int> different;
    const std::vector<ops::GemmChoice> choices = ops::gemm_large_choices(ops::gemm_kernel({}, *arch), *arch);
    for (const ops::GemmChoice& choice : choices) different.insert(choice.number());
    CHECK(different.size() == choices.size());
  }
}

TEST_CASE("a tile that is named is the only one; a rung and parts of K keep theirs") {
  const arch::Arch& arch = *arch::find("sm_100a");
  for (const Flags& flags : {Flags{{"tile", {"128x128x64"}}}, Flags{{"parts", {"true"}}}})
    CHECK(names(ops::gemm_op().requests_for(flags, arch)) == names(ops::gemm_op().requests(flags)));
  CHECK(ops::gemm_op().requests_for({{"rung", {"v4"}}, {"dtype", {"f16"}}}, arch).size() == 1);
}

TEST_CASE("an arch that serves no product is no reason to fail before its tiles are refused by name") {
  arch::Arch small = *arch::find("sm_120a");
  small.smem_per_block_bytes = small.smem_per_sm_bytes = 1024;
  CHECK(names(ops::gemm_op().requests_for({}, small)) == names(ops::gemm_op().requests({})));
  CHECK(ops::gemm_op().requests_for({{"dtype", {"e4m3"}}}, *arch::find("sm_100a")).size() ==
        ops::gemm_op().requests({{"dtype", {"e4m3"}}}).size());
}
