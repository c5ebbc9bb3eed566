// A runtime on the CPU model with a cache of its own: what tests of whole ops share.
#pragma once

#include <map>
#include <string>

#include <tilejit/runtime.hpp>

#include "support/scratch.hpp"

namespace tj::testing {

/// One for the process and target; its cache goes with it.
inline Runtime& model_runtime(const std::string& target = "model:sm_90a") {
  static Scratch cache;
  static std::map<std::string, Runtime> runtimes;
  const auto found = runtimes.find(target);
  if (found != runtimes.end()) return found->second;
  Options options;
  options.target = target;
  options.cache_dir = cache.path();
  return runtimes.emplace(target, options).first->second;
}

}  // namespace tj::testing
