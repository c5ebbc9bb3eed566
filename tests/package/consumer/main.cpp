// Uses the C++ headers and library of an installed tilejit: calls, plans and kernels made ahead give the right numbers
// on the CPU model, and an exception comes across. With every value 1, each output of attention is 1, and each of a
// product is K.
#include <tilejit/tilejit.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr tj::Device kHost{tj::DeviceKind::cpu, 0};
constexpr std::uint16_t kOne = 0x3c00, kSixtyFour = 0x5400;  // in f16
constexpr std::size_t kElements = 64 * 64;

bool all_are(const std::vector<std::uint16_t>& values, std::uint16_t expected) {
  return std::all_of(values.begin(), values.end(), [&](std::uint16_t each) { return each == expected; });
}

bool attention(tj::Runtime& runtime) {
  std::vector<std::uint16_t> in(kElements, kOne), out(kElements, 0);
  tj::FmhaArgs args;
  args.q = args.k = args.v = tj::Tensor::contiguous(in.data(), kHost, tj::DType::f16, {1, 1, 64, 64});
  args.o = tj::Tensor::contiguous(out.data(), kHost, tj::DType::f16, {1, 1, 64, 64});
  if (runtime.prepare(args).target != "model:sm_90a") return false;
  runtime.run(args);
  if (!all_are(out, kOne)) return false;
  const tj::Plan plan = runtime.plan(args);
  std::fill(out.begin(), out.end(), std::uint16_t{0});
  plan.run({in.data(), in.data(), in.data(), out.data()});
  return plan.tensors().size() == 4 && all_are(out, kOne) &&
         runtime.prepare_flags("fmha", "--dtype f16 --head-dim 64 --causal false --general-scale false", kHost)
                 .size() == 2;
}

bool product(tj::Runtime& runtime) {
  std::vector<std::uint16_t> in(kElements, kOne), out(kElements, 0);
  tj::GemmArgs args;
  args.a = args.b = tj::Tensor::contiguous(in.data(), kHost, tj::DType::f16, {64, 64});
  args.d = tj::Tensor::contiguous(out.data(), kHost, tj::DType::f16, {64, 64});
  return runtime.time_ms(kHost, [&] { runtime.run("gemm", &args); }) >= 0 && all_are(out, kSixtyFour);
}

bool refusal() {
  tj::FmhaArgs args;
  args.q = tj::Tensor::contiguous(nullptr, kHost, tj::DType::f16, {1, 1, 16, 64});
  args.k = args.v = args.o = args.q;
  try {
    tj::run(args);
  } catch (const tj::Error& error) {
    std::printf("tilejit %s, as expected: %s\n", tj::version(), error.what());
    return error.code == tj::Code::invalid_argument;
  }
  return false;
}

}  // namespace

int main() try {
  tj::Options options;
  options.target = "model:sm_90a";
  tj::Runtime runtime(options);
  if (std::string(tj::build_id()).size() != 64) return 1;
  if (!attention(runtime)) return 2;
  if (!product(runtime)) return 3;
  return refusal() ? 0 : 4;
} catch (const tj::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 5;
}
