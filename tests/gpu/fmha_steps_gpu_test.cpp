// Protects attention's ladder on a real device, where warps do not run one after the other as on the model: each step against f64, many
// blocks, few and many iterations, with the copy engine and by threads, with all shared memory and under a cap.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "gpu/gpu_device.hpp"
#include "ops/fmha_problem.hpp"

using namespace tj;
using test::FmhaShape;

TEST_CASE("each step, several times") {
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  constexpr DType f16 = DType::f16, bf16 = DType::bf16;
  const FmhaShape shapes[] = {{2, 8, 2, 700, 1000, 128, f16, true, false, true}, {3, 4, 4, 65, 63, 64, bf16, true, true, true}, {4, 16, 16, 129, 2000, 128, bf16, false, false, true},
                              {1, 16, 4, 1024, 1024, 64, f16, true, false, true}};
  for (const arch::Arch* arch : test::archs_of_gpu("sm80"))
    for (const char* more : {"", "+copies=threads", "+smem=99K"}) {
      Options options;
      options.target = arch->name + more;
      Runtime runtime(options);
      for (int step = 1; step <= 6; ++step)
        for (const FmhaShape& shape : shapes)
          for (int repetition = 0; repetition < 2; ++repetition) {
            test::FmhaProblem problem(shape, seed++);
            problem.args.step = step;
            CAPTURE(*options.target);
            CAPTURE(step);
            CAPTURE(shape.text());
            problem.run(runtime, test::gpu());
            CHECK(problem.problem() == "");
          }
    }
}
