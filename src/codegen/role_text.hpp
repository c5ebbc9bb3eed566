// The body of a family of roles as text.
//
// Decides that roles which do the same to copies of one context share their text. That halves the code to compile and
// to keep in the instruction cache. Invariant: a family's members have equal patterns, warps and registers, and
// ascending copies.
#pragma once

#include <string>
#include <vector>

#include "codegen/layout.hpp"
#include "codegen/sites.hpp"
#include "codegen/writer.hpp"

namespace tj::codegen {

/// The roles are one family, in order. A family of several has an int `member` in its text that counts them.
void write_roles(Writer& writer, Sites& sites, const graph::Graph& graph, const sched::Schedule& schedule,
                 const Layout& layout, const std::vector<int>& roles);

}  // namespace tj::codegen
