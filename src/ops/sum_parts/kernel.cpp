// Adding a product's parts: request, graph, launch; see sum_parts.hpp.
//
//   begin -> add_parts -> finish_columns     one role; an iteration adds as many parts as a thread can have under way
#include "ops/sum_parts/sum_parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>

#include "ops/common/end_text.hpp"
#include "ops/common/epilogue_args.hpp"
#include "ops/common/fields.hpp"
#include "ops/common/touched.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/walk.hpp"
#include "ops/sum_parts/params.cuh"
#include "support/fail.hpp"
#include "support/index.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::at;

using support::cat;
using support::fail;

constexpr unsigned kBlocksPerSm = 16;  // more than run at a time

const arch::Needs& kNeeds = support::lasting<arch::Needs>({{"ALU"}, {"memory_bytes_per_cycle"}});

/// kColumns elements at a time.
bool wide(const Tensor& tensor) { return ops::wide(tensor, sum_parts::kColumns * size_of(tensor.dtype)); }

struct SumPartsKernel {
  DType out = DType::f16;
  WalkChoice walk = WalkChoice::usual;
  DeviceText end_text = {};
};
constexpr const char* kOutputs[] = {"f16", "bf16", "f32"};
constexpr std::array<Field<SumPartsKernel>, 3> kFields = {
    {{.name = "out",
      .get = [](const SumPartsKernel& kernel) { return static_cast<unsigned>(kernel.out); },
      .set = [](SumPartsKernel& kernel, unsigned value) { kernel.out = static_cast<DType>(value); },
      .words = words<kOutputs>,
      .bits = 2,
      .flags = {"f16", "bf16", "f32"},
      .defaults = 3,
      .tag = "_%",
      .constant = "Output",
      .kind = Constant::element},
     walk_field<SumPartsKernel>(1),
     end_text_field<SumPartsKernel>()}};

SumPartsKernel kernel_of(DType out, bool draws, const DeviceText& end_text = {}) {
  return {out, draws ? WalkChoice::dynamic : WalkChoice::usual, end_text};
}
SumPartsKernel kernel_of_request(const Request& request) {
  auto kernel = kernel_of_fields<kFields, SumPartsKernel>(request);
  kernel.end_text = end_text_of(request.fields);
  return kernel;
}
Request request_of_kernel(const SumPartsKernel& kernel) {
  Request request = request_of_fields<kFields>("sum_parts", kernel);
  add_end_text(request, kernel.end_text);
  return request;
}

std::vector<SumPartsKernel> kernels_of(Flags flags, const std::vector<FlagChoice>& choices) {
  const DeviceText text = take_end_text(flags);
  auto kernels = kernels_of_flags<kFields, SumPartsKernel>("sum_parts", flags, choices);
  for (SumPartsKernel& kernel : kernels) kernel.end_text = text;
  return kernels;
}

class Builder : WalkBuilder {
 public:
  Builder(const SumPartsKernel& kernel, const arch::Arch& arch)
      : WalkBuilder("sum_parts", "Adder", sum_parts::kWarps, arch, kernel.walk) {
    graph_.name = request_of_kernel(kernel).name;
    add_constants<kFields>("sum_parts", kernel, graph_);
    add_end_text(graph_, kernel.end_text);
  }

  Candidate build() {
    constant("kLanes", arch_.warp_size);
    const int begin = at_end("begin", Scope::tile_begin);
    const int parts = brings(
        "add_parts",
        sizeof(float) * static_cast<double>(sum_parts::kWarps * sum_parts::kUnitColumns * sum_parts::kPartsAhead));
    const int last = at_end("finish_columns", Scope::tile_end);
    node(parts).warp_cycles = node(parts).cycles;
    then(begin, parts);
    then(parts, parts, 1);
    then(parts, last);
    return candidate(1);
  }
};

class SumParts final : public Op {
 public:
  std::string_view name() const override { return "sum_parts"; }

  void validate(const void* args, bool) const override {
    const auto& [call, sums, parts] = get(args);
    const std::int64_t m = call.d.shape[at(call.d.rank - 2)], n = call.d.shape[at(call.d.rank - 1)],
                       batch = call.d.rank == 3 ? call.d.shape[0] : 1;
    const bool alike = sums.rank == 3 && sums.dtype == DType::f32 && sums.shape[0] == parts * batch &&
                       sums.shape[1] == m && sums.shape[2] == n && sums.device == call.d.device;
    const bool dense = sums.strides[2] == 1 && sums.strides[1] % sum_parts::kColumns == 0 &&
                       sums.strides[0] == m * sums.strides[1] && reinterpret_cast<std::uintptr_t>(sums.data) % 16 == 0;
    if (parts < 0 || !alike || !dense)
      fail(Stage::argument, Code::invalid_argument,
           cat("sum_parts: sums are ", to_string(sums.dtype), " of rank ", sums.rank, " with ", sums.shape[0], " x ",
               sums.shape[1], " x ", sums.shape[2], " elements for ", parts,
               " parts; allowed: f32 [parts x batch, M, N] of the call's d, dense but for rows at multiples of 16 "
               "bytes"));
  }
  Device device_of(const void* args) const override { return get(args).call.d.device; }
  bool serves(const arch::Arch& arch) const override { return arch::serves(arch, {kNeeds}); }

  ProblemKey problem_key(const void* args) const override {
    return {sum_parts_small_key(get(args).call.d.dtype, false, get(args).call.end_text)};
  }
  Request request_of(const Kernel& kernel) const override {
    return request_of_kernel(kernel_of_key<kFields, SumPartsKernel>(kernel.small_key));
  }
  Kernel kernel_of(const ProblemKey& problem, int choice) const override {
    auto kernel = kernel_of_key<kFields, SumPartsKernel>(problem.kind);
    kernel.walk = static_cast<WalkChoice>(choice);
    return {key_of_fields<kFields>(kernel), choice};
  }
  Kernel kernel_of(const Request& request) const override {
    return {key_of_fields<kFields>(kernel_of_request(request))};
  }
  std::vector<Request> requests(const std::map<std::string, std::vector<std::string>>& flags) const override {
    std::vector<Request> list;
    for (const SumPartsKernel& kernel : kernels_of(flags, choices_of_fields<kFields>()))
      list.push_back(request_of_kernel(kernel));
    return list;
  }
  std::vector<Trial> trials(const Flags& given, const arch::Arch&) const override {
    Flags flags = given;
    const Sizes sizes(name(), flags, {{"m", 37}, {"n", 130}, {"parts", 5}});
    std::vector<Trial> list;
    for (const SumPartsKernel& kernel : kernels_of(flags, first_of_each(choices_of_fields<kFields>())))
      list.push_back(trial_of(kernel, sizes));
    return list;
  }

  std::vector<Candidate> candidates(const Request& request, const arch::Arch& arch) const override {
    arch::require(arch, "sum_parts", kNeeds);
    return {Builder(kernel_of_request(request), arch).build()};
  }
  GeometryFields geometry_fields() const override { return kWalkGeometry; }

  void touches(const void* args, Touched& memory) const override {
    const SumPartsArgs& of = get(args);
    memory.reads(of.sums);
    if (of.call.beta != 0) memory.reads(of.call.c);
    memory.reads(of.call.bias);
    memory.reads(of.call.scale_a);
    memory.reads(of.call.scale_b);
    memory.reads(of.call.end_params);
    memory.writes(of.call.d);
  }
  void plan(const void* args, const Kernel&, const Geometry& geometry, LaunchPlan& plan) const override {
    const auto& [call, sums, parts] = get(args);
    auto& p = *new (plan.params.data()) sum_parts::Params{};
    plan.params_bytes = sizeof(sum_parts::Params);
    const std::int64_t batch = call.d.rank == 3 ? call.d.shape[0] : 1;
    p.sums = static_cast<const float*>(sums.data);
    p.row_pitch = sums.strides[1];
    p.part_pitch = batch * sums.strides[0];
    p.d = call.d.data;
    p.d_stride_batch = batch_stride(call.d, 3);
    p.d_stride_row = stride(call.d, call.d.rank - 2);
    p.wide_d = wide(call.d);
    add_epilogue(call, wide, p);
    p.c_f32 = call.beta != 0 && call.c->dtype == DType::f32 ? 1 : 0;
    p.m = static_cast<int>(sums.shape[1]);
    p.n = static_cast<int>(sums.shape[2]);
    p.parts = parts;
    p.row_units = (p.n + sum_parts::kUnitColumns - 1) / sum_parts::kUnitColumns;
    p.units = static_cast<int>(p.row_units * sums.shape[1] * batch);
    p.tiles = (p.units + sum_parts::kWarps - 1) / sum_parts::kWarps;
    p.activation = static_cast<int>(call.activation);
    walk_tiles(p.tiles, kBlocksPerSm, geometry, call.max_sms, plan);
  }

 private:
  static const SumPartsArgs& get(const void* args) { return *static_cast<const SumPartsArgs*>(args); }

  static Trial trial_of(const SumPartsKernel& kernel, const Sizes& sizes) {
    const std::int64_t m = sizes.at("m"), n = sizes.at("n"), parts = sizes.at("parts"),
                       pitch = (n + sum_parts::kColumns - 1) / sum_parts::kColumns * sum_parts::kColumns;
    Trial trial;
    trial.name = cat("M ", m, " N ", n, " parts ", parts);
    trial.kernel_flags = flags_of_fields<kFields>(kernel) + end_text_flag(kernel.end_text);
    if (kernel.walk != WalkChoice::usual) trial.choice = static_cast<int>(kernel.walk);
    trial.flags = cat(trial.kernel_flags, " ", sizes.flags());
    trial.tensors = {{"sums", {DType::f32, {parts, m, n}, {m * pitch, pitch, 1}}},
                     dense("d", kernel.out, {m, n}, true),
                     dense("bias", kernel.out, {n})};
    if (kernel.end_text.given()) trial.tensors.push_back(dense("end_params", DType::f32, {n}));
    trial.tensors[0].room = static_cast<std::size_t>(parts * m * pitch);
    trial.with_args = [parts, text = kernel.end_text, tensors = trial.tensors](
                          Device device, std::span<void* const> places, const std::function<void(const void*)>& use) {
      GemmArgs call;
      call.d = tensors[1].operand.view(device, places[1]);
      call.bias = tensors[2].operand.view(device, places[2]);
      call.end_text = text;
      if (text.given()) call.end_params = tensors[3].operand.view(device, places[3]);
      const SumPartsArgs args{call, tensors[0].operand.view(device, places[0]), static_cast<int>(parts)};
      use(&args);
    };
    return trial;
  }
};

}  // namespace

const Op& sum_parts_op() {
  static constinit support::Lasting<const SumParts> op;
  return op.get();
}

Request sum_parts_request(DType out, bool draws) { return request_of_kernel(kernel_of(out, draws)); }
std::uint64_t sum_parts_small_key(DType out, bool draws, const DeviceText& end_text) {
  return key_of_fields<kFields>(kernel_of(out, draws, end_text));
}

double sum_parts_bytes(double elements, int parts, int out_bytes, int addend_bytes) {
  return elements * (parts * static_cast<double>(sizeof(float)) + out_bytes + addend_bytes);
}
int sum_parts_trips(int parts) { return (parts + sum_parts::kPartsAhead - 1) / sum_parts::kPartsAhead; }

}  // namespace tj::ops
