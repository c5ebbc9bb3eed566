// Units of sm_90a's primitives on the first GPU; where it does not run such code, the test says so and counts as
// skipped.
#pragma once

#include <string>
#include <string_view>

#include "model/primitive_unit.hpp"
#include "support/skip.hpp"

namespace tj::test {

inline testing::PrimitiveUnit on_sm90a(std::string_view text) {
  std::string reason;
  const auto driver = launch::open_cuda(&reason);
  if (!driver || driver->device_count() == 0) testing::skip("no GPU");
  const launch::DeviceInfo info = driver->device_info(0);
  if (info.major != 9 || info.minor != 0) testing::skip("no code of sm_90a runs on " + info.name);
  return testing::PrimitiveUnit::on_device(text, "sm90", "sm_90a");
}
inline testing::PrimitiveUnit on_the_model(std::string_view text) {
  return testing::PrimitiveUnit::on_model(text, "sm_90a");
}

}  // namespace tj::test
