// The family of chunk_o's kernels whose products are a wave's, where what is copied passes through registers (amd); see
// family.hpp. An iteration is one item: a chunk and a part of a value head's columns.
//
//   load_qk -> put_qk, load_h -> put_h, load_v -> put_v       put_x (i) -> load_x (i+1): registers are free again
// One role does it all, of 256 threads. An item has as many columns of V as shared memory and registers hold: half of a
// head's where LDS has 64 KB. Both halves then read q and k, and make scores of them. Decides how many parts a head
// has. Invariant: nothing here knows which arch of the family it is but by what it has.
#include "ops/chunk_o/family.hpp"
#include "ops/chunk_o/warps_builder.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using chunk_o::kWidth;

constexpr int kElementBytes = 2;
constexpr int kMostParts = 2;
constexpr int kThreads = 256;  // Waves of 32 lanes hold what is on its way only if there are eight of them.
// Registers that bodies need beside sums, weights and loads on their way: for places, gates, addresses and operands
// (tests/ops/chunk_o/families_compile_test.cpp).
constexpr int kContextRegisters = 40;

const arch::Needs& kNeeds = support::lasting<arch::Needs>(
    {{"TC", "EXP", "ALU", "LSU"},
     {"matrix_flops_per_cycle", "operand_copies", "exp2_per_cycle", "f32_per_cycle", "convert_per_cycle",
      "shared_bytes_per_cycle", "thread_copy_latency_cycles", "thread_copy_cycles_per_kb", "memory_bytes_per_cycle"},
     {"amd"}});

/// Bytes of a slot of each ring: rows of K, and columns of the chunk's tokens.
struct SlotBytes {
  std::int64_t qk, h, v;
  std::int64_t all() const { return qk + h + v; }
};
SlotBytes slot_bytes(int parts, const arch::Arch& arch) {
  const int padding = Multiplier(Multiplier::Way::wave, arch).row_padding();
  const std::int64_t row = kWidth * kElementBytes + padding, column = chunk_o::kChunk * kElementBytes + padding;
  return {2 * chunk_o::kChunk * row, kWidth / parts * row, kWidth / parts * column};
}
int parts_of(const arch::Arch& arch) {
  int parts = 1;
  while (parts < kMostParts && slot_bytes(parts, arch).all() > arch.smem_per_block_bytes) parts *= 2;
  return parts;
}

class Builder : ChunkOWarpsBuilder {
 public:
  Builder(const ChunkOKernel& kernel, int parts, const arch::Arch& arch)
      : ChunkOWarpsBuilder(kernel, {Multiplier::Way::wave, arch}, {Copier::Way::registers, arch},
                           {.warps = kThreads / arch.warp_size,
                            .parts = parts,
                            .context_registers = kContextRegisters,
                            .conversions = "convert_per_cycle",
                            .in_place = true},
                           arch),
        slots_(slot_bytes(parts, arch)),
        item_bytes_(2 * kTokenBytes + (kStateBytes + kTokenBytes) / parts) {
    constant("kWarps", role_.warps);
    constant("kParts", parts);
    constant("kRowPadding", multiplier_.row_padding());
  }

  graph::Graph build() {
    const std::int64_t head = item_bytes_ - 2 * kTokenBytes, v = head * kTokenBytes / (kStateBytes + kTokenBytes);
    const Filled tokens = bring("load_qk", "put_qk", "qk", slots_.qk, 2 * kTokenBytes, false),
                 h = bring("load_h", "put_h", "h", slots_.h, head - v, kernel_.h_transposed),
                 values = bring("load_v", "put_v", "v", slots_.v, v, true);
    edge(tokens.load, values.load, node(tokens.load).cycles, 0, false);  // the item's place
    edge(values.load, tokens.load, 1, 1, false);
    Work end = rounding();
    end.shared = shared_cycles(outputs() * kElementBytes);
    chain(tokens, h, values, "write_rows", end);
    return std::move(graph_);
  }

 private:
  static constexpr int kPieceBytes = 16, kMostSlots = 2;

  /// A ring, the loads of what fills it and its put. Rows become columns by narrow stores and an operation for each
  /// word.
  Filled bring(const char* load, const char* put, const char* ring, std::int64_t slot, std::int64_t bytes,
               bool as_columns) {
    const int asked = kernel_.stages;
    const int filled =
        value(ring, slot, Scope::iteration, std::max(1, asked), asked > 0 ? asked : kMostSlots, kPieceBytes);
    Node n = single("Loader", load, role_.warps);
    copier_.issue(n, role_.warps, cycles(shared_cycles(static_cast<double>(bytes))));
    // All of an item comes at the SM's share of memory's rate: that long a load may be on its way.
    n.latency = cycles(copier_.latency_cycles()) + copy_cycles(item_bytes_);
    n.registers = static_cast<int>(bytes / 4) / kThreads;
    Work work;
    work.shared = shared_cycles(static_cast<double>(bytes)) * (as_columns ? 2 : 1);
    if (as_columns) work.alu = static_cast<double>(bytes) / 4 / arch_.fact("f32_per_cycle");
    Node stores = single("Loader", put, role_.warps);
    hold(stores, work);
    const int loaded = add(std::move(n)), handed = add(std::move(stores));
    through_registers(loaded, handed);
    return {handed, filled, loaded};
  }

  const SlotBytes slots_;
  const std::int64_t item_bytes_;
};

}  // namespace

const ChunkOFamily& chunk_o_amd() {
  static constexpr ChunkOFamily family{
      .name = "amd",
      .needs = [](const arch::Arch&) -> const arch::Needs& { return kNeeds; },
      .most_heads = 1,
      .graph = [](const ChunkOKernel& kernel, int,
                  const arch::Arch& arch) { return Builder(kernel, parts_of(arch), arch).build(); },
      .launch = [](const arch::Arch& arch) { return ChunkOLaunch{.parts = parts_of(arch), .bulk_copies = false}; }};
  return family;
}

}  // namespace tj::ops
