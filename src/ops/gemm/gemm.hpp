// Matrix product as an op: requests, tiles, graph, launch.
//
// fields.hpp decides what a kernel is, tiles.hpp its tiles, rungs.hpp the ladder, kernel.cpp requests, ahead.cpp which
// are made before anybody asks. choose.cpp decides by the cycles of rates.cpp which tile suits a problem and in how
// many parts K is cut, tune.cpp what is measured to choose a tile, trial.cpp what a kernel is checked by. steps.cpp and
// copies.cpp decide the launches of a call, plan.cpp launch parameters, validate.cpp what is legal. A family decides
// who multiplies (family.hpp). Nodes and costs are those of sm90.cpp (warpgroups), sm100.cpp (tensor memory), sm80.cpp
// (warps) and amd.cpp (waves); warps.cpp serves the last two. store.cpp decides how results leave.
#pragma once

#include <initializer_list>
#include <span>

#include <tilejit/gemm.hpp>

#include "ops/common/op_flags.hpp"
#include "ops/common/tunable.hpp"
#include "ops/common/walk_field.hpp"
#include "ops/gemm/params.cuh"
#include "ops/gemm/rungs.hpp"
#include "ops/gemm/tiles.hpp"
#include "ops/op.hpp"

namespace tj::ops {

const Op& gemm_op();

/// The descriptor that a tj_gemm_args stands for.
GemmArgs gemm_from_c(const void* structure);

struct GemmSizes {
  std::int64_t m = 1, n = 1, k = 1, batch = 1;  ///< n: rows of b, which are d's columns, or twice as many with a gate
  std::int64_t max_sms = 0;                     ///< as GemmArgs::max_sms: fewer multiprocessors may suit another tile

  /// Multiprocessors of the arch that the product runs on.
  std::int64_t sms(const arch::Arch& arch) const {
    return max_sms > 0 && max_sms < arch.sm_count ? max_sms : arch.sm_count;
  }
};

/// How each matrix of b comes to its rows; the others are of grouped_gemm, in Grouping's order.
enum class Groups : std::uint8_t { none, ends, counts, rows, depths };

/// The type of bias, and of c but for one of f32: d's, or where d is quantised that of a, or bf16 beside e4m3.
constexpr DType gemm_added(DType operands, DType out) {
  return out != DType::e4m3 ? out : operands == DType::e4m3 ? DType::bf16 : operands;
}

/// The choice of a kernel: all that it is made for.
struct GemmKernel {
  DType dtype = DType::f16, out = DType::f16;
  bool left_mn = false, right_mn = false;  ///< a and b: M and N contiguous instead of K
  bool bias = false, add_c = false;
  Activation activation = Activation::none;
  bool d_aligned = true;  ///< d and its rows begin at multiples of 16 bytes and are so long
  int tile = 0;           ///< in gemm_tiles()
  int rung = 0;           ///< in gemm_rungs(); the last only until set_gemm_rung() has given it its tile
  bool parts = false;     ///< leaves sums over parts of K, in f32 and without any epilogue, to be added by sum_parts
  WalkChoice walk = WalkChoice::usual;
  Scales scales = Scales::tensor;
  /// Scales of blocks: K is contiguous in them instead of M and N. Those of blocks of b have no other order.
  bool left_scales_k = false, right_scales_k = false;
  bool packed_scales = false;  ///< exponents of two, four in an i32
  Groups groups = Groups::none;
  Activation gate = Activation::none;  ///< none: there is none
  int loads = 0;                       ///< of sums from tensor memory: 32 >> loads columns each
  DeviceText end_text = {};            ///< in the place of an activation
  bool add_f32 = false;                ///< c is f32 beside a d of 16 bits
  bool activates() const { return activation != Activation::none || end_text.given(); }
  bool gated() const { return gate != Activation::none; }
  /// d is e4m3 with scales of blocks.
  constexpr bool quantises() const { return out == DType::e4m3; }
  /// One block finishes a whole row of a tile, of all of K: no launch that adds parts of K does.
  constexpr bool whole() const { return gate != Activation::none || quantises(); }
  constexpr DType addend() const { return add_f32 ? DType::f32 : out; }
  constexpr DType added() const { return gemm_added(dtype, out); }
  Activation applied() const { return gated() ? gate : activation; }
  /// Columns of d that so many rows of b make.
  constexpr std::int64_t columns(std::int64_t n) const { return gate == Activation::none ? n : n / 2; }
};
/// The kernel of the same operands that leaves sums over parts of K.
GemmKernel of_parts(GemmKernel kernel);
/// The kernel under the one name that it has: a flag that makes no difference is true.
GemmKernel canonical(GemmKernel kernel);

/// Sets d_aligned as a dense d of these sizes has it.
void set_dense(GemmKernel& kernel, const GemmSizes& sizes);

/// How d leaves: gemm::Store of the device's headers. in_pairs: of a kernel whose blocks multiply in pairs.
int gemm_store(const GemmKernel& kernel, bool in_pairs = false);

inline const GemmRung& gemm_rung(const GemmKernel& kernel) { return kGemmRungs[kernel.rung]; }
/// Gives the kernel a rung: its number, and the tile that the rung has on the arch; the last's is that of usual sizes.
/// The tile without an arch (null) is that of archs whose matrix instruction multiplies 64 rows, as sm_90a's does.
/// The last's tile stays.
void set_gemm_rung(GemmKernel& kernel, int rung, const arch::Arch* arch);
/// Throws tj::Error(argument) for a rung that does not exist, or does not serve the sizes, whatever the arch.
void check_gemm_rung(int rung, const GemmSizes& sizes, DType dtype);

/// Whether some family has such a kernel of the tile; family.hpp says what that takes.
bool gemm_tile_fits(const GemmTile& tile, const GemmKernel& kernel);

/// The order of an operand that both the copy engine and the matrix unit take; what validate() passed has one.
/// rows: its first dimension, M or N, is `row`, its last is K.
bool gemm_mn_major(const Tensor& operand);

/// Scales of so many elements: one of each 128.
constexpr std::int64_t gemm_scale_blocks(std::int64_t elements) { return (elements + 127) / 128; }
/// The type of a kernel's scales of blocks, and how many of them a row has.
constexpr DType gemm_scale_type(const GemmKernel& kernel) { return kernel.packed_scales ? DType::i32 : DType::f32; }
constexpr std::int64_t gemm_scale_words(const GemmKernel& kernel, std::int64_t k) {
  const std::int64_t blocks = gemm_scale_blocks(k);
  return kernel.packed_scales ? (blocks + gemm::kPackedBlocks - 1) / gemm::kPackedBlocks : blocks;
}
/// What the scales of a call serve, by their ranks.
Scales gemm_scales(const GemmArgs& args);
/// Are scales of blocks contiguous in M (N) instead of K? Those of blocks of b never are.
bool gemm_scales_mn(const GemmArgs& args, bool right);
/// Scales that a box of scale_a brings beside those of the tile's rows: of groups that begin at any row.
constexpr int gemm_rows_before(const GemmKernel& kernel) {
  return kernel.groups == Groups::ends && kernel.scales != Scales::tensor && !kernel.left_scales_k ? gemm::kScalesBefore
                                                                                                   : 0;
}

/// Cycles of all of a tile but its iterations, on an arch by its facts alone.
struct GemmTileCycles {
  std::int64_t start = 0, end = 0;
};
GemmTileCycles gemm_tile_cycles(const GemmTile& tile, int out_bytes, const arch::Arch& arch);
/// How a problem is served: a tile, and parts of K whose sums are added afterwards; 1 part is the whole. A rung of the
/// ladder has its own tile.
struct GemmChoice {
  int tile = 0;  ///< in gemm_tiles()
  int parts = 1;
  int rung = kNoGemmRung;  ///< in gemm_rungs(); never the last, which is none
  WalkChoice walk = WalkChoice::usual;
  int loads = 0;  ///< GemmKernel::loads; 0 leaves the kind's
  bool operator==(const GemmChoice&) const = default;
  /// The choice in one number, as Op has choices.
  int number() const { return loads << 26 | static_cast<int>(walk) << 24 | rung << 16 | (parts - 1) << 8 | tile; }
  static GemmChoice of(int number) {
    return {number & 0xff, (number >> 8 & 0xff) + 1, number >> 16 & 0xff, static_cast<WalkChoice>(number >> 24 & 3),
            number >> 26};
  }
};
inline constexpr int kMostGemmParts = 128;
/// "128x256x64", "64x64x128k8" in 8 parts.
std::string gemm_choice_name(const GemmChoice& choice);
/// The parts of K that a call has: what was chosen for its sizes, less those without an iteration. None where neither a
/// nor b is read.
int gemm_parts(const GemmArgs& args, const GemmChoice& choice);
/// Iterations of each part but the last, which has at least one; parts that would have none are no parts.
std::int64_t gemm_part_blocks(std::int64_t k_blocks, int parts);
/// The one with the fewest predicted cycles; parts only where they gain clearly. A rung has its own tile. On the hot
/// path: allocates nothing after an arch's first call. Throws tj::Error(target, unsupported) for an arch without the
/// facts.
Kernel choose_gemm(const ProblemKey& problem, const arch::Arch& arch);
GemmChoice choose_gemm(const GemmSizes& sizes, const GemmKernel& kernel, const arch::Arch& arch);
/// Consumers of a block on the arch, 0 where that has no ladder.
int gemm_consumers(const GemmChoice& choice, const arch::Arch& arch);
/// Is the kernel one of the ladder's last rung: blocks of two consumers, in pairs where the arch multiplies in pairs?
bool gemm_is_last_rung(const GemmKernel& kernel, const arch::Arch& arch);
/// The ladder's last rung where the op's own kernel is none. It is the choice with the fewest predicted cycles among
/// those that are, for calls and for tools. A d without rows for both blocks of a pair has two consumers in one block.
/// Throws tj::Error(target | argument, unsupported) where the arch has no ladder, or no such tile serves the problem.
GemmChoice gemm_last_rung(const ProblemKey& problem, const arch::Arch& arch);
/// What choose_gemm() takes for large products of this kind, to be made ahead: tiles, and how they come to blocks.
/// There are none where the arch serves none, and for kinds of parts or of a rung, whose tiles are others.
std::vector<GemmChoice> gemm_large_choices(const GemmKernel& kind, const arch::Arch& arch);
/// Would blocks that share tiles have pieces of any?
bool gemm_shares(const GemmSizes& sizes, const GemmTile& tile, const arch::Arch& arch);
/// Predicted cycles of a tile whose iterations blocks share (Walk::split), with K whole.
double gemm_split_cycles(const GemmSizes& sizes, const GemmKernel& kernel, int tile, const arch::Arch& arch);
/// Every tile that can serve, with K whole. Where its tiles leave SMs idle, also with K in as many parts as suit it
/// best. The choice that is taken comes first, then the others by predicted cycles.
struct RankedGemm {
  GemmChoice choice;
  double cycles = 0;
};
std::vector<RankedGemm> rank_gemm(const GemmSizes& sizes, const GemmKernel& kernel, const arch::Arch& arch);

GemmSizes gemm_sizes(const GemmArgs& args);
/// The same product where K is 0: of one column that nobody reads, as alpha is 0. turned: rows follow each other, too.
GemmArgs without_depth(GemmArgs args, bool turned = false);
/// The kind of a call's kernel: all but its tile, with K whole.
GemmKernel gemm_kind(const GemmArgs& args);
/// The kernel of a kind with that choice.
GemmKernel chosen(GemmKernel kind, const GemmChoice& choice);
/// The kernel that a request names; a field that is left out has its default.
GemmKernel gemm_kernel(const Request& request);
/// The kernel that a small key names.
GemmKernel gemm_kernel(std::uint64_t small_key);
Kernel gemm_kernel_of(const ProblemKey& problem, const GemmChoice& choice);
GemmSizes gemm_sizes(const GemmConfig& config);
/// All of a kernel but its tile. Throws tj::Error(argument) for sizes or types that are not supported.
GemmKernel gemm_kind(const GemmConfig& config);
GemmKernel gemm_kernel(const GemmConfig& config, const arch::Arch& arch);
Request gemm_request(const GemmKernel& kernel);
/// The request without its tile, under the name of all kernels that differ in the tile alone.
Request gemm_kind_request(const GemmKernel& kernel);
/// Kernels with groups are grouped_gemm's.
constexpr std::string_view gemm_op_name(const GemmKernel& kernel) {
  return kernel.groups == Groups::none ? "gemm" : "grouped_gemm";
}
/// "--dtype f16 --out f16 ... --tile 128x256x64", as kernels are asked for; a rung stands for its tile.
std::string gemm_flags(const GemmKernel& kernel);
std::uint64_t gemm_small_key(const GemmKernel& kernel);

/// The flags that a command line offers.
const std::vector<FlagChoice>& gemm_flag_choices();
const FlagChoice& gemm_flag_choice(std::string_view name);
/// Those of grouped_gemm, with an example of each kind of groups.
const std::vector<FlagChoice>& grouped_gemm_flag_choices();
/// The kernels that a command line names: every combination. Throws tj::Error(argument) naming flag, value and what is
/// allowed.
std::vector<GemmKernel> gemm_combinations(const Flags& flags);
std::vector<GemmKernel> grouped_gemm_combinations(const Flags& flags);
/// Lines of the Config of a unit, of these fields.
void add_gemm_constants(const GemmKernel& kernel, graph::Graph& graph, std::initializer_list<std::string_view> fields);

/// Measurements that choose a tile; a problem's key is the kernel's kind, M, N, K and the batch.
const Tunable& gemm_tunable();
ProblemKey gemm_problem_key(const GemmSizes& sizes, const GemmKernel& kernel);
/// Throws tj::Error(argument) for sizes or types that are not supported.
ProblemKey gemm_problem_key(const GemmConfig& config);
/// The products that flags of a command line give sizes of; empty where they give none.
std::vector<GemmConfig> gemm_configs(const std::map<std::string, std::vector<std::string>>& flags);
/// Are these the same elements at the same places, given the same address?
bool gemm_same_places(const Tensor& x, const Tensor& y);
GemmSizes gemm_sizes(const ProblemKey& problem);

/// Rows of b for a trial that wants about `n` of them, and rows of d that end so many columns earlier.
std::int64_t gemm_trial_columns(const GemmKernel& kernel, std::int64_t n, std::int64_t odd);
/// Scales of blocks of such a d, contiguous in M: as the next product reads them faster.
Operand gemm_scale_d(const Operand& d);
/// Gives a trial's scales that are exponents the value 1; others are drawn.
void gemm_set_exponents(Trial& trial);
/// Op::trials. Without --tile: what is predicted for the sizes, or for usual ones.
std::vector<Trial> gemm_trials(const std::map<std::string, std::vector<std::string>>& flags, const arch::Arch& arch);

/// Does the arch have products of such elements?
bool gemm_serves(const arch::Arch& arch, int element_bytes = 2);
/// Blocks with this tile that run side by side on an SM; 0: the arch does not serve it.
int gemm_blocks_per_sm(const GemmTile& tile, const arch::Arch& arch);
/// Throws tj::Error(target | argument, unsupported) where the arch serves no product of this type.
void gemm_require_type(const GemmKernel& kernel, const arch::Arch& arch);
/// Throws as gemm_require_type() does where the kernel has a gate, or quantises, and the arch serves none that does.
void gemm_require_end(const GemmKernel& kernel, const arch::Arch& arch);
/// Throws as gemm_require_type() does for all that an arch may not serve: a type, a rung, an end, a tile.
void gemm_require(const GemmKernel& kernel, const arch::Arch& arch);

/// The graphs with costs of one tile shape; src/ops/gemm/README.md has pictures.
/// The ways to make it: one, or two that differ in who issues the copies.
std::vector<Candidate> gemm_candidates(const GemmKernel& kernel, const arch::Arch& arch);
/// The first of them.
Candidate gemm_candidate(const GemmKernel& kernel, const arch::Arch& arch);

inline constexpr int kMostGemmStore = 2;  ///< ways that d leaves: gemm::Store of the device's headers
/// Numbers of its kernel that a launch must know.
struct GemmLaunch {
  int store = 0;            ///< 0 to kMostGemmStore
  bool by_threads = false;  ///< the role's threads read a and b, not the copy engine
  bool walks = true;        ///< blocks do tile after tile; else one each
  bool pairs = false;       ///< Graph::pairs: each block brings half of b's columns
  bool split = false;       ///< blocks share tiles
  bool skips = false;       ///< copies leave out boxes outside a and b
  bool in_place = false;    ///< a launch that fills most multiprocessors once takes its places when others are done
  int dealt_over = 0;       ///< groups of multiprocessors that clusters with neighbouring numbers go to in turn
};
inline constexpr std::array kGemmGeometry = {geometry_field<&GemmLaunch::store>("store", 0, kMostGemmStore),
                                             geometry_field<&GemmLaunch::by_threads>("by_threads"),
                                             geometry_field<&GemmLaunch::walks>("walks"),
                                             geometry_field<&GemmLaunch::pairs>("pairs"),
                                             geometry_field<&GemmLaunch::split>("split"),
                                             geometry_field<&GemmLaunch::skips>("skips"),
                                             geometry_field<&GemmLaunch::in_place>("in_place"),
                                             geometry_field<&GemmLaunch::dealt_over>("dealt_over", 0, 1024)};
/// The order of tiles: so many rows of them lie in a group, which goes to the right. Clusters that run together should
/// cover about as many rows as columns of d, and groups should be alike.
int gemm_group_rows(const GemmTile& tile, std::int64_t row_tiles, double clusters);
/// Do so many rows of a read b once, with memory as their limit?
constexpr bool gemm_reads_once(std::int64_t rows, const GemmTile& tile) {
  constexpr int kFewRows = 64;
  return rows <= tile.block_m && rows <= kFewRows;
}
/// Plans one launch. When the choice has parts of K, d has a matrix for each part of each batch, and what belongs to
/// the epilogue is left out.
void gemm_plan(const GemmArgs& args, const GemmChoice& choice, const GemmLaunch& launch, LaunchPlan& plan);

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// on_model: the request runs on the CPU model, so its tensors must live in host memory; else on a GPU. Passing
/// allocates nothing. Reads no tensor memory. Thread safe.
void validate(const GemmArgs& args, bool on_model);
void validate(const GemmConfig& config);

}  // namespace tj::ops
