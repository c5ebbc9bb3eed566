// Writing graphs down; see graph_builder.hpp.
#include "ops/common/graph_builder.hpp"

#include <algorithm>

#include "support/fail.hpp"

namespace tj::ops {

using support::cat;

GraphBuilder::GraphBuilder(std::string_view op, std::string_view text, const arch::Arch& arch, int blocks_per_sm)
    : arch_(arch) {
  graph_.machine = machine_of(arch_, blocks_per_sm);
  graph_.blocks_per_sm = blocks_per_sm;
  graph_.namespace_name = cat("tj::ops::", op);
  graph_.includes = {cat("ops/", op, "/", text, ".cuh")};
  graph_.params_type = cat("tj::ops::", op, "::Params");
}

void GraphBuilder::constant(std::string_view name, int value) {
  graph_.config.emplace_back(cat("static constexpr int ", name), cat(value));
}

void GraphBuilder::flag(std::string_view name, bool value) {
  graph_.config.emplace_back(cat("static constexpr bool ", name), value ? "true" : "false");
}

double GraphBuilder::memory_cycles(double bytes) const {
  return bytes * std::max(1, arch_.sm_count) / arch_.fact("memory_bytes_per_cycle");
}

graph::Node GraphBuilder::single(std::string_view context, std::string_view body, int warps, Scope scope) const {
  Node node;
  node.name = node.body = body;
  node.context = context;
  node.scope = scope;
  node.warps = warps;
  return node;
}

graph::Node GraphBuilder::numbered(std::string_view context, std::string_view body, int copy, Scope scope) const {
  Node node = single(context, body, arch_.warps_per_group, scope);
  node.name = cat(body, ".", copy);
  node.copy = copy;
  return node;
}

void GraphBuilder::hold(Node& node, const Work& work) const {
  busy(node, std::max(1, cycles(work.longest())));
  const auto take = [&](const char* name, double held) {
    if (held > 0) node.reservations.push_back(of(name, cycles(held)));
  };
  take("TC", work.matrix);
  take("LSU", work.shared);
  take("EXP", work.exp);
  take("ALU", work.alu);
}

int GraphBuilder::add(Node added) {
  graph_.nodes.push_back(std::move(added));
  return static_cast<int>(graph_.nodes.size()) - 1;
}

int GraphBuilder::hand_out(Node stage, Node put, std::string name, std::int64_t bytes) {
  const int left = value(std::move(name), bytes, Scope::tile_end, 1, 1);
  put.warps = 1;
  const int staged = add(std::move(stage)), last = add(std::move(put));
  edge(staged, last, 0, 0, true, left);
  return staged;
}

void GraphBuilder::edge(int src, int dst, int delay, int distance, bool blocking, int value) {
  graph_.edges.push_back({src, dst, delay, distance, blocking, value, 0, value < 0});
}

void GraphBuilder::order(int src, int dst, int delay, int distance) {
  graph_.edges.push_back({src, dst, delay, distance, false, -1, 0, false});
}

int GraphBuilder::value(std::string name, std::int64_t slot_bytes, Scope scope, int min_slots, int max_slots,
                        int alignment) {
  graph_.values.push_back({std::move(name), slot_bytes, alignment, scope, min_slots, max_slots});
  return static_cast<int>(graph_.values.size()) - 1;
}

}  // namespace tj::ops
