// A kernel of CUDA: a binary, and what was loaded of it.
//
// Decides when the binary is loaded. Invariant: a module is unloaded once, and only while its context is there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "launch/cuda/context.hpp"
#include "launch/driver.hpp"
#include "support/fork_safe.hpp"

namespace tj::launch {

/// A module in a context, and its one function.
class CudaModule {
 public:
  CudaModule(const CudaContexts& contexts, const CudaContext& context) : contexts_(contexts), context_(context) {}
  ~CudaModule();
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  /// Throws tj::Error(load).
  void load(const void* bytes, const std::string& symbol, std::int64_t smem_bytes);
  const CudaContext& context() const noexcept { return context_; }
  CUfunction function() const noexcept { return function_; }
  std::size_t params_bytes() const noexcept { return params_bytes_; }

 private:
  void raise_shared_memory(std::int64_t smem_bytes, const std::string& symbol);

  const CudaContexts& contexts_;
  const CudaContext& context_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  std::size_t params_bytes_ = 0;
};

/// Keeps its binary: where somebody destroys the device's context, the next use loads it into the next one.
class CudaKernel final : public Kernel {
 public:
  /// Loads it. Throws tj::Error(load).
  CudaKernel(std::shared_ptr<CudaContexts> contexts, int device, std::string_view bytes, std::string symbol,
             std::int64_t smem_bytes);

  int device() const noexcept { return device_; }
  /// The function in that context. Throws tj::Error(load) where it has to be loaded there.
  CUfunction function(const CudaContext& context) const {
    const CudaModule* const module = module_.load(std::memory_order_acquire);
    return &module->context() == &context ? module->function() : load(context).function();
  }
  std::size_t params_bytes() const noexcept override { return params_bytes_; }

 private:
  const CudaModule& load(const CudaContext& context) const;

  std::shared_ptr<CudaContexts> contexts_;
  int device_;
  std::string bytes_, symbol_;
  std::int64_t smem_bytes_;
  std::size_t params_bytes_ = 0;
  mutable std::atomic<const CudaModule*> module_{nullptr};
  mutable support::Mutex mutex_;
  mutable std::vector<std::unique_ptr<CudaModule>> modules_;  ///< also of contexts that are gone: calls may read them
};

}  // namespace tj::launch
