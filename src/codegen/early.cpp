// See early.hpp.
#include "codegen/early.hpp"

#include <algorithm>

#include "codegen/event_text.hpp"

namespace tj::codegen {

using support::cat;

EarlyWaits early_waits(const std::vector<Event>& steady) {
  EarlyWaits early;
  const auto last = std::find_if(steady.rbegin(), steady.rend(), [](const Event& event) {
    return event.kind == EventKind::matrix_wait || event.kind == EventKind::matrix_commit;
  });
  if (last == steady.rend() || last->kind != EventKind::matrix_wait || last->pending != 0) return early;
  for (const Event& event : steady) {
    if (event.kind != EventKind::wait_full) break;
    early.waits.push_back({&event});
  }
  early.asked_before = &*last;
  return early;
}

std::string answer_of(const std::string& ring) { return ring + "_is_there"; }

// The filling that the next step waits for may be the next tile's first one, or may never come: the answer is no then.
void EventWriter::repeat(const std::vector<Event>& steady) {
  early_ = early_waits(steady);
  std::erase_if(early_.waits, [&](const EarlyWait& each) {
    return family_.value_of_ring(each.wait->ring).scope != graph::Scope::iteration || in_tensor(each.wait->ring);
  });
  for (const EarlyWait& each : early_.waits)
    w_.line("bool ", answer_of(family_.value_of_ring(each.wait->ring).name), " = false;");
}

std::string EventWriter::unless_there(const Event& event, int site) {
  for (EarlyWait& each : early_.waits)
    if (each.wait == &event) {
      each.site = site;
      return cat("if (!", answer_of(family_.value_of_ring(event.ring).name), ") ");
    }
  return "";
}

void EventWriter::ask_early(const Section& section) {
  for (const EarlyWait& each : early_.waits) {
    Event next = *each.wait;
    ++next.iteration;
    w_.line(answer_of(family_.value_of_ring(next.ring).name), " = dev::is_full<", each.site, ", ",
            family_.ring_type(next.ring), ">(", family_.shared_for("barriers", next.ring), ", ",
            sequence(next.ring, next, section), ");");
  }
}

}  // namespace tj::codegen
