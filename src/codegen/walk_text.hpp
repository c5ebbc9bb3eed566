// The way from a block's tile to its next one, as text.
//
// Decides which role draws tiles in a dynamic walk, and how the others learn of them: by a ring of words like any
// other, or by a sync of the block where it has one role. Does not decide which tile stands at a place (the op). The
// role that draws does so as late as it can, when it has issued its last load: a tile that is drawn early may wait
// while other blocks have nothing to do. In a split walk a block draws once, before its roles begin: its number among
// those that have begun says which pieces of tiles it does. In a sliced one its rank in the cluster says so. Invariant:
// each role of a block does the same tiles, or pieces, in the same order.
#pragma once

#include <string>

#include "codegen/family_text.hpp"
#include "codegen/sites.hpp"
#include "codegen/writer.hpp"

namespace tj::codegen {

/// The type of the ring of places in a unit; no value's ring may have that name.
inline constexpr const char* kPlacesType = "RingNextTile";
/// The type of the constants of a split walk in a unit.
inline constexpr const char* kSplitType = "SplitWalk";
/// The type of the slot of sums in a unit whose walk is sliced.
inline constexpr const char* kSlicesType = "RingSlices";

/// Bytes of the sums that the last block of a tile gets from the others.
std::int64_t slices_bytes(const graph::Graph& graph);

/// The role that draws.
int drawing_role(const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout);
/// Do all threads of a block walk in one role? Then the block syncs, in the place of barriers in shared memory.
bool walks_as_one(const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout);
/// Warps of all blocks of the cluster that read a place from the ring; a role of one thread counts as one.
int place_readers(const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout);

/// Lines before the roles of a split walk: the block draws its number, which all of its threads then have.
void write_draw_once(Writer& writer, Sites& sites, const graph::Graph& graph, const sched::Schedule& schedule,
                     const Layout& layout);

/// Lines of one family of roles; none but the loop's where the walk is not dynamic.
class WalkWriter {
 public:
  WalkWriter(Writer& writer, Sites& sites, const FamilyText& family) : w_(writer), sites_(sites), family_(family) {}

  /// The loop over tiles, or the condition for the only one.
  void open();
  /// Behind the last load of a tile: the role that draws draws the next one.
  void draw();
  /// The tile's end: its successor takes its place.
  void close();
  /// Behind the last tile: nobody of the cluster arrives at this block's barriers any more.
  void drain();

 private:
  bool dynamic() const { return family_.graph.walk == graph::Walk::dynamic; }
  bool split() const { return family_.graph.walk == graph::Walk::split; }
  bool sliced() const { return family_.graph.walk == graph::Walk::sliced; }
  void open_pieces() const;
  bool completes_at_once() const;
  std::string walked(const std::string& tile) const;
  void complete() const;
  void expect_slices() const;
  bool draws() const;
  bool keeps() const;
  bool as_one() const;
  int site(SiteKind kind, const std::string& what) const;
  void call(bool reads) const;
  void write_draw();
  void read_place();

  Writer& w_;
  Sites& sites_;
  const FamilyText& family_;
};

}  // namespace tj::codegen
