// See merge_text.hpp.
#include "codegen/merge_text.hpp"

#include <algorithm>

#include "codegen/walk_text.hpp"

namespace tj::codegen {

using support::cat;

/// Nodes of the role that merge, up to this one: so many times a warp has said that it has left sums.
int MergeText::nth(int node) const {
  const auto& nodes = family_.role().nodes;
  return static_cast<int>(std::count_if(nodes.begin(), std::find(nodes.begin(), nodes.end(), node) + 1,
                                        [&](int each) { return family_.node(each).merges; }));
}

void MergeText::begin() const {
  if (!merges()) return;
  const std::string& name = family_.node(node_).name;
  if (sliced() && nth(node_) > 1) return;  // all sums have one barrier, and the role has waited for it
  if (sliced())
    return w_.line("dev::wait_slices<", site_(SiteKind::wait, "wait for the sums of other slices, " + name), ", ",
                   kSlicesType, ">(shared, piece);");
  w_.line("dev::wait_pieces<", site_(SiteKind::await, "wait for the sums of earlier pieces, " + name), ", ", kSplitType,
          ">(walk, drawn, piece, ", nth(node_), ");");
}

void MergeText::end() const {
  if (!merges() || sliced()) return;  // sums that are sent say themselves that they are there
  const std::string& name = family_.node(node_).name;
  w_.line("dev::piece_left<", site_(SiteKind::sync, "warp sync behind the sums, " + name), ", ",
          site_(SiteKind::signal, "the sums are left, " + name), ", ", kSplitType, ">(walk, drawn, piece);");
  if (nth(node_) < nth(family_.role().nodes.back())) return;
  w_.line("dev::pieces_read<", site_(SiteKind::counter, "counters of earlier pieces are left at 0"), ", ", kSplitType,
          ">(walk, drawn, piece);");
}

}  // namespace tj::codegen
