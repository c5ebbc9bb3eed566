// Uses headers and library of an installed tilejit, and sees an exception of its come across.
#include <tilejit/tilejit.hpp>

#include <cstdio>
#include <string>

int main() {
  if (std::string(tj::version()).empty() || std::string(tj::build_id()).size() != 64) return 1;
  tj::FmhaArgs args;
  args.q = tj::Tensor::contiguous(nullptr, {tj::DeviceKind::cpu, 0}, tj::DType::f16, {1, 1, 16, 64});
  args.k = args.v = args.o = args.q;
  try {
    tj::fmha(args);
  } catch (const tj::Error& error) {
    std::printf("tilejit %s, as expected: %s\n", tj::version(), error.what());
    return error.code == tj::Code::invalid_argument ? 0 : 2;
  }
  return 3;
}
