// Waits of threads, in words. Decides nothing.
#include <map>
#include <tuple>

#include "model/cluster.hpp"
#include "model/global_memory.hpp"
#include "support/fail.hpp"
#include "support/text_stream.hpp"

namespace tj::model {
namespace {

using support::cat;

std::string site_text(const Launch& launch, int site) {
  if (site == 0) return "";
  const std::string name = launch.notes->site(site);
  return cat(" (site ", site, name.empty() ? "" : ": " + name, ")");
}

std::string mbarrier_text(const Block& block, const Wait& wait) {
  std::string text = cat("mbarrier ", hex(wait.object), ", parity ", wait.detail);
  const Mbarrier* barrier = block.mbarriers.find(wait.object);
  if (barrier == nullptr) return text;
  text += cat(": in phase ", barrier->phase, ", ", barrier->lacks());
  if (barrier->pending == barrier->arrivals && barrier->phase > 0 && barrier->bytes == 0)
    text += ", nothing of this phase has come";
  return text;
}

std::string matrix_text(const Block& block, const Thread& thread) {
  const MatrixUnit::Progress progress = block.matrix[thread.group()]->progress(thread);
  return cat("matrix unit of warpgroup ", thread.group(), ", at most ", thread.wait.detail, " groups pending: issued ",
             progress.issued, ", by all 128 threads ", progress.complete_issues, ", done ", progress.executed);
}

std::string wait_text(const Block& block, const Thread& thread) {
  const Wait& wait = thread.wait;
  switch (wait.kind) {
    case WaitKind::none:
      return "runnable";
    case WaitKind::block:
      return cat("block_sync: ", block.named.at(0).arrived, " of ", wait.detail, " threads have come");
    case WaitKind::warp:
      return "the other lanes of the warp";
    case WaitKind::named:
      return cat("named barrier ", wait.object, ": ", block.named.at(wait.object).arrived, " of ", wait.detail,
                 " threads have come");
    case WaitKind::mbarrier:
      return mbarrier_text(block, wait);
    case WaitKind::cluster:
      return cat("cluster_sync: ", block.cluster.arrived());
    case WaitKind::matrix:
      return matrix_text(block, thread);
    case WaitKind::registers:
      return cat(wait.detail, " more registers a thread; the block's other threads have given back ",
                 block.registers.free(), " in all");
    case WaitKind::word:
      return "words of other ranks";
    case WaitKind::copies:
      return cat("its copies, at most ", wait.detail, " groups pending");
    case WaitKind::tensor:
      return block.tensor.shortage(wait.object);
    case WaitKind::tensor_pair:
      return block.tensor.other_of_pair();
    case WaitKind::counter:
      return GlobalMemory::waiting(wait);
    case WaitKind::store:
      return cat("its bulk stores, at most ", wait.detail, " groups pending");
  }
  return "?";
}

// " 0", " 1-31", " 0 2-5".
std::string lanes_text(std::uint64_t set, unsigned lanes) {
  const auto in = [&](unsigned lane) { return lane < lanes && (set >> lane & 1u) != 0; };
  std::string text;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (!in(lane)) continue;
    const unsigned first = lane;
    while (in(lane + 1)) ++lane;
    text += first == lane ? cat(' ', first) : cat(' ', first, '-', lane);
  }
  return text;
}

// "warps 4-7", "warp 0, lane 0".
std::string who(const Block& block, const std::map<unsigned, std::uint64_t>& lanes_of_warp) {
  const unsigned lanes = block.scheduler.warp_threads();
  const std::uint64_t all = ~std::uint64_t{0} >> (kMaxWarpThreads - lanes);
  support::TextStream out;
  for (auto at = lanes_of_warp.begin(); at != lanes_of_warp.end();) {
    auto end = std::next(at);
    while (end != lanes_of_warp.end() && end->first == std::prev(end)->first + 1 && end->second == at->second) ++end;
    const unsigned first = at->first, last = std::prev(end)->first;
    out << (at == lanes_of_warp.begin() ? "" : "; ") << (first == last ? "warp " : "warps ") << first;
    if (first != last) out << '-' << last;
    if (at->second != all) out << ", lane" << lanes_text(at->second, lanes);
    at = end;
  }
  return out.str();
}

}  // namespace

void fault(const Thread& thread, const std::string& message) {
  std::string who = name_of(thread);
  if (thread.block != nullptr) {
    const Notes& notes = *thread.block->launch.notes;
    if (const Notes::Role* role = notes.role_of(thread.warp())) who += ", role " + role->name;
    if (const std::string node = notes.node(thread.call, thread.warp()); !node.empty())
      who += cat(", in or after node ", node, ", iteration ", thread.iteration);
  }
  fault(cat(who, ": ", message));
}

std::string waiting_report(const Block& block) {
  std::map<std::pair<std::string, std::string>, std::map<unsigned, std::uint64_t>> groups;
  std::map<std::pair<std::string, std::string>, std::uint64_t> since;
  unsigned ended = 0;
  for (unsigned i = 0; i < block.scheduler.size(); ++i) {
    const Thread& thread = block.scheduler.thread(i);
    if (thread.state == ThreadState::done) {
      ++ended;
      continue;
    }
    const auto key = std::pair(wait_text(block, thread), site_text(block.launch, thread.wait.site));
    groups[key][thread.warp()] |= std::uint64_t{1} << thread.lane();
    const auto [place, is_new] = since.emplace(key, thread.wait.since);
    if (!is_new) place->second = std::min(place->second, thread.wait.since);
  }
  support::TextStream out;
  out << "step " << block.scheduler.step() << ", block " << block.scheduler.thread(0).self.block << '\n';
  for (const auto& [key, lanes] : groups) {
    out << who(block, lanes) << ": ";
    if (key.first == "runnable")
      out << "runnable\n";
    else
      out << "waits since step " << since[key] << " for " << key.first << key.second << '\n';
  }
  out << ended << " of " << block.scheduler.size() << " threads have ended\n";
  return out.str();
}

}  // namespace tj::model
