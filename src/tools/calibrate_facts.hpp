// The facts that small kernels can measure, and how each follows from what they took.
//
// Decides which facts of an arch are measured, by which probes, and the arithmetic between. Does not run anything
// (calibrate_lab.hpp). A fact that is a fit of many kernels' times is not measured here: it stays as shipped.
// Invariant: a fact means here what src/arch/README.md says of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/calibrate_lab.hpp"

namespace tj::tools {

using FactSamples = std::map<std::string, std::vector<double>>;  ///< by fact; none: it gave no result

/// Kernels that are run together, and the facts that follow from them.
struct Experiment {
  std::vector<std::string> facts;
  const char* how;  ///< for the file: what was measured
  FactSamples (*run)(Lab& lab);
};

/// Experiments that measure a fact of the arch, in the order in which they run: the shortest first.
std::vector<Experiment> experiments_for(const arch::Arch& arch);

}  // namespace tj::tools
