// The only reader of the process environment.
//
// Decides how TJ_* variables and Options become one set of settings; Options win. Invariant: read once per Runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tilejit/runtime.hpp>
#include <utility>
#include <vector>

#include "support/sites.hpp"

namespace tj::support {

/// Settings of the CPU model, which only checkers set.
struct ModelSettings {
  std::uint64_t seed = 1;
  std::vector<SiteName> disabled, weakened;
  std::string report;  ///< absolute; empty: none
  bool given() const { return seed != 1 || !disabled.empty() || !weakened.empty() || !report.empty(); }
};

struct Settings {
  /// Absolute folders with colons between them; empty when there is no place for one (memory only).
  std::string cache_dir;
  std::uint64_t cache_max_size_bytes = 0;
  std::uint64_t code_max_size_bytes = 0;  ///< of kernels that are loaded on a device; 0: no bound
  std::string target;                     ///< empty: by device
  bool target_from_variable = false;
  std::string facts_file;   ///< absolute; empty: the shipped facts
  std::string facts_from;   ///< who named it: "TJ_FACTS"
  std::string dump_dir;     ///< empty: no dumps
  std::string record_file;  ///< absolute; empty: nothing is recorded
  LogLevel log_level = LogLevel::warn;
  std::string hip_compiler = "auto";
  bool use_disk_cache = true;
  bool use_tuning = true;
  bool check_lists = false;    ///< of calls, before they are launched
  double wait_limit_s = 0;     ///< for another maker of the same kernel; 0: no limit
  double compile_limit_s = 0;  ///< of a compiler that is a program; 0: no limit
  MissPolicy on_miss = MissPolicy::wait;
  std::string pack_keys;  ///< absolute; empty: packs need no signature
  PackCompiler pack_compiler = PackCompiler::any;
  ModelSettings model;
};

/// Throws tj::Error(argument) naming the variable or field, its value and what is allowed.
Settings resolve_settings(const Options& options);

/// A variable that is set and not empty.
std::optional<std::string> environment_variable(const char* name);

/// "NAME=value" of this process, as a program that it starts would see them, with these set, or taken away where the
/// value is empty.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes);

}  // namespace tj::support
