// Protects calls with max_sms on the CPU model: they write the bits of calls without it, whatever the order of events,
// by blocks that go on to further tiles. On AMD these draw their tiles, and a plan's workspace serves run after run.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "ops/common/op_flags.hpp"
#include "ops/common/tensor_list.hpp"
#include "ops/common/trial.hpp"
#include "support/full.hpp"
#include "support/random_values.hpp"
#include "support/scratch.hpp"

using namespace tj;

namespace {

constexpr Device kHere{DeviceKind::cpu, 0};

void limit(std::string_view op, void* args, int max_sms) {
  if (op == "fmha") static_cast<FmhaArgs*>(args)->max_sms = max_sms;
  if (op == "gemm") static_cast<GemmArgs*>(args)->max_sms = max_sms;
  if (op == "chunk_o") static_cast<ChunkOArgs*>(args)->max_sms = max_sms;
  if (op == "chunk_indices") static_cast<ChunkIndicesArgs*>(args)->max_sms = max_sms;
}

/// The tensors of a trial. Those of products are -1, 0 and 1: their sums are exact, whatever the tile.
class Problem {
 public:
  Problem(const ops::Op& op, ops::Trial trial) : op_(op), trial_(std::move(trial)) {
    std::uint64_t seed = 0;
    for (const ops::TrialTensor& tensor : trial_.tensors) {
      std::string bytes;
      if (!tensor.operand.numbers.empty())
        bytes = {reinterpret_cast<const char*>(tensor.operand.numbers.data()),
                 tensor.operand.numbers.size() * sizeof(std::int32_t)};
      else if (!tensor.written && op.name() == "gemm")
        bytes = few(tensor.elements());
      else if (!tensor.written)
        bytes = normal_values(tensor.operand.dtype, tensor.elements(), ++seed);
      bytes.resize(tensor.bytes() + 64, '\x55');
      memory_.push_back(std::move(bytes));
    }
  }

  /// Calls use(args) with the limit over memory whose outputs are fresh, and gives the outputs' bytes.
  template <class Use>
  std::string outputs(int max_sms, const Use& use) {
    std::vector<void*> places;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (trial_.tensors[i].written) memory_[i].assign(memory_[i].size(), '\x55');
      places.push_back(reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(memory_[i].data()) + 63) / 64 * 64));
      if (!trial_.tensors[i].written && !moved_) std::memmove(places[i], memory_[i].data(), trial_.tensors[i].bytes());
    }
    moved_ = true;
    trial_.with_args(kHere, places, [&](const void* args) {
      const std::shared_ptr<void> copy = op_.copy(args);
      limit(op_.name(), copy.get(), max_sms);
      use(copy.get());
    });
    std::string bytes;
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if (trial_.tensors[i].written) bytes.append(static_cast<const char*>(places[i]), trial_.tensors[i].bytes());
    return bytes;
  }
  std::vector<void*> addresses(const void* args) const {
    const std::shared_ptr<void> copy = op_.copy(args);
    ops::TensorList list;
    op_.tensors(copy.get(), list);
    std::vector<void*> found;
    for (const ops::ListedTensor& each : list.entries()) found.push_back(each.tensor->data);
    return found;
  }

 private:
  static std::string few(std::size_t count) {
    constexpr std::uint16_t kValues[] = {0, 0x3c00, 0xbc00};  // of f16
    std::string bytes(2 * count, '\0');
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      std::memcpy(bytes.data() + 2 * i, &kValues[(state >> 16) % 3], 2);
    }
    return bytes;
  }

  const ops::Op& op_;
  ops::Trial trial_;
  std::vector<std::string> memory_;
  bool moved_ = false;
};

struct Case {
  const char *op, *flags;
};
constexpr Case kCases[] = {
    {"fmha", "--dtype f16 --head-dim 64 --causal true --heads 3 --kv-heads 3 --seq-q 300 --seq-k 300"},
    {"fmha", "--dtype f16 --head-dim 64 --causal false --heads 3 --kv-heads 3 --seq-q 300 --seq-k 200"},
    {"gemm", "--dtype f16 --out f32 --m 300 --n 264 --k 136"},
    {"gemm", "--dtype f16 --out f32 --m 150 --n 140 --k 333"},  // operands are copied first
    {"gemm", "--dtype f16 --out f32 --m 64 --n 64 --k 2048"},   // K may be cut into parts
    {"chunk_o", "--lengths 70,64,130"},
    {"chunk_indices", "--lengths 70,0,64,130"},
};

Runtime runtime_of(const char* target, std::uint64_t seed, const std::string& cache) {
  Options options;
  options.target = target;
  options.cache_dir = cache;
  options.model_seed = seed;
  return Runtime(options);
}

}  // namespace

TEST_CASE("calls on few multiprocessors write the bits of calls on all, whatever the order of events") {
  int index = 0;
  for (const char* target : {"model:sm_90a", "model:sm_80", "model:gfx1100"}) {
    const testing::Scratch cache;
    Runtime first = runtime_of(target, 1, cache.path()), other = runtime_of(target, 7, cache.path());
    const arch::Arch& arch = *arch::parse_target(target).arch;
    for (const Case& each : kCases) {
      const ops::Op& op = *ops::find(each.op);
      if (!op.serves(arch) || testing::thinned_out(index++)) continue;
      CAPTURE(std::string(target));
      CAPTURE(std::string(each.flags));
      Problem problem(op, op.trials(ops::flags_of_text(each.flags), arch).front());
      const auto call = [&](Runtime& runtime, int max_sms) {
        return problem.outputs(max_sms, [&](const void* args) { runtime.run(op.name(), args); });
      };
      const std::string all = call(first, 0);
      CHECK(call(first, 1) == all);
      CHECK(call(other, 2) == all);
      if (testing::full_run()) {
        CHECK(call(first, 2) == all);
        CHECK(call(other, 1) == all);
      }
    }
  }
}

TEST_CASE("a plan whose blocks draw their tiles runs twice on a workspace that was zeroed once") {
  const testing::Scratch cache;
  Runtime runtime = runtime_of("model:gfx1100", 3, cache.path());
  int index = 0;
  for (const Case& each : {kCases[0], kCases[1], kCases[3]}) {
    if (testing::thinned_out(index++)) continue;
    CAPTURE(std::string(each.flags));
    const ops::Op& op = *ops::find(each.op);
    Problem problem(op, op.trials(ops::flags_of_text(each.flags), *arch::find("gfx1100")).front());
    const std::string wanted = problem.outputs(0, [&](const void* args) { runtime.run(op.name(), args); });
    std::vector<char> workspace;
    for (int run = 0; run < 2; ++run)
      CHECK(problem.outputs(1, [&](const void* args) {
        const Plan plan = runtime.plan(op.name(), args);
        CHECK(plan.workspace_zeroed());
        if (workspace.empty()) workspace.assign(plan.workspace_bytes() + 256, '\0');
        const auto place = (reinterpret_cast<std::uintptr_t>(workspace.data()) + 255) / 256 * 256;
        plan.run(problem.addresses(args), {}, reinterpret_cast<void*>(place));
      }) == wanted);
  }
}
