// Lines of the log about one step of one kernel, for people and for programs that read logs.
//
// Decides their words. Does not decide when a line is written, nor its level. Invariant: words are "name=value"; the id
// is the dumped files' name without what stands behind the last point.
#pragma once

#include <string>
#include <string_view>

#include <tilejit/kernel_report.hpp>

#include "arch/arch.hpp"
#include "support/fail.hpp"

namespace tj {

/// "fmha_f16_d128-sm_90a", "fmha_f16_d128-model-sm_90a".
inline std::string kernel_id(std::string_view name, const arch::Target& target) {
  return support::cat(name, "-", target.model ? "model-" : "", target.arch->file_name());
}

/// "op=fmha kernel=fmha_f16_d128 target=sm_90a stage=compile ms=412.5 id=fmha_f16_d128-sm_90a".
inline std::string stage_line(std::string_view op, std::string_view name, const arch::Target& target,
                              std::string_view stage, double milliseconds) {
  return support::cat("op=", op, " kernel=", name, " target=", target.name(), " stage=", stage, " ms=", milliseconds,
                      " id=", kernel_id(name, target));
}

inline std::string launch_line(std::string_view op, const KernelReport& kernel, std::string_view id, int device,
                               unsigned blocks) {
  return support::cat("op=", op, " kernel=", kernel.name, " target=", kernel.target, " stage=launch device=", device,
                      " blocks=", blocks, " id=", id);
}

}  // namespace tj
