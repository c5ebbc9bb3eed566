// Protects kernels by flags and by name: flags make the kernels that tj-warm would, sizes of a product those that it
// needs; what is wrong is refused by flag, value and what is allowed; ladders go by name, too.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <tilejit/ladder.hpp>
#include <tilejit/tilejit.hpp>

#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::KernelReport;
using tj::Runtime;

constexpr tj::Device kGpu{tj::DeviceKind::cuda, 0};

std::vector<std::string> names_of(const std::vector<KernelReport>& reports) {
  std::vector<std::string> names;
  std::transform(reports.begin(), reports.end(), std::back_inserter(names),
                 [](const KernelReport& report) { return report.name; });
  return names;
}

TEST_CASE("flags make every kernel that they name, ready for calls") {
  Machine machine;
  Runtime runtime(machine.options());
  CHECK(names_of(runtime.prepare_flags("fmha", " --dtype f16  --head-dim=64,128 --causal\t", kGpu)) ==
        std::vector<std::string>{"fmha_f16_d64_causal_dynamic", "fmha_f16_d64_causal", "fmha_f16_d128_causal_dynamic",
                                 "fmha_f16_d128_causal"});  // for many tiles, and for few
  const int compiles = machine.nvrtc.compiles();
  CHECK(compiles == 4);
  machine.cuda.set_param_bytes(0);  // kernels of several kinds
  for (const std::int64_t queries : {100, 4000}) runtime.run(attention({4, 32, 8, queries, 4000, 128}, true));
  CHECK(machine.nvrtc.compiles() == compiles);
  CHECK(runtime.prepare_flags("fmha", "", kGpu).size() ==
        16);  // both types, both head dims; full with either tile, causal with few tiles and with many
}

TEST_CASE("sizes of a product make what products of these sizes need, the product's kernel last") {
  Machine machine;
  Runtime runtime(machine.options());
  const auto prepared = [&](const char* flags) { return names_of(runtime.prepare_flags("gemm", flags, kGpu)); };
  CHECK(prepared("--dtype f16 --m 512 --n 512 --k 512").size() == 1);
  const std::vector<std::string> copied = prepared("--dtype f16 --m 2048 --n 2048 --k 2047");
  REQUIRE(copied.size() == 2);
  CHECK(copied.front() == "copy_rows");
  CHECK(prepared("--dtype f16 --m 8 --n 16384 --k 1023").size() == 1);  // its threads read rows as they lie
  const std::vector<std::string> in_parts = prepared("--dtype f16 --sizes 64x64x16384");
  REQUIRE(in_parts.size() == 2);
  CHECK(in_parts.front() == "sum_parts_f16");

  tj::GemmConfig all;  // each flag is one field of the configuration
  all.m = 512, all.n = 768, all.k = 1024, all.batch = 3;
  all.dtype = tj::DType::bf16, all.out = tj::DType::f32;
  all.a_transposed = all.b_transposed = all.bias = all.add_c = true;
  all.activation = tj::Activation::gelu;
  CHECK(prepared(
            "--dtype bf16 --out f32 --a-major m --b-major n --bias true --add-c true --activation gelu --m 512 --n 768 "
            "--k 1024 --batch 3") == std::vector<std::string>{runtime.prepare(all, kGpu).name});

  tj::GemmConfig config;
  config.m = config.n = 64;
  config.k = 16384;
  CHECK(runtime.prepare(config, kGpu).name == in_parts.back());
  CHECK(names_of(runtime.warm_flags("gemm", "--dtype f16 --sizes 64x64x16384", "sm_90a")) == in_parts);
}

TEST_CASE("a mistake in flags is refused by flag, value and what is allowed") {
  Machine machine;
  Runtime runtime(machine.options());
  const auto refusal = [&](const char* op, const char* flags) {
    return error_of([&] { runtime.prepare_flags(op, flags, kGpu); }).message;
  };
  CHECK(has(refusal("fmha", "--head-dim 84"), "--head-dim is '84'; allowed are 64, 128"));
  CHECK(has(refusal("fmha", "--headdim 64"), "did you mean --head-dim?"));
  CHECK(has(refusal("fmha", "f16"), "'f16' is not understood"));
  CHECK(has(refusal("fmha", "--dtype="), "--dtype needs a value"));
  CHECK(has(refusal("fmha", "--dtype"), "--dtype is 'true', as without a value; allowed are f16"));
  CHECK(has(refusal("gemm", "--m 512 --n 512"), "--k is missing"));
  CHECK(has(refusal("gemm", "--m 0 --n 512 --k 512"), "m is 0; allowed: 1 to "));
  CHECK(has(refusal("conv", ""), "op 'conv' is unknown"));
  CHECK(has(error_of([&] { runtime.warm_flags("fmha", "--dtype f16", "sm_1"); }).message, "sm_1"));
  CHECK(std::string(machine.cuda.log()).find("cuModuleLoad") == std::string::npos);
}

TEST_CASE("a rung goes by the op's name as by its type") {
  Machine machine;
  machine.cuda.set_param_bytes(0);
  Runtime runtime(machine.options());
  tj::Ladder ladder(runtime);
  tj::GemmArgs args;
  const auto matrix = [](int place, std::int64_t rows, std::int64_t columns) {
    return tj::Tensor::contiguous(address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep), kGpu,
                                  tj::DType::f16, {rows, columns});
  };
  args.a = matrix(0, 256, 512);
  args.b = matrix(1, 256, 512);
  args.d = matrix(2, 256, 256);
  CHECK(ladder.prepare("gemm", &args, 4).name == ladder.prepare(args, 4).name);
  ladder.run("gemm", &args, 4);
  CHECK(has(error_of([&] { ladder.run("gemm", &args, 11); }).message, "rung is 11"));
  const tj::ChunkIndicesArgs none;
  CHECK(has(error_of([&] { ladder.run("chunk_indices", nullptr, 1); }).message, "args of 'chunk_indices' is null"));
  CHECK(error_of([&] { ladder.run(none, 1); }).stage == tj::Stage::argument);
  const std::string other = error_of([&] { ladder.prepare(tj::ChunkIndicesConfig{}, 1, args.a.device); }).message;
  CHECK_MESSAGE(has(other, "rung is 1 and op is 'chunk_indices', which has no ladder; allowed: fmha, gemm"), other);
}

}  // namespace
