// Slots and places between two fillings: what may come into them, and waits for what was there; see event_text.hpp.
//
// Decides whether a slot is filled again, and which fillings of other rings a node waits for that fills their place.
#include "codegen/event_text.hpp"

#include "codegen/places.hpp"
#include "support/fail.hpp"

namespace tj::codegen {

using graph::Scope;
using support::cat;

/// May the slot of this filling be filled again? Not known in loops.
bool EventWriter::filled_again(const Event& event, const Section& section) const {
  if (family_.graph.walks() || family_.value_of_ring(event.ring).scope != Scope::iteration || handed_on(event.ring))
    return true;
  if (left_behind(event, section)) return false;  // by the only tile
  const int next = event.iteration + family_.schedule.rings[static_cast<std::size_t>(event.ring)].slots;
  return section.absolute() ? section.trip_count < 0 || next < section.trip_count
                            : section.variable != std::string("n") || next < 0;
}

/// Does another ring have the place behind it, in the same iteration or tile?
bool EventWriter::handed_on(int ring) const {
  return followed(family_.graph, family_.schedule, family_.schedule.rings[static_cast<std::size_t>(ring)].value);
}

/// Does nobody ask whether it has been read, as nothing comes into its place any more?
bool EventWriter::stays(int ring) const {
  return filled_once(family_.graph, family_.value_of_ring(ring)) && !handed_on(ring);
}

/// Is this the slot's first filling, whatever the step? A tile follows others' fillings only where blocks do tile after
/// tile.
bool EventWriter::filled_first(const Event& event, const Section& section) const {
  const int slots = family_.schedule.rings[static_cast<std::size_t>(event.ring)].slots;
  if (family_.graph.walks()) return false;
  return section.absolute() ? event.iteration < slots
                            : section.variable == std::string("s") && section.steps <= slots - event.iteration;
}

/// Is the event at the tile's end, about a ring of iterations? A tile without iterations leaves nothing there.
bool EventWriter::left_behind(const Event& event, const Section& section) const {
  return section.absolute() && event.iteration < 0 && family_.value_of_ring(event.ring).scope == Scope::iteration &&
         (event.node < 0 || family_.node(event.node).scope != Scope::iteration);
}

/// Has the other ring never been filled, as this is the place's first filling?
bool EventWriter::nothing_before(const Event& event, const Section& section) const {
  const Before before = before_of(family_.graph, family_.schedule, event.node, event.ring);
  return before.every_iteration && !before.same_round && filled_first(event, section);
}

/// The other ring's fillings that were in the place: all of its slots where it is filled in the loop and this place is
/// taken once a tile.
void EventWriter::write_wait_place(const Event& event, const Section& section) {
  const Before before = before_of(family_.graph, family_.schedule, event.node, event.ring);
  const graph::Value& other = family_.value_of_ring(event.ring);
  const std::string arguments =
      cat(family_.ring_type(event.ring), ">(", family_.shared_for("barriers", event.ring), ", ");
  const bool loops = other.scope == Scope::iteration;
  if (nothing_before(event, section)) return;
  std::string sequence = "tiles";
  if (before.every_iteration) {
    Event filling = event;
    filling.iteration += before.same_round ? 1 : 0;
    sequence = this->sequence(event.ring, filling, section);
  } else if (loops) {
    sequence = before.same_round ? "base + static_cast<unsigned>(n)" : "base";
  } else if (before.same_round) {
    sequence += " + 1u";
  }
  w_.line(loops && !before.every_iteration ? "dev::wait_drained<" : "dev::wait_empty<",
          site(SiteKind::wait, section, cat("wait until ring ", other.name, " has left its place"), event), ", ",
          arguments, sequence, ");");
}

}  // namespace tj::codegen
