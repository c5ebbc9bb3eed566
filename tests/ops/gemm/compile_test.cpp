// Protects that gemm kernels compile for the real arch with NVRTC, without spills and without the compiler serialising
// the matrix instructions: every tile, every order of the operands, every kind of output and epilogue.
#include <doctest/doctest.h>

#include "codegen/device_kernel.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "support/full.hpp"

using namespace tj;

namespace {

void check(compile::Compiler& compiler, const ops::Request& request) {
  test::DeviceKernel kernel = test::check_compiles(compiler, ops::gemm_op(), request);
  if (request.name == "gemm_f16_kk_64x32x128") {  // definitions leave out what is not used, nothing else
    REQUIRE(!kernel.job.options.empty());
    kernel.job.options.clear();
    CHECK(compiler.compile(kernel.job).bytes == kernel.binary.bytes);
  }
}

/// The first of a list's requests and some of the others: of a long list every fifth, by which each value of each flag
/// has its turn, as no flag has five; of a short one every second.
std::vector<ops::Request> some_of(const std::vector<ops::Request>& all) {
  std::vector<ops::Request> some;
  int index = 0;
  for (const ops::Request& request : all)
    if (!testing::sampled_out(index++, all.size() > 8 ? 5 : 2)) some.push_back(request);
  return some;
}

}  // namespace

TEST_CASE("no spill, no serialised matrix instruction, registers as the schedule gives") {
  const auto compiler = test::nvrtc_or_skip();
  using Flags = std::map<std::string, std::vector<std::string>>;
  const Flags sets[] = {
      {{"dtype", {"f16"}}},
      {{"dtype", {"f16"}},
       {"tile", {"16x32x128", "16x64x128", "128x256x64c2x1", "128x256x64c1x2", "128x64x64c1x2", "128x64x64c2x2"}}},
      {{"dtype", {"f16"}},
       {"tile",
        {"192x160x64", "192x160x64c2x1", "192x128x64c1x2", "192x96x64", "128x224x64c2x1", "128x160x64", "64x224x64"}}},
      {{"dtype", {"bf16"}},
       {"tile", {"192x160x64", "128x224x64", "64x192x64"}},
       {"add-c", {"true"}},
       {"bias", {"true"}},
       {"activation", {"gelu"}},
       {"out", {"same", "f32"}}},
      {{"dtype", {"bf16"}},
       {"tile",
        {"128x128x64", "128x256x64c2x1", "192x160x64", "64x192x64", "72x64x128s", "160x256x64s", "208x128x64s",
         "112x64x128c1x1x2s"}},
       {"add-c", {"true"}},
       {"bias", {"true"}},
       {"out", {"same", "f32"}},
       {"end-text", {"return value > 0.0f ? value * params.f32(column) + params.f32(row) : 0.0f;"}}},
      {{"dtype", {"e4m3"}},
       {"tile", {"128x256x128"}},
       {"out", {"bf16", "e4m3"}},
       {"scales", {"block"}},
       {"end-text", {"return value > 0.0f ? value * params.f32(column) + params.f32(row) : 0.0f;"}}},
      {{"dtype", {"f16"}}, {"tile", {"16x40x128", "64x24x128", "64x80x64"}}},
      {{"dtype", {"f16"}},
       {"tile",
        {"16x64x128s", "72x64x128c2x1s", "112x192x64s", "192x128x64c1x4s", "176x128x64c1x2s", "240x64x64c2x1s"}}},
      {{"dtype", {"f16"}},
       {"tile", {"160x256x64s", "208x128x64s", "240x64x64s"}},
       {"add-c", {"true"}},
       {"bias", {"true"}},
       {"activation", {"gelu"}}},
      {{"dtype", {"f16"}}, {"tile", {"136x256x64c2x1s", "128x168x64"}}, {"add-c", {"true"}}, {"out", {"f32"}}},
      {{"dtype", {"bf16"}}, {"tile", {"32x64x128sr"}}, {"bias", {"true"}}, {"out", {"same", "f32"}}},
      {{"dtype", {"bf16"}},
       {"tile", {"64x64x128sr", "64x64x128c1x2sr"}},
       {"add-c", {"true"}},
       {"bias", {"true"}},
       {"activation", {"gelu"}},
       {"out", {"same", "f32"}}},
      {{"dtype", {"f16"}}, {"tile", {"96x64x128c1x2sr"}}, {"out", {"f32"}}, {"parts", {"both"}}},
      {{"dtype", {"bf16"}}, {"tile", {"96x64x128c1x2sr"}}, {"bias", {"true"}}, {"activation", {"gelu"}}},
      {{"dtype", {"f16"}}, {"tile", {"16x64x128c1x1x4s", "112x64x128c1x1x2s", "64x64x128c1x1x4"}}},
      {{"dtype", {"bf16"}}, {"tile", {"112x64x128c1x1x2s", "64x64x128c1x1x2"}}, {"bias", {"true"}}, {"out", {"f32"}}},
      {{"dtype", {"f16"}}, {"tile", {"104x128x64c2x1x2s", "40x64x128c2x1x2s", "136x128x64c2x1s"}}},
      {{"dtype", {"bf16"}},
       {"tile", {"128x128x64c2x1x2s"}},
       {"add-c", {"true"}},
       {"bias", {"true"}},
       {"activation", {"gelu"}},
       {"out", {"same", "f32"}}},
      {{"dtype", {"bf16"}},
       {"tile", {"112x192x64s", "96x192x64s", "24x128x64s"}},
       {"add-c", {"true"}},
       {"bias", {"true"}},
       {"activation", {"gelu"}},
       {"out", {"same", "f32"}}},
      {{"dtype", {"f16"}}, {"tile", {"104x128x64s", "88x64x128s"}}, {"out", {"f32"}}, {"parts", {"both"}}},
      {{"dtype", {"bf16"}}, {"tile", {"192x128x64s"}}, {"bias", {"true"}}},
      {{"dtype", {"f16"}}, {"tile", {"120x128x64s"}}, {"d-aligned", {"false"}}},
      {{"dtype", {"f16"}}, {"tile", {"64x64x128c1x2s"}}, {"a-major", {"m"}}, {"b-major", {"n"}}},
      {{"dtype", {"bf16"}},
       {"tile", {"64x40x128", "192x128x64"}},
       {"add-c", {"true"}},
       {"bias", {"true"}},
       {"activation", {"gelu"}}},
      {{"dtype", {"f16"}}, {"d-aligned", {"false"}}, {"tile", {"16x40x128"}}},
      {{"dtype", {"f16"}}, {"d-aligned", {"false"}}, {"tile", {"192x64x64", "192x128x64", "64x192x64"}}},
      {{"dtype", {"bf16"}}, {"tile", {"128x192x64c2x1"}}, {"b-major", {"n"}}},
      {{"dtype", {"bf16"}}, {"tile", {"128x256x64"}}, {"a-major", {"m"}}},
      {{"dtype", {"f16"}},
       {"tile", {"128x256x64"}},
       {"a-major", {"m"}},
       {"b-major", {"n"}},
       {"add-c", {"true"}},
       {"bias", {"true"}},
       {"activation", {"gelu"}}},
      {{"dtype", {"bf16"}},
       {"tile", {"128x256x64"}},
       {"add-c", {"true"}},
       {"bias", {"true"}},
       {"activation", {"silu"}},
       {"out", {"f32"}}},
      {{"dtype", {"f16"}},
       {"d-aligned", {"false"}},
       {"tile", {"128x256x64", "128x192x64c2x1", "128x128x64", "128x64x64", "16x64x128"}}},
      {{"dtype", {"bf16"}},
       {"d-aligned", {"false"}},
       {"tile", {"128x128x64c2x1"}},
       {"out", {"f16"}},
       {"b-major", {"n"}},
       {"activation", {"relu"}}},
      {{"dtype", {"e4m3"}},
       {"d-aligned", {"false"}},
       {"out", {"bf16"}},
       {"bias", {"true"}},
       {"tile", {"128x192x128", "128x128x128", "128x64x256"}}},
      {{"dtype", {"e4m3"}}},
      {{"dtype", {"e4m3"}}, {"tile", {"16x32x256", "16x64x256"}}, {"out", {"f32"}}},
      {{"dtype", {"e4m3"}},
       {"tile", {"128x192x128", "128x128x128"}},
       {"add-c", {"true"}},
       {"bias", {"true"}},
       {"activation", {"gelu"}},
       {"out", {"f16"}}},
      {{"dtype", {"bf16"}},
       {"gate", {"silu"}},
       {"tile",
        {"128x256x64", "128x256x64c2x1", "128x192x64c1x2", "192x128x64", "128x224x64", "64x256x64", "16x32x128"}}},
      {{"dtype", {"f16"}},
       {"gate", {"gelu"}},
       {"bias", {"true"}},
       {"tile", {"128x256x64", "192x160x64", "64x192x64", "128x176x64"}},
       {"out", {"same", "f32"}}},
      {{"dtype", {"e4m3"}},
       {"gate", {"silu"}},
       {"scales", {"tensor", "block", "row"}},
       {"scale-a-major", {"m", "k"}},
       {"out", {"bf16"}},
       {"tile",
        {"128x192x128", "128x128x128", "128x128x128c2x1", "128x64x256", "64x192x128", "128x160x128", "16x64x256"}}},
      {{"dtype", {"e4m3"}}, {"gate", {"gelu_tanh"}}, {"bias", {"true"}}, {"tile", {"128x192x128"}}, {"out", {"f32"}}},
  };
  for (const Flags& flags : sets)
    for (const ops::Request& request : some_of(ops::gemm_op().requests(flags))) check(*compiler, request);
}

TEST_CASE("a gate of the widest tiles in clusters with a bias: their writers leave consumers fewer registers") {
  const auto compiler = test::nvrtc_or_skip();
  for (const ops::Request& request : ops::gemm_op().requests(
           {{"dtype", {"f16"}}, {"gate", {"gelu"}}, {"bias", {"true"}}, {"tile", {"128x256x64c2x1"}}}))
    check(*compiler, request);
  for (const ops::Request& request : ops::grouped_gemm_op().requests({{"dtype", {"bf16"}},
                                                                      {"groups", {"counts"}},
                                                                      {"gate", {"silu"}},
                                                                      {"bias", {"true"}},
                                                                      {"tile", {"128x256x64c2x1"}}}))
    test::check_compiles(*compiler, ops::grouped_gemm_op(), request);
}

TEST_CASE("products that quantise, and e4m3 whose halves take turns") {
  const auto compiler = test::nvrtc_or_skip();
  using Flags = std::map<std::string, std::vector<std::string>>;
  const Flags sets[] = {
      {{"dtype", {"e4m3"}},
       {"out", {"e4m3"}},
       {"gate", {"silu", "none"}},
       {"scales", {"tensor", "block"}},
       {"tile", {"128x256x128", "128x256x128c1x2", "64x256x128"}}},
      {{"dtype", {"e4m3"}},
       {"out", {"bf16"}},
       {"gate", {"silu"}},
       {"scales", {"block"}},
       {"tile", {"128x256x128c2x1"}}},
      {{"dtype", {"e4m3"}}, {"out", {"e4m3"}}, {"bias", {"true"}}, {"tile", {"128x128x128", "64x128x128"}}},
      {{"dtype", {"bf16"}},
       {"out", {"e4m3"}},
       {"gate", {"gelu"}},
       {"bias", {"true"}},
       {"tile", {"128x256x64", "64x256x64"}}},
      {{"dtype", {"f16"}}, {"out", {"e4m3"}}, {"activation", {"gelu"}}, {"tile", {"192x128x64", "128x128x64c2x2"}}},
  };
  for (const Flags& flags : sets)
    for (const ops::Request& request : some_of(ops::gemm_op().requests(flags))) check(*compiler, request);
  for (const ops::Request& request :
       some_of(ops::grouped_gemm_op().requests({{"dtype", {"e4m3"}},
                                                {"groups", {"ends", "counts"}},
                                                {"out", {"e4m3"}},
                                                {"gate", {"silu"}},
                                                {"scales", {"block"}},
                                                {"tile", {"128x256x128", "64x256x128"}}})))
    test::check_compiles(*compiler, ops::grouped_gemm_op(), request);
}

TEST_CASE("products of groups with a gate, with an addend, along K, and with exponents for scales") {
  const auto compiler = test::nvrtc_or_skip();
  using Flags = std::map<std::string, std::vector<std::string>>;
  const Flags sets[] = {
      {{"dtype", {"bf16"}}, {"gate", {"silu"}}, {"tile", {"128x256x64", "64x256x64", "128x192x64c1x2"}}},
      {{"dtype", {"bf16"}}, {"add-c", {"true"}}, {"bias", {"true"}}, {"tile", {"128x256x64", "64x128x64"}}},
      {{"dtype", {"e4m3"}},
       {"gate", {"silu"}},
       {"scales", {"block", "row"}},
       {"out", {"bf16"}},
       {"tile", {"128x192x128", "128x128x128", "64x128x128"}}},
      {{"dtype", {"bf16"}},
       {"groups", {"depths"}},
       {"out", {"f32", "same"}},
       {"add-c", {"true"}},
       {"tile", {"128x256x64", "128x128x64", "64x256x64"}}},
      {{"dtype", {"e4m3"}},
       {"groups", {"depths"}},
       {"out", {"f32"}},
       {"scales", {"block", "row"}},
       {"add-c", {"true"}},
       {"tile", {"128x192x128", "128x128x128"}}},
      {{"dtype", {"e4m3"}},
       {"groups", {"ends"}},
       {"scales", {"block", "row"}},
       {"scale-type", {"ue8m0"}},
       {"scale-a-major", {"m", "k"}},
       {"out", {"bf16"}},
       {"tile", {"128x192x128", "128x64x256"}}},
  };
  for (const Flags& flags : sets)
    for (const ops::Request& request : some_of(ops::grouped_gemm_op().requests(flags)))
      test::check_compiles(*compiler, ops::grouped_gemm_op(), request);
}
