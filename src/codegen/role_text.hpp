// The body of a family of roles as text.
//
// Decides that roles which do the same to copies of one context share their text: half the code to compile and to keep in
// the instruction cache. Invariant: a family's members have equal patterns, warps and registers, and ascending copies.
#pragma once

#include <string>
#include <vector>

#include "codegen/emit.hpp"
#include "codegen/layout.hpp"
#include "codegen/rolled.hpp"
#include "codegen/writer.hpp"

namespace tj::codegen {

/// Shared by the roles of one unit: numbers the sites.
class Sites {
 public:
  int add(std::string what) {
    const int id = static_cast<int>(list_.size()) + 1;
    list_.push_back({id, std::move(what)});
    return id;
  }
  const std::vector<Site>& list() const { return list_; }

 private:
  std::vector<Site> list_;
};

/// What a context's object is called: "Loader" -> "loader". Roles of one copy add its number.
std::string context_variable(const std::string& context);

/// The roles are one family, in order; in one of several the text has an int `member` that counts them.
void write_roles(Writer& writer, Sites& sites, const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout, const std::vector<int>& roles);

}  // namespace tj::codegen
