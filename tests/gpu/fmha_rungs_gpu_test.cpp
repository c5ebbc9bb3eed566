// Protects attention on warps' matrix instructions and its ladder on a real device, where warps do not run one after
// the other as on the model: each rung against f64, many blocks, few and many iterations, with the copy engine and by
// threads, with all shared memory and under a cap.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include <tilejit/tilejit.hpp>

#include "common/random.hpp"
#include "gpu/gpu_device.hpp"
#include "ops/fmha/problem.hpp"

using namespace tj;
using test::FmhaShape;

TEST_CASE("each rung") {
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  constexpr DType f16 = DType::f16, bf16 = DType::bf16;
  const FmhaShape shapes[] = {{1, 4, 2, 700, 1000, 128, f16, true, false, true},
                              {3, 4, 4, 65, 63, 64, bf16, true, true, true},
                              {1, 8, 8, 129, 2000, 128, bf16, false, false, true},
                              {1, 4, 1, 512, 512, 64, f16, true, false, true}};
  for (const arch::Arch* arch : test::archs_of_gpu("sm80"))
    for (const char* more : {"", "+copies=threads", "+smem-sm=100K"}) {
      Options options;
      options.target = arch->name + more;
      Runtime runtime(options);
      for (int rung = 0; rung <= 6; ++rung)  // the library's own kernel first
        for (const FmhaShape& shape : shapes) {
          test::FmhaProblem problem(shape, seed++);
          problem.rung = rung;
          CAPTURE(*options.target);
          CAPTURE(rung);
          CAPTURE(shape.text());
          problem.run(runtime, test::nvidia_gpu());
          CHECK(problem.problem() == "");
        }
    }
}
