// See placement.hpp.
#include "placement.hpp"

#include <algorithm>
#include <cmath>

#include "ops/common/empty.hpp"
#include "support/fail.hpp"

namespace tj {
namespace {

// User addresses of 64-bit processors and GPUs lie below 2^47; some of them may be looked at by a driver.
constexpr std::uintptr_t kFirst = std::uintptr_t{1} << 44;
constexpr double kMostBytes = 0x1p46;
constexpr std::uintptr_t kPage = 4096;

/// The tensor is not validated yet and may hold any numbers: doubles cannot overflow here.
double bytes_of(const Tensor& tensor) {
  if (ops::is_empty(tensor)) return 0;
  double last = 0;
  for (int i = 0; i < std::clamp(tensor.rank, 0, kMaxRank); ++i) {
    const auto at = static_cast<std::size_t>(i);
    last += (static_cast<double>(tensor.shape[at]) - 1) * static_cast<double>(tensor.strides[at]);
  }
  return std::max(0.0, last + 1) * size_of(tensor.dtype);
}

}  // namespace

Placement::Placement(const ops::Op& op, const void* args) : op_(&op), args_(op.copy(args)) {
  op.tensors(args_.get(), list_);
  std::uintptr_t next = kFirst;
  for (std::size_t i = 0; i < tensors(); ++i) {
    const double bytes = bytes_of(*tensor(i).tensor);
    span_bytes_ += bytes;
    any_null_ = any_null_ || tensor(i).tensor->data == nullptr;
    bytes_[i] = static_cast<std::size_t>(std::min(bytes, kMostBytes));
    places_[i] = next + reinterpret_cast<std::uintptr_t>(tensor(i).tensor->data) % 16;
    next += (bytes_[i] / kPage + 2) * kPage;
  }
  places_[tensors()] = next;  // of the workspace
}

const void* Placement::at(const Places& places) {
  for (std::size_t i = 0; i < tensors(); ++i) tensor(i).tensor->data = reinterpret_cast<void*>(places[i]);
  return args_.get();
}

void Placement::check_span() const {
  if (span_bytes_ > kMostBytes)
    support::fail(Stage::argument, Code::unsupported,
                  support::cat("tensors of ", op_->name(), " reach over ", span_bytes_,
                               " bytes together; allowed in a plan: 2^46"));
}

}  // namespace tj
