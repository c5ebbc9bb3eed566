// A launch on the model: what the driver was given, and the blocks that run.
//
// Decides how a launch's blocks are spread over OS threads, and which launches are refused. block.hpp and cluster.hpp
// have what a thread does. Invariant: of several faulty blocks the first one is reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launch/driver.hpp"
#include "model/cluster.hpp"
#include "model/model.hpp"
#include "model/object.hpp"

namespace tj::model {

class ModelKernel final : public launch::Kernel {
 public:
  ModelKernel(std::string_view bytes, const std::string& symbol, std::int64_t smem);
  std::size_t params_bytes() const noexcept override { return object.kernel().params_bytes; }
  std::string_view notes_text() const noexcept override {
    return object.kernel().notes == nullptr ? std::string_view() : object.kernel().notes;
  }
  const Object object;
  const Notes notes;
  const std::int64_t smem_bytes;  ///< the most that a launch may ask for, as on a device
};

/// Multiprocessors of the device.
unsigned sm_count(const ModelOptions& options);

/// A launch that was checked. The kernel outlives it.
class Launching {
 public:
  /// Throws tj::Error(launch) for a launch that no device takes.
  Launching(const launch::Kernel& kernel, const launch::LaunchConfig& config, const void* params,
            std::size_t params_bytes, ModelOptions options);
  Launching(const Launching&) = delete;
  Launching& operator=(const Launching&) = delete;

  /// Runs it to its end. Throws tj::Error(model).
  void run(StackPool& stacks) const;
  const Launch& launch() const noexcept { return launch_; }
  Launch& launch() noexcept { return launch_; }
  /// Its blocks make up one cluster, which may be run in parts.
  bool is_one_cluster() const noexcept { return !side_by_side_ && launch_.grid_blocks == launch_.cluster; }

 private:
  /// The parameter as the kernel sees it: by value, aligned.
  class Params {
   public:
    Params(const void* from, std::size_t bytes, std::size_t alignment);
    ~Params();
    Params(const Params&) = delete;
    Params& operator=(const Params&) = delete;
    const void* get() const noexcept { return memory_; }

   private:
    std::size_t alignment_;
    void* memory_;
  };

  const Params params_;
  Launch launch_;
  bool side_by_side_ = false;  ///< blocks wait for each other
  unsigned resident_ = 1;      ///< clusters that run side by side then
};

}  // namespace tj::model
