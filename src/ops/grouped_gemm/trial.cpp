// Problems to check products of groups by; see trial.hpp.
//
// Decides lists that reach all of a kernel: empty groups, groups of one row, of a whole tile, of several.
#include <algorithm>

#include "ops/common/end_text.hpp"
#include "ops/common/trial.hpp"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

/// The kernels that flags name, one value of those left out. Without a tile, each kind once with the one that serves
/// usual sizes.
std::vector<GemmKernel> kernels_of(Flags flags, const arch::Arch& arch) {
  if (flags.count("dtype") == 0) flags["dtype"] = {"bf16"};
  const bool tile_given = flags.count("tile") > 0;
  std::vector<GemmKernel> list;
  for (const Request& request : grouped_gemm_op().requests(flags)) {
    GemmKernel kernel = gemm_kernel(request);
    if (!tile_given) kernel.tile = choose_gemm(grouped_gemm_sizes(GroupedGemmConfig{}), kernel, arch).tile;
    const auto same = [&](const GemmKernel& known) { return gemm_small_key(known) == gemm_small_key(kernel); };
    if (std::none_of(list.begin(), list.end(), same)) list.push_back(kernel);
  }
  return list;
}

/// Rows of each group: of tiles of `block` rows, as many as are given in hundredths of one.
std::vector<std::int32_t> counts_of(int block, std::initializer_list<int> hundredths) {
  std::vector<std::int32_t> counts;
  for (const int part : hundredths) counts.push_back(part == 1 ? 1 : block * part / 100);
  return counts;
}

struct Lists {
  std::vector<std::int32_t> counts, list;
  std::int64_t rows = 0;  ///< of a, or of a group's matrix with counts
};
Lists lists_of(std::vector<std::int32_t> counts, Groups groups) {
  Lists lists{std::move(counts), {}, 0};
  if (groups == Groups::counts) {
    lists.list = lists.counts;
    lists.rows = *std::max_element(lists.counts.begin(), lists.counts.end()) + 1;
    return lists;
  }
  const std::int64_t together = groups == Groups::rows ? gemm::kRowsTogether : 1;
  for (std::size_t group = 0; group < lists.counts.size(); ++group) {
    const std::int64_t end = lists.rows + lists.counts[group];
    if (groups == Groups::rows) {
      lists.list.resize(static_cast<std::size_t>(end), static_cast<std::int32_t>(group));
      lists.rows = (end + together - 1) / together * together;
      lists.list.resize(static_cast<std::size_t>(lists.rows), -1);
    } else {
      lists.rows = end;
      lists.list.push_back(static_cast<std::int32_t>(end));
    }
  }
  return lists;
}

using WithArgs = decltype(Trial::with_args);
WithArgs args_of(const GemmKernel& kernel, const std::vector<TrialTensor>& tensors) {
  return [kernel, tensors](Device device, std::span<void* const> places, const std::function<void(const void*)>& use) {
    std::size_t next = 0;
    const auto tensor = [&] {
      const std::size_t i = next++;
      return tensors[i].operand.view(device, places[i]);
    };
    GroupedGemmArgs args;
    args.a = tensor();
    args.b = tensor();
    args.d = tensor();
    args.groups = tensor();
    args.grouping = static_cast<Grouping>(static_cast<int>(kernel.groups) - 1);
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
}

/// M x N products over parts of K: a and b have a row for each of K, or of e4m3 K is contiguous.
Trial depths_trial(GemmKernel kernel, const Lists& lists, const Sizes& given) {
  const bool narrow = kernel.dtype == DType::e4m3;
  const std::int64_t wide = 16 / size_of(kernel.dtype), m = given.at("m"), n = given.at("n"),
                     groups = static_cast<std::int64_t>(lists.counts.size()), k = std::max<std::int64_t>(lists.rows, 1);
  set_dense(kernel, {m, n, k, groups});
  const auto operand = [&](const char* name, std::int64_t rows) {
    TrialTensor tensor = dense(name, kernel.dtype, {rows, k});
    if (narrow)
      tensor.operand.strides = {(k + wide - 1) / wide * wide, 1};
    else
      tensor.operand.strides = {1, (rows + wide - 1) / wide * wide};
    return tensor;
  };
  Trial trial;
  trial.name = cat("G ", groups, " M ", m, " N ", n, " K ", k);
  trial.kernel_flags = gemm_flags(kernel) + end_text_flag(kernel.end_text);
  trial.flags = cat(trial.kernel_flags, " --m ", m, " --n ", n, " --counts ");
  for (std::size_t g = 0; g < lists.counts.size(); ++g) trial.flags += cat(g == 0 ? "" : ",", lists.counts[g]);
  trial.choice = GemmChoice{kernel.tile, 1}.number();
  trial.tensors = {operand("a", m), operand("b", n), dense("d", kernel.out, {groups, m, n}, true),
                   list_of("groups", {groups}, lists.list)};
  if (kernel.add_c) trial.tensors.push_back(dense("c", kernel.out, {groups, m, n}));
  if (kernel.bias) trial.tensors.push_back(dense("bias", kernel.added(), {groups, n}));
  if (kernel.scales != Scales::tensor) {
    const std::int64_t blocks = gemm_scale_words(kernel, k);
    trial.tensors.push_back(dense("scale_a", gemm_scale_type(kernel), {m, blocks}));
    trial.tensors.push_back(
        dense("scale_b", gemm_scale_type(kernel), {kernel.scales == Scales::row ? n : gemm_scale_blocks(n), blocks}));
    gemm_set_exponents(trial);
  }
  if (kernel.end_text.given()) trial.tensors.push_back(dense("end_params", DType::f32, {n}));
  trial.with_args = args_of(kernel, trial.tensors);
  return trial;
}

Trial trial_of(GemmKernel kernel, const Lists& lists, const Sizes& given) {
  const std::int64_t n = given.at("n"), k = given.at("k"), groups = static_cast<std::int64_t>(lists.counts.size()),
                     blocks = gemm_scale_words(kernel, k);
  set_dense(kernel, {lists.rows, n, k, groups});
  const bool counts = kernel.groups == Groups::counts;
  const auto of_rows = [&](const char* name, DType dtype, std::int64_t columns, bool written = false) {
    return counts ? dense(name, dtype, {groups, lists.rows, columns}, written)
                  : dense(name, dtype, {lists.rows, columns}, written);
  };
  Trial trial;
  trial.name = cat("G ", groups, " rows ", lists.rows, " N ", n, " K ", k);
  trial.kernel_flags = gemm_flags(kernel) + end_text_flag(kernel.end_text);
  trial.flags = cat(trial.kernel_flags, " --n ", n, " --k ", k, " --counts ");
  for (std::size_t g = 0; g < lists.counts.size(); ++g) trial.flags += cat(g == 0 ? "" : ",", lists.counts[g]);
  trial.choice = GemmChoice{kernel.tile, 1}.number();
  trial.tensors = {of_rows("a", kernel.dtype, k), dense("b", kernel.dtype, {groups, n, k}),
                   of_rows("d", kernel.out, kernel.columns(n), true),
                   list_of("groups", {static_cast<std::int64_t>(lists.list.size())}, lists.list)};
  if (kernel.add_c) trial.tensors.push_back(of_rows("c", kernel.out, n));
  if (kernel.bias) trial.tensors.push_back(dense("bias", kernel.added(), {groups, n}));
  if (kernel.scales != Scales::tensor) {
    trial.tensors.push_back(of_rows("scale_a", gemm_scale_type(kernel), blocks));
    trial.tensors.push_back(dense("scale_b", gemm_scale_type(kernel),
                                  {groups, kernel.scales == Scales::row ? n : gemm_scale_blocks(n), blocks}));
    gemm_set_exponents(trial);
  }
  if (kernel.quantises()) trial.tensors.push_back({"scale_d", gemm_scale_d(trial.tensors[2].operand), true});
  if (kernel.end_text.given()) trial.tensors.push_back(dense("end_params", DType::f32, {n}));
  trial.with_args = args_of(kernel, trial.tensors);
  return trial;
}

}  // namespace

std::vector<Trial> grouped_gemm_trials(const Flags& flags, const arch::Arch& arch) {
  Flags own = flags;
  const Sizes given("grouped_gemm", own, {{"m", 0}, {"n", 0}, {"k", 0}});
  const std::vector<std::int64_t> counts = take_list(own, "counts", {});
  std::vector<Trial> list;
  for (GemmKernel kernel : kernels_of(own, arch)) {
    kernel.left_scales_k = kernel.scales != Scales::tensor;  // dense scales
    kernel.right_scales_k = kernel.scales == Scales::row;
    const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(kernel.tile)];
    int number = 0;
    const auto add = [&](std::vector<std::int32_t> rows) {
      Sizes sizes = given;
      const int less = number++ > 0 ? 16 : 0;  // lists of long groups with whole tiles, and with others
      if (kernel.groups == Groups::depths) {
        if (kernel.dtype == DType::e4m3)  // groups begin at multiples
          for (std::int32_t& count : rows) count = (count + tile.block_k - 1) / tile.block_k * tile.block_k;
        sizes.set_default("m", 2 * tile.block_m - less);
        sizes.set_default("n", 2 * tile.block_n - less);
        list.push_back(depths_trial(kernel, lists_of(std::move(rows), kernel.groups), sizes));
        return;
      }
      sizes.set_default("n", gemm_trial_columns(kernel, 2 * tile.block_n * tile.cluster_n - less, 0));
      sizes.set_default("k", 5 * tile.block_k - less);
      list.push_back(trial_of(kernel, lists_of(std::move(rows), kernel.groups), sizes));
    };
    if (!counts.empty()) {
      add({counts.begin(), counts.end()});
      continue;
    }
    for (const auto& hundredths : {std::initializer_list<int>{0, 130, 1, 0, 100, 240}, {1, 1, 0}, {220}})
      add(counts_of(kernel.groups == Groups::depths ? 3 * tile.block_k : tile.block_m * tile.cluster_m, hundredths));
  }
  return list;
}

}  // namespace tj::ops
