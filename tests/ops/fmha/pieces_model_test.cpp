// Protects attention whose exponentials and products with values are nodes by pieces of the keys. On the CPU model it
// is right against f64 and gives the bits of the kernel without pieces, in the schedule's order and in another legal
// one. Archs whose families have no such kernels refuse them, and so do rungs.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "arch/options.hpp"
#include "codegen/emitted_kernel.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/pieces.hpp"
#include "ops/fmha/problem.hpp"
#include "support/expect.hpp"

using namespace tj;
using test::FmhaShape;

namespace {

ops::FmhaKernel kernel_of(const FmhaShape& shape, int pieces) {
  ops::FmhaKernel kernel;
  kernel.dtype = shape.dtype;
  kernel.head_dim = shape.head_dim;
  kernel.causal = shape.causal;
  kernel.pieces = pieces;
  return kernel;
}

/// The bits of the output. The result must be right.
std::vector<std::uint16_t> run(const arch::Arch& arch, const Choice& choice, const FmhaShape& shape) {
  test::EmittedKernel kernel(choice.candidate.graph, choice.schedule, arch);
  std::vector<std::uint16_t> bits;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    test::FmhaProblem problem(shape, 60);
    ops::LaunchPlan plan;
    ops::fmha_plan(problem.args, choice.candidate.geometry.as<ops::FmhaLaunch>(), plan);
    CHECK(kernel.launch(plan, plan.blocks, seed, {}) == "");
    CHECK(problem.problem() == "");
    const Tensor& o = problem.args.o;
    const auto* const data = static_cast<const std::uint16_t*>(o.data);
    bits.clear();
    for (std::int64_t h = 0; h < o.shape[1]; ++h)
      for (std::int64_t row = 0; row < o.shape[2]; ++row)
        for (std::int64_t column = 0; column < o.shape[3]; ++column)
          bits.push_back(data[h * o.strides[1] + row * o.strides[2] + column * o.strides[3]]);
  }
  return bits;
}

}  // namespace

TEST_CASE("pieces of 16 and of 32 keys, in two orders: right, and the bits of a kernel without pieces") {
  // Copies by threads and by the engine; fewer keys than a block, and blocks whose last piece is a short one.
  const FmhaShape shapes[] = {{1, 2, 1, 130, 200, 64, DType::f16, true},
                              {1, 1, 1, 65, 170, 128, DType::bf16, false},
                              {1, 1, 1, 40, 30, 64, DType::f16, false}};
  int place = 0;
  for (const char* target : {"sm_80", "sm_120a"})
    for (const FmhaShape& shape : shapes) {
      const arch::Arch& arch = arch::parse_arch(target);
      const int pieces = place++ % 2 == 0 ? 16 : 32;
      CAPTURE(target);
      CAPTURE(shape.text());
      CAPTURE(pieces);
      const auto whole = run(arch, test::choice_of(kernel_of(shape, 0), arch), shape);
      const Choice choice = test::choice_of(kernel_of(shape, pieces), arch);
      CHECK(run(arch, choice, shape) == whole);
      const Choice moved = test::all_weights_first(choice);
      CHECK(test::order_of_pieces(moved) != test::order_of_pieces(choice));
      CHECK(run(arch, moved, shape) == whole);
    }
}

TEST_CASE("an iteration's units are held as long by pieces as by one body, and each piece has its two nodes") {
  for (const char* target : {"sm_80", "sm_86", "sm_90", "sm_120a"})
    for (const int head_dim : {64, 128})
      for (const int pieces : {16, 32}) {
        CAPTURE(target);
        CAPTURE(head_dim);
        CAPTURE(pieces);
        FmhaShape shape;
        shape.head_dim = head_dim;
        const arch::Arch& arch = arch::parse_arch(target);
        const Choice whole = test::choice_of(kernel_of(shape, 0), arch),
                     choice = test::choice_of(kernel_of(shape, pieces), arch);
        CHECK(choice.schedule.ii == whole.schedule.ii);
        CHECK(choice.schedule.proven_ii);
        const int keys = choice.candidate.geometry.as<ops::FmhaLaunch>().block_n;
        CHECK(static_cast<int>(test::order_of_pieces(choice).size()) == 2 * ((keys + pieces - 1) / pieces));
      }
}

TEST_CASE("pieces are refused by families without them, and with a rung") {
  ops::FmhaKernel kernel;
  kernel.pieces = 16;
  for (const char* target : {"sm_90a", "sm_100a", "gfx1100"}) {
    const Error error = testing::error_of([&] { ops::fmha_candidates(kernel, *arch::find(target)); });
    CHECK(error.code == Code::unsupported);
    CHECK(testing::has(error.message, std::string("fmha: pieces is 16; allowed on ") + target + ": none"));
  }
  kernel.rung = 4;
  const Error error = testing::error_of([&] { ops::fmha_candidates(kernel, *arch::find("sm_80")); });
  CHECK(testing::has(error.message, "fmha: pieces is 16; allowed on sm_80 with a rung: none"));
}
