// Choosing a matrix product's tile by measurement: problems, their tiles, their tensors; see tunable.hpp.
//
// Decides which sizes and kinds a command line names and which tensors such a product has: dense ones, a batch in all
// of them. Invariant: a problem that was written down as fields and read back is the same problem, or none.
#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "ops/common/end_text.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/rates.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;
using Flags = std::map<std::string, std::vector<std::string>>;
using Fields = std::vector<std::pair<std::string, std::string>>;

constexpr int kWalkedTiles = 3;  // so many of the best tiles are also measured with blocks that draw or share tiles
constexpr const char* kLimit = "max-sms";  // a problem's field, where there is a limit
constexpr const char* kSizeNames[] = {"m", "n", "k", "batch"};

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void refuse(const std::string& flag, const std::string& value, const std::string& allowed) {
  fail(Stage::argument, Code::invalid_argument,
       cat("--", flag, " is '", support::shown(value), "'; allowed: ", allowed));
}

/// "4096" is 4096x4096x4096.
GemmSizes parse_sizes(const std::string& text) {
  std::vector<std::int64_t> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    const auto value = number(text.substr(begin, end - begin));
    if (!value) refuse("sizes", text, "S, MxNxK or MxNxKxBATCH, separated by commas");
    sizes.push_back(*value);
    begin = end + 1;
  }
  if (sizes.size() == 1) return {sizes[0], sizes[0], sizes[0], 1};
  if (sizes.size() != 3 && sizes.size() != 4) refuse("sizes", text, "S, MxNxK or MxNxKxBATCH, separated by commas");
  return {sizes[0], sizes[1], sizes[2], sizes.size() == 4 ? sizes[3] : 1};
}

std::int64_t& size_at(GemmSizes& sizes, std::size_t i) {
  return *std::array{&sizes.m, &sizes.n, &sizes.k, &sizes.batch}[i];
}

/// Every combination of --m, --n, --k and --batch, or those of --sizes.
std::vector<GemmSizes> sizes_of(const Flags& flags) {
  if (const auto listed = flags.find("sizes"); listed != flags.end()) {
    for (const char* name : kSizeNames)
      if (flags.count(name) > 0)
        fail(Stage::argument, Code::invalid_argument,
             cat("--sizes and --", name, " are both given; allowed: one way to name sizes"));
    std::vector<GemmSizes> list;
    for (const std::string& text : listed->second) list.push_back(parse_sizes(text));
    return list;
  }
  std::vector<GemmSizes> list(1);
  for (std::size_t i = 0; i < std::size(kSizeNames); ++i) {
    const auto given = flags.find(kSizeNames[i]);
    if (given == flags.end() && i < 3)
      fail(Stage::argument, Code::invalid_argument,
           cat("--", kSizeNames[i],
               " is missing; a tile is measured for sizes: --m, --n and --k, or --sizes MxNxK,..."));
    if (given == flags.end()) continue;
    std::vector<GemmSizes> longer;
    for (const GemmSizes& sizes : list)
      for (const std::string& text : given->second) {
        const auto value = number(text);
        if (!value) refuse(kSizeNames[i], text, "a number of at least 1");
        size_at(longer.emplace_back(sizes), i) = *value;
      }
    list = std::move(longer);
  }
  return list;
}

GemmConfig config_of(const GemmSizes& sizes, const GemmKernel& kernel) {
  GemmConfig config;
  config.m = sizes.m;
  config.n = sizes.n;
  config.k = sizes.k;
  config.batch = sizes.batch;
  config.dtype = kernel.dtype;
  config.out = kernel.out;
  config.a_transposed = kernel.left_mn;
  config.b_transposed = kernel.right_mn;
  config.bias = kernel.bias;
  config.add_c = kernel.add_c;
  config.c_f32 = kernel.add_f32;
  config.activation = kernel.activation;
  config.gate = kernel.gate;
  config.scales = kernel.scales;
  config.packed_scales = kernel.packed_scales;
  config.scale_a_transposed = kernel.left_scales_k;
  config.scale_b_transposed = kernel.right_scales_k;
  return config;
}

/// Throws for what no product is.
void check(const GemmSizes& sizes, const GemmKernel& kernel) { validate(config_of(sizes, kernel)); }

Problem make_problem(GemmKernel kernel, GemmSizes sizes) {
  kernel.tile = 0;
  kernel.parts = false;
  set_dense(kernel, sizes);
  Request request = gemm_kind_request(kernel);
  Problem problem{std::move(request.fields), std::move(request.name)};
  for (std::size_t i = 0; i < std::size(kSizeNames); ++i)
    problem.fields.emplace_back(kSizeNames[i], cat(size_at(sizes, i)));
  problem.name += cat(" ", sizes.m, "x", sizes.n, "x", sizes.k);
  if (sizes.batch != 1) problem.name += cat("x", sizes.batch);
  if (sizes.max_sms > 0) {
    problem.fields.emplace_back(kLimit, cat(sizes.max_sms));
    problem.name += cat(" on ", sizes.max_sms, " SMs");
  }
  problem.flops = 2.0 * static_cast<double>(sizes.m) * static_cast<double>(sizes.n) * static_cast<double>(sizes.k) *
                  static_cast<double>(sizes.batch);
  return problem;
}

GemmKernel kind_of(const Problem& problem) {
  Request request;
  request.fields = problem.fields;
  return gemm_kernel(request);
}

GemmSizes sizes_of(const Problem& problem) {
  GemmSizes sizes{0, 0, 0, 0, 0};
  for (const auto& [name, value] : problem.fields) {
    if (const std::int64_t limit = number(value).value_or(0);
        name == kLimit && limit <= std::numeric_limits<int>::max())
      sizes.max_sms = limit;
    for (std::size_t i = 0; i < std::size(kSizeNames); ++i)
      if (name == kSizeNames[i]) size_at(sizes, i) = number(value).value_or(0);
  }
  return sizes;
}

/// A matrix whose rows (columns where it is transposed) follow each other, each at a multiple of `aligned` elements.
Operand matrix(DType dtype, const GemmSizes& sizes, std::int64_t rows, std::int64_t columns, bool transposed = false,
               std::int64_t aligned = 1) {
  const std::int64_t inner = transposed ? rows : columns, pitch = (inner + aligned - 1) / aligned * aligned;
  Operand operand{
      dtype, {rows, columns}, transposed ? std::vector<std::int64_t>{1, pitch} : std::vector<std::int64_t>{pitch, 1}};
  if (sizes.batch == 1) return operand;
  operand.shape.insert(operand.shape.begin(), sizes.batch);
  operand.strides.insert(operand.strides.begin(), pitch * (transposed ? columns : rows));
  return operand;
}

/// The best tiles for blocks that share them, where these would have pieces of any, but for what a call takes anyway.
std::vector<RankedGemm> split_tiles(const GemmSizes& sizes, const GemmKernel& kind, const arch::Arch& arch) {
  std::vector<RankedGemm> list;
  if (kind.whole()) return list;
  const std::vector<RankedGemm> ranking = rank_gemm(sizes, kind, arch);
  for (auto [choice, cycles] : ranking) {
    const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(choice.tile)];
    // A drawn choice has its persistent form in the ranking, too.
    if (choice.parts > 1 || choice.walk == WalkChoice::dynamic || tile.sliced() || !gemm_shares(sizes, tile, arch))
      continue;
    choice.walk = WalkChoice::split;
    if (choice == ranking.front().choice) continue;
    list.push_back({choice, gemm_split_cycles(sizes, kind, choice.tile, arch)});
  }
  const auto fewer = [](const RankedGemm& x, const RankedGemm& y) { return x.cycles < y.cycles; };
  std::stable_sort(list.begin(), list.end(), fewer);
  list.resize(std::min<std::size_t>(list.size(), kWalkedTiles));
  return list;
}

class GemmTunable final : public Tunable {
 public:
  ProblemKey key_of(const Problem& problem) const override {
    return gemm_problem_key(sizes_of(problem), kind_of(problem));
  }

  std::vector<Variant> variants(const Problem& problem, const arch::Arch& arch) const override {
    const GemmKernel kind = kind_of(problem);
    std::vector<Variant> list;
    const auto add = [&](const GemmChoice& choice, double cycles) {
      list.push_back({gemm_kernel_of(key_of(problem), choice), gemm_choice_name(choice), cycles});
    };
    const GemmSizes sizes = sizes_of(problem);
    const std::vector<RankedGemm> ranking = rank_gemm(sizes, kind, arch);
    int drawn = 0;
    for (auto [choice, cycles] : ranking) {
      add(choice, cycles);
      const GemmTile& tile = gemm_tiles()[static_cast<std::size_t>(choice.tile)];
      const bool all_at_once = clusters_of(sizes, tile) <= cluster_places(sizes, tile, arch);
      if (choice.parts > 1 || tile.sliced() || all_at_once || choice.walk != WalkChoice::usual ||
          ++drawn > kWalkedTiles)
        continue;
      choice.walk = WalkChoice::dynamic;
      if (choice != ranking.front().choice) add(choice, cycles);  // else it is in the list
    }
    for (const RankedGemm& ranked : split_tiles(sizes, kind, arch)) add(ranked.choice, ranked.cycles);
    // The first is what is taken without a measurement.
    std::stable_sort(list.begin() + std::min<std::ptrdiff_t>(1, std::ssize(list)), list.end(),
                     [](const Variant& x, const Variant& y) { return x.predicted_cycles < y.predicted_cycles; });
    return list;
  }

  Problem problem_of(const void* args) const override {
    const auto& of = *static_cast<const GemmArgs*>(args);
    if (of.end_text.given())
      fail(Stage::argument, Code::unsupported,
           "gemm: end_text is given; allowed in tuning: calls without, as what it costs is the user's");
    if (gemm_sizes(of).k == 0)
      fail(Stage::argument, Code::invalid_argument,
           cat("gemm: a.shape[", of.a.rank - 1, "] (K) is 0; allowed in tuning: 1 and up"));
    return make_problem(gemm_kind(of), gemm_sizes(of));
  }

  std::span<const char* const> size_flags() const override {
    static constexpr const char* kFlags[] = {"m", "n", "k", "sizes"};
    return kFlags;
  }
  std::vector<Problem> problems(const Flags& flags) const override {
    if (flags.count("tile") > 0)
      fail(Stage::argument, Code::invalid_argument,
           "--tile is given; it is what is measured: leave it out, or name tiles with --tune-only");
    if (flags.count("parts") > 0)
      fail(Stage::argument, Code::invalid_argument,
           "--parts is given; whether K is cut is what is measured: leave it out, or name tiles with --tune-only");
    if (flags.count("rung") > 0)
      fail(Stage::argument, Code::invalid_argument,
           "--rung is given; a rung is one kernel, with nothing to choose: leave it out");
    if (flags.count("load-columns") > 0)
      fail(Stage::argument, Code::invalid_argument,
           "--load-columns is given; calls load 32 columns at once, and no other is measured: leave it out");
    if (flags.count(kEndTextField) > 0)
      fail(Stage::argument, Code::invalid_argument, "--end-text is given; what it costs is the user's: leave it out");
    if (flags.count("walk") > 0)
      fail(Stage::argument, Code::invalid_argument,
           "--walk is given; how tiles come to blocks is what is measured: leave it out");
    Flags kinds = flags;
    for (const char* name : kSizeNames) kinds.erase(name);
    kinds.erase("sizes");
    kinds["tile"].clear();  // whichever serves a kind: each kind once
    for (const GemmTile& tile : gemm_tiles()) kinds["tile"].push_back(gemm_tile_name(tile));
    std::vector<GemmKernel> found;
    for (const Request& request : gemm_op().requests(kinds)) {
      GemmKernel kind = gemm_kernel(request);
      kind.tile = 0;
      kind.parts = false;
      const auto same = [&](const GemmKernel& of) { return gemm_small_key(of) == gemm_small_key(kind); };
      if (std::ranges::none_of(found, same)) found.push_back(kind);
    }
    std::vector<Problem> list;
    for (const GemmSizes& sizes : sizes_of(flags))
      for (const GemmKernel& kind : found) {
        check(sizes, kind);
        list.push_back(make_problem(kind, sizes));
      }
    return list;
  }

  std::optional<Problem> problem_of(const Fields& fields) const override {
    return problem_of_fields(fields, [](const Problem& given) {
      check(sizes_of(given), kind_of(given));
      if (kind_of(given).end_text.given()) return std::optional<Problem>();
      return std::optional(make_problem(kind_of(given), sizes_of(given)));
    });
  }

  std::vector<Operand> operands(const Problem& problem) const override {
    std::vector<Operand> list = operands(problem, 1);
    return taken(problem, list) ? list : operands(problem, 16 / size_of(kind_of(problem).dtype));
  }

  void with_args(const Problem& problem, Device device, std::span<void* const> places,
                 const std::function<void(const void*)>& use) const override {
    const GemmArgs args = args_of(problem, operands(problem), device, places);
    use(&args);
  }

 private:
  /// Dense; rows of a and b at multiples of so many elements.
  static std::vector<Operand> operands(const Problem& problem, std::int64_t aligned) {
    const GemmKernel kernel = kind_of(problem);
    const GemmSizes sizes = sizes_of(problem);
    std::vector<Operand> list = {matrix(kernel.dtype, sizes, sizes.m, sizes.k, kernel.left_mn, aligned),
                                 matrix(kernel.dtype, sizes, sizes.n, sizes.k, kernel.right_mn, aligned),
                                 matrix(kernel.out, sizes, sizes.m, kernel.columns(sizes.n))};
    if (kernel.add_c) list.push_back(matrix(kernel.addend(), sizes, sizes.m, sizes.n));
    if (kernel.bias) list.push_back({kernel.added(), {sizes.n}, {1}});
    if (kernel.quantises()) list.push_back(gemm_scale_d(list[2]));
    if (kernel.scales == Scales::tensor) return list;
    const std::int64_t blocks = gemm_scale_words(kernel, sizes.k), four = 16 / size_of(DType::f32);
    const bool rows = kernel.scales == Scales::row;
    const DType scale = gemm_scale_type(kernel);
    list.push_back(matrix(scale, sizes, sizes.m, blocks, !kernel.left_scales_k, four));
    list.push_back(matrix(scale, sizes, rows ? sizes.n : gemm_scale_blocks(sizes.n), blocks,
                          rows && !kernel.right_scales_k, four));
    return list;
  }
  static GemmArgs args_of(const Problem& problem, const std::vector<Operand>& operands, Device device,
                          std::span<void* const> places) {
    const GemmKernel kernel = kind_of(problem);
    std::size_t next = 0;
    const auto tensor = [&] {
      const std::size_t i = next++;
      return operands[i].view(device, places[i]);
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
    if (kernel.quantises()) args.scale_d = tensor();
    if (kernel.scales != Scales::tensor) {
      args.scale_a = tensor();
      args.scale_b = tensor();
    }
    args.activation = kernel.activation;
    args.gate = kernel.gate;
    args.max_sms = static_cast<int>(sizes_of(problem).max_sms);
    return args;
  }
  /// Does the op take such tensors? Where they lie is made up; nothing looks there.
  static bool taken(const Problem& problem, const std::vector<Operand>& operands) {
    std::vector<void*> places;
    for (std::size_t i = 0; i < operands.size(); ++i) places.push_back(reinterpret_cast<void*>((i + 1) << 44));
    try {
      const GemmArgs args = args_of(problem, operands, {DeviceKind::cuda, 0}, places);
      validate(args, false);
      // With one row or column either order may be meant: the one that is taken must be the problem's.
      const GemmKernel kernel = kind_of(problem);
      return gemm_mn_major(args.a) == kernel.left_mn && gemm_mn_major(args.b) == kernel.right_mn;
    } catch (const Error&) {
      return false;
    }
  }
};

}  // namespace

const Tunable& gemm_tunable() {
  static constinit support::Lasting<const GemmTunable> tunable;
  return tunable.get();
}

std::vector<GemmConfig> gemm_configs(const Flags& given) {
  Flags flags = given;
  const DeviceText text = take_end_text(flags);  // which is no part of what is measured
  const bool sized = flags.count("sizes") > 0 || std::any_of(std::begin(kSizeNames), std::end(kSizeNames),
                                                             [&](const char* name) { return flags.count(name) > 0; });
  std::vector<GemmConfig> list;
  if (sized)
    for (const Problem& problem : gemm_tunable().problems(flags)) {
      list.push_back(config_of(sizes_of(problem), kind_of(problem)));
      list.back().end_text = text;
    }
  return list;
}

ProblemKey gemm_problem_key(const GemmSizes& sizes, const GemmKernel& kernel) {
  GemmKernel kind = kernel;
  kind.tile = 0;
  kind.parts = false;
  return {gemm_small_key(kind), {sizes.m, sizes.n, sizes.k, sizes.batch, sizes.max_sms}};
}

ProblemKey gemm_problem_key(const GemmConfig& config) {
  const GemmKernel kind = gemm_kind(config);
  return gemm_problem_key(gemm_sizes(config), kind);
}

GemmSizes gemm_sizes(const ProblemKey& problem) {
  const auto& [m, n, k, batch, max_sms] = problem.sizes;
  return {m, n, k, batch, max_sms};
}

}  // namespace tj::ops
