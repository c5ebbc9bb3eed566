// Protects that matrix products in tensor memory bring what they bring on warpgroups' instructions: every list of
// problems of those tests, whose sizes they share (gemm_lists.hpp); on sm_103a, which is served by the same texts, that
// they are the same.
#include <doctest/doctest.h>

#include <string>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/lists.hpp"
#include "pipeline.hpp"

using namespace tj;

namespace {

constexpr const char* kArch = "sm_100a";

std::string text_for(const ops::Request& request, const char* arch_name) {
  const arch::Arch& arch = *arch::find(arch_name);
  const Choice choice = choose(ops::gemm_op(), request, arch);
  std::string text = codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives).text;
  for (std::size_t at = text.find(arch_name); at != std::string::npos; at = text.find(arch_name))
    text.replace(at, std::string(arch_name).size(), "the arch");
  return text;
}

}  // namespace

TEST_CASE("sizes at the edges of tiles and of K") { test::check_gemm_sizes(kArch); }

TEST_CASE("those in every order of the operands and both types") { test::check_gemm_orders(kArch); }

TEST_CASE("every type of d with every activation, in batches and in place") { test::check_gemm_epilogues(kArch); }

TEST_CASE("operands that begin anywhere, in every order: their rows are copied first") {
  test::check_gemm_places(kArch);
}

TEST_CASE("batches: strided, with one b for all, in place") { test::check_gemm_strides(kArch); }

TEST_CASE("alpha 0 reads neither a nor b, beta 0 not c") { test::check_gemm_unread(kArch); }

TEST_CASE("a NaN in a row of a makes that row NaN and no other") { test::check_gemm_nan(kArch); }

TEST_CASE("random sizes, strides and scalars") { test::check_random_gemm(kArch); }

TEST_CASE("clusters of two blocks, pairs among them: odd numbers of tiles, batches, no iteration") {
  test::check_gemm_clusters(kArch);
}

TEST_CASE("parts of K: sizes, forms, tiles, places, bits, NaN, random problems") {
  test::check_gemm_part_sizes(kArch);
  test::check_gemm_part_forms(kArch);
  test::check_gemm_part_tiles(kArch);
  test::check_gemm_part_places(kArch);
  test::check_gemm_part_bits(kArch);
  test::check_gemm_part_nan(kArch);
  test::check_random_gemm_parts(kArch);
}

TEST_CASE("twice the special functions change no text of a product") {
  for (const ops::Request& request : ops::gemm_op().requests(
           {{"dtype", {"f16"}}, {"tile", {"128x256x64", "128x128x64", "256x128x64", "64x64x128"}}})) {
    CAPTURE(request.name);
    CHECK(text_for(request, "sm_103a") == text_for(request, kArch));
  }
}
