// See plan_trial.hpp.
#include "ops/plan_trial.hpp"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "ops/common/tensor_list.hpp"
#include "support/fail.hpp"
#include "support/random_values.hpp"

namespace tj::test {
namespace {

constexpr Device kHost{DeviceKind::cpu, 0};
constexpr char kPoison = '\xff';

/// The tensors of a trial: inputs random, outputs poisoned.
class Memory {
 public:
  Memory(Runtime& runtime, const ops::Trial& trial, Device device, std::uint64_t seed)
      : runtime_(runtime), trial_(trial), device_(device) {
    for (const ops::TrialTensor& tensor : trial.tensors) {
      std::string bytes;
      if (!tensor.operand.numbers.empty())
        bytes = {reinterpret_cast<const char*>(tensor.operand.numbers.data()),
                 tensor.operand.numbers.size() * sizeof(std::int32_t)};
      else if (!tensor.written)
        bytes = normal_values(tensor.operand.dtype, tensor.elements(), ++seed);
      bytes.resize(tensor.bytes(), kPoison);
      tensors_.push_back(runtime.allocate(device, bytes.size()));
      runtime.copy(tensors_.back().get(), device, bytes.data(), kHost, bytes.size());
    }
  }

  void with_args(const std::function<void(const void*)>& use) const {
    std::vector<void*> places;
    for (const auto& tensor : tensors_) places.push_back(tensor.get());
    trial_.with_args(device_, places, use);
  }
  std::string bytes(std::size_t i) const {
    std::string bytes(trial_.tensors[i].bytes(), '\0');
    runtime_.copy(bytes.data(), kHost, tensors_[i].get(), device_, bytes.size());
    return bytes;
  }

 private:
  Runtime& runtime_;
  const ops::Trial& trial_;
  Device device_;
  std::vector<std::shared_ptr<void>> tensors_;
};

std::vector<void*> addresses_of(const ops::Op& op, const void* args) {
  const std::shared_ptr<void> copy = op.copy(args);
  ops::TensorList list;
  op.tensors(copy.get(), list);
  std::vector<void*> addresses;
  for (const ops::ListedTensor& each : list.entries()) addresses.push_back(each.tensor->data);
  return addresses;
}

}  // namespace

std::string plan_difference(Runtime& runtime, const ops::Op& op, const ops::Trial& trial, Device device,
                            std::uint64_t seed) {
  const Memory of_call(runtime, trial, device, seed), of_plan(runtime, trial, device, seed);
  of_call.with_args([&](const void* args) { runtime.run(op.name(), args); });
  const std::vector<void*> nowhere(trial.tensors.size(), nullptr);
  trial.with_args(device, nowhere, [&](const void* shapes) {
    const Plan plan = runtime.plan(op.name(), shapes);
    of_plan.with_args([&](const void* args) { plan.run(addresses_of(op, args)); });
  });
  runtime.synchronize(device);
  std::string text;
  for (std::size_t i = 0; i < trial.tensors.size(); ++i)
    if (trial.tensors[i].written && of_call.bytes(i) != of_plan.bytes(i))
      text += support::cat(op.name(), " ", trial.name, ": ", trial.tensors[i].name, " differs\n");
  return text;
}

std::string plan_differences(Runtime& runtime, Device device, std::uint64_t seed) {
  std::string text;
  // The thread has no context of the device that is current.
  std::thread([&] {
    for (const ops::Op* op : ops::all()) {
      const arch::Target target = arch::parse_target(runtime.target_of(device, op->name()));
      if (!op->described() || !op->serves(*target.arch)) continue;
      try {
        for (const ops::Trial& trial : op->trials({}, *target.arch))
          text += plan_difference(runtime, *op, trial, device, seed++);
      } catch (const Error& e) {
        text += support::cat(op->name(), ": ", e.what(), "\n");
      }
    }
  }).join();
  return text;
}

}  // namespace tj::test
