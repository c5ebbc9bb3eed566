// The launches that serve a matrix product; see steps.hpp.
//
// Decides their order and where in scratch memory each finds what it reads. Invariant: sums of parts are added in the
// order of the parts, so equal calls give equal bits.
#include "ops/gemm/steps.hpp"

#include "ops/copy_rows/copy_rows.hpp"
#include "ops/sum_parts/sum_parts.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

constexpr std::int64_t kRowFloats = 4;  // rows of sums begin at multiples of 16 bytes
constexpr std::size_t kPlace = 256;

std::int64_t blocks_of(const GemmSizes& sizes, const GemmChoice& choice) {
  const std::int64_t block = gemm_tiles()[static_cast<std::size_t>(choice.tile)].block_k;
  return (sizes.k + block - 1) / block;
}

/// The parts that a call has: what was chosen for its sizes, less those without an iteration. None where neither a nor
/// b is read.
int parts_of(const GemmArgs& args, const GemmChoice& choice) {
  if (args.alpha == 0) return 0;
  const std::int64_t blocks = blocks_of(gemm_sizes(args), choice), each = gemm_part_blocks(blocks, choice.parts);
  return static_cast<int>((blocks + each - 1) / each);
}

/// Sums of all parts: those of one batch behind each other, then the next part.
Tensor sums_of(const GemmArgs& args, int parts, void* data) {
  const GemmSizes sizes = gemm_sizes(args);
  const std::int64_t pitch = (sizes.n + kRowFloats - 1) / kRowFloats * kRowFloats;
  return Tensor::strided(data, args.d.device, DType::f32, {parts * sizes.batch, sizes.m, sizes.n},
                         {sizes.m * pitch, pitch, 1});
}

std::size_t sum_bytes(const GemmArgs& args, const GemmChoice& choice) {
  const Tensor sums = sums_of(args, parts_of(args, choice), nullptr);
  return static_cast<std::size_t>(sums.shape[0] * sums.strides[0]) * sizeof(float);
}

void in_parts(const GemmArgs& args, const GemmChoice& choice, void* scratch, const Step& step) {
  const int parts = parts_of(args, choice);
  SumPartsArgs sum{args, sums_of(args, parts, scratch), parts};
  if (parts > 0) {
    GemmPartsArgs product{{}, {choice.tile, parts}};
    product.product.a = args.a;
    product.product.b = args.b;
    product.product.d = sum.sums;
    step(gemm_parts_op(), &product);
  }
  step(sum_parts_op(), &sum);
}

/// Launches kernels of gemm's own, under its name: what is made of their requests is the same.
class GemmParts final : public Op {
 public:
  std::string_view name() const override { return gemm_op().name(); }
  void validate(const void*, bool) const override {}  // made of a call that was validated
  Device device_of(const void* args) const override { return get(args).product.d.device; }
  bool serves(const arch::Arch& arch) const override { return gemm_op().serves(arch); }
  Request request_of(const void* args, const arch::Arch&) const override { return gemm_request(kernel_of(get(args))); }
  std::uint64_t small_key(const void* args, const arch::Arch&) const override {
    return gemm_small_key(kernel_of(get(args)));
  }
  std::vector<Request> requests(const std::map<std::string, std::vector<std::string>>& flags) const override {
    return gemm_op().requests(flags);
  }
  std::vector<Request> requests_for(const std::map<std::string, std::vector<std::string>>& flags,
                                    const arch::Arch& arch) const override {
    return gemm_op().requests_for(flags, arch);
  }
  std::vector<Candidate> candidates(const Request& request, const arch::Arch& arch) const override {
    return gemm_op().candidates(request, arch);
  }
  Geometry geometry(const Request& request, const Candidate& candidate) const override {
    return gemm_op().geometry(request, candidate);
  }
  GeometryFields geometry_fields() const override { return gemm_op().geometry_fields(); }
  void touches(const void* args, Touched& memory) const override { gemm_touches(get(args).product, memory); }
  void plan(const void* args, const Geometry& geometry, LaunchPlan& plan) const override {
    gemm_plan(get(args).product, geometry.as<GemmLaunch>(), plan, get(args).choice.parts);
  }

 private:
  static const GemmPartsArgs& get(const void* args) { return *static_cast<const GemmPartsArgs*>(args); }
  static GemmKernel kernel_of(const GemmPartsArgs& args) {
    GemmKernel kernel = gemm_kind(args.product);
    kernel.tile = args.choice.tile;
    return of_parts(kernel);
  }
};

}  // namespace

std::int64_t gemm_part_blocks(std::int64_t k_blocks, int parts) { return (k_blocks + parts - 1) / parts; }

bool gemm_in_steps(const GemmArgs& args, const GemmChoice& choice) {
  return choice.parts > 1 || gemm_copy_bytes(args) > 0;
}

std::size_t gemm_scratch_bytes(const GemmArgs& args, const GemmChoice& choice) {
  return gemm_copy_bytes(args) + (choice.parts > 1 ? (sum_bytes(args, choice) + kPlace - 1) / kPlace * kPlace : 0);
}

void gemm_steps(const GemmArgs& args, const GemmChoice& choice, void* scratch, const Step& step) {
  GemmArgs of_copies = args;
  auto* next = static_cast<std::byte*>(scratch);
  copy_gemm_operands(of_copies, next, step);
  if (choice.parts > 1) return in_parts(of_copies, choice, next, step);
  step(gemm_op(), &of_copies);
}

std::vector<NeededKernel> gemm_needed_kernels(const GemmConfig& config, const GemmChoice& choice) {
  std::vector<NeededKernel> list;
  const GemmKernel kernel = chosen(gemm_kind(config), choice);
  if (gemm_copies(config)) list.push_back({&copy_rows_op(), copy_rows_op().requests({}).front(), 0});
  if (kernel.parts) list.push_back({&sum_parts_op(), sum_parts_request(config.out), sum_parts_small_key(config.out)});
  list.push_back({kernel.parts ? &gemm_parts_op() : &gemm_op(), gemm_request(kernel), gemm_small_key(kernel)});
  return list;
}

std::vector<NeededKernel> gemm_needed_kernels(const GemmConfig& config, int measured, const arch::Arch& arch) {
  const GemmChoice choice =
      measured != kNoChoice ? GemmChoice::of(measured) : predicted_gemm(gemm_sizes(config), gemm_kind(config), arch);
  return gemm_needed_kernels(config, choice);
}

const Op& gemm_parts_op() {
  static constinit support::Lasting<const GemmParts> op;
  return op.get();
}

}  // namespace tj::ops
