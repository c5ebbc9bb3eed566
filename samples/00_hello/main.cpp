#include <cstdint>
#include <cstdio>
#include <exception>
#include <tilejit/tilejit.hpp>
#include <vector>

int main() try {
  tj::Runtime& runtime = tj::Runtime::instance();
  const tj::Device device = runtime.default_device();         // the first GPU, else the CPU and its model
  std::vector<std::uint16_t> host(1 * 4 * 128 * 64, 0x3c00);  // [B, H, S, D] in f16, all ones
  const std::size_t bytes = host.size() * sizeof(host[0]);
  const auto memory = runtime.allocate(device, bytes), result = runtime.allocate(device, bytes);
  runtime.copy(memory.get(), device, host.data(), {tj::DeviceKind::cpu, 0}, bytes);
  tj::FmhaArgs args;
  args.q = args.k = args.v = tj::Tensor::contiguous(memory.get(), device, tj::DType::f16, {1, 4, 128, 64});
  args.o = tj::Tensor::contiguous(result.get(), device, tj::DType::f16, {1, 4, 128, 64});
  runtime.run(args);  // scheduled, generated and compiled now; found on disk the next time
  runtime.copy(host.data(), {tj::DeviceKind::cpu, 0}, result.get(), device, bytes);
  std::printf("on %s: o[0] = 0x%04x (1 is 0x3c00)\n", runtime.target_of(device).c_str(), host[0]);
  return std::fflush(stdout) == 0 && host[0] == 0x3c00 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());  // what was wrong, what is allowed, what to do next
  return 1;
}
