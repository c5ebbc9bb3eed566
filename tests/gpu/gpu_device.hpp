// The device of tests that need a real one.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <tilejit/tilejit.hpp>

namespace tj::test {

/// The first GPU; where there is none, the test says so and counts as skipped.
inline Device gpu() {
  const Device device = Runtime::instance().default_device();
  if (device.kind == DeviceKind::cpu) {
    std::puts("skipped: no GPU");
    std::exit(77);
  }
  return device;
}

}  // namespace tj::test
