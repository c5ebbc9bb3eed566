// The device of tests that need a real one.
#pragma once

#include <string_view>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "support/skip.hpp"

namespace tj::test {

/// The first GPU; where there is none, the test says so and counts as skipped.
inline Device gpu() {
  const Device device = Runtime::instance().default_device();
  if (device.kind == DeviceKind::cpu) testing::skip("no GPU");
  return device;
}

/// The GPU, if it is NVIDIA's: others do not have what the test is about.
inline Device nvidia_gpu() {
  const Device device = gpu();
  if (device.kind != DeviceKind::cuda) testing::skip("no GPU of NVIDIA");
  return device;
}

/// Archs of a family that the first GPU runs.
inline std::vector<const arch::Arch*> archs_of_gpu(std::string_view family) {
  const arch::Arch& own = arch::parse_arch(Runtime::instance().target_of(gpu()));
  std::vector<const arch::Arch*> list;
  for (const arch::Arch* each : arch::all())
    if (each->family == family && (each->name == own.name || arch::same_devices(*each, own))) list.push_back(each);
  return list;
}

}  // namespace tj::test
