// Requests of gemm; see gemm.hpp.
#include "ops/gemm/gemm.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "ops/common/described.hpp"
#include "ops/common/empty.hpp"
#include "ops/common/op_flags.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/trial.hpp"
#include "ops/gemm/family.hpp"
#include "ops/gemm/fields.hpp"
#include "ops/gemm/params.cuh"
#include "ops/gemm/steps.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;

/// The tile of the op's own kernel where no sizes are given: the best for the sizes of GemmConfig, of those that other
/// families have, too. These have no swapped ones.
int usual_tile() {
  const GemmConfig config;
  for (const arch::Arch* arch : arch::all()) {
    if (find_gemm_family(*arch) != &usual_gemm_family() || !gemm_serves(*arch)) continue;
    for (const RankedGemm& ranked : rank_gemm(gemm_sizes(config), GemmKernel{}, *arch))
      if (!gemm_tiles()[static_cast<std::size_t>(ranked.choice.tile)].swapped && ranked.choice.parts == 1)
        return ranked.choice.tile;
  }
  return 0;
}

/// Places in gemm_rungs() of names. Throws tj::Error(argument) for a name that is none.
std::vector<int> gemm_rungs_named(const std::vector<std::string>& names) {
  std::vector<int> places;
  for (const std::string& value : values_of({{"rung", names}}, gemm_flag_choice("rung")))
    for (std::size_t place = 0; place < gemm_rungs().size(); ++place)
      if (value == gemm_rungs()[place].name) places.push_back(static_cast<int>(place));
  return places;
}

/// A rung brings its tile: flags with one value of --tile, in whose place comes what goes with --rung.
Flags with_tile_of_rung(const Flags& flags) {
  const auto rung = flags.find("rung");
  if (rung == flags.end() || (rung->second.size() == 1 && rung->second.front() == "none")) return flags;
  if (flags.count("tile") > 0)
    fail(Stage::argument, Code::invalid_argument, "--tile is given with --rung; a rung has its own tile: leave it out");
  Flags with = flags;
  with["tile"] = {gemm_tile_name(gemm_tiles()[static_cast<std::size_t>(usual_tile())])};
  return with;
}

/// The copy engine stores 16 bytes at a time, also where a tensor ends between them.
bool rows_whole(std::int64_t columns, DType dtype) { return columns * size_of(dtype) % kCopyAlignmentBytes == 0; }

bool fits(const GemmKernel& kernel) {
  return gemm_tile_fits(gemm_tiles()[static_cast<std::size_t>(kernel.tile)], kernel) &&
         !(kernel.parts && (kernel.rung != kNoGemmRung || kernel.walk == WalkChoice::split));
}

/// The last rung takes its tile from the arch. Until then some tile that serves the kernel stands for it: 8-bit
/// operands have tiles of their own.
void give_last_rung_a_tile(GemmKernel& kernel) {
  for (int tile = 0; kernel.rung == kGemmOwnRung && !fits(kernel) && tile < static_cast<int>(gemm_tiles().size());
       ++tile) {
    GemmKernel other = kernel;
    other.tile = tile;
    if (fits(other)) kernel.tile = tile;
  }
}

/// Adds the kernels that large products of each kind take on the arch, for combinations without --tile.
void add_large(std::vector<GemmKernel>& kernels, const arch::Arch& arch) {
  std::vector<GemmKernel> kinds;
  std::copy_if(kernels.begin(), kernels.end(), std::back_inserter(kinds),
               [&](const GemmKernel& kernel) { return kernel.tile == kernels.front().tile; });
  for (const GemmKernel& kind : kinds)
    for (const GemmChoice& choice : gemm_large_choices(kind, arch)) {
      GemmKernel kernel = kind;
      kernel.tile = choice.tile;
      if (choice.walk != WalkChoice::usual) kernel.walk = choice.walk;
      kernels.push_back(kernel);
    }
}

/// Flags that do not go with a gate are refused by name.
void refuse_gate(const GemmKernel& kernel) {
  const char* with = kernel.parts                            ? "--parts true"
                     : kernel.add_c                          ? "--add-c true"
                     : kernel.activation != Activation::none ? "an --activation"
                     : kernel.right_mn                       ? "--b-major n"
                     : kernel.rung != kNoGemmRung            ? "a --rung"
                     : kernel.walk == WalkChoice::split      ? "--walk split"
                                                             : nullptr;
  if (with != nullptr)
    fail(Stage::argument, Code::unsupported,
         cat("--gate is '", kGemmActivations[static_cast<int>(kernel.gate)], "'; allowed with ", with, ": none"));
}

/// The same for a d that is quantised.
void refuse_quantised(const GemmKernel& kernel) {
  const char* with = kernel.add_c                       ? "--add-c true"
                     : kernel.rung != kNoGemmRung       ? "a --rung"
                     : kernel.walk == WalkChoice::split ? "--walk split"
                                                        : nullptr;
  if (with != nullptr)
    fail(Stage::argument, Code::unsupported, cat("--out is 'e4m3'; allowed with ", with, ": f16, bf16, f32"));
}

/// Why no tile that was asked for serves the kernel.
[[noreturn]] void refuse_all(const GemmKernel& kernel, const Flags& given) {
  const bool narrow = size_of(kernel.dtype) == 1;
  if (kernel.parts && kernel.rung != kNoGemmRung)
    fail(Stage::argument, Code::unsupported,
         cat("--parts is 'true' with --rung ", gemm_rung(kernel).name,
             "; a rung takes all of K: leave one of them out"));
  if (kernel.gated()) refuse_gate(kernel);
  if (kernel.quantises()) refuse_quantised(kernel);
  if (kernel.parts && kernel.walk == WalkChoice::split)
    fail(Stage::argument, Code::unsupported, "--parts is 'true' with --walk split; both cut K: leave one of them out");
  if (const auto rung = given.find("rung"); narrow && rung != given.end())
    fail(Stage::argument, Code::unsupported,
         cat("--rung is '", joined(rung->second), "'; allowed with --dtype ", to_string(kernel.dtype), ": ",
             kGemmRungs[kGemmOwnRung].name));
  if (narrow && (kernel.left_mn || kernel.right_mn))
    fail(Stage::argument, Code::unsupported,
         cat(kernel.left_mn ? "--a-major is 'm'" : "--b-major is 'n'", "; allowed with --dtype ",
             to_string(kernel.dtype), ": k"));
  if (kernel.scales != Scales::tensor && !narrow)
    fail(Stage::argument, Code::unsupported,
         cat("--scales is '", kGemmScales[static_cast<int>(kernel.scales)], "'; allowed with --dtype ",
             to_string(kernel.dtype), ": tensor"));
  GemmKernel any = kernel;
  std::vector<std::string> known;
  for (any.tile = 0; any.tile < static_cast<int>(gemm_tiles().size()); ++any.tile)
    if (fits(any)) known.push_back(gemm_tile_name(gemm_tiles()[static_cast<std::size_t>(any.tile)]));
  fail(Stage::argument, Code::invalid_argument,
       cat("--tile is '", gemm_tile_name(gemm_tiles()[static_cast<std::size_t>(kernel.tile)]),
           "'; allowed with --dtype ", to_string(kernel.dtype), kernel.left_mn ? ", --a-major m" : "",
           kernel.right_mn ? ", --b-major n" : "", ": ", joined(known)));
}

/// Calls use(args), or use() with the same product where K is 0.
template <class Use>
decltype(auto) with_depth(const GemmArgs& args, const Use& use) {
  if (!is_empty(args.a)) [[likely]]
    return use(args);
  return use(without_depth(args));
}

class Gemm final : public Described<GemmArgs, gemm_from_c> {
 public:
  std::string_view name() const override { return "gemm"; }

  void validate(const void* args, bool on_model) const override { ops::validate(get(args), on_model); }
  Device device_of(const void* args) const override { return get(args).a.device; }
  bool asks_for_nothing(const void* args) const override { return is_empty(get(args).d); }
  bool serves(const arch::Arch& arch) const override { return gemm_serves(arch); }

  ProblemKey problem_key(const void* args) const override {
    return with_depth(get(args), [](const GemmArgs& of) { return gemm_problem_key(gemm_sizes(of), gemm_kind(of)); });
  }
  Kernel choose(const ProblemKey& problem, const arch::Arch& arch) const override { return choose_gemm(problem, arch); }
  Kernel kernel_of(const ProblemKey& problem, int choice) const override {
    return gemm_kernel_of(problem, GemmChoice::of(choice));
  }
  bool has_ladder() const override { return true; }
  std::optional<int> rung_choice(const ProblemKey& problem, int rung, const arch::Arch& arch) const override {
    GemmKernel kernel = gemm_kernel(problem.kind);
    check_gemm_rung(rung, gemm_sizes(problem), kernel.dtype);
    if (rung == kNoGemmRung) return {};
    if (rung == kGemmOwnRung) return gemm_last_rung(problem, arch).number();
    check_no_limit("gemm", gemm_sizes(problem).max_sms, kGemmRungs[rung].name);
    if (kernel.whole())
      refuse("gemm", Code::unsupported,
             cat("rung is ", kGemmRungs[rung].name, "; allowed with ", kernel.gated() ? "a gate" : "d of e4m3",
                 ": 0 (none), ", kGemmOwnRung, " (v", kGemmOwnRung, ")"));
    set_gemm_rung(kernel, rung, &arch);
    return GemmChoice{kernel.tile, 1, kernel.rung}.number();
  }
  bool is_rung(const Kernel& own, int rung, const arch::Arch& arch) const override {
    return rung == kGemmOwnRung && gemm_is_last_rung(gemm_kernel(own.small_key), arch);
  }
  Request request_of(const Kernel& kernel) const override { return gemm_request(gemm_kernel(kernel.small_key)); }

  Kernel kernel_of(const Request& request) const override { return {gemm_small_key(gemm_kernel(request))}; }
  std::vector<NeededKernel> needed_kernels(const void* config, const ChooseKernel& choose) const override {
    const auto& of = *static_cast<const GemmConfig*>(config);
    return gemm_needed_kernels(of, choose(gemm_problem_key(of)));
  }
  std::vector<NeededKernel> needed_kernels(const Flags& flags, const arch::Arch& arch,
                                           const ChooseKernel& choose) const override {
    Flags rest = flags;
    const auto rungs = rest.extract("rung");
    const bool sized =
        std::ranges::any_of(tunable()->size_flags(), [&](const char* name) { return flags.count(name); });
    const std::vector<GemmConfig> configs = gemm_configs(sized ? rest : flags);
    if (configs.empty()) return Op::needed_kernels(flags, arch, choose);
    std::vector<NeededKernel> list;
    const auto add = [&](const std::vector<NeededKernel>& of) { list.insert(list.end(), of.begin(), of.end()); };
    for (const GemmConfig& config : configs) {
      if (rungs.empty()) add(needed_kernels(&config, choose));
      for (const int rung : rungs.empty() ? std::vector<int>() : gemm_rungs_named(rungs.mapped()))
        add(gemm_needed_kernels(config, rung_kernel(*this, gemm_problem_key(config), rung, arch,
                                                    [&] { return choose(gemm_problem_key(config)); })));
    }
    return list;
  }

  std::vector<Request> requests(const Flags& given) const override { return requests_of(given, nullptr); }
  std::vector<Request> requests_for(const Flags& given, const arch::Arch& arch) const override {
    return requests_of(given, &arch);
  }

  static std::vector<Request> requests_of(const Flags& given, const arch::Arch* arch) {
    const Flags flags = with_tile_of_rung(given);
    std::vector<GemmKernel> kernels = gemm_combinations(flags);
    if (arch != nullptr && flags.count("tile") == 0) add_large(kernels, *arch);
    std::vector<Request> list;
    std::optional<Error> unserved;
    for (GemmKernel& kernel : kernels) {
      give_last_rung_a_tile(kernel);
      if (kernel.rung == kGemmOwnRung && !fits(kernel)) continue;
      try {
        if (kernel.rung != kNoGemmRung) set_gemm_rung(kernel, kernel.rung, arch);
      } catch (const Error& error) {  // others may be served; of other rungs there is a request, which is refused later
        if (error.code != Code::unsupported) throw;
        unserved = error;
        continue;
      }
      if (!fits(kernel)) continue;
      const Request request = gemm_request(kernel);  // flags that make no difference give the same one
      if (std::none_of(list.begin(), list.end(), [&](const Request& known) { return known.name == request.name; }))
        list.push_back(request);
    }
    if (list.empty() && unserved) throw Error(*unserved);
    if (list.empty()) refuse_all(kernels.front(), given);
    return list;
  }

  std::vector<Candidate> candidates(const Request& request, const arch::Arch& arch) const override {
    return gemm_candidates(gemm_kernel(request), arch);
  }
  bool in_steps(const void* args, const Kernel& kernel) const override {
    return with_depth(get(args), [&](const GemmArgs& of) { return gemm_in_steps(of, GemmChoice::of(kernel.choice)); });
  }
  std::size_t scratch_bytes(const void* args, const Kernel& kernel) const override {
    return with_depth(get(args),
                      [&](const GemmArgs& of) { return gemm_scratch_bytes(of, GemmChoice::of(kernel.choice)); });
  }
  void steps(const void* args, const Kernel& kernel, void* scratch, const EachStep& each) const override {
    with_depth(get(args), [&](const GemmArgs& of) { gemm_steps(of, kernel, scratch, each); });
  }
  GeometryFields geometry_fields() const override { return kGemmGeometry; }
  void tensors(void* args, TensorList& list) const override {
    GemmArgs& of = get(args);
    list.reads("a", of.a);
    list.reads("b", of.b);
    list.writes("d", of.d);
    if (of.beta != 0) list.reads("c", of.c);
    list.reads("bias", of.bias);
    list.reads("scale_a", of.scale_a);
    list.reads("scale_b", of.scale_b);
    list.writes("scale_d", of.scale_d);
    list.reads("end_params", of.end_params);
    if (of.beta != 0 && of.c && gemm_same_places(*of.c, of.d) && of.c->dtype == of.d.dtype)
      list.may_be_one(*of.c, of.d);
  }
  void plan(const void* args, const Kernel& kernel, const Geometry& geometry, LaunchPlan& plan) const override {
    with_depth(get(args), [&](const GemmArgs& of) {
      gemm_plan(of, GemmChoice::of(kernel.choice), geometry.as<GemmLaunch>(), plan);
    });
  }
  const Tunable* tunable() const override { return &gemm_tunable(); }
  std::vector<Trial> trials(const Flags& flags, const arch::Arch& arch) const override {
    return gemm_trials(flags, arch);
  }
};

}  // namespace

std::string gemm_choice_name(const GemmChoice& choice) {
  return cat(gemm_tile_name(gemm_tiles()[static_cast<std::size_t>(choice.tile)]),
             choice.parts == 1 ? "" : cat("k", choice.parts),
             choice.walk == WalkChoice::usual ? "" : cat("+", kWalkWords[static_cast<std::size_t>(choice.walk)]));
}

GemmArgs without_depth(GemmArgs args, bool turned) {
  for (Tensor* const operand : {&args.a, &args.b}) {
    const std::size_t rows = static_cast<std::size_t>(operand->rank - 2), depth = rows + 1;
    if (turned) std::swap(operand->shape[rows], operand->shape[depth]);
    *operand = stand_in(*operand, args.d);
    if (!turned) continue;
    std::swap(operand->shape[rows], operand->shape[depth]);
    std::swap(operand->strides[rows], operand->strides[depth]);
  }
  args.alpha = 0;
  args.scale_a.reset(), args.scale_b.reset();
  return args;
}

const Op& gemm_op() {
  static constinit support::Lasting<const Gemm> op;
  return op.get();
}

GemmSizes gemm_sizes(const GemmArgs& args) {
  const auto& shape = args.d.shape;
  const auto k = args.a.shape[static_cast<std::size_t>(args.a.rank - 1)];
  const std::int64_t halves = args.gate == Activation::none ? 1 : 2;
  return args.d.rank == 3 ? GemmSizes{shape[1], halves * shape[2], k, shape[0], args.max_sms}
                          : GemmSizes{shape[0], halves * shape[1], k, 1, args.max_sms};
}

GemmKernel gemm_kind(const GemmArgs& args) {
  GemmKernel kernel{args.a.dtype,          args.d.dtype,   gemm_mn_major(args.a), gemm_mn_major(args.b),
                    args.bias.has_value(), args.beta != 0, args.activation};
  kernel.gate = args.gate;
  kernel.end_text = args.end_text;
  kernel.add_f32 = kernel.add_c && args.c && args.c->dtype == DType::f32 && kernel.out != DType::f32;
  kernel.d_aligned =
      copy_aligned(args.d, args.d.rank - 1) && rows_whole(kernel.columns(gemm_sizes(args).n), kernel.out);
  kernel.scales = gemm_scales(args);
  if (kernel.scales == Scales::tensor) return kernel;
  kernel.packed_scales = args.scale_a->dtype == DType::i32;
  kernel.left_scales_k = !gemm_scales_mn(args, false);
  kernel.right_scales_k = kernel.scales == Scales::row && !gemm_scales_mn(args, true);
  return kernel;
}

GemmSizes gemm_sizes(const GemmConfig& config) { return {config.m, config.n, config.k, config.batch}; }

GemmKernel chosen(GemmKernel kind, const GemmChoice& choice) {
  kind.tile = choice.tile;
  kind.rung = choice.rung;
  if (choice.walk != WalkChoice::usual) kind.walk = choice.walk;
  if (choice.loads != 0) kind.loads = choice.loads;
  return choice.parts > 1 ? of_parts(kind) : kind;
}

void set_dense(GemmKernel& kernel, const GemmSizes& sizes) {
  kernel.d_aligned = rows_whole(kernel.columns(sizes.n), kernel.out);
}

Scales gemm_scales(const GemmArgs& args) {
  if (!args.scale_a || !args.scale_b || args.scale_a->rank < 2) return Scales::tensor;
  const Tensor& b = *args.scale_b;
  return b.rank >= 2 && b.shape[static_cast<std::size_t>(b.rank - 2)] == gemm_sizes(args).n && gemm_sizes(args).n > 1
             ? Scales::row
             : Scales::block;
}

bool gemm_scales_mn(const GemmArgs& args, bool right) {
  return right ? gemm_scales(args) == Scales::row && gemm_mn_major(*args.scale_b) : gemm_mn_major(*args.scale_a);
}

Kernel gemm_kernel_of(const ProblemKey& problem, const GemmChoice& choice) {
  return {gemm_small_key(chosen(gemm_kernel(problem.kind), choice)), choice.number()};
}

GemmKernel gemm_kind(const GemmConfig& config) {
  validate(config);
  GemmKernel kernel{config.dtype, config.out,   config.a_transposed, config.b_transposed,
                    config.bias,  config.add_c, config.activation};
  kernel.gate = config.gate;
  kernel.end_text = config.end_text;
  kernel.add_f32 = config.add_c && config.c_f32 && config.out != DType::f32;
  kernel.scales = config.scales;
  kernel.packed_scales = config.packed_scales;
  kernel.left_scales_k = config.scale_a_transposed;
  kernel.right_scales_k = config.scale_b_transposed;
  set_dense(kernel, gemm_sizes(config));
  return kernel;
}

GemmKernel gemm_kernel(const GemmConfig& config, const arch::Arch& arch) {
  return gemm_kernel(choose_gemm(gemm_problem_key(config), arch).small_key);
}

}  // namespace tj::ops
