// A few readable lines out of KernelReport::schedule_json.
//
// Decides what of a schedule a sample shows: II, length, stages, roles with their nodes, ring depths.
#pragma once

#include <string>

#include <tilejit/runtime.hpp>

namespace tj::samples {

/// Lines without a final newline, each after the first indented by `indent`. Never throws for unexpected JSON: what is
/// missing is left out.
std::string schedule_summary(const std::string& schedule_json, const std::string& indent);
/// The lines "kernel" and "schedule" of a kernel's report, each with its newline.
std::string kernel_text(const KernelReport& report);

}  // namespace tj::samples
