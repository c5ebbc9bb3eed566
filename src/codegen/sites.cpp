// See sites.hpp.
#include "codegen/sites.hpp"

#include <algorithm>

#include "support/fail.hpp"

namespace tj::codegen {

const char* name_of(SiteKind kind) {
  switch (kind) {
    case SiteKind::wait:
      return "wait";
    case SiteKind::arrive:
      return "arrive";
    case SiteKind::expect:
      return "expect";
    case SiteKind::fence:
      return "fence";
    case SiteKind::commit:
      return "commit";
    case SiteKind::group_wait:
      return "group_wait";
    case SiteKind::copies_wait:
      return "copies_wait";
    case SiteKind::tensor_wait:
      return "tensor_wait";
    case SiteKind::sync:
      return "sync";
    case SiteKind::turn_wait:
      return "turn_wait";
    case SiteKind::turn_arrive:
      return "turn_arrive";
    case SiteKind::cluster:
      return "cluster";
    case SiteKind::registers:
      return "registers";
    case SiteKind::counter:
      return "counter";
    case SiteKind::signal:
      return "signal";
    case SiteKind::await:
      return "await";
    case SiteKind::grids:
      break;
  }
  return "grids";
}

int Sites::add(Mark mark) {
  const auto known =
      std::find_if(marks_.begin(), marks_.end(), [&](const Mark& other) { return other.same_place(mark); });
  if (known != marks_.end()) return known->id;
  mark.id = static_cast<int>(marks_.size()) + 1;
  if (mark.id > kMaxMarks)
    support::fail(Stage::codegen, Code::unsupported,
                  support::cat("the unit has more than ", kMaxMarks,
                               " places to record; record a graph with fewer nodes and rings"));
  marks_.push_back(std::move(mark));
  return marks_.back().id;
}

}  // namespace tj::codegen
