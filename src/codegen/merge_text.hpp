// The lines around a node that merges the sums of a tile's pieces, in a unit whose walk is split or sliced.
//
// Decides where a warp waits for what other blocks have summed, and in a split walk where it says that its own sums are
// left. Which blocks those are is the device's to say (kernel_templates/split_walk.cuh, sliced_walk.cuh). Invariant:
// counters of a split walk are set back by whoever waits for them, behind the role's last node that merges.
#pragma once

#include <string>

#include "codegen/family_text.hpp"
#include "codegen/sites.hpp"
#include "codegen/writer.hpp"
#include "support/function_ref.hpp"

namespace tj::codegen {

class MergeText {
 public:
  /// site: numbers a site of the node; it outlives this.
  using SiteOf = support::FunctionRef<int(SiteKind, const std::string&)>;
  MergeText(Writer& writer, const FamilyText& family, int node, SiteOf site)
      : w_(writer), family_(family), node_(node), site_(site) {}

  /// Before the node's call; nothing for a node that does not merge.
  void begin() const;
  /// Behind it, likewise.
  void end() const;

 private:
  bool merges() const { return family_.graph.cuts() && family_.node(node_).merges; }
  bool sliced() const { return family_.graph.walk == graph::Walk::sliced; }
  int nth(int node) const;

  Writer& w_;
  const FamilyText& family_;
  const int node_;
  const SiteOf site_;
};

}  // namespace tj::codegen
