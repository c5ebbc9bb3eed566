// Kernel reports, which prepare(), warm() and plans give: how a kernel came to be.
#pragma once

#include <string>

namespace tj {

/// The place that a kernel came from: loaded before in this process, the cache on disk, or the compiler just now.
enum class KernelOrigin { memory, disk, compiled };

/// The kernel that prepare() found or made. Times are in milliseconds, 0 for steps that were not needed.
struct KernelReport {
  std::string name;    ///< e.g. "fmha_f16_d128_causal"; empty of a call that launches nothing
  std::string target;  ///< e.g. "sm_90a"
  KernelOrigin origin = KernelOrigin::compiled;
  double schedule_ms = 0, codegen_ms = 0, compile_ms = 0, load_ms = 0;
  std::string schedule_json;  ///< II, length, bounds, nodes, rings (see tj-schedule --json)
  std::string source_path;    ///< the file that the source was dumped to; empty without dump_dir
  int registers = 0;          ///< a thread, at entry; 0 where the compiler does not say
};

}  // namespace tj
