// The only reader of the process environment.
//
// Decides how TJ_* variables and Options become one set of settings; Options win. Invariant: read once per Runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tilejit/runtime.hpp>

namespace tj::support {

struct Settings {
  std::string cache_dir;  ///< absolute; empty when there is no place for one (memory only)
  std::uint64_t cache_max_size_bytes = 0;
  std::string target;     ///< empty: by device
  std::string dump_dir;   ///< empty: no dumps
  LogLevel log_level = LogLevel::warn;
  std::string hip_compiler = "auto";
  bool use_disk_cache = true;
  bool use_tuning = true;
};

/// Throws tj::Error(argument) naming the variable or field, its value and what is allowed.
Settings resolve_settings(const Options& options);

/// A variable that is set and not empty.
std::optional<std::string> environment_variable(const char* name);

}  // namespace tj::support
