// Protects that shipped attention kernels compile for the real arch with NVRTC, without spills and without the compiler
// serialising the matrix instructions. Of a table of head dims and kinds every second place is compiled, like a
// chessboard; with TJ_TEST_FULL all of them.
#include <doctest/doctest.h>

#include <string>

#include "arch/arch.hpp"
#include "codegen/device_kernel.hpp"
#include "codegen/emit.hpp"
#include "compile/compiler.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/tiles.hpp"
#include "pipeline.hpp"
#include "sched/schedule.hpp"
#include "support/full.hpp"

using namespace tj;

TEST_CASE("shipped configurations: no spill, no serialised matrix instruction, registers as the schedule gives") {
  const auto compiler = test::nvrtc_or_skip();
  for (const ops::Request& request : ops::fmha_op().requests({{"general-scale", {"both"}}, {"dtype", {"f16"}}}))
    test::check_compiles(*compiler, ops::fmha_op(), request);
}

TEST_CASE("tiles that calls take by their sizes: no spill, no serialised matrix instruction") {
  const auto compiler = test::nvrtc_or_skip();
  int row = 0;
  for (const int head_dim : {64, 128})
    for (const bool general : {false, true}) {
      int place = row++;
      ops::FmhaKernel kernel;
      kernel.dtype = DType::bf16;
      kernel.head_dim = head_dim;
      kernel.general_scale = general;
      for (const int tile : ops::taken_fmha_tiles(kernel, *arch::find("sm_90a"))) {
        ops::FmhaKernel own = kernel;
        own.tile = tile;
        if (tile != ops::kUsualFmhaTile && !testing::sampled_out(place++))
          test::check_compiles(*compiler, ops::fmha_op(), ops::fmha_request(own));
      }
    }
}

TEST_CASE("one guarded loop in the place of two: no spill, no serialised matrix instruction") {
  const auto compiler = test::nvrtc_or_skip();
  int place = 0;
  for (const int head_dim : {64, 128})
    for (const DType dtype : {DType::f16, DType::bf16}) {
      if (testing::sampled_out(place++)) continue;
      ops::FmhaKernel kernel;
      kernel.dtype = dtype;
      kernel.head_dim = head_dim;
      kernel.causal = true;
      kernel.ranges = ops::RangesChoice::guarded;
      test::check_compiles(*compiler, ops::fmha_op(), ops::fmha_request(kernel));
    }
}

TEST_CASE("windows, softcap, ALiBi and sinks: no spill, no serialised matrix instruction") {
  const auto compiler = test::nvrtc_or_skip();
  int row = 0;
  for (const int head_dim : {64, 128}) {
    int place = row++;
    for (const int features : {1, 2, 4, 15}) {
      if (testing::sampled_out(place++)) continue;
      ops::FmhaKernel kernel;
      kernel.head_dim = head_dim;
      kernel.causal = features != 4;
      kernel.windowed = (features & 1) != 0, kernel.softcap = (features & 2) != 0;
      kernel.alibi = (features & 4) != 0, kernel.sinks = (features & 8) != 0;
      test::check_compiles(*compiler, ops::fmha_op(), ops::fmha_request(kernel));
    }
  }
}

TEST_CASE("other head dims: no spill, no serialised matrix instruction") {
  const auto compiler = test::nvrtc_or_skip();
  struct Dims {
    int head, value;
  };
  int row = 0;
  for (const Dims& dims : {Dims{40, 0}, {96, 0}, {192, 0}, {192, 128}, {256, 0}, {128, 64}, {160, 64}}) {
    int place = row++;
    for (const bool causal : {false, true}) {
      // Kernels in registers, or near their limit where a wider block was serialised, always run.
      const bool fullest = (dims.head == 256 || dims.value == 64) && causal;
      if (testing::sampled_out(place++) && !fullest) continue;
      ops::FmhaKernel kernel;
      kernel.dtype = causal ? DType::bf16 : DType::f16;
      kernel.head_dim = dims.head, kernel.value_dim = dims.value;
      kernel.causal = causal;
      test::check_compiles(*compiler, ops::fmha_op(), ops::fmha_request(kernel));
    }
  }
}

TEST_CASE("three consumers that a full mask lists and does not take: no serialised matrix instruction") {
  const auto compiler = test::nvrtc_or_skip();
  const arch::Arch& arch = *arch::find("sm_90a");
  int place = 0, found = 0;
  for (const int head_dim : {128, 120, 160, 152}) {
    if (testing::sampled_out(place++)) continue;
    ops::FmhaKernel kernel;
    kernel.head_dim = head_dim, kernel.value_dim = 64;
    for (const ops::Candidate& each : ops::fmha_op().candidates(ops::fmha_request(kernel), arch)) {
      if (each.graph.name.find("_3x64x") == std::string::npos) continue;
      CAPTURE(each.graph.name);
      compile::Job job;
      job.name = each.graph.name + ".cu";
      job.text = codegen::emit(each.graph, sched::schedule(each.graph, {}), arch.primitives).text;
      job.arch = arch.name, job.headers = headers_for({&arch, false});
      for (const std::string& definition : each.definitions) job.options.push_back("-D" + definition);
      test::check_clean(*compiler, job);
      ++found;
    }
  }
  CHECK(found == place / (testing::full_run() ? 1 : 2));
}

TEST_CASE("sequences of different lengths, and pages: no spill, no serialised matrix instruction") {
  const auto compiler = test::nvrtc_or_skip();
  int row = 0;
  for (const int head_dim : {64, 128, 96}) {
    int place = row++;
    for (const int kind : {0, 1, 2, 3, 4}) {
      if (head_dim == 96 ? kind != 4 : testing::sampled_out(place++)) continue;
      ops::FmhaKernel kernel;
      kernel.dtype = DType::bf16;
      kernel.head_dim = head_dim;
      kernel.varlen = true;
      kernel.page_size = kind == 4 ? 16 : 0;
      kernel.causal = kind != 0, kernel.windowed = kind == 3;
      if (kind >= 2) kernel.walk = ops::WalkChoice::dynamic;
      test::check_compiles(*compiler, ops::fmha_op(), ops::fmha_request(kernel));
    }
  }
}

TEST_CASE("few queries, and outputs of f32: no spill, no serialised matrix instruction") {
  const auto compiler = test::nvrtc_or_skip();
  int row = 0;
  for (const int head_dim : {64, 128, 256}) {
    int place = row++;
    for (const int features : {0, 1, 2}) {
      if (testing::sampled_out(place++)) continue;
      ops::FmhaKernel kernel;
      kernel.dtype = DType::bf16;
      kernel.head_dim = head_dim;
      kernel.causal = true, kernel.varlen = features != 0, kernel.page_size = features == 2 ? 16 : 0;
      kernel.alibi = kernel.sinks = features == 1;
      kernel.packed = true, kernel.out_f32 = features != 0;
      test::check_compiles(*compiler, ops::fmha_op(), ops::fmha_request(kernel));
    }
  }
}
