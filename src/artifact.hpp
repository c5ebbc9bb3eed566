// A kernel that is made and not loaded, and the entry of the cache that keeps it.
//
// Decides which fields an entry has and how they are read back. Decides neither keys (pipeline.hpp) nor files (cache/).
// Invariant: what is read from an entry is what was written to it; an entry with a field too few is no artifact.
#pragma once

#include <optional>
#include <string>

#include <tilejit/runtime.hpp>

#include "cache/cache.hpp"
#include "ops/op.hpp"
#include "support/launch_shape.hpp"

namespace tj {

struct Artifact {
  std::string binary;
  support::LaunchShape shape;
  ops::Geometry geometry;
  std::string source_sha256, compiler_version;
  KernelReport report;
};

cache::Entry to_entry(const Artifact& artifact);
/// Empty when a field is missing or malformed.
std::optional<Artifact> from_entry(const cache::Entry& entry);

}  // namespace tj
