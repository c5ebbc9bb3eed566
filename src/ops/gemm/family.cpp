// The families of matrix products, and what is asked of whichever serves an arch; see family.hpp.
#include "ops/gemm/family.hpp"

#include <algorithm>

#include "ops/common/tensor_checks.hpp"
#include "ops/gemm/fields.hpp"
#include "ops/gemm/params.cuh"
#include "support/fail.hpp"
#include "support/lasting.hpp"

// One line for each family: src/ops/gemm/<name>.cpp defines const GemmFamily& gemm_<name>().
#define TJ_GEMM_FAMILIES(FAMILY) \
  FAMILY(sm90)                   \
  FAMILY(sm100)                  \
  FAMILY(sm80)                   \
  FAMILY(amd)                    \
  /* the first is the one of requests that name no arch */

namespace tj::ops {

#define TJ_DECLARE(name) const GemmFamily& gemm_##name();
TJ_GEMM_FAMILIES(TJ_DECLARE)
#undef TJ_DECLARE

namespace {

using support::cat;

constexpr double kTypicalDepth = 4096;  // K that tiles are rated at

using Get = const GemmFamily& (*)();
#define TJ_LIST(name) gemm_##name,
constexpr Get kFamilies[] = {TJ_GEMM_FAMILIES(TJ_LIST)};
#undef TJ_LIST

const arch::Needs& node_bodies() {
  static constinit support::Lasting<const arch::Needs> needs;
  return needs.get([] {
    arch::Needs any;
    for (const Get family : kFamilies) any.families.emplace_back(family().arch_family);
    return any;
  });
}

/// Tiles whose rows are rows of the matrix instructions, and all of one group; with depths all of K is.
bool groups_fit(const GemmTile& tile, const GemmKernel& kernel) {
  if (kernel.groups == Groups::none) return true;
  constexpr int kMostBox = 256;  // of the copy engine
  const bool depths = kernel.groups == Groups::depths;
  const bool ends = depths && tile.element_bytes == 2;  // boxes of one block end with their group
  const bool whole = kernel.left_mn == ends && kernel.right_mn == ends && !kernel.parts && kernel.rung == kNoGemmRung &&
                     (kernel.walk == WalkChoice::usual || kernel.walk == WalkChoice::dynamic) && !tile.swapped &&
                     !tile.sliced() && !tile.reads;
  if (depths)
    return whole && tile.blocks() == 1 && tile.block_k <= kMostBox && !kernel.quantises() &&
           (ends || tile.block_k == gemm::kScaledElements);
  return whole && tile.block_m + gemm_rows_before(kernel) <= kMostBox &&
         (kernel.groups != Groups::rows || (tile.cluster_m == 1 && gemm::kRowsTogether % tile.block_m == 0));
}

std::string served_tiles(const arch::Arch& arch) {
  std::string list;
  for (const GemmTile& tile : gemm_tiles())
    if (gemm_blocks_per_sm(tile, arch) > 0) list += cat(list.empty() ? "" : ", ", gemm_tile_name(tile));
  return list;
}

}  // namespace

const GemmFamily* find_gemm_family(const arch::Arch& arch) {
  for (const Get family : kFamilies)
    if (arch.family == family().arch_family) return &family();
  return nullptr;
}

const GemmFamily& gemm_family(const arch::Arch& arch, std::string_view op) {
  const GemmFamily* family = find_gemm_family(arch);
  if (family == nullptr) arch::require(arch, op, node_bodies());
  return *family;
}

const GemmFamily& usual_gemm_family() { return kFamilies[0](); }

bool gemm_serves(const arch::Arch& arch, int element_bytes) {
  const GemmFamily* family = find_gemm_family(arch);
  const arch::Needs* needs = family == nullptr ? nullptr : family->needs(arch, element_bytes);
  return needs != nullptr && arch::lacks(arch, *needs).empty();
}

void gemm_require_type(const GemmKernel& kernel, const arch::Arch& arch) {
  const std::string_view op = gemm_op_name(kernel);
  const GemmFamily& family = gemm_family(arch, op);
  const arch::Needs* needs = family.needs(arch, size_of(kernel.dtype));
  arch::require(arch, op, needs != nullptr ? *needs : *family.needs(arch, size_of(DType::f16)));
  if (needs != nullptr) return;
  const auto number = [&](const char* fact) { return static_cast<int>(arch.fact(fact)); };
  refuse(op.data(), Code::unsupported,
         cat("a.dtype is ", to_string(kernel.dtype), "; allowed on ", arch.name, ": f16, bf16",
             arch.has_fact("other_8bit_bias")
                 ? cat(", as its own 8-bit type is another one, of bias ", number("other_8bit_bias"),
                       " with numbers up to ", number("other_8bit_largest"))
                 : ""));
}

void gemm_require_end(const GemmKernel& kernel, const arch::Arch& arch) {
  const GemmFamily& family = gemm_family(arch);
  const char* op = gemm_op_name(kernel).data();
  if (kernel.gated() && !family.gates)
    refuse(op, Code::unsupported,
           cat("gate is ", kGemmActivations[static_cast<int>(kernel.gate)], "; allowed on ", arch.name, ": none"));
  if (kernel.quantises() && !family.quantises)
    refuse(op, Code::unsupported,
           cat("d.dtype is ", to_string(kernel.out), "; allowed on ", arch.name, ": f16, bf16, f32"));
}

void refuse_gemm_rung(const GemmRung& rung, const arch::Arch& arch) {
  const arch::Arch* other = arch::find(cat(arch.name, "a"));  // the same card's, with instructions of its own
  const GemmFamily* family = other == nullptr ? nullptr : find_gemm_family(*other);
  const bool serves = family != nullptr && family->rung_tile != nullptr;
  std::string elsewhere;
  for (const arch::Arch* each : arch::all())
    if (const GemmFamily* of = find_gemm_family(*each); of != nullptr && of->rung_tile != nullptr)
      elsewhere += (elsewhere.empty() ? "" : ", ") + each->name;
  refuse("gemm", Code::unsupported,
         cat("rung is ", rung.name, "; allowed on ", arch.name, ": 0 (none); ",
             serves ? cat("TJ_TARGET=", other->name, " has v1 to ") : cat("targets with all rungs, v1 to "),
             kGemmRungs[kGemmOwnRung].name, serves ? "" : cat(": ", elsewhere)));
}

void gemm_require(const GemmKernel& kernel, const arch::Arch& arch) {
  gemm_require_type(kernel, arch);
  gemm_require_end(kernel, arch);
  if (gemm_family(arch).rung_tile == nullptr && kernel.rung != kNoGemmRung) refuse_gemm_rung(gemm_rung(kernel), arch);
  if (kernel.loads != 0 && !gemm_family(arch).loads_sums)
    refuse("gemm", Code::unsupported,
           cat("load-columns is ", kGemmLoadColumns[kernel.loads], "; allowed on ", arch.name,
               ", whose sums are in registers: 32"));
  const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(kernel.tile)];
  if (tile.sliced() && (kernel.parts || kernel.walk != WalkChoice::usual))
    refuse("gemm", Code::unsupported,
           cat("tile is ", gemm_tile_name(tile), ", whose blocks do a tile together; allowed with ",
               kernel.parts ? "parts of K" : "another walk", ": other tiles"));
  if (gemm_blocks_per_sm(tile, arch) == 0)
    refuse(gemm_op_name(kernel).data(), Code::unsupported,
           cat("tile is ", gemm_tile_name(tile), "; allowed on ", arch.name, ": ", served_tiles(arch)));
}

int gemm_blocks_per_sm(const GemmTile& tile, const arch::Arch& arch) {
  return gemm_family(arch).blocks_per_sm(tile, arch);
}

GemmTileCycles gemm_tile_cycles(const GemmTile& tile, int out_bytes, const arch::Arch& arch) {
  return gemm_tile_cycles(tile, out_bytes, gemm_family(arch), arch);
}

bool gemm_tile_fits(const GemmTile& tile, const GemmKernel& kernel, const GemmFamily& family) {
  if (tile.element_bytes != size_of(kernel.dtype) || (tile.element_bytes == 1 && (kernel.left_mn || kernel.right_mn)))
    return false;
  if (kernel.scales != Scales::tensor && !tile.promotes()) return false;
  if (!family.fits(tile, kernel) || !groups_fit(tile, kernel) || (kernel.gated() && !family.gates) ||
      (kernel.quantises() && !family.quantises))
    return false;
  if (tile.reads && (kernel.right_mn || (kernel.left_mn && tile.reads_left()))) return false;
  // Slices are a walk of their own, and K is cut once.
  if (tile.sliced() && (kernel.parts || kernel.walk != WalkChoice::usual)) return false;
  const bool few = tile.swapped && tile.block_m < gemm::kSwizzleColumns;  // a box brings rows that no sum needs
  return (!kernel.left_mn || few || tile.block_m % gemm::kSwizzleColumns == 0) &&
         (!kernel.right_mn || tile.block_n % gemm::kSwizzleColumns == 0);
}

bool gemm_tile_fits(const GemmTile& tile, const GemmKernel& kernel) {
  return std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [&](Get family) { return gemm_tile_fits(tile, kernel, family()); });
}

bool gemm_pairs(const GemmKernel& kernel, const GemmFamily& family) {
  return family.in_pairs != nullptr && family.in_pairs(kernel);
}

std::vector<Candidate> gemm_candidates(const GemmKernel& kernel, const arch::Arch& arch) {
  gemm_require(kernel, arch);
  const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(kernel.tile)];
  return gemm_family(arch).candidates(kernel, arch, kTypicalDepth / tile.block_k);
}

Candidate gemm_candidate(const GemmKernel& kernel, const arch::Arch& arch) {
  return gemm_candidates(kernel, arch).front();
}

}  // namespace tj::ops
