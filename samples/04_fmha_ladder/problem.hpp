// One length's attention problem: its tensors on the host and on the device, a rung's check and times.
//
// Decides what a call of the sample is, and how its result is compared. Does not decide which rungs run, nor their
// turns. Invariant: every result is written over NaN.
#pragma once

#include <tilejit/ladder.hpp>
#include <tilejit/tilejit.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/fmha_reference.hpp"
#include "common/random.hpp"
#include "common/step_report.hpp"

namespace sample::fmha_ladder {

inline constexpr tj::Device kHost{tj::DeviceKind::cpu, 0};
inline constexpr std::int64_t kReferenceWork =
    std::int64_t{1} << 34;                        ///< elements read by the f64 reference; beyond it rows are sampled
inline constexpr std::uint16_t kPoison = 0xffff;  ///< NaN: what a kernel leaves out is seen

/// One length's tensors on the host and on the device.
class Problem {
 public:
  Problem(tj::Runtime& runtime, tj::Device device, const tj::samples::StepReport& report, std::int64_t length)
      : runtime_(runtime), device_(device), report_(report), length_(length) {
    const auto rows = static_cast<std::size_t>(report.batch * report.heads * length),
               elements = rows * static_cast<std::size_t>(report.head_dim);
    for (std::size_t t = 0; t < 3; ++t)
      inputs_[t] = tj::samples::random_normal(elements, report.dtype, report.seed + t);
    for (std::size_t t = 0; t < 3; ++t) memory_[t] = upload(inputs_[t]);
    o_.assign(elements, kPoison);
    lse_.assign(rows, NAN);
    memory_[3] = upload(o_), memory_[4] = upload(lse_);
  }

  tj::FmhaArgs on_device() const {
    return args(device_, memory_[0].get(), memory_[1].get(), memory_[2].get(), memory_[3].get(), memory_[4].get());
  }

  /// Runs a rung once over a poisoned result and compares: some rows with f64, and all of it with the first result.
  void check(int step, tj::samples::StepResult& result) {
    std::fill(o_.begin(), o_.end(), kPoison);
    std::fill(lse_.begin(), lse_.end(), NAN);
    runtime_.copy(memory_[3].get(), device_, o_.data(), kHost, o_.size() * 2);
    runtime_.copy(memory_[4].get(), device_, lse_.data(), kHost, lse_.size() * sizeof(float));
    tj::Ladder(runtime_).run(on_device(), step);
    runtime_.synchronize(device_);
    runtime_.copy(o_.data(), kHost, memory_[3].get(), device_, o_.size() * 2);
    runtime_.copy(lse_.data(), kHost, memory_[4].get(), device_, lse_.size() * sizeof(float));
    const tj::FmhaArgs here =
        args(kHost, inputs_[0].data(), inputs_[1].data(), inputs_[2].data(), o_.data(), lse_.data());
    if (wanted_.rows.empty()) wanted_ = tj::samples::fmha_reference_rows(here, {kReferenceWork, report_.seed, 0});
    result.reference = tj::samples::compare_fmha(here, wanted_);
    if (baseline_.empty()) baseline_ = o_;
    result.baseline_error = tj::samples::relative_distance(o_, baseline_, report_.dtype);
    result.baseline_apart = tj::samples::elements_apart(o_, baseline_, report_.dtype);
    result.right = result.reference.within(report_.dtype) && result.reference.close() && result.baseline_apart == 0 &&
                   result.baseline_error <= tj::samples::max_error(report_.dtype);
  }

  double ms_of(int rung, int calls) const {
    return runtime_.time_ms(device_, [&] { run(rung, calls); }) / calls;
  }
  /// A function that gives the milliseconds of a call in a graph of so many; none where there are no graphs.
  std::function<double()> recorded(int rung, int calls) const {
    if (report_.on_model) return {};
    return [calls, replay = tj::Ladder(runtime_).record(on_device(), rung, calls)] { return replay() / calls; };
  }
  double flops() const { return tj::samples::fmha_flops(on_device()); }

 private:
  template <class T>
  std::shared_ptr<void> upload(const std::vector<T>& data) const {
    std::shared_ptr<void> memory = runtime_.allocate(device_, data.size() * sizeof(T));
    runtime_.copy(memory.get(), device_, data.data(), kHost, data.size() * sizeof(T));
    return memory;
  }
  void run(int rung, int calls) const {
    const tj::FmhaArgs call = on_device();
    tj::Ladder ladder(runtime_);
    for (int c = 0; c < calls; ++c) ladder.run(call, rung);
  }
  tj::FmhaArgs args(tj::Device device, const void* q, const void* k, const void* v, void* o, void* lse) const {
    const auto tensor = [&](const void* data) {
      return tj::Tensor::contiguous(const_cast<void*>(data), device, report_.dtype,
                                    {report_.batch, report_.heads, length_, report_.head_dim});
    };
    tj::FmhaArgs args;
    args.q = tensor(q), args.k = tensor(k), args.v = tensor(v), args.o = tensor(o);
    args.lse = tj::Tensor::contiguous(lse, device, tj::DType::f32, {report_.batch, report_.heads, length_});
    args.causal = report_.causal;
    return args;
  }

  tj::Runtime& runtime_;
  tj::Device device_;
  const tj::samples::StepReport& report_;
  std::int64_t length_;
  std::vector<std::uint16_t> inputs_[3], o_, baseline_;
  std::vector<float> lse_;
  tj::samples::FmhaRows wanted_;  ///< the reference's, for all rungs
  std::shared_ptr<void> memory_[5];
};

}  // namespace sample::fmha_ladder
