// The places in a launch's parameters that hold addresses of tensors, found by planning the launch at two sets of
// addresses.
//
// Decides which 8 bytes move with which tensor: those that differ by exactly as much as the tensor was moved. So no op
// has to list its pointers, and one that is forgotten is an error here, not a wrong kernel. Invariant: parameters that
// were relocated are those that planning the launch at these addresses gives.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/op.hpp"
#include "placement.hpp"

namespace tj {

/// One address in parameters: a tensor's, and so many bytes.
struct Relocation {
  std::uint16_t offset = 0;  ///< in the parameters
  std::uint16_t tensor = 0;  ///< its place in Places
  std::int64_t bytes = 0;
};

struct Relocations {
  std::vector<Relocation> pointers, maps;
};

/// A second set of addresses: each tensor and the workspace moved by a distance of its own, a multiple of 4096 bytes.
Places moved(const Places& places);

/// first and second: the same launch, planned at `places` and at moved(places), its maps not encoded. Throws
/// tj::Error(codegen, internal) where they differ by something else than addresses. tensors: of the call, without the
/// workspace.
Relocations relocations(std::string_view op, const ops::LaunchPlan& first, const ops::LaunchPlan& second,
                        const Places& places, std::size_t tensors);

/// Does the launch stay the same when tensor i moves by a few bytes? Then nothing but its address follows from where it
/// lies.
bool same_but_for(std::size_t tensor, std::uintptr_t moved_by, const ops::LaunchPlan& first,
                  const ops::LaunchPlan& second, const Relocations& known);

}  // namespace tj
