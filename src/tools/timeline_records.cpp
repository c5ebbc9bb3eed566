// See timeline_records.hpp.
#include "tools/timeline_records.hpp"

#include <algorithm>
#include <utility>

#include "codegen/timeline.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::tools {
namespace {

using support::at;

using codegen::Mark;
using codegen::MarkKind;
using codegen::Record;
using support::cat;

/// The records of one role, in the order in which they were written.
class RoleReader {
 public:
  RoleReader(const codegen::Unit& unit, const sched::Schedule& schedule, int role, std::span<const Record> records)
      : unit_(unit), schedule_(schedule), records_(records) {
    spans_.role = role;
  }

  RoleSpans read() {
    if (records_.empty() || records_.front().word == 0)
      wrong("there are no records: the kernel did not run, or ran in fewer blocks");
    std::uint32_t before = records_.front().clock;
    for (; next_ < records_.size() && records_[next_].word != 0; ++next_) {
      const Record& record = records_[next_];
      const std::uint32_t passed = record.clock - before;  // modulo 2^32, as the clock counts
      if (passed >= 1u << 31) wrong(cat("the clock goes back, from ", before, " to ", record.clock));
      time_ += passed;
      before = record.clock;
      take(mark_of(record), record.number());
    }
    return std::move(spans_);
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    support::fail(Stage::launch, Code::internal,
                  cat("records of role '", schedule_.roles[at(spans_.role)].name, "', number ", next_, ": ", what));
  }
  const Mark& mark_of(const Record& record) const {
    if (record.mark() < 1 || at(record.mark()) > unit_.marks.size())
      wrong(cat("mark ", record.mark(), " is unknown; the unit has ", unit_.marks.size()));
    const Mark& mark = unit_.marks[at(record.mark() - 1)];
    if (std::find(mark.roles.begin(), mark.roles.end(), spans_.role) == mark.roles.end())
      wrong(cat("mark ", mark.id, ", ", name_of(mark.kind), ", is another role's"));
    return mark;
  }
  // The index of this role among the members of the mark's family.
  std::size_t member_of(const Mark& mark) const {
    return static_cast<std::size_t>(std::find(mark.roles.begin(), mark.roles.end(), spans_.role) - mark.roles.begin());
  }
  int node_of(const Mark& mark) const { return mark.nodes.empty() ? -1 : mark.nodes[member_of(mark)]; }
  std::string wait_of(const Mark& mark) const { return mark.what.empty() ? std::string() : mark.what[member_of(mark)]; }
  TileSpans& tile() {
    if (!in_tile_) wrong("stands outside of a tile");
    return spans_.tiles.back();
  }

  void take(const Mark& mark, int number) {
    switch (mark.kind) {
      case MarkKind::role_begin:
        spans_.processor = number;
        spans_.begin = time_;
        return;
      case MarkKind::role_end:
        spans_.end = time_;
        return;
      case MarkKind::tile_begin:
        spans_.tiles.push_back({number, time_, -1, {}});
        in_tile_ = true;
        return;
      case MarkKind::tile_end:
        tile().end = time_;
        in_tile_ = false;
        return;
      case MarkKind::node_begin:
      case MarkKind::wait_begin:
        if (open_ != nullptr) wrong(cat(name_of(mark.kind), " stands inside another"));
        open_ = &mark;
        opened_ = {node_of(mark), wait_of(mark), mark.iterates ? number : -1, time_, time_, -1};
        return;
      case MarkKind::node_end:
      case MarkKind::wait_end:
        return close(mark, number);
      case MarkKind::node_done:
        return done(node_of(mark), mark.iterates ? number : -1);
    }
  }
  void close(const Mark& mark, int number) {
    const MarkKind begin = mark.kind == MarkKind::node_end ? MarkKind::node_begin : MarkKind::wait_begin;
    const int iteration = mark.iterates ? number : -1;
    if (open_ == nullptr || open_->kind != begin || opened_.node != node_of(mark) || opened_.wait != wait_of(mark) ||
        opened_.iteration != iteration)
      wrong(cat(name_of(mark.kind), " without its begin"));
    open_ = nullptr;
    opened_.end = time_;
    (in_tile_ ? spans_.tiles.back().spans : spans_.after).push_back(opened_);
  }
  void done(int node, int iteration) {
    std::vector<Span>& spans = tile().spans;
    const auto issued = std::find_if(spans.rbegin(), spans.rend(), [&](const Span& span) {
      return span.wait.empty() && span.node == node && span.iteration == iteration;
    });
    if (issued == spans.rend()) wrong("a node is complete that was not issued");
    issued->done = time_;
  }

  const codegen::Unit& unit_;
  const sched::Schedule& schedule_;
  const std::span<const Record> records_;
  RoleSpans spans_;
  std::size_t next_ = 0;
  std::int64_t time_ = 0;
  bool in_tile_ = false;
  const Mark* open_ = nullptr;
  Span opened_;
};

void shift(Span& span, std::int64_t by) {
  span.begin += by;
  span.end += by;
  if (span.done >= 0) span.done += by;
}
void shift(RoleSpans& role, std::int64_t by) {
  role.begin += by;
  if (role.end >= 0) role.end += by;
  for (TileSpans& tile : role.tiles) {
    tile.begin += by;
    if (tile.end >= 0) tile.end += by;
    for (Span& span : tile.spans) shift(span, by);
  }
  for (Span& span : role.after) shift(span, by);
}

using Instance = std::pair<int, int>;  // node, iteration

/// The instances that a role runs in a tile, by the schedule alone.
std::vector<Instance> order_of(const graph::Graph& graph, const sched::Schedule& schedule, int role, int iterations) {
  using graph::Scope;
  std::vector<Instance> order;
  const std::vector<int>& nodes = schedule.roles[at(role)].nodes;
  const auto once = [&](Scope scope) {
    for (const int node : nodes)
      if (graph.nodes[at(node)].scope == scope) order.emplace_back(node, -1);
  };
  once(Scope::tile_begin);
  int stages = 1;
  for (const int node : nodes)
    if (graph.nodes[at(node)].scope == Scope::iteration)
      stages = std::max(stages, codegen::role_stage(graph, schedule, node) + 1);
  for (int step = 0; step < iterations + stages - 1; ++step)
    for (const int node : nodes) {
      if (graph.nodes[at(node)].scope != Scope::iteration) continue;
      const int iteration = step - codegen::role_stage(graph, schedule, node);
      if (iteration >= 0 && iteration < iterations) order.emplace_back(node, iteration);
    }
  once(Scope::tile_end);
  return order;
}

std::string text_of(const graph::Graph& graph, const Instance& instance) {
  return cat("'", graph.nodes[at(instance.first)].name, "'",
             instance.second < 0 ? std::string() : cat(" of iteration ", instance.second));
}

}  // namespace

BlockSpans read_block(const graph::Graph& graph, const codegen::Unit& unit, const sched::Schedule& schedule,
                      unsigned block, std::span<const Record> records, std::size_t warp_records) {
  BlockSpans spans;
  spans.block = block;
  std::vector<std::uint32_t> first;
  const auto of_first_alone = [&](int role) {
    const std::vector<int>& nodes = schedule.roles[at(role)].nodes;
    return graph.pairs && std::any_of(nodes.begin(), nodes.end(),
                                      [&](int node) { return graph.nodes[at(node)].async == graph::Async::unit; });
  };
  for (int role = 0; role < static_cast<int>(schedule.roles.size()); ++role) {
    if (block % 2 == 1 && of_first_alone(role)) continue;
    const auto own = records.subspan(at(unit.first_warps[at(role)]) * warp_records, warp_records);
    spans.roles.push_back(RoleReader(unit, schedule, role, own).read());
    first.push_back(own.front().clock);
  }
  // Roles begin within a moment, be it around the clock's end.
  std::vector<std::int64_t> late;
  for (const std::uint32_t clock : first) late.push_back(static_cast<std::int32_t>(clock - first.front()));
  const std::int64_t earliest = *std::min_element(late.begin(), late.end());
  for (std::size_t role = 0; role < spans.roles.size(); ++role) shift(spans.roles[role], late[role] - earliest);
  return spans;
}

std::string check_block(const graph::Graph& graph, const sched::Schedule& schedule, const BlockSpans& block) {
  for (const RoleSpans& role : block.roles)
    for (std::size_t t = 0; t < role.tiles.size(); ++t) {
      const TileSpans& tile = role.tiles[t];
      if (!tile.whole()) continue;
      const std::vector<Instance> wanted = order_of(graph, schedule, role.role, tile.iterations);
      std::size_t next = 0;
      const auto where = [&] {
        return cat("block ", block.block, ", role '", schedule.roles[at(role.role)].name, "', tile ", t, ": ");
      };
      for (const Span& span : tile.spans) {
        if (!span.wait.empty()) continue;
        const Instance found{span.node, span.iteration};
        if (next == wanted.size())
          return cat(where(), text_of(graph, found), " was recorded behind the tile's last node");
        if (found != wanted[next])
          return cat(where(), text_of(graph, found), " was recorded where the schedule has ",
                     text_of(graph, wanted[next]));
        ++next;
      }
      if (next < wanted.size()) return cat(where(), text_of(graph, wanted[next]), " was not recorded");
    }
  return {};
}

}  // namespace tj::tools
