// A runtime on the CPU model: what tests of whole ops share.
//
// Decides where its kernels are kept. They are found by their texts, so tests and builds that share a cache make each
// of them once.
#pragma once

#include <map>
#include <string>

#include <tilejit/runtime.hpp>

#include "support/environment.hpp"
#include "support/scratch.hpp"

namespace tj::testing {

/// One for the process and target. Its cache is TJ_CACHE_DIR, which ctest sets; by hand one that goes with the process.
inline Runtime& model_runtime(const std::string& target = "model:sm_90a") {
  static Scratch cache;
  static std::map<std::string, Runtime> runtimes;
  const auto found = runtimes.find(target);
  if (found != runtimes.end()) return found->second;
  Options options;
  options.target = target;
  if (!support::environment_variable("TJ_CACHE_DIR")) options.cache_dir = cache.path();
  return runtimes.emplace(target, options).first->second;
}

}  // namespace tj::testing
