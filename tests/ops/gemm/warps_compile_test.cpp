// Protects that matrix products on products of warps compile for every arch of the family with NVRTC, without spills,
// within the registers of the blocks that share an SM: every tile, order, kind of output and epilogue on one arch or
// another; so do the ops beside them that are alike on every family.
#include <doctest/doctest.h>

#include "codegen/device_kernel.hpp"
#include "ops/chunk_indices/chunk_indices.hpp"
#include "ops/copy_rows/copy_rows.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/sum_parts/sum_parts.hpp"
#include "support/full.hpp"

using namespace tj;

TEST_CASE("no spill, registers for the blocks of an SM") {
  const auto compiler = test::nvrtc_or_skip();
  using Flags = std::map<std::string, std::vector<std::string>>;
  const struct {
    const char* arch;
    Flags flags;
  } sets[] = {
      {"sm_80", {{"dtype", {"f16"}}, {"tile", {"128x256x64", "64x128x64"}}}},
      {"sm_80",
       {{"dtype", {"bf16"}},
        {"tile", {"128x128x64"}},
        {"a-major", {"m"}},
        {"add-c", {"true"}},
        {"bias", {"true"}},
        {"activation", {"gelu"}}}},
      {"sm_86",
       {{"dtype", {"f16"}},
        {"tile", {"128x128x64", "128x128x32"}},
        {"b-major", {"n"}},
        {"out", {"f32"}},
        {"d-aligned", {"false"}}}},
      {"sm_89", {{"dtype", {"f16"}}, {"tile", {"64x64x128"}}, {"a-major", {"m"}}, {"b-major", {"n"}}}},
      {"sm_90", {{"dtype", {"bf16"}}, {"tile", {"128x192x64", "64x256x64"}}}},
      {"sm_80",
       {{"dtype", {"bf16"}},
        {"tile", {"128x128x64", "64x64x128"}},
        {"add-c", {"true"}},
        {"bias", {"true"}},
        {"end-text", {"return value > 0.0f ? value * params.f32(column) + params.f32(row) : 0.0f;"}}}},
      {"sm_90",
       {{"dtype", {"f16"}},
        {"tile", {"128x128x64"}},
        {"a-major", {"m"}},
        {"b-major", {"n"}},
        {"add-c", {"true"}},
        {"bias", {"true"}},
        {"activation", {"silu"}}}},
      {"sm_120a",
       {{"dtype", {"f16"}},
        {"tile", {"128x256x64"}},
        {"b-major", {"n"}},
        {"add-c", {"true"}},
        {"bias", {"true"}},
        {"activation", {"gelu"}}}},
      {"sm_120a", {{"dtype", {"f16"}}, {"tile", {"64x32x128", "16x64x128"}}}},
      {"sm_121a", {{"dtype", {"bf16"}}, {"tile", {"128x64x64"}}, {"parts", {"true"}}}},
      {"sm_120a", {{"dtype", {"f16"}}, {"tile", {"128x128x32"}}}},
      {"sm_100", {{"dtype", {"f16"}}, {"tile", {"128x128x64", "256x192x32"}}}},
      {"sm_90", {{"dtype", {"f16"}}, {"tile", {"256x192x32"}}, {"out", {"f32"}}}},
      {"sm_120a", {{"dtype", {"bf16"}}, {"tile", {"256x192x32"}}, {"bias", {"true"}}}},
      {"sm_89", {{"dtype", {"e4m3"}}, {"tile", {"128x128x128", "64x128x128"}}, {"scales", {"tensor", "block"}}}},
      {"sm_89",
       {{"dtype", {"e4m3"}},
        {"tile", {"64x128x128"}},
        {"scales", {"block", "row"}},
        {"scale-type", {"f32", "ue8m0"}},
        {"add-c", {"true"}},
        {"bias", {"true"}},
        {"activation", {"gelu"}}}},
      {"sm_120a",
       {{"dtype", {"e4m3"}},
        {"tile", {"128x128x128", "64x128x128"}},
        {"scales", {"tensor", "block"}},
        {"out", {"f32", "bf16"}},
        {"add-c", {"true"}},
        {"bias", {"true"}}}},
      {"sm_120a",
       {{"dtype", {"e4m3"}},
        {"tile", {"64x128x128"}},
        {"scales", {"row"}},
        {"add-c", {"true", "false"}},
        {"bias", {"true"}}}},
      {"sm_121a", {{"dtype", {"e4m3"}}, {"tile", {"64x128x128"}}, {"scales", {"block"}}, {"parts", {"true"}}}},
  };
  int index = 0;
  for (const auto& [arch, flags] : sets)
    for (const ops::Request& request : ops::gemm_op().requests(flags))
      if (!testing::sampled_out(index++)) test::check_compiles(*compiler, ops::gemm_op(), request, *arch::find(arch));
  test::check_compiles(*compiler, ops::copy_rows_op(), ops::copy_rows_op().requests({}).front(), *arch::find("sm_86"));
  test::check_compiles(*compiler, ops::chunk_indices_op(), ops::chunk_indices_op().requests({}).front(),
                       *arch::find("sm_89"));
  test::check_compiles(*compiler, ops::sum_parts_op(), ops::sum_parts_op().requests({}).front(),
                       *arch::find("sm_120a"));
  const Flags text{{"end-text", {"return value > 0.0f ? value * params.f32(column) + params.f32(row) : 0.0f;"}}};
  test::check_compiles(*compiler, ops::sum_parts_op(), ops::sum_parts_op().requests(text).front(),
                       *arch::find("sm_80"));
}
