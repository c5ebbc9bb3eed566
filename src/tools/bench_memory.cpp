// See bench_memory.hpp.
#include "tools/bench_memory.hpp"

#include <algorithm>
#include <cstring>

#include "ops/copy_rows/copy_rows.hpp"
#include "support/fail.hpp"
#include "support/random_values.hpp"

namespace tj::tools {
namespace {

using support::cat;

constexpr std::size_t kPatternValues = std::size_t{1} << 21;  // long enough that no two blocks of a tile look alike
constexpr std::size_t kPieceBytes = std::size_t{16} << 20;    // of what goes to the device, or comes back, at a time
constexpr char kPoison = '\xff';                              // a NaN in every type that has some
constexpr std::int64_t kFlushRows = 8192, kFlushColumns = 16384;  // of f16: 256 MB each of read and written

/// The pattern again and again.
void fill(launch::Driver& driver, Device device, void* memory, std::size_t bytes, const std::string& pattern) {
  for (std::size_t at = 0; at < bytes; at += pattern.size())
    driver.copy(device.index, static_cast<char*>(memory) + at, true, pattern.data(), false,
                std::min(pattern.size(), bytes - at));
}

std::string pattern_of(const ops::TrialTensor& tensor, std::uint64_t seed) {
  if (tensor.operand.fill) return tensor.operand.fill(seed);
  if (!tensor.operand.numbers.empty())
    return {reinterpret_cast<const char*>(tensor.operand.numbers.data()),
            tensor.operand.numbers.size() * sizeof(std::int32_t)};
  if (tensor.written) return std::string(std::min(tensor.bytes(), kPieceBytes), kPoison);
  return normal_values(tensor.operand.dtype, std::min(kPatternValues, tensor.elements()), seed);
}

}  // namespace

WorkloadMemory::WorkloadMemory(const ops::Trial& trial, launch::Driver& driver, Device device, std::uint64_t seed)
    : trial_(trial), driver_(driver), device_(device) {
  for (const ops::TrialTensor& tensor : trial.tensors) {
    tensors_.push_back(driver.allocate(device.index, tensor.bytes()));
    fill(driver, device, tensors_.back().get(), tensor.bytes(), pattern_of(tensor, seed + tensors_.size()));
    double elements = 1;
    for (const std::int64_t size : tensor.operand.shape) elements *= static_cast<double>(size);
    bytes_ += elements * size_of(tensor.operand.dtype);
  }
}

void WorkloadMemory::with_args(const std::function<void(const void* args)>& use) const {
  std::vector<void*> places;
  for (const auto& tensor : tensors_) places.push_back(tensor.get());
  trial_.with_args(device_, places, use);
}

std::string WorkloadMemory::unwritten() const {
  std::string text;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const ops::TrialTensor& tensor = trial_.tensors[i];
    if (!tensor.written) continue;
    const auto size = static_cast<std::size_t>(size_of(tensor.operand.dtype));
    const std::string poison(size, kPoison);
    std::string piece;
    std::size_t left = 0;
    for (std::size_t at = 0; at < tensor.bytes(); at += piece.size()) {
      piece.resize(std::min(kPieceBytes, tensor.bytes() - at));
      driver_.copy(device_.index, piece.data(), false, static_cast<const char*>(tensors_[i].get()) + at, true,
                   piece.size());
      for (std::size_t e = 0; e < piece.size(); e += size)
        left += std::memcmp(piece.data() + e, poison.data(), size) == 0 ? 1 : 0;
    }
    if (left > 0)
      text += cat(text.empty() ? "" : "; ", left, " of ", tensor.elements(), " elements of ", tensor.name,
                  " were not written");
  }
  return text;
}

CacheFlush::CacheFlush(Runtime& runtime, launch::Driver& driver, Device device) : runtime_(runtime), device_(device) {
  const auto bytes = static_cast<std::size_t>(kFlushRows * kFlushColumns * size_of(DType::f16));
  from_ = driver.allocate(device.index, bytes);
  to_ = driver.allocate(device.index, bytes);
  (*this)();
  driver.synchronize(device.index, {});
}

void CacheFlush::operator()() {
  const ops::CopyRowsArgs args{Tensor::contiguous(from_.get(), device_, DType::f16, {kFlushRows, kFlushColumns}),
                               Tensor::contiguous(to_.get(), device_, DType::f16, {kFlushRows, kFlushColumns})};
  runtime_.run("copy_rows", &args);
}

}  // namespace tj::tools
