// The gated delta rule in chunks: requests; see delta_chunks.hpp.
#include <algorithm>
#include <utility>

#include "ops/common/machine.hpp"
#include "ops/common/touched.hpp"
#include "ops/common/trial.hpp"
#include "ops/delta_chunks/delta_chunks.hpp"
#include "ops/delta_chunks/fields.hpp"
#include "ops/delta_chunks/params.cuh"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using delta_chunks::kFields;

constexpr const char* kOp = "delta_chunks";
constexpr double kTypicalChunks = 128, kTypicalSegments = 3;  // of 8192 tokens

class DeltaChunks final : public Op {
 public:
  std::string_view name() const override { return kOp; }

  void validate(const void* args, bool) const override {
    const DeltaChunksArgs& of = get(args);
    if ((of.memory.records == nullptr && of.kernel.step != DeltaStep::carry) || !delta_chunks_serve(of.call))
      support::fail(Stage::argument, Code::invalid_argument,
                    "delta_chunks: records are null, or the call is one that chunks cannot serve; allowed: memory for "
                    "records, and calls that delta_chunks_serve()");
  }
  Device device_of(const void* args) const override { return get(args).call.q.device; }
  bool serves(const arch::Arch& arch) const override { return arch::serves(arch, {delta_chunks_needs()}); }

  ProblemKey problem_key(const void* args) const override { return {delta_chunks_kernel(get(args).kernel).small_key}; }
  Request request_of(const Kernel& kernel) const override { return request(fields_of(kernel)); }
  Kernel kernel_of(const Request& request) const override {
    return delta_chunks_kernel(kernel_of_fields<kFields, DeltaChunksKernel>(request));
  }
  std::vector<Request> requests(const Flags& flags) const override {
    std::vector<Request> list;
    for (const DeltaChunksKernel& kernel :
         kernels_of_flags<kFields, DeltaChunksKernel>(kOp, flags, choices_of_fields<kFields>())) {
      Request own = request_of(delta_chunks_kernel(kernel));  // several kernels have one, as solve() sees no state
      const bool known = std::any_of(list.begin(), list.end(), [&](const Request& of) { return of.name == own.name; });
      if (delta_chunks_fits(kernel) && !known) list.push_back(std::move(own));
    }
    return list;
  }

  std::vector<Trial> trials(const Flags& flags, const arch::Arch&) const override { return delta_chunks_trials(flags); }

  std::vector<Candidate> candidates(const Request& request, const arch::Arch& arch) const override {
    arch::require(arch, kOp, delta_chunks_needs());
    const auto kernel = kernel_of_fields<kFields, DeltaChunksKernel>(request);
    if (solves(kernel.step)) {
      Candidate candidate{delta_solve_graph(kernel, arch), 1, 0, false};
      candidate.one_role = true;
      candidate.definitions = matrix_widths({delta_chunks::kChunk});
      return {std::move(candidate)};
    }
    if (kernel.step == DeltaStep::carry) return {{delta_carry_graph(kernel, arch), kTypicalSegments, 0, false}};
    Candidate candidate{delta_state_graph(kernel, arch), kTypicalChunks, 0, false};
    candidate.definitions = matrix_widths({64, kernel.head_dim});
    candidate.useful_flops = candidate.graph.flops_per_iteration * kTypicalChunks;
    return {std::move(candidate)};
  }

  void touches(const void* args, Touched& memory) const override {
    const auto& [call, kernel, chunks, range, segments] = get(args);
    memory.reads(call.q);
    memory.reads(call.k);
    memory.reads(call.v);
    memory.writes(call.o);
    memory.reads(call.gate);
    memory.reads(call.a_log);
    memory.reads(call.dt_bias);
    memory.reads(call.beta);
    memory.reads(call.initial_state);
    memory.writes(call.final_state);
    memory.writes(call.token_states);
    memory.reads(call.initial_scales);
    memory.writes(call.final_scales);
    memory.writes(call.token_scales);
    memory.reads(call.read_slots);
    memory.reads(call.write_slots);
    memory.reads(call.cu_seqlens);
    memory.scratch(chunks.records, delta_chunks_bytes(call, {range.count > 0 && segments == 1 ? 2 : 1, segments}));
  }
  void plan(const void* args, const Kernel& kernel, const Geometry&, LaunchPlan& plan) const override {
    delta_chunks_plan(get(args), fields_of(kernel).step, plan);
  }

 private:
  static const DeltaChunksArgs& get(const void* args) { return *static_cast<const DeltaChunksArgs*>(args); }
  static DeltaChunksKernel fields_of(const Kernel& kernel) {
    return kernel_of_key<kFields, DeltaChunksKernel>(kernel.small_key);
  }
  static Request request(const DeltaChunksKernel& kernel) { return request_of_fields<kFields>(kOp, kernel); }
};

}  // namespace

const Op& delta_chunks_op() {
  static constinit support::Lasting<const DeltaChunks> op;
  return op.get();
}

bool delta_chunks_fits(const DeltaChunksKernel& kernel) {
  if (kernel.step != DeltaStep::wide_state) return true;
  const bool spills = kernel.channel_gate &&  // 4 to 80 bytes (NVRTC 13.0)
                      (kernel.state != DType::f32 || (kernel.keeps && kernel.state_transposed));
  return kernel.head_dim == 128 && !spills;
}

Kernel delta_chunks_kernel(const DeltaChunksKernel& given) {
  DeltaChunksKernel kernel = given;
  if (!delta_chunks::has_states(kernel)) kernel.state = DType::f16, kernel.state_transposed = false;
  if (kernel.step == DeltaStep::carry) kernel.dtype = DType::f16, kernel.channel_gate = false, kernel.delta = true;
  if (kernel.step != DeltaStep::state && kernel.step != DeltaStep::wide_state) kernel.keeps = false;
  return {key_of_fields<kFields>(kernel)};
}

}  // namespace tj::ops
