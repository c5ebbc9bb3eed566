// A kernel that is made and not loaded, and the entry of the cache that keeps it.
//
// Decides which fields an entry has and how they are read back. Decides neither keys (pipeline.hpp) nor files (cache/).
// Invariant: an artifact read from an entry is the one that was written to it. An entry with a field too few is no
// artifact, nor one with other names in its geometry.
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
  bool quick = false;             ///< made in less time, and slower; never kept on disk
  std::string compiler_hex = {};  ///< second half of the key of the entry that it was read from
};

/// Name and value of each member of a shape.
cache::Fields shape_fields(const support::LaunchShape& shape);
/// maker: whose kernel it is.
cache::Entry to_entry(const Artifact& artifact, const ops::Maker& maker);
/// Why an entry is no kernel that anybody could launch: a field that is missing or out of range, or a payload that is
/// not whole. Empty when it may be one: what its geometry must have is its maker's to say.
std::string entry_problem(const cache::Entry& entry);
/// Why an entry is not the kernel of this name for this target, which it was looked up for; empty when it is. Only a
/// forged one is another.
std::string other_kernel(const cache::Entry& entry, std::string_view name, std::string_view target);
/// fields: what the maker's geometry has. Empty when a field is missing or malformed, or when the geometry has a field
/// that is none of these, or a number that no kernel of the maker's has. problem: then says which field, its value and
/// what is allowed.
std::optional<Artifact> from_entry(const cache::Entry& entry, ops::GeometryFields fields,
                                   std::string* problem = nullptr);
inline std::optional<Artifact> from_entry(const cache::Entry& entry, const ops::Maker& maker,
                                          std::string* problem = nullptr) {
  return from_entry(entry, maker.geometry_fields(), problem);
}

}  // namespace tj
