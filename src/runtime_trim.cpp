// What a runtime has loaded and holds on its devices, and how that is given back.
//
// Decides what trim() and the bound on loaded code do. Which kernels nobody needs is kernel_table.hpp's. Invariant:
// drivers unload outside the table's lock.
#include "runtime_impl.hpp"

#include "support/fail.hpp"
#include "support/uncancelled.hpp"

namespace tj {

using support::cat;

TrimReport Runtime::Impl::unload(Device device, std::uint64_t keep_bytes) {
  TrimReport report;
  {
    const KernelTable::Unloaded out = table.unload(device, keep_bytes);
    report.kernels = out.kernels.size();
    report.code_bytes = out.bytes;
  }
  if (report.kernels == 0) return report;
  kernel_maker.count_unloaded(report.kernels, report.code_bytes);
  log(LogLevel::debug,
      cat("unloaded ", report.kernels, " kernels of ", report.code_bytes, " bytes from ", to_string(device)));
  return report;
}

TrimReport Runtime::Impl::trim(std::optional<Device> device) {
  const support::Uncancelled whole;
  if (device) static_cast<void>(backends.driver(*device));  // refuses one that there is not
  TrimReport report;
  for (const KernelTable::Use& use : table.uses()) {
    if (device && !(use.device == *device)) continue;
    const TrimReport each = unload(use.device, 0);
    report.kernels += each.kernels;
    report.code_bytes += each.code_bytes;
    report.workspace_bytes += use.driver->trim_pool(use.device.index);
  }
  return report;
}

Counters Runtime::Impl::counters() const {
  Counters counters = kernel_maker.counters();
  for (const KernelTable::Use& use : table.uses()) {
    const launch::MemoryUse memory = use.driver->memory_use(use.device.index);
    counters.devices.push_back({to_string(use.device), use.kernels, use.code_bytes, memory.workspace_bytes,
                                memory.workspace_used_bytes, memory.allocated_bytes});
  }
  return counters;
}

}  // namespace tj
