// A schedule's JSON as a kernel's report has it.
//
// Decides which keys tell of the device. Invariant: whoever reads the report can predict without the arch.
#pragma once

#include <string>

#include "sched/schedule.hpp"

namespace tj::sched {

/// The device that predictions are of, as the arch is described.
struct DescribedDevice {
  int sm_count = 0;
  double clock_ghz = 0;
};

/// to_json(), with the keys sm_count and clock_ghz besides.
std::string to_json(const graph::Graph& graph, const Schedule& schedule, const DescribedDevice& device);

}  // namespace tj::sched
