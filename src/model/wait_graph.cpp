// Waits of roles for roles of a block, as a graph for the report of a deadlock. Decides nothing.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/cluster.hpp"
#include "model/global_memory.hpp"
#include "support/fail.hpp"
#include "support/text_stream.hpp"

namespace tj::model {
namespace {

using support::cat;

struct Waits {
  std::vector<std::string> on;  ///< roles that could end it
  std::string text;
};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += cat(text.empty() ? "" : ", ", name);
  return text.empty() ? "nobody" : text;
}

// The thread of the role that has waited longest, if possible for more than the others of its warp: any lane of a warp
// may be elected, and the others may have run ahead of it. Else one that can run; null where all have ended.
const Thread* living_thread(const Block& block, const Notes::Role& role) {
  const unsigned lanes = block.scheduler.warp_threads(),
                 end = std::min((role.first_warp + role.warps) * lanes, block.scheduler.size());
  const Thread *waiting = nullptr, *living = nullptr;
  for (unsigned i = role.first_warp * lanes; i < end; ++i) {
    const Thread& thread = block.scheduler.thread(i);
    const auto order = [](const Thread& of) { return std::pair(of.wait.kind == WaitKind::warp, of.wait.since); };
    if (thread.state == ThreadState::waiting && (waiting == nullptr || order(thread) < order(*waiting)))
      waiting = &thread;
    if (thread.state != ThreadState::done) living = &thread;
  }
  return waiting != nullptr ? waiting : living;
}

// "site 31: role mma.0, steady: release ring k, done 0 times by all threads".
std::string givers(const Block& block, const Notes& notes, const Notes::Place& place) {
  std::string text;
  for (const int id : notes.givers(place)) {
    const std::uint32_t done =
        static_cast<std::size_t>(id) < block.executed.size() ? block.executed[static_cast<std::size_t>(id)] : 0;
    text += cat("      arrives by site ", id, ": ", notes.site(id),
                block.launch.off(id) ? ", switched off" : cat(", executed ", done, " times by all threads"), "\n");
  }
  return text;
}

Waits waits_of(const Block& block, const Notes& notes, const Thread& thread) {
  const Wait& wait = thread.wait;
  const std::string node = notes.node(thread.call, thread.warp()),
                    at = node.empty() ? std::string() : cat(" after node ", node, ", iteration ", thread.iteration);
  if (wait.kind == WaitKind::mbarrier) {
    const Mbarrier* barrier = block.mbarriers.find(wait.object);
    if (const auto place = notes.barrier_at(wait.object - SharedMemory::kBase); place && barrier != nullptr) {
      // The first block's thread of a pair makes the matrix unit arrive in both.
      const bool by_first =
          block.rank % 2 != 0 && (place->full ? place->ring->empty_of_pair : place->ring->full_of_pair);
      const bool by_both = place->full ? place->ring->full_of_pair : place->ring->empty_of_pair;
      const std::vector<std::string>& on = place->full ? place->ring->producers : place->ring->consumers;
      const std::string whose = by_first
                                    ? cat("role ", joined(on), " of ", block.cluster.block(block.rank - 1).name(), ": ")
                                : by_both ? cat("role ", joined(on), " of both blocks of the pair: ")
                                          : std::string();
      return {whose.empty() ? on : std::vector<std::string>{},
              cat(whose, place->full ? "full" : "empty", " barrier ", hex(wait.object), " of ring ", place->ring->value,
                  ", slot ", place->slot, at, "; its phase ", barrier->phase, " ", barrier->lacks(), '\n',
                  givers(by_first ? block.cluster.block(block.rank - 1) : block, notes, *place))};
    }
  }
  switch (wait.kind) {
    case WaitKind::named:
      return {{},
              cat("named barrier ", wait.object, at, ", to which ", block.named.at(wait.object).arrived, " of ",
                  wait.detail, " threads have come\n")};
    case WaitKind::matrix:
      return {{}, cat("its matrix instructions", at, '\n')};
    case WaitKind::block:
      return {{}, "all threads of the block\n"};
    case WaitKind::cluster:
      return {{}, "all threads of the cluster\n"};
    case WaitKind::warp:
      return {{}, cat("the other lanes of its warp", at, "\n")};
    case WaitKind::counter:
      return {{}, cat(GlobalMemory::waiting(wait), at, "\n")};
    case WaitKind::tensor:
      return {{}, cat(block.tensor.shortage(wait.object), at, "\n")};
    case WaitKind::tensor_pair:
      return {{}, cat(block.tensor.other_of_pair(), at, "\n")};
    default:
      return {{}, cat("itself", at, "\n")};
  }
}

// A way from `name` to itself, "" where there is none.
std::string cycle_from(const std::string& name, const std::map<std::string, Waits>& waits) {
  std::vector<std::string> path{name};
  std::map<std::string, bool> seen;
  for (;;) {
    const auto at = waits.find(path.back());
    if (at == waits.end()) return {};
    const auto next = std::find_if(at->second.on.begin(), at->second.on.end(), [&](const std::string& other) {
      return waits.contains(other) && (other == name || !seen[other]);
    });
    if (next == at->second.on.end()) return {};
    path.push_back(*next);
    seen[*next] = true;
    if (*next == name) break;
  }
  std::string text;
  for (const std::string& each : path) text += cat(text.empty() ? "" : " -> ", each);
  return text;
}

}  // namespace

std::string wait_graph(const Block& block) {
  const Notes& notes = *block.launch.notes;
  std::map<std::string, Waits> waits;
  support::TextStream out;
  if (!notes.roles.empty())
    out << "who waits for whom in " << block.name() << (notes.name.empty() ? "" : ", kernel " + notes.name) << ":\n";
  for (const Notes::Role& role : notes.roles) {
    const Thread* thread = living_thread(block, role);
    if (thread == nullptr || thread->state != ThreadState::waiting) {
      out << "  role " << role.name << (thread == nullptr ? " has ended\n" : " can run\n");
      continue;
    }
    const Waits& of = waits[role.name] = waits_of(block, notes, *thread);
    out << "  role " << role.name << " waits for " << (of.on.empty() ? "" : "role " + joined(of.on) + ": ") << of.text;
  }
  for (const Notes::Role& role : notes.roles) {
    const std::string cycle = cycle_from(role.name, waits);
    if (cycle.empty()) continue;
    out << "  cycle: " << cycle << '\n';
    break;
  }
  return out.str();
}

}  // namespace tj::model
