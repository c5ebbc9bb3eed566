// Protects the question whether an arch has kernels of an op: it says what asking for them says, for every op and arch,
// and every device's usual target serves attention and products.
#include <doctest/doctest.h>

#include <string>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "ops/op.hpp"

using namespace tj;

namespace {

/// Whether a kernel of the op's default set is made for the arch.
bool made_for(const ops::Op& op, const arch::Arch& arch) {
  for (const ops::Request& request : op.requests_for({}, arch)) try {
      if (!op.candidates(request, arch).empty()) return true;
    } catch (const Error& error) {
      CHECK(error.code == Code::unsupported);
    }
  return false;
}

}  // namespace

TEST_CASE("an op says that it serves the archs for which it has kernels, and no other") {
  int served = 0, refused = 0;
  for (const ops::Op* op : ops::all())
    for (const arch::Arch* arch : arch::all()) {
      CAPTURE(std::string(op->name()));
      CAPTURE(arch->name);
      CHECK(op->serves(*arch) == made_for(*op, *arch));
      (op->serves(*arch) ? served : refused)++;
    }
  CHECK(served > 0);
  CHECK(refused > 0);
}

TEST_CASE("the usual target of every device serves attention and products") {
  for (const char* name : {"fmha", "gemm"})
    for (const arch::Arch* arch : arch::all()) {
      const arch::Arch* usual = arch->device_names.empty()
                                    ? arch::for_device(arch->vendor, arch->device_major, arch->device_minor)
                                    : arch::for_device(arch->vendor, arch->device_names.front());
      REQUIRE(usual != nullptr);
      CAPTURE(usual->name);
      CHECK(ops::find(name)->serves(*usual));
    }
}
