// One problem of the sample's kernel on any device: random inputs, a poisoned output with a guard behind it, the error
// against f64. Plain loops, nothing shared with the kernel but the parameter's layout.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <tilejit/custom.hpp>

#include "05_custom_gemm/gemm_gelu_params.cuh"
#include "common/half.hpp"
#include "common/random.hpp"

namespace tj::test {

inline constexpr double kMaxSampleError = 6e-4;

class SampleProblem {
 public:
  SampleProblem(Runtime& runtime, Device device, int m, int n, int k, std::uint64_t seed)
      : runtime_(runtime),
        device_(device),
        m_(m),
        n_(n),
        k_(k),
        a_(samples::random_normal(size(m, k), DType::f16, seed)),
        b_(samples::random_normal(size(n, k), DType::f16, seed + 1)),
        bias_(static_cast<std::size_t>(n)) {
    for (std::uint16_t& each : b_)
      each = samples::float_to_half(samples::half_to_float(each) / std::sqrt(static_cast<float>(k)));
    for (int i = 0; i < n; ++i) bias_[static_cast<std::size_t>(i)] = static_cast<float>(i % 40 - 20) / 16.0f;
    a_memory_ = upload(a_), b_memory_ = upload(b_), bias_memory_ = upload(bias_);
  }

  /// b_rows: of b, that one copy brings. Kernel: custom::Kernel, or what stands for it in C.
  template <class Kernel>
  void run(const Kernel& kernel, unsigned blocks, int b_rows = 256) {
    d_.assign(size(m_, n_) + kGuard, kPoison);
    const auto d = upload(d_);
    sample::gemm_gelu::Params p;
    p.a = kernel.tensor_map(Tensor::contiguous(a_memory_.get(), device_, DType::f16, {1, 1, m_, k_}),
                            custom::Box{{1, 1, 128, 64}});
    p.b = kernel.tensor_map(Tensor::contiguous(b_memory_.get(), device_, DType::f16, {1, 1, n_, k_}),
                            custom::Box{{1, 1, b_rows, 64}});
    p.bias = static_cast<const float*>(bias_memory_.get());
    p.d = d.get();
    p.m = m_, p.n = n_, p.k = k_;
    p.row_blocks = (m_ + 127) / 128;
    p.tiles = p.row_blocks * ((n_ + 255) / 256);
    kernel.launch(device_, p, blocks);
    runtime_.copy(d_.data(), kHost, d.get(), device_, 2 * d_.size());
  }

  /// The bits of d, with the guard behind them.
  const std::vector<std::uint16_t>& result() const { return d_; }

  /// ||d - ref|| / ||ref||; infinite when something behind the output was written.
  double error() const {
    for (std::size_t i = size(m_, n_); i < d_.size(); ++i)
      if (d_[i] != kPoison) return std::numeric_limits<double>::infinity();
    double wrong = 0, all = 0;
    for (int row = 0; row < m_; ++row)
      for (int column = 0; column < n_; ++column) {
        const std::uint16_t *left = &a_[size(row, k_)], *right = &b_[size(column, k_)];
        double x = bias_[static_cast<std::size_t>(column)];
        for (int i = 0; i < k_; ++i)
          x += static_cast<double>(samples::half_to_float(left[i])) * samples::half_to_float(right[i]);
        const double gelu = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        const double difference = samples::half_to_float(d_[size(row, n_) + static_cast<std::size_t>(column)]) - gelu;
        wrong += difference * difference, all += gelu * gelu;
      }
    return std::sqrt(wrong / all);
  }

 private:
  static constexpr Device kHost{DeviceKind::cpu, 0};
  static constexpr std::size_t kGuard = 512;
  static constexpr std::uint16_t kPoison = 0xffff;  ///< NaN

  static std::size_t size(int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  }
  template <class T>
  std::shared_ptr<void> upload(const std::vector<T>& data) {
    auto memory = runtime_.allocate(device_, data.size() * sizeof(T));
    runtime_.copy(memory.get(), device_, data.data(), kHost, data.size() * sizeof(T));
    return memory;
  }

  Runtime& runtime_;
  Device device_;
  int m_, n_, k_;
  std::vector<std::uint16_t> a_, b_, d_;
  std::vector<float> bias_;
  std::shared_ptr<void> a_memory_, b_memory_, bias_memory_;
};

}  // namespace tj::test
