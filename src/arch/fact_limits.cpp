// See fact_limits.hpp. The ranges hold every card that there is, with room; they keep out slips of units and of commas.
#include "arch/fact_limits.hpp"

#include <algorithm>
#include <iterator>

#include "support/lasting.hpp"

namespace tj::arch {
namespace {

constexpr double kMostCycles = 20000, kMostLongCycles = 1e6;  // of a copy's latency; of a launch or a tile
constexpr double kMostKbCycles = 1000;                        // for 1024 bytes
constexpr double kLeastRate = 1, kMostRate = 4096;            // operations a cycle of an SM
constexpr double kMostBytes = 1e6;                            // bytes a cycle of a card

/// clock_ghz and sm_count are members of an Arch; a file names them as it does facts.
constexpr FactLimits kAll[] = {
    {"apart_copy_factor", 0.5, 8},
    {"barrier_cycles", 0, kMostCycles},
    {"busy_clock_ghz", 0.1, 10},
    {"cache_bytes", 65536, 1e12, true},
    {"cache_bytes_per_cycle", kLeastRate, kMostBytes},
    {"cached_operand_bytes", 1024, 1e12},
    {"clock_ghz", 0.1, 10},
    {"cluster_start_cycles", 0, kMostCycles},
    {"convert_per_cycle", kLeastRate, kMostRate},
    {"copied_kb_power_cycles", 0, kMostKbCycles},
    {"copy_cycles_per_kb", 0.1, kMostKbCycles},
    {"copy_issue_cycles", 0, kMostCycles},
    {"copy_latency_cycles", 0, kMostCycles},
    {"copy_outside_row_cycles", 0, kMostKbCycles},
    {"copy_partial_row_cycles", 0, kMostKbCycles},
    {"crowded_copy_cycles_per_kb", 0.1, kMostKbCycles},
    {"direct_end_cycles", 0, kMostLongCycles},
    {"exchange_cycles", 0, kMostCycles},
    {"exchange_cycles_per_kb", 0.1, kMostKbCycles},
    {"exp2_per_cycle", kLeastRate, kMostRate},
    {"f32_per_cycle", kLeastRate, kMostRate},
    {"fragment_store_cycles", 0, kMostCycles},
    {"hidden_launch_cycles", 0, kMostLongCycles},
    {"integer_per_cycle", kLeastRate, kMostRate},
    {"joint_copy_bytes_per_cycle", kLeastRate, kMostBytes},
    {"joint_outside_rows_per_cycle", 0.01, kMostRate},
    {"link_bytes_per_cycle", 0.1, kMostBytes},
    {"link_latency_cycles", 0, kMostLongCycles},
    {"loaded_copy_cycles_per_kb", 0.1, kMostKbCycles},
    {"lone_memory_bytes_per_cycle", 0.1, kMostBytes},
    {"matrix_drain_cycles", 0, kMostCycles},
    {"matrix_flops_per_cycle", 64, 65536},
    {"matrix_flops_per_cycle_8bit", 64, 131072},
    {"matrix_flushes_subnormals", 0, 1, true, true},
    {"matrix_group_cycles", 0, kMostCycles},
    {"matrix_issue_cycles", 0, kMostCycles},
    {"matrix_lane_share", 0, 1},
    {"matrix_least_cycles", 0, kMostCycles},
    {"memory_bytes_per_cycle", kLeastRate, kMostBytes},
    {"memory_slot_cycles", 0, kMostLongCycles},
    {"minmax_operands", 2, 3, true, true},
    {"minmax_per_cycle", kLeastRate, kMostRate},
    {"more_piece_sum_cycles", 0, kMostCycles},
    {"multicast_copy_factor", 0.5, 8},
    {"near_read_share", 0, 1},
    {"next_launch_cycles", 0, kMostLongCycles},
    {"operand_bytes_per_cycle", kLeastRate, kMostBytes},
    {"operand_copies", 1, 8, true, true},
    {"operand_registers", 1, 255, true, true},
    {"other_8bit_bias", 0, 127, true, true},
    {"other_8bit_largest", 1, 65504, true, true},
    {"piece_sum_cycles", 0, kMostCycles},
    {"product_group_cycles", 0, kMostCycles},
    {"row_read_cycles", 0, kMostLongCycles},
    {"row_store_cycles", 0, kMostCycles},
    {"scattered_store_cycles", 0, kMostCycles},
    {"shared_bytes_per_cycle", kLeastRate, kMostRate},
    {"shared_copy_issue_cycles", 0, kMostCycles},
    {"shared_slice_copy_factor", 0.5, 8},
    {"shared_unit_cycles", 0, kMostCycles},
    {"slice_copy_factor", 0.5, 8},
    {"slice_cycles", 0, kMostCycles},
    {"slice_sum_cycles", 0, kMostCycles},
    {"sm_count", 1, 4096, true},
    {"staged_end_cycles", 0, kMostLongCycles},
    {"staged_store_cycles", 0, kMostCycles},
    {"sustained_copy_bytes_per_cycle", kLeastRate, kMostBytes},
    {"swapped_wide_store_cycles", 0, kMostCycles},
    {"tensor_memory_bytes_per_cycle", kLeastRate, kMostRate},
    {"thread_copy_cycles_per_kb", 0.1, kMostKbCycles},
    {"thread_copy_latency_cycles", 0, kMostCycles},
    {"tile_piece_cycles", 0, kMostLongCycles},
    {"tile_turn_cycles", 0, kMostLongCycles},
    {"unaligned_copy_bytes_per_cycle", kLeastRate, kMostBytes},
    {"unaligned_copy_factor", 0.5, 8},
    {"wide_store_cycles", 0, kMostCycles},
};

}  // namespace

const std::vector<FactLimits>& fact_limits() {
  static constinit support::Lasting<const std::vector<FactLimits>> all;
  return all.get([] { return std::vector<FactLimits>(std::begin(kAll), std::end(kAll)); });
}

const FactLimits* limits_of(std::string_view fact) {
  const auto found = std::find_if(fact_limits().begin(), fact_limits().end(),
                                  [&](const FactLimits& each) { return each.name == fact; });
  return found == fact_limits().end() ? nullptr : &*found;
}

}  // namespace tj::arch
