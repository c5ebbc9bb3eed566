// A runtime on the CPU model with a cache of its own: what tests of whole ops share.
#pragma once

#include <tilejit/runtime.hpp>

#include "support/scratch.hpp"

namespace tj::testing {

/// One for the process; its cache goes with it.
inline Runtime& model_runtime() {
  static Scratch cache;
  static Runtime instance([] {
    Options options;
    options.target = "model:sm_90a";
    options.cache_dir = cache.path();
    return options;
  }());
  return instance;
}

}  // namespace tj::testing
