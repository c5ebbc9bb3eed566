// The primary contexts of CUDA's devices, as other users of the process (PyTorch, the runtime API) share them.
//
// Decides when a context is retained, made current and released, when one counts as destroyed by others, and how much
// free memory its pool keeps. Invariant: no call leaves another context current than it found. Each context that was
// retained is released once, after the last kernel, allocation and driver object, or when another takes its place.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "launch/cuda/api.hpp"
#include "support/fork_safe.hpp"

namespace tj::launch {

/// A primary context from the moment that it is retained until somebody destroys it. The objects live as long as
/// CudaContexts: what was made in a context keeps its address.
struct CudaContext {
  CUcontext handle = nullptr;
  unsigned long long id = 0;  ///< 0: the driver does not tell
  std::atomic<CUmemoryPool> pool{nullptr};
  std::atomic<bool> pool_known{false};            ///< whether there is one
  std::atomic<std::uint64_t> allocated_bytes{0};  ///< outside the pool
};

/// Seconds that loads took so far (driver.hpp).
struct LoadTimes {
  std::atomic<double> module_s{0}, function_s{0}, code_s{0}, attributes_s{0};
};

class CudaContexts {
 public:
  CudaContexts(std::unique_ptr<CudaApi> api, int device_count);
  ~CudaContexts();
  CudaContexts(const CudaContexts&) = delete;
  CudaContexts& operator=(const CudaContexts&) = delete;

  const CudaApi& api() const noexcept { return *api_; }
  LoadTimes& load_times() const noexcept { return load_times_; }
  int count() const noexcept { return static_cast<int>(devices_.size()); }

  /// The driver's handle. Throws tj::Error(argument) for an index out of range, else tj::Error(load).
  CUdevice device(int index) const;
  /// Retains at first use, and anew where somebody has destroyed the context; else an atomic load and a look at its
  /// number.
  CudaContext& context(int index);
  /// Whether the context is still there. Nothing that was made in one that is gone may be used or released.
  bool alive(const CudaContext& context) const noexcept;
  /// A memory pool of our own in the device's context, made at first use; null where the device gives none.
  CUmemoryPool pool(int index, CudaContext& context);
  /// The context that was retained last, if it is still there; retains none.
  CudaContext* known_context(int index) const noexcept;

 private:
  struct Device {
    CUdevice handle = 0;
    std::atomic<CudaContext*> context{nullptr};
    std::vector<std::unique_ptr<CudaContext>> contexts;  ///< the last one and those that were destroyed
  };
  CudaContext& retain(Device& device);
  void make_pool(CUdevice device, CudaContext& context);
  void check_index(int index) const;

  std::unique_ptr<CudaApi> api_;
  std::vector<std::unique_ptr<Device>> devices_;
  support::Mutex mutex_;
  mutable LoadTimes load_times_;
};

/// Makes a context current for its own life; costs one look-up where it is current already, as in a PyTorch process.
class ContextScope {
 public:
  ContextScope(const CudaApi& api, CUcontext context, Stage stage);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const CudaApi& api_;
  bool pushed_ = false;
};

/// A scope for destructors: entered() says that the driver refused, and nothing is thrown.
class QuietContextScope {
 public:
  QuietContextScope(const CudaApi& api, CUcontext context) noexcept;
  ~QuietContextScope();
  QuietContextScope(const QuietContextScope&) = delete;
  QuietContextScope& operator=(const QuietContextScope&) = delete;
  bool entered() const noexcept { return entered_; }

 private:
  const CudaApi& api_;
  bool entered_ = false;
};

/// Lets this thread allocate and load while another thread captures a graph, without breaking that capture.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const CudaApi& api) noexcept;
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const CudaApi& api_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_ = false;
};

}  // namespace tj::launch
