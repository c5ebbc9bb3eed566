// The CPU model behind the driver interface, for those who add to it.
//
// Decides what its device looks like. launching.hpp decides how a launch runs. Invariant: a launch ends before launch()
// returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/peer_memory.hpp"
#include "model/fiber.hpp"
#include "model/model.hpp"
#include "model/shared_allocations.hpp"
#include "support/fork_safe.hpp"

namespace tj::model {

class Model : public ModelDriver, public launch::PeerMemory {
 public:
  int device_count() override { return 1; }
  launch::DeviceInfo device_info(int device) override;

  std::shared_ptr<launch::Kernel> load(int device, std::string_view bytes, const std::string& symbol,
                                       std::int64_t smem_bytes) override;
  void encode_tensor_maps(int device, std::span<const launch::TensorMapPlace> maps) override;
  void move_tensor_maps(int device, std::span<const launch::MovedTensorMap> maps) override;
  void launch(int device, const launch::Kernel& kernel, const launch::LaunchConfig& config, const void* params,
              std::size_t params_bytes, Stream stream) override;
  unsigned resident_clusters(int device, const launch::Kernel& kernel, const launch::LaunchConfig& config) override;
  bool capturing(int, Stream) override { return false; }

  std::shared_ptr<void> allocate(int device, std::size_t bytes) override;
  std::shared_ptr<void> host_memory(int device, std::size_t bytes) override;
  launch::SharedMemory share(int device, const std::shared_ptr<void>& memory) override;
  std::shared_ptr<void> open_shared(int device, const launch::SharedMemory& shared) override;
  void copy_rows(int device, const launch::RowsToCopy& rows, Stream stream) override;
  bool idle(int, Stream) override { return true; }
  std::shared_ptr<void> scratch(int device, std::size_t bytes, Stream) override { return allocate(device, bytes); }
  void zero(int device, void* memory, std::size_t bytes, Stream stream) override;
  void copy(int device, void* dst, bool dst_on_device, const void* src, bool src_on_device, std::size_t bytes) override;
  void synchronize(int device, Stream) override { check(device); }
  double time_ms(int device, const std::function<void()>& work) override;
  std::shared_ptr<launch::Recording> record(int device, const std::function<void(Stream)>& work) override;

  void set_options(ModelOptions options) override;

 protected:
  static void check(int device);
  ModelOptions options();
  StackPool stacks_;

 private:
  SharedAllocations shared_;
  support::Mutex mutex_;
  ModelOptions options_;
};

}  // namespace tj::model
