// One event of a role's timeline as lines of text: a node's call, or what waits, signals and orders around it.
//
// Decides which primitive an event becomes, and its site. Decides that nothing is done again that the line before has
// done. Does not decide where events stand. Invariant: every line that a checker can switch off has a site of its own;
// none is written that no thread needs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "codegen/early.hpp"
#include "codegen/family_text.hpp"
#include "codegen/sites.hpp"
#include "codegen/timeline.hpp"
#include "codegen/writer.hpp"

namespace tj::codegen {

/// The variants of nodes that have some.
enum class Runs {
  general,  ///< right in all iterations
  variant,  ///< right in those of the node's range
  by_step   ///< as the unit's kInRange says in each step
};
inline constexpr const char* kInRange = "in_range";

/// How an iteration number is written in the section being emitted.
struct Section {
  const char* name;      ///< "prologue"
  const char* variable;  ///< "" (absolute), "s" or "n"
  Runs runs = Runs::general;
  int trip_count = -1;       ///< the loop's trip count, where an absolute section is for one alone
  int steps = 1 << 30;       ///< the most steps that a section of steps s has: the first ones
  bool since_begin = false;  ///< its first steps lack iterations
  bool absolute() const { return variable[0] == '\0'; }
  std::string iteration(int value) const;
};

class EventWriter {
 public:
  EventWriter(Writer& writer, Sites& sites, const FamilyText& family) : w_(writer), sites_(sites), family_(family) {}
  /// next: the event whose text follows in any case; null where it is not known.
  void write(const Event& event, const Section& section, const Event* next = nullptr);
  /// Before a loop of steps with these events, which outlives this: declares the answers about its early waits.
  void repeat(const std::vector<Event>& steady);

 private:
  void write_event(const Event& event, const Section& section);
  // The functions below are for units that record (event_marks.cpp).
  void write_marked(const Event& event, const Section& section);
  void mark(MarkKind kind, const Event& event, const Section& section, const std::vector<std::string>& what = {});
  std::vector<std::string> waited_for(const Event& event, const Section& section) const;
  bool of_iteration(const Event& event, const Section& section) const;
  void line_of(const std::string& text);

  std::string sequence(int ring, const Event& event, const Section& section) const;
  /// Numbers a site of the event; `ring` and `node` are the event's.
  int site(SiteKind kind, const Section& section, const std::string& what, const Event& event);

  void write_call(const Event& event, const Section& section);
  std::string call_of(const Event& event, const Section& section, Runs runs) const;
  int number_call(const Event& event, const Section& section);
  void write_ring_event(const Event& event, const Section& section);
  void write_ring_event(const Event& event, const Section& section, const std::string& value,
                        const std::string& arguments);
  // The two below are early.cpp's, as repeat() is.
  std::string unless_there(const Event& event, int site);
  void ask_early(const Section& section);
  void write_publish(const Event& event, const Section& section, const std::string& arguments);
  void end_reads(const Event& event, const Section& section);
  void write_release(const Event& event, const Section& section, const std::string& arguments);
  void write_wait_empty(const Event& event, const Section& section, const std::string& arguments);
  void write_wait_place(const Event& event, const Section& section);
  void write_unit_event(const Event& event, const Section& section, const std::string& arguments);
  void follow_sync(const Event& event, const Section& section);
  bool waits_in_tensor(const Event* event, const Section& section) const;
  bool never_filled(const Event& event, const Section& section) const {
    return filled_once(family_.graph, family_.value_of_ring(event.ring)) || filled_first(event, section);
  }
  void settle(const Event& event, const Section& section, bool stores);
  bool in_tensor(int ring) const { return family_.layout.rings[static_cast<std::size_t>(ring)].slot_columns > 0; }
  bool updated(int ring, graph::Scope scope) const;
  bool left_behind(const Event& event, const Section& section) const;
  void open_for_filler(const Event& event, const Section& section);

  bool read_by_threads(int ring) const;
  OfPair pair_of(int ring) const;
  bool read_by_unit(int ring) const;
  bool lanes_apart(int ring) const;
  // The functions below are place_text.cpp's.
  bool nothing_before(const Event& event, const Section& section) const;
  bool handed_on(int ring) const;
  bool stays(int ring) const;
  bool filled_again(const Event& event, const Section& section) const;
  bool filled_first(const Event& event, const Section& section) const;
  int last_reader(int ring) const;
  bool fills_alone(int node) const;
  std::string leader() const;
  std::string for_one() const;

  /// Writes a line that undoes no order which the lines before have made.
  template <class... Parts>
  void line(const Parts&... parts);
  void meet(const Event& event, const Section& section, const std::string& before);

  Writer& w_;
  Sites& sites_;
  const FamilyText& family_;
  EarlyWaits early_;
  const Event* next_ = nullptr;
  bool node_marked_ = false;  ///< the node's begin is marked, in a unit that records
  bool leader_only_ = false;  ///< inside the branch of the one thread that copies: closed after the node's call
  // Ends of the text when the warp had met, when its stores were fenced, and when its reads had arrived. Each still
  // holds if the text ends there now.
  static constexpr std::size_t kNever = ~std::size_t{0};
  std::size_t met_at_ = kNever, fenced_at_ = kNever, arrived_at_ = kNever;
  std::size_t followed_at_ = kNever, stored_at_ = kNever,
              settled_at_ = kNever;  // the same for tensor memory: after a sync, stores waited for, before a sync
};

}  // namespace tj::codegen
