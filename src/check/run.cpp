// See run.hpp.
#include "check/run.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "prepared.hpp"
#include "support/fail.hpp"
#include "support/hash.hpp"
#include "support/random_values.hpp"

namespace tj::check {
namespace {

using support::cat;

constexpr Device kHost{DeviceKind::cpu, 0};
constexpr unsigned kDrawingClusters = 3;  // of a launch whose blocks draw their tiles
constexpr std::size_t kGuardBytes = 1024, kAlignment = 256;
constexpr std::byte kPoison{0xff};  // a NaN in every type that has some

/// args of the trial over made-up memory.
void with_args(const ops::Trial& trial, const std::function<void(const void*)>& use) {
  std::vector<void*> places;
  for (std::size_t i = 0; i < trial.tensors.size(); ++i) places.push_back(reinterpret_cast<void*>((i + 1) << 40));
  trial.with_args(kHost, places, use);
}

/// "NaN", "infinite", or nothing: the kind of number that the element's bits are. Minus infinity is the logarithm of an
/// empty sum; bytes that nobody has written are no result.
const char* no_number_of(DType dtype, const std::byte* element) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, element, static_cast<std::size_t>(size_of(dtype)));
  const auto judge = [&](std::uint32_t sign, std::uint32_t infinite) -> const char* {
    if (bits == (sign | (sign - 1))) return nullptr;
    return (bits & ~sign) > infinite ? "NaN" : bits == infinite ? "infinite" : nullptr;
  };
  switch (dtype) {
    case DType::f16:
      return judge(0x8000, 0x7c00);
    case DType::bf16:
      return judge(0x8000, 0x7f80);
    case DType::f32:
      return judge(0x80000000, 0x7f800000);
    case DType::e4m3:
      return bits == 0x7f ? "NaN" : nullptr;
    case DType::i32:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

Subject make_subject(const ops::Op& op, ops::Trial trial, Kernels& kernels) {
  Subject subject;
  subject.op = &op;
  subject.trial = std::move(trial);
  subject.target = kernels.target().name();
  with_args(subject.trial, [&](const void* args) {
    op.validate(args, true);
    subject.kernel = ops::resolve(op, args, subject.trial.choice, *kernels.target().arch);
    ops::OwnStep own(op);
    op.steps(args, subject.kernel, ops::nowhere(), [&](const ops::Step& step) {
      subject.launches.push_back(&kernels.get(*step.op, step.op->request_of(step.kernel)));
      if (own.is(step)) subject.own_kernel = subject.launches.back();
    });
  });
  for (const Kernel* kernel : subject.launches)
    if (std::find(subject.kernels.begin(), subject.kernels.end(), kernel) == subject.kernels.end())
      subject.kernels.push_back(kernel);
  return subject;
}

Run::Memory Run::room(std::size_t size) {
  Memory memory;
  memory.bytes.resize(size + 2 * kGuardBytes + kAlignment);
  const auto base = reinterpret_cast<std::uintptr_t>(memory.bytes.data());
  memory.begin = (base + kGuardBytes + kAlignment - 1) / kAlignment * kAlignment - base;
  memory.size = size;
  memory.filled.assign(memory.bytes.size(), kPoison);
  return memory;
}

Run::Run(const Subject& subject, std::uint64_t data_seed) : subject_(subject) {
  for (const ops::TrialTensor& tensor : subject.trial.tensors) {
    Memory memory = room(tensor.bytes());
    std::byte* inside = memory.filled.data() + memory.begin;
    if (tensor.operand.fill) {
      const std::string own = tensor.operand.fill(data_seed + tensors_.size());
      std::memcpy(inside, own.data(), own.size());
    } else if (!tensor.operand.numbers.empty()) {
      std::memcpy(inside, tensor.operand.numbers.data(), tensor.operand.numbers.size() * sizeof(std::int32_t));
    } else if (!tensor.written) {
      const std::string values = normal_values(tensor.operand.dtype, tensor.elements(), data_seed + tensors_.size());
      std::memcpy(inside, values.data(), values.size());
    }
    tensors_.push_back(std::move(memory));
  }
  if (!subject.trial.judge) return;
  std::vector<const void*> places;
  for (const Memory& memory : tensors_) places.push_back(memory.filled.data() + memory.begin);
  judge_ = subject.trial.judge(places);
}

void Run::launch(const Kernel& kernel, const ops::Step& step, std::uint64_t seed, const std::vector<Change>& changes) {
  model::ModelOptions options;
  options.seed = seed;
  options.workers = 1;  // several runs go on beside each other
  const launch::Kernel* loaded = kernel.loaded->kernel.get();
  for (const Change& change : changes) {
    if (change.kernel != &kernel) continue;
    options.disabled_sites = change.disabled;
    options.weakened_sites = change.weakened;
    if (change.instead != nullptr) loaded = change.instead.get();
  }
  driver_->set_options(std::move(options));
  ops::LaunchPlan plan;
  // Few blocks, so that each does several tiles; some, where they share a counter.
  plan.sm_count =
      kernel.loaded->shape.cluster * (kernel.loaded->draws() ? kDrawingClusters : subject_.trial.multiprocessors);
  std::shared_ptr<void> walk;
  plan_over(step, *kernel.loaded, plan, [&](const support::WalkMemory& memory) {
    walk = make_walk_memory(*driver_, 0, memory);
    return support::WalkPlace{walk.get(), memory.zeroed};
  });
  driver_->launch(0, *loaded, kernel.loaded->config(plan), plan.params.data(), plan.params_bytes, {});
}

Outcome Run::operator()(std::uint64_t seed, const std::vector<Change>& changes) {
  std::vector<void*> places;
  for (Memory& memory : tensors_) {
    std::memcpy(memory.bytes.data(), memory.filled.data(), memory.bytes.size());
    places.push_back(memory.place());
  }
  Outcome outcome;
  const Kernel* current = subject_.launches.front();
  try {
    subject_.trial.with_args(kHost, places, [&](const void* args) {
      const std::size_t scratch_bytes = subject_.op->scratch_bytes(args, subject_.kernel);
      const auto scratch = driver_->allocate(0, scratch_bytes);
      std::memset(scratch.get(), static_cast<int>(kPoison), scratch_bytes);
      std::size_t next = 0;
      subject_.op->steps(args, subject_.kernel, scratch.get(), [&](const ops::Step& step) {
        current = subject_.launches[next++];
        launch(*current, step, seed, changes);
      });
    });
  } catch (const Error& e) {
    if (e.stage != Stage::model) throw;
    outcome.fault = Fault{current->name, e.code, e.message, e.log};
    return outcome;
  }
  if (const std::string problem = beside(); !problem.empty())
    outcome.fault = Fault{current->name, Code::model_fault, problem, {}};
  else
    outcome.results = results();
  outcome.no_number = no_number();
  if (judge_ && !outcome.fault) outcome.wrong = judge_(std::vector<const void*>(places.begin(), places.end()));
  return outcome;
}

std::string Run::beside() const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Memory& memory = tensors_[i];
    const bool written = subject_.trial.tensors[i].written;
    for (std::size_t b = 0; b < memory.bytes.size(); ++b) {
      const bool inside = b >= memory.begin && b < memory.begin + memory.size;
      if (memory.bytes[b] == memory.filled[b] || (inside && written)) continue;
      const std::string& name = subject_.trial.tensors[i].name;
      if (inside) return cat("byte ", b - memory.begin, " of ", name, " was written, which is only to be read");
      return b < memory.begin
                 ? cat("the byte ", memory.begin - b, " before ", name, " was written")
                 : cat("the byte ", b - memory.begin - memory.size, " behind the end of ", name, " was written");
    }
  }
  return {};
}

std::string Run::results() const {
  support::FieldHash hash;
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (subject_.trial.tensors[i].written)
      hash.field(subject_.trial.tensors[i].name,
                 std::string_view(reinterpret_cast<const char*>(tensors_[i].bytes.data()) + tensors_[i].begin,
                                  tensors_[i].size));
  return support::to_hex(hash.finish());
}

std::string Run::no_number() const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const ops::TrialTensor& tensor = subject_.trial.tensors[i];
    const auto& [dtype, shape, strides, numbers, fill] = tensor.operand;
    if (!tensor.written) continue;
    const std::byte* begin = tensors_[i].bytes.data() + tensors_[i].begin;
    std::vector<std::int64_t> at(shape.size(), 0);
    for (bool more = std::all_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent > 0; }); more;) {
      std::int64_t element = 0;
      for (std::size_t d = 0; d < at.size(); ++d) element += at[d] * strides[d];
      if (const char* what = no_number_of(dtype, begin + element * size_of(dtype)); what != nullptr) {
        std::string place;
        for (const std::int64_t index : at) place += cat(place.empty() ? "" : ", ", index);
        return cat("element [", place, "] of ", tensor.name, " is ", what);
      }
      more = false;
      for (std::size_t d = at.size(); d-- > 0 && !more;) {
        more = ++at[d] < shape[d];
        if (!more) at[d] = 0;
      }
    }
  }
  return {};
}

}  // namespace tj::check
