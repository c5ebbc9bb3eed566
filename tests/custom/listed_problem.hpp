// One table and one list for listed_kernel.hpp, on any device: poisoned outputs, a workspace of its own, sums against
// whole numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "custom/listed_kernel.hpp"

namespace tj::test {

/// Gives the same memory to every launch and looks at what a launch leaves in it.
class ListedWorkspace {
 public:
  Allocator allocator() {
    const auto begin = [this] {
      auto* const at = memory_.data();
      return at + (256 - reinterpret_cast<std::uintptr_t>(at) % 256) % 256;
    };
    return {[this, begin](Device, std::size_t bytes, Stream) -> void* {
              return bytes + 256 > memory_.size() ? nullptr : begin();
            },
            [this, begin](Device, void*, std::size_t bytes, Stream) {
              const std::size_t counters = bytes - static_cast<std::size_t>(pieces);
              left_at_zero +=
                  std::all_of(begin(), begin() + counters, [](std::byte each) { return each == std::byte{}; });
              ++launches;
            }};
  }
  std::int64_t pieces = 0;  ///< bytes of the next launch that are no counters
  int launches = 0, left_at_zero = 0;

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(1 << 17, std::byte{0xa5});
};

class ListedProblem {
 public:
  static constexpr int kRows = 7;
  static constexpr float kPoison = -12345.0f;

  /// An entry's row is one of 7, in no order; row 0 is that of the entry in the middle alone.
  ListedProblem(Runtime& runtime, Device device, int entries, int row_steps, bool has_engine = true)
      : runtime_(runtime),
        device_(device),
        row_steps_(row_steps),
        has_engine_(has_engine),
        list_(static_cast<std::size_t>(entries)) {
    for (int e = 0; e < entries; ++e) list_[static_cast<std::size_t>(e)] = e == entries / 2 ? 0 : 1 + (5 * e + 3) % 6;
    table_.resize(static_cast<std::size_t>(kRows * row_steps) * kListedWidth);
    for (std::size_t i = 0; i < table_.size(); ++i) table_[i] = static_cast<float>((i * 7919 + i / 512 * 31) % 61) - 30;
    table_memory_ = upload(table_), list_memory_ = upload(list_), count_memory_ = upload(std::vector<int>{0});
  }

  template <class T>
  std::shared_ptr<void> upload(const std::vector<T>& data) {
    auto memory = runtime_.allocate(device_, data.size() * sizeof(T));
    runtime_.copy(memory.get(), device_, data.data(), kHost, data.size() * sizeof(T));
    return memory;
  }
  void set_count(int count) { runtime_.copy(count_memory_.get(), device_, &count, kHost, sizeof count); }
  void* count_memory() const { return count_memory_.get(); }
  /// An entry's row becomes another one, which the table need not have.
  void set_row(int entry, int row) {
    list_[static_cast<std::size_t>(entry)] = row;
    list_memory_ = upload(list_);
  }
  /// Enqueues a launch that writes to `out`. changes: the entry in the middle stores 1 as the count.
  void launch(const custom::Kernel& kernel, unsigned blocks, void* out, bool changes = false) const {
    ListedParams params{};
    if (has_engine_)
      params.steps = kernel.tensor_map(
          Tensor::contiguous(table_memory_.get(), device_, DType::f32, {1, kRows * row_steps_, 2, kListedWidth / 2}),
          custom::Box{{1, 1, 2, kListedWidth / 2}, 0});
    params.table = static_cast<const float*>(table_memory_.get());
    params.count = static_cast<const int*>(count_memory_.get());
    params.list = static_cast<const int*>(list_memory_.get());
    params.out = static_cast<float*>(out);
    params.changed = changes ? static_cast<int*>(count_memory_.get()) : nullptr;
    params.row_steps = row_steps_;
    kernel.launch(device_, params, blocks);
  }
  /// Memory for a launch's output, poisoned.
  std::shared_ptr<void> poisoned() {
    out_.assign((list_.size() + 1) * kListedWidth, kPoison);
    return upload(out_);
  }
  /// Waits for all launches; wrong() then judges this output.
  void read(const void* out) { runtime_.copy(out_.data(), kHost, out, device_, out_.size() * sizeof(float)); }
  void wait() const {
    int count = 0;
    runtime_.copy(&count, kHost, count_memory_.get(), device_, sizeof count);
  }
  void run(const custom::Kernel& kernel, unsigned blocks, bool changes = false) {
    const auto out = poisoned();
    launch(kernel, blocks, out.get(), changes);
    read(out.get());
  }
  /// Elements that are wrong where the list has `count` entries: behind them nothing may be written.
  int wrong(int count) const {
    int wrong = 0;
    for (int e = 0; e < static_cast<int>(list_.size()) + 1; ++e)
      for (int column = 0; column < kListedWidth; ++column)
        wrong += out_[static_cast<std::size_t>(e * kListedWidth + column)] != (e < count ? sum(e, column) : kPoison);
    return wrong;
  }

 private:
  static constexpr Device kHost{DeviceKind::cpu, 0};

  double sum(int entry, int column) const {
    const int row = list_[static_cast<std::size_t>(entry)];
    double sum = row < 0 ? kPoison : 0;
    for (int step = 0; row >= 0 && row < kRows && step < row_steps_; ++step)
      sum += table_[static_cast<std::size_t>((row * row_steps_ + step) * kListedWidth + column)];
    return sum;
  }
  Runtime& runtime_;
  Device device_;
  int row_steps_;
  bool has_engine_;
  std::vector<int> list_;
  std::vector<float> table_, out_;
  std::shared_ptr<void> table_memory_, list_memory_, count_memory_;
};

}  // namespace tj::test
