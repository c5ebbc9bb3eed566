// The members of tj::Graph and their keys, listed once for both ways between a graph and its document.
//
// Decides which member is which key, and the words of enumerations. walk_members(walk, thing) calls walk(key, member)
// for each.
#pragma once

#include <concepts>
#include <type_traits>

#include <tilejit/graph.hpp>

#include "custom/trials.hpp"

namespace tj {

template <class T, class U>
concept Of = std::same_as<std::remove_const_t<T>, U>;

inline constexpr const char* kScopes[] = {"tile_begin", "iteration", "tile_end"};
inline constexpr const char* kAsyncs[] = {"none", "copy", "matrix", "store", "threads", "unit"};
inline constexpr const char* kCacheHints[] = {"none", "evict_first", "evict_last"};
inline constexpr const char* kSpaces[] = {"shared", "tensor"};
inline constexpr const char* kGrids[] = {"ordered", "opens", "joins"};
inline constexpr const char* kRanges[] = {"peeled", "guarded"};
inline constexpr const char* kWalks[] = {"one_tile", "persistent", "dynamic", "split", "sliced"};
constexpr const auto& words_of(DType) { return kTrialTypes; }
constexpr const auto& words_of(GraphTrial::Use) { return kTrialUses; }
constexpr const auto& words_of(GraphTrialParam::Kind) { return kTrialParams; }
constexpr const auto& words_of(Graph::Scope) { return kScopes; }
constexpr const auto& words_of(Graph::Async) { return kAsyncs; }
constexpr const auto& words_of(Graph::CacheHint) { return kCacheHints; }
constexpr const auto& words_of(Graph::Space) { return kSpaces; }
constexpr const auto& words_of(Graph::Grids) { return kGrids; }
constexpr const auto& words_of(Graph::Ranges) { return kRanges; }
constexpr const auto& words_of(Graph::Walk) { return kWalks; }

inline void walk_members(auto&& walk, Of<Graph::Machine> auto& machine) {
  walk("functional_units", machine.functional_units);
  walk("memory", machine.memory);
  walk("warps_per_group", machine.warps_per_group);
  walk("warp_size", machine.warp_size);
  walk("registers", machine.registers);
  walk("max_registers_per_thread", machine.max_registers_per_thread);
  walk("register_step", machine.register_step);
  walk("register_roles", machine.register_roles);
  walk("shared_barriers", machine.shared_barriers);
  walk("overlapped_launch", machine.overlapped_launch);
  walk("max_cluster", machine.max_cluster);
}

/// All but what holds units: cycles and fu, or rrt.
inline void walk_members(auto&& walk, Of<Graph::Instruction> auto& instruction) {
  walk("name", instruction.name);
  walk("latency", instruction.latency);
  walk("issue_cycles", instruction.issue_cycles);
  walk("variable_latency", instruction.variable_latency);
  walk("streaming", instruction.streaming);
  walk("memory", instruction.memory);
  walk("registers", instruction.registers);
  walk("warp_cycles", instruction.warp_cycles);
  walk("scope", instruction.scope);
  walk("async", instruction.async);
  walk("drains", instruction.drains);
  walk("warps", instruction.warps);
  walk("body", instruction.body);
  walk("context", instruction.context);
  walk("copy", instruction.copy);
  walk("merges", instruction.merges);
  walk("variant", instruction.variant);
  walk("variant_begin", instruction.variant_begin);
  walk("variant_end", instruction.variant_end);
  walk("max_variant_begin", instruction.max_variant_begin);
  walk("cache_hint", instruction.cache_hint);
}

inline void walk_members(auto&& walk, Of<Graph::Edge> auto& edge) {
  walk("src", edge.src);
  walk("dst", edge.dst);
  walk("delay", edge.delay);
  walk("delta", edge.delta);
  walk("blocking", edge.blocking);
  walk("value", edge.value);
  walk("spill_cycles", edge.spill_cycles);
  walk("same_role", edge.same_role);
  walk("updates", edge.updates);
}

inline void walk_members(auto&& walk, Of<Graph::Value> auto& value) {
  walk("name", value.name);
  walk("slot_bytes", value.slot_bytes);
  walk("copied_bytes", value.copied_bytes);
  walk("alignment", value.alignment);
  walk("scope", value.scope);
  walk("min_slots", value.min_slots);
  walk("max_slots", value.max_slots);
  walk("shared_by", value.shared_by);
  walk("shared_stride", value.shared_stride);
  walk("within_warp", value.within_warp);
  walk("space", value.space);
  walk("lies_in", value.lies_in);
}

inline void walk_members(auto&& walk, Of<Graph::Code> auto& code) {
  walk("namespace", code.namespace_name);
  walk("includes", code.includes);
  walk("params_type", code.params_type);
  walk("config", code.config);
  walk("definitions", code.definitions);
}

inline void walk_members(auto&& walk, Of<GraphTrialTensor> auto& tensor) {
  walk("name", tensor.name);
  walk("dtype", tensor.dtype);
  walk("shape", tensor.shape);
  walk("fill", tensor.fill);
  walk("written", tensor.written);
  walk("expected", tensor.expected);
  walk("tolerance", tensor.tolerance);
}

inline void walk_members(auto&& walk, Of<GraphTrialParam> auto& param) {
  walk("kind", param.kind);
  walk("of", param.of);
  walk("box", param.box);
  walk("swizzle_bytes", param.swizzle_bytes);
}

inline void walk_members(auto&& walk, Of<GraphTrial> auto& trial) {
  walk("name", trial.name);
  walk("use", trial.use);
  walk("sizes", trial.sizes);
  walk("tensors", trial.tensors);
  walk("params", trial.params);
  walk("blocks", trial.blocks);
}

/// The members of a graph, all but the machine and the lists.
inline void walk_members(auto&& walk, Of<Graph> auto& graph) {
  walk("cluster", graph.cluster);
  walk("pairs", graph.pairs);
  walk("blocks_per_sm", graph.blocks_per_sm);
  walk("walk", graph.walk);
  walk("grids", graph.grids);
  walk("ranges", graph.ranges);
  walk("piece_bytes", graph.piece_bytes);
  walk("slices", graph.slices);
  walk("most_iterations", graph.most_iterations);
  walk("least_smem_bytes", graph.least_smem_bytes);
  walk("flops_per_iteration", graph.flops_per_iteration);
  walk("overhead_cycles", graph.overhead_cycles);
  walk("targets", graph.targets);
  walk("parameters", graph.parameters);
  walk("candidates", graph.candidates);
  walk("trials", graph.trials);
  walk("typical_iterations", graph.typical_iterations);
  walk("useful_flops", graph.useful_flops);
}

inline void walk_members(auto&& walk, Of<ScheduleOptions> auto& options) {
  walk("max_stages", options.max_stages);
  walk("min_ii", options.min_ii);
  walk("max_slots", options.max_slots);
  walk("max_roles", options.max_roles);
  walk("node_budget", options.node_budget);
  walk("streaming_latency_zero", options.streaming_latency_zero);
  walk("turns", options.turns);
  walk("joint", options.joint);
  walk("mixed_roles", options.mixed_roles);
  walk("copies_apart", options.copies_apart);
}

}  // namespace tj
