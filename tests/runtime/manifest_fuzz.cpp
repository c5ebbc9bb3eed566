// The promise of the reader of manifests for any text: each line says nothing, is bad in words, or is wanted and
// written the same again.
#include <cstdlib>
#include <string>
#include <string_view>

#include "manifest.hpp"
#include "support/fuzz.hpp"

TJ_FUZZ_TARGET(tj::testing::fuzz_manifest)(const std::uint8_t* data, std::size_t size) {
  const tj::Manifest read = tj::read_manifest({reinterpret_cast<const char*>(data), size});
  for (const auto& [line, problem] : read.bad)
    if (line == 0 || problem.empty() || problem.size() > 65536) std::abort();
  std::string again;
  for (const tj::WantedKernel& kernel : read.kernels) again += tj::manifest_line(kernel.request, kernel.target) + "\n";
  for (const tj::WantedTuning& each : read.tunings)
    again += tj::manifest_line(each.machine, *each.op, each.problem, each.choice) + "\n";
  const tj::Manifest second = tj::read_manifest(again);
  if (!second.bad.empty() || second.kernels.size() > read.kernels.size()) std::abort();
  return 0;
}
