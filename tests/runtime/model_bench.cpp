// Times calls on the CPU model: attention, products and chunk output, on an arch of each family. Prints; decides
// nothing.
//
//   taskset -c 0 build/release/tests/runtime.model_bench [calls of each [part of the rows' names]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include <tilejit/error.hpp>
#include <tilejit/runtime.hpp>

#include "arch/arch.hpp"
#include "ops/common/trial.hpp"
#include "ops/op.hpp"
#include "support/random_values.hpp"

namespace {

using namespace tj;

constexpr Device kHost{DeviceKind::cpu, 0};

struct Row {
  std::string name;
  const char* op;
  ops::Flags flags;  ///< of one trial
  std::vector<const char*> targets;
};

std::vector<Row> rows() {
  const std::vector<const char*> families = {"model:sm_90a", "model:sm_80", "model:sm_120a", "model:gfx1100",
                                             "model:gfx942"};
  std::vector<Row> list;
  for (const char* causal : {"false", "true"})
    list.push_back({std::string("attention, D 128, S 512, ") + (*causal == 't' ? "causal" : "full"),
                    "fmha",
                    {{"dtype", {"f16"}},
                     {"head-dim", {"128"}},
                     {"causal", {causal}},
                     {"batch", {"1"}},
                     {"heads", {"1"}},
                     {"seq-q", {"512"}},
                     {"seq-k", {"512"}}},
                    families});
  for (const char* size : {"512", "1024"})
    list.push_back({std::string("product, M N K ") + size,
                    "gemm",
                    {{"dtype", {"f16"}}, {"m", {size}}, {"n", {size}}, {"k", {size}}},
                    families});
  list.push_back({"chunk output, H 1/2, lengths 512 and 100",
                  "chunk_o",
                  {{"heads", {"1"}}, {"lengths", {"512", "100"}}},
                  {"model:sm_90a"}});
  return list;
}

/// Processor time of all threads: what else the machine does counts little.
double processor_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}
double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Memory of a trial's tensors, with what they hold before a call.
struct Tensors {
  std::vector<std::shared_ptr<void>> memory;
  std::vector<void*> places;

  Tensors(Runtime& runtime, const ops::Trial& trial) {
    for (const ops::TrialTensor& tensor : trial.tensors) {
      memory.push_back(runtime.allocate(kHost, tensor.bytes()));
      places.push_back(memory.back().get());
      if (!tensor.operand.numbers.empty()) {
        std::memcpy(places.back(), tensor.operand.numbers.data(), tensor.operand.numbers.size() * sizeof(std::int32_t));
      } else if (!tensor.written) {
        const std::string values = normal_values(tensor.operand.dtype, tensor.elements(), places.size());
        std::memcpy(places.back(), values.data(), values.size());
      }
    }
  }
};

void measure(const Row& row, const char* target, int calls, const std::string& part) {
  if ((row.name + " on " + target).find(part) == std::string::npos) return;
  const ops::Op& op = *ops::find(row.op);
  for (const ops::Trial& trial : op.trials(row.flags, *arch::parse_target(target).arch)) {
    Options options;
    options.target = target;
    options.use_disk_cache = false;
    Runtime runtime(options);
    const Tensors tensors(runtime, trial);
    double shortest = 0, first = 0;
    trial.with_args(kHost, tensors.places, [&](const void* args) {
      const double begin = wall_seconds();
      runtime.run(row.op, args);
      first = wall_seconds() - begin;
      for (int i = 0; i < calls; ++i) {
        const double before = processor_seconds();
        runtime.run(row.op, args);
        const double took = processor_seconds() - before;
        shortest = i == 0 ? took : std::min(shortest, took);
      }
    });
    std::printf("%-42s on %-13s %7.0f ms; the first, compiled, %5.0f ms\n", row.name.c_str(), target, shortest * 1e3,
                first * 1e3);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  const std::string part = argc > 2 ? argv[2] : "";
  std::printf("f16 (chunk output: bf16); processor time of a call, the shortest of %d\n", calls);
  for (const Row& row : rows())
    for (const char* target : row.targets) measure(row, target, calls, part);
}
