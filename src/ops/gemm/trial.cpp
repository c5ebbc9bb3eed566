// Problems to check matrix products by; see trial.hpp.
//
// Decides which sizes reach all of a tile's kernel, and dense operands. Invariant: what serves a trial is the kernel
// that its flags name.
#include <algorithm>
#include <array>

#include "ops/common/block_scales.hpp"
#include "ops/common/end_text.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/workloads.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

/// Tiles down and across, and iterations of each; less elements of each, so that the last is no whole one.
struct Extent {
  std::int64_t m, n, k, less;
};
// Three extents. A block's tiles together have more iterations than slots. Tiles, more than a ring has slots, have
// fewer iterations each than any schedule has stages. One tile has many iterations and ends at the tensors' edges.
constexpr Extent kExtents[] = {{2, 2, 5, 0}, {3, 3, 1, 0}, {1, 1, 12, 16}};
// Tiles that blocks share need more iterations: some blocks have pieces of two tiles, and one tile has pieces in all.
constexpr Extent kSplitExtents[] = {{2, 2, 10, 0}, {3, 3, 1, 0}, {1, 1, 24, 16}};
constexpr int kParts = 2;
constexpr std::int64_t kOdd = 3;  // columns fewer, where rows of d are to end between multiples of 16 bytes

/// The kernels that flags name, one value of those left out. Without a tile: any that serves.
std::vector<GemmKernel> kernels_of(Flags flags, const arch::Arch& arch) {
  if (flags.count("dtype") == 0) flags["dtype"] = {"f16"};
  std::vector<GemmKernel> list;
  for (const Request& request : gemm_op().requests_for(flags, arch)) list.push_back(gemm_kernel(request));
  return list;
}

/// The kinds of these kernels, each once whatever its tile.
std::vector<GemmKernel> kinds_of(const Flags& flags, const arch::Arch& arch) {
  std::vector<GemmKernel> kinds;
  std::vector<std::uint64_t> seen;
  for (const GemmKernel& kernel : kernels_of(flags, arch)) {
    GemmKernel kind = kernel;
    if (kind.rung == kNoGemmRung) kind.tile = 0;
    if (flags.count("walk") == 0) kind.walk = WalkChoice::usual;  // the sizes decide it, as they do the tile
    if (const std::uint64_t key = gemm_small_key(kind); std::find(seen.begin(), seen.end(), key) == seen.end()) {
      seen.push_back(key);
      kinds.push_back(kernel);
    }
  }
  return kinds;
}

/// A kind that flags ask for. The last rung's tile follows from the sizes, as a call's does.
struct Asked {
  GemmKernel kernel;
  bool last_rung = false;
};

std::vector<Asked> asked_of(Flags flags, const arch::Arch& arch) {
  std::vector<Asked> list;
  const auto add = [&](bool last_rung) {
    for (const GemmKernel& kernel : flags.count("tile") > 0 ? kernels_of(flags, arch) : kinds_of(flags, arch))
      list.push_back({kernel, last_rung});
  };
  const std::string last = kGemmRungs[kGemmOwnRung].name;
  if (flags.count("rung") == 0 || std::erase(flags["rung"], last) == 0) {
    add(false);
    return list;
  }
  if (!flags["rung"].empty()) add(false);
  flags["rung"] = {last};
  add(true);
  return list;
}

/// The choice of a call of these sizes, or of the last rung.
GemmChoice choice_of(const GemmSizes& sizes, const Asked& asked, const arch::Arch& arch) {
  return asked.last_rung ? gemm_last_rung(gemm_problem_key(sizes, asked.kernel), arch)
                         : choose_gemm(sizes, asked.kernel, arch);
}

/// Sets the default sizes, as far as a rung serves them.
void set_defaults(Sizes& sizes, const GemmKernel& kernel, const Extent& extent) {
  const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(kernel.tile)];
  const GemmRung& rung = gemm_rung(kernel);
  const bool alone = rung.max_tiles == 1;
  const auto less = [&](int block) { return std::min<std::int64_t>(extent.less, block / 2); };
  sizes.set_default("m", (alone ? 1 : extent.m) * tile.block_m * tile.cluster_m - less(tile.block_m));
  const std::int64_t n = (alone ? 1 : extent.n) * tile.block_n * tile.cluster_n - less(tile.block_n);
  sizes.set_default("n", gemm_trial_columns(kernel, n, kernel.d_aligned ? 0 : kOdd));
  // Each block of a sliced tile has as many iterations as other blocks have of a whole one, so that rings come round.
  sizes.set_default("k", (rung.max_iterations == 1 ? 1 : extent.k) * tile.block_k * tile.cluster_k - extent.less -
                             (tile.reads ? kOdd : 0));
}

/// Rows follow each other; columns where it is stored transposed.
TrialTensor matrix(const char* name, DType dtype, const GemmSizes& sizes, std::int64_t rows, std::int64_t columns,
                   bool transposed, bool written = false) {
  TrialTensor tensor = dense(name, dtype, {rows, columns}, written);
  std::vector<std::int64_t>&shape = tensor.operand.shape, &strides = tensor.operand.strides;
  if (transposed) strides = {1, rows};
  if (sizes.batch == 1) return tensor;
  shape.insert(shape.begin(), sizes.batch);
  strides.insert(strides.begin(), rows * columns);
  return tensor;
}

std::string kernel_flags(GemmKernel kernel, const GemmChoice& choice) {
  kernel.tile = choice.tile;
  kernel.parts = choice.parts > 1;
  return gemm_flags(kernel) + end_text_flag(kernel.end_text);
}

Trial trial_of(GemmKernel kernel, const GemmChoice& choice, const Sizes& given) {
  const GemmSizes sizes{given.at("m"), given.at("n"), given.at("k"), given.at("batch")};
  set_dense(kernel, sizes);
  Trial trial;
  trial.name = cat("M ", sizes.m, " N ", sizes.n, " K ", sizes.k, sizes.batch > 1 ? cat(" B ", sizes.batch) : "");
  trial.kernel_flags = kernel_flags(kernel, choice);
  trial.flags = trial.kernel_flags + " " + given.flags();
  if (given.any_given()) trial.kernel_flags = trial.flags;
  trial.choice = choice.number();
  trial.tensors = {matrix("a", kernel.dtype, sizes, sizes.m, sizes.k, kernel.left_mn),
                   matrix("b", kernel.dtype, sizes, sizes.n, sizes.k, kernel.right_mn),
                   matrix("d", kernel.out, sizes, sizes.m, kernel.columns(sizes.n), false, true)};
  if (kernel.add_c) trial.tensors.push_back(matrix("c", kernel.addend(), sizes, sizes.m, sizes.n, false));
  if (kernel.bias) trial.tensors.push_back(dense("bias", kernel.added(), {sizes.n}));
  if (kernel.scales != Scales::tensor) {
    const std::int64_t blocks = gemm_scale_words(kernel, sizes.k);
    const bool rows = kernel.scales == Scales::row;
    const DType type = gemm_scale_type(kernel);
    trial.tensors.push_back(matrix("scale_a", type, sizes, sizes.m, blocks, !kernel.left_scales_k));
    trial.tensors.push_back(matrix("scale_b", type, sizes, rows ? sizes.n : gemm_scale_blocks(sizes.n), blocks,
                                   rows && !kernel.right_scales_k));
    gemm_set_exponents(trial);
  }
  if (kernel.quantises()) trial.tensors.push_back({"scale_d", gemm_scale_d(trial.tensors[2].operand), true});
  if (kernel.end_text.given()) trial.tensors.push_back(dense("end_params", DType::f32, {sizes.n}));
  trial.with_args = [kernel, tensors = trial.tensors](Device device, std::span<void* const> places,
                                                      const std::function<void(const void*)>& use) {
    std::size_t next = 0;
    const auto tensor = [&] {
      const std::size_t i = next++;
      return tensors[i].operand.view(device, places[i]);
    };
    GemmArgs args;
    args.a = tensor();
    args.b = tensor();
    args.d = tensor();
    if (kernel.add_c) {
      args.c = tensor();
      args.beta = 1;
    }
    if (kernel.bias) args.bias = tensor();
    if (kernel.scales != Scales::tensor) {
      args.scale_a = tensor();
      args.scale_b = tensor();
    }
    if (kernel.quantises()) args.scale_d = tensor();
    if (kernel.end_text.given()) args.end_params = tensor();
    args.end_text = kernel.end_text;
    args.activation = kernel.activation;
    args.gate = kernel.gate;
    use(&args);
  };
  return trial;
}

/// The choice that serves it: the tile that was asked for, else the one that is predicted for the sizes, or for usual
/// sizes where not all are given.
GemmChoice choice_of(const Asked& asked, bool tile_given, bool in_parts, const Sizes& given, const arch::Arch& arch) {
  const GemmKernel& kernel = asked.kernel;
  GemmChoice choice{kernel.tile, 1, kernel.rung};
  if (!tile_given && kernel.rung == kNoGemmRung) {
    const GemmConfig usual;
    const bool sized = given.given("m") && given.given("n") && given.given("k");
    choice =
        choice_of(sized ? GemmSizes{given.at("m"), given.at("n"), given.at("k"), given.at("batch")} : gemm_sizes(usual),
                  asked, arch);
    if (!sized) choice.parts = 1;
  }
  if (in_parts && !kernel.whole()) choice.parts = std::max(kParts, choice.parts);
  choice.walk = kernel.walk;
  choice.loads = kernel.loads;
  return choice;
}

/// Values of a flag that is not the kind's alone: none is asked for by default.
std::vector<std::string> take_switch(Flags& flags, const char* name) {
  std::vector<std::string> values = values_of(flags, gemm_flag_choice(name));
  flags.erase(name);
  return values;
}

/// A tile that was asked for and does not serve the sizes would leave some of d out.
void require_served(const GemmSizes& sizes, GemmKernel kernel, const GemmChoice& choice, const arch::Arch& arch) {
  set_dense(kernel, sizes);
  std::string known;
  for (const RankedGemm& ranked : rank_gemm(sizes, kernel, arch)) {
    if (ranked.choice.tile == choice.tile) return;
    if (ranked.choice.parts == 1) known += cat(known.empty() ? "" : ", ", gemm_choice_name(ranked.choice));
  }
  support::fail(Stage::argument, Code::invalid_argument,
                cat("--tile is '", gemm_tile_name(gemm_tiles()[static_cast<std::size_t>(choice.tile)]),
                    "', which does not serve ", sizes.m, "x", sizes.n, "x", sizes.k, " on ", arch.name,
                    "; allowed there: ", known.empty() ? "none" : known));
}

}  // namespace

void gemm_set_exponents(Trial& trial) {
  constexpr std::int32_t kOnes = 0x7f7f7f7f;
  for (TrialTensor& tensor : trial.tensors)
    if (tensor.operand.dtype == DType::i32 && tensor.operand.numbers.empty())
      tensor.operand.numbers.assign(tensor.elements(), kOnes);
}

Operand gemm_scale_d(const Operand& d) {
  const std::size_t across = d.shape.size() - 1;
  const std::int64_t rows = d.shape[across - 1], blocks = scale_blocks(d.shape[across]);
  Operand scales{DType::f32, d.shape, {1, rows}};
  scales.shape[across] = blocks;
  if (across == 2) scales.strides.insert(scales.strides.begin(), rows * blocks);
  return scales;
}

std::int64_t gemm_trial_columns(const GemmKernel& kernel, std::int64_t n, std::int64_t odd) {
  if (!kernel.gated()) return n - odd;
  constexpr std::int64_t kScaled = 2 * gemm::kScaledElements;  // halves have scales of their own
  return kernel.scales == Scales::tensor ? n / 2 * 2 - 2 * odd : (n + kScaled - 1) / kScaled * kScaled;
}

std::vector<Workload> gemm_workloads(const Flags& flags, const arch::Arch& arch) {
  Flags own = flags;
  const Sizes given("gemm", own, {{"m", 4096}, {"n", 4096}, {"k", 4096}, {"batch", 1}});
  const GemmSizes sizes{given.at("m"), given.at("n"), given.at("k"), given.at("batch")};
  gemm_op().requests(own);  // refuses what does not go together
  const std::vector<std::string> in_parts = take_switch(own, "parts");
  const bool tile_given = own.count("tile") > 0;
  const double flops = 2.0 * static_cast<double>(sizes.m) * static_cast<double>(sizes.n) *
                       static_cast<double>(sizes.k) * static_cast<double>(sizes.batch);
  std::vector<Workload> list;
  for (const Asked& asked : asked_of(own, arch))
    for (const std::string& parts : in_parts) {
      const GemmKernel& kernel = asked.kernel;
      GemmChoice choice = tile_given || kernel.rung != kNoGemmRung ? GemmChoice{kernel.tile, 1, kernel.rung}
                                                                   : choice_of(sizes, asked, arch);
      if (parts == "true" && !kernel.whole()) choice.parts = std::max(kParts, choice.parts);
      choice.walk = kernel.walk;
      choice.loads = kernel.loads;
      if (kernel.rung == kNoGemmRung) require_served(sizes, kernel, choice, arch);
      list.push_back({trial_of(kernel, choice, given), flops});
      if (!tile_given && parts != "true" && kernel.rung == kNoGemmRung && kernel.walk == WalkChoice::usual &&
          kernel.loads == 0 && !asked.last_rung)
        list.back().trial.choice.reset();  // a call's own, which may have been measured
    }
  return list;
}

double gemm_predicted_cycles(const void* args, int choice, const arch::Arch& arch) {
  const auto& of = *static_cast<const GemmArgs*>(args);
  GemmChoice asked = GemmChoice::of(choice);
  if (asked.rung != kNoGemmRung) return 0;
  if (asked.walk == WalkChoice::split) return gemm_split_cycles(gemm_sizes(of), gemm_kind(of), asked.tile, arch);
  asked.walk = WalkChoice::usual;  // as long, where all tiles are
  for (auto [ranked, cycles] : rank_gemm(gemm_sizes(of), gemm_kind(of), arch)) {
    if (ranked.walk == WalkChoice::split) continue;
    ranked.walk = WalkChoice::usual;
    if (ranked == asked) return cycles;
  }
  return 0;
}

std::string gemm_choice_text(int choice) { return gemm_choice_name(GemmChoice::of(choice)); }

std::vector<Trial> gemm_trials(const Flags& flags, const arch::Arch& arch) {
  Flags own = flags;
  const Sizes given("gemm", own, {{"m", 0}, {"n", 0}, {"k", 0}, {"batch", 1}});
  gemm_op().requests(own);  // refuses what does not go together
  const std::vector<std::string> in_parts = take_switch(own, "parts"), aligned = take_switch(own, "d-aligned");
  const bool tile_given = own.count("tile") > 0;
  std::vector<Trial> list;
  for (const Asked& asked : asked_of(own, arch))
    for (const std::string& whole : aligned)
      for (const std::string& parts : in_parts) {
        GemmKernel kernel = asked.kernel;
        const GemmChoice choice = choice_of(asked, tile_given, parts == "true", given, arch);
        kernel.tile = choice.tile;
        kernel.d_aligned = whole == "true";
        for (const Extent& extent : kernel.walk == WalkChoice::split ? kSplitExtents : kExtents) {
          Sizes sizes = given;
          set_defaults(sizes, kernel, extent);
          Trial trial = trial_of(kernel, choice, sizes);
          const auto same = [&](const Trial& known) { return known.flags == trial.flags; };
          if (std::none_of(list.begin(), list.end(), same)) list.push_back(std::move(trial));
        }
      }
  return list;
}

}  // namespace tj::ops
