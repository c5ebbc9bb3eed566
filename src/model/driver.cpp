// See driver.hpp.
#include "model/driver.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "launch/cuda/tensor_map.hpp"
#include "model/copy.hpp"
#include "model/default_math.hpp"
#include "model/launching.hpp"
#include "model/linked.hpp"
#include "support/elf.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"
#include "support/uncancelled.hpp"

namespace tj::model {
namespace {

using launch::check_tensor_map;
using launch::DeviceInfo;
using launch::Driver;
using launch::Kernel;
using launch::LaunchConfig;
using launch::Recording;
using launch::TensorMapPlace;
using support::cat;
using support::fail;

constexpr std::size_t kAllocationAlignment = 256;
constexpr int kPoison = 0xff;                                 // of bytes
constexpr std::size_t kMostPoisoned = std::size_t{64} << 20;  // bytes of an allocation
// Far above any arch's. Whether a kernel fits its own arch was decided when it was scheduled; this only keeps a wrong
// number from taking the host's memory.
constexpr std::int64_t kMaxSmemBytes = std::int64_t{1} << 20;

// Primitives without a site all bear 0.
void check_sites(const char* field, const std::vector<int>& sites) {
  for (const int site : sites)
    if (site < 1)
      fail(Stage::argument, Code::invalid_argument,
           cat("ModelOptions::", field, " has the site ", site,
               "; allowed: a site's number from 1 on (tj-check --list-sites lists them)"));
}

std::shared_ptr<Driver>& in_place() {
  static constinit support::Lasting<std::shared_ptr<Driver>> model;
  return model.get();
}

}  // namespace

launch::DeviceInfo Model::device_info(int device) {
  check(device);
  DeviceInfo info;
  info.vendor = "cpu";
  info.name = "CPU model";
  info.sm_count = static_cast<int>(sm_count(options()));
  info.smem_per_block_bytes = kMaxSmemBytes;
  return info;
}

std::shared_ptr<Kernel> Model::load(int device, std::string_view bytes, const std::string& symbol,
                                    std::int64_t smem_bytes) {
  check(device);
  if (smem_bytes < 0 || smem_bytes > kMaxSmemBytes)
    fail(Stage::load, Code::invalid_argument,
         cat("smem_bytes is ", smem_bytes, "; the CPU model gives a block at most ", kMaxSmemBytes));
  if (const std::string problem = support::elf_problem(bytes); !problem.empty())
    fail(Stage::load, Code::unsupported,
         cat("a unit's shared object is not whole: ", problem, "; clear the kernel cache"));
  return std::make_shared<ModelKernel>(bytes, symbol, smem_bytes);
}

void Model::encode_tensor_maps(int device, std::span<const TensorMapPlace> maps) {
  check(device);
  for (const TensorMapPlace& map : maps) {
    check_tensor_map(*map.desc, map.out);
    encode(*map.desc, map.out);
  }
}

void Model::move_tensor_maps(int, std::span<const launch::MovedTensorMap> maps) {
  for (const launch::MovedTensorMap& map : maps) set_address(map.map, map.address);
}

void Model::launch(int device, const Kernel& kernel, const LaunchConfig& config, const void* params,
                   std::size_t params_bytes, Stream) {
  support::require_locks();
  const support::Uncancelled whole;  // its other threads would find nobody who waits for them
  const DefaultMath math;
  check(device);
  Launching(kernel, config, params, params_bytes, options()).run(stacks_);
}

unsigned Model::resident_clusters(int device, const Kernel&, const LaunchConfig& config) {
  check(device);
  return std::max(1u, sm_count(options()) / std::max(1u, config.shape.cluster));
}

std::shared_ptr<void> Model::allocate(int device, std::size_t bytes) {
  check(device);
  const std::size_t whole =
      (std::max<std::size_t>(bytes, 1) + kAllocationAlignment - 1) / kAllocationAlignment * kAllocationAlignment;
  void* memory = whole < bytes ? nullptr : std::aligned_alloc(kAllocationAlignment, whole);
  if (memory == nullptr)
    fail(Stage::load, Code::out_of_memory, cat("cannot allocate ", bytes, " bytes of host memory for the CPU model"));
  // NaN, so that what a kernel reads and none has written shows. Memory that is only asked for stays the host's.
  std::memset(memory, kPoison, std::min(whole, kMostPoisoned));
  return {memory, [](void* pointer) { std::free(pointer); }};
}

std::shared_ptr<void> Model::host_memory(int device, std::size_t bytes) {
  const std::shared_ptr<void> memory = allocate(device, bytes);
  std::memset(memory.get(), 0, bytes);
  return memory;
}

launch::SharedMemory Model::share(int device, const std::shared_ptr<void>& memory) {
  check(device);
  return shared_.add(memory);
}

std::shared_ptr<void> Model::open_shared(int device, const launch::SharedMemory& shared) {
  check(device);
  return shared_.find(shared);
}

void Model::copy_rows(int device, const launch::RowsToCopy& rows, Stream) {
  check(device);
  for (std::int64_t row = 0; row < rows.rows; ++row)
    std::memcpy(static_cast<std::byte*>(rows.to) + row * rows.to_pitch,
                static_cast<const std::byte*>(rows.from) + row * rows.from_pitch,
                static_cast<std::size_t>(rows.row_bytes));
}

void Model::zero(int device, void* memory, std::size_t bytes, Stream) {
  check(device);
  std::memset(memory, 0, bytes);
}

void Model::copy(int device, void* dst, bool, const void* src, bool, std::size_t bytes) {
  check(device);
  if (bytes > 0) std::memmove(dst, src, bytes);
}

double Model::time_ms(int device, const std::function<void()>& work) {
  check(device);
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::shared_ptr<Recording> Model::record(int device, const std::function<void(Stream)>&) {
  check(device);
  support::fail(
      Stage::launch, Code::unsupported,
      "launches on the CPU model cannot be recorded: they run to their end at once; launch them again instead");
}

void Model::set_options(ModelOptions options) {
  check_sites("disabled_sites", options.disabled_sites);
  check_sites("weakened_sites", options.weakened_sites);
  const std::lock_guard lock(mutex_);
  options_ = std::move(options);
}

void Model::check(int device) {
  if (device != 0)
    fail(Stage::argument, Code::invalid_argument,
         cat("device cpu:", device, " does not exist; the CPU model is cpu:0"));
}

ModelOptions Model::options() {
  const std::lock_guard lock(mutex_);
  return options_;
}

std::shared_ptr<ModelDriver> open_model_driver() { return std::make_shared<Model>(); }
std::shared_ptr<Driver> open_model() {
  const std::shared_ptr<Driver>& other = in_place();
  return other != nullptr ? other : open_model_driver();
}

ModelInPlace::ModelInPlace(std::shared_ptr<Driver> model) { in_place() = std::move(model); }
ModelInPlace::~ModelInPlace() { in_place() = nullptr; }

}  // namespace tj::model
