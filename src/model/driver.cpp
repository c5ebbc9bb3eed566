// The CPU model behind the driver interface.
//
// Decides what its device looks like and how a launch's blocks are spread over OS threads. block.hpp and cluster.hpp
// have what a thread does. Invariant: a launch ends before launch() returns; of several faulty blocks the first one is
// reported.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "launch/cuda/tensor_map.hpp"
#include "model/cluster.hpp"
#include "model/default_math.hpp"
#include "model/grid.hpp"
#include "model/model.hpp"
#include "model/object.hpp"
#include "model/shared_allocations.hpp"
#include "support/elf.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
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
constexpr unsigned kMaxWorkers = 8;
constexpr unsigned kMaxCluster = 8;  // blocks that any device with clusters can run together
// Far above any arch's. Whether a kernel fits its own arch was decided when it was scheduled; this only keeps a wrong
// number from taking the host's memory.
constexpr std::int64_t kMaxSmemBytes = std::int64_t{1} << 20;
// Few, so that persistent kernels walk several tiles even for small tensors.
constexpr unsigned kSmCount = 4;

class ModelKernel final : public Kernel {
 public:
  ModelKernel(std::string_view bytes, const std::string& symbol, std::int64_t smem)
      : object(bytes, symbol, api()), notes(Notes::parse(object.kernel().notes)), smem_bytes(smem) {}
  std::size_t params_bytes() const noexcept override { return object.kernel().params_bytes; }
  std::string_view notes_text() const noexcept override {
    return object.kernel().notes == nullptr ? std::string_view() : object.kernel().notes;
  }
  const Object object;
  const Notes notes;
  const std::int64_t smem_bytes;  ///< the most that a launch may ask for, as on a device
};

// The parameter as the kernel sees it: by value, aligned.
class Params {
 public:
  Params(const void* from, std::size_t bytes, std::size_t alignment)
      : alignment_(std::max(alignment, sizeof(void*))),
        memory_(::operator new(std::max<std::size_t>(bytes, 1), std::align_val_t(alignment_))) {
    if (bytes > 0) std::memcpy(memory_, from, bytes);
  }
  ~Params() { ::operator delete(memory_, std::align_val_t(alignment_)); }
  Params(const Params&) = delete;
  Params& operator=(const Params&) = delete;
  const void* get() const noexcept { return memory_; }

 private:
  std::size_t alignment_;
  void* memory_;
};

void check_launch(const ModelKernel& loaded, const LaunchConfig& config, std::size_t params_bytes) {
  const tj_model_kernel& kernel = loaded.object.kernel();
  if (config.grid[1] != 1 || config.grid[2] != 1 || config.grid[0] == 0)
    fail(Stage::launch, Code::unsupported,
         cat("grid ", config.grid[0], " x ", config.grid[1], " x ", config.grid[2],
             "; the CPU model takes grids of one dimension"));
  if (config.shape.threads == 0 || config.shape.threads > kMaxThreads ||
      config.shape.threads % kernel.warp_threads != 0)
    fail(Stage::launch, Code::invalid_argument,
         cat("threads is ", config.shape.threads, "; allowed are multiples of ", kernel.warp_threads, " up to ",
             kMaxThreads));
  if (config.shape.threads > kernel.threads)
    fail(Stage::launch, Code::invalid_argument,
         cat("threads is ", config.shape.threads, ", but the kernel was compiled for at most ", kernel.threads));
  if (config.shape.cluster == 0 || config.shape.cluster > kMaxCluster)
    fail(Stage::launch, Code::invalid_argument,
         cat("cluster is ", config.shape.cluster, "; allowed are 1 to ", kMaxCluster, " blocks"));
  if (config.grid[0] % config.shape.cluster != 0)
    fail(Stage::launch, Code::invalid_argument,
         cat("grid has ", config.grid[0], " blocks; it must be a multiple of ", config.shape.cluster,
             ", the blocks of a cluster"));
  if (config.shape.smem_bytes < 0 || config.shape.smem_bytes > loaded.smem_bytes)
    fail(Stage::launch, Code::invalid_argument,
         cat("smem_bytes is ", config.shape.smem_bytes, ", but the kernel was loaded for at most ", loaded.smem_bytes));
  if (params_bytes != kernel.params_bytes)
    fail(Stage::launch, Code::invalid_argument,
         cat("params has ", params_bytes, " bytes, the kernel takes ", kernel.params_bytes));
}

// Clusters in order, each by one worker, for kernels whose blocks tell each other nothing. After a fault no new cluster
// begins. Clusters that began earlier end, so that the fault that is reported does not depend on the number of workers.
class Spread {
 public:
  Spread(const Launch& launch, StackPool& pool) : launch_(launch), pool_(pool) {}

  void run(unsigned workers) {
    std::vector<std::thread> others;
    others.reserve(workers);
    try {
      for (unsigned w = 1; w < workers; ++w) others.emplace_back([this] { work(); });
    } catch (const std::exception&) {  // no thread, or no memory for one: fewer workers then
    }
    work();
    for (std::thread& other : others) other.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work() {
    try {
      Cluster cluster(launch_, pool_);
      for (;;) {
        const unsigned first = next_.fetch_add(launch_.cluster);
        if (first >= launch_.grid_blocks || stop_.load()) return;
        run_one(cluster, first);
      }
    } catch (...) {
      keep(launch_.grid_blocks, std::current_exception());
    }
  }
  void run_one(Cluster& cluster, unsigned first) {
    try {
      cluster.run(first);
    } catch (...) {
      keep(first, std::current_exception());
    }
  }
  void keep(unsigned index, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_ || index < error_index_) {
      error_ = std::move(error);
      error_index_ = index;
    }
    stop_.store(true);
  }

  const Launch& launch_;
  StackPool& pool_;
  std::atomic<unsigned> next_{0};
  std::atomic<bool> stop_{false};
  support::Mutex mutex_;
  std::exception_ptr error_;
  unsigned error_index_ = 0;
};

class Model final : public ModelDriver, public launch::PeerMemory {
 public:
  int device_count() override { return 1; }
  DeviceInfo device_info(int device) override {
    check(device);
    DeviceInfo info;
    info.vendor = "cpu";
    info.name = "CPU model";
    info.sm_count = static_cast<int>(sm_count(options()));
    info.smem_per_block_bytes = kMaxSmemBytes;
    return info;
  }

  std::shared_ptr<Kernel> load(int device, std::string_view bytes, const std::string& symbol,
                               std::int64_t smem_bytes) override {
    check(device);
    if (smem_bytes < 0 || smem_bytes > kMaxSmemBytes)
      fail(Stage::load, Code::invalid_argument,
           cat("smem_bytes is ", smem_bytes, "; the CPU model gives a block at most ", kMaxSmemBytes));
    if (const std::string problem = support::elf_problem(bytes); !problem.empty())
      fail(Stage::load, Code::unsupported,
           cat("a unit's shared object is not whole: ", problem, "; clear the kernel cache"));
    return std::make_shared<ModelKernel>(bytes, symbol, smem_bytes);
  }

  void encode_tensor_maps(int device, std::span<const TensorMapPlace> maps) override {
    check(device);
    for (const TensorMapPlace& map : maps) {
      check_tensor_map(*map.desc, map.out);
      encode(*map.desc, map.out);
    }
  }

  void move_tensor_maps(int, std::span<const launch::MovedTensorMap> maps) override {
    for (const launch::MovedTensorMap& map : maps) set_address(map.map, map.address);
  }

  void launch(int device, const Kernel& kernel, const LaunchConfig& config, const void* params,
              std::size_t params_bytes, Stream) override {
    support::require_locks();
    const support::Uncancelled whole;  // its other threads would find nobody who waits for them
    const DefaultMath math;
    check(device);
    const auto& loaded = static_cast<const ModelKernel&>(kernel);
    check_launch(loaded, config, params_bytes);
    const tj_model_kernel& entry = loaded.object.kernel();
    const Params by_value(params, params_bytes, entry.params_alignment);
    Launch launch;
    launch.kernel = &entry;
    launch.params = by_value.get();
    launch.grid_blocks = config.grid[0];
    launch.cluster = config.shape.cluster;
    launch.threads = config.shape.threads;
    launch.smem_bytes = static_cast<std::size_t>(config.shape.smem_bytes);
    launch.options = options();
    launch.notes = &loaded.notes;
    launch.waits_itself = config.waits_itself;
    launch.memory.assign(config.memory.begin(), config.memory.end());
    launch.disabled = flags(launch.options.disabled_sites);
    launch.weakened = flags(launch.options.weakened_sites);
    if (config.shape.across_blocks != 0) return Grid(launch, stacks_, resident(config, launch.options)).run();
    Spread(launch, stacks_).run(std::min(launch.grid_blocks / launch.cluster, workers(launch.options)));
  }

  unsigned resident_clusters(int device, const Kernel&, const LaunchConfig& config) override {
    check(device);
    return std::max(1u, sm_count(options()) / std::max(1u, config.shape.cluster));
  }
  bool capturing(int, Stream) override { return false; }

  std::shared_ptr<void> allocate(int device, std::size_t bytes) override {
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
  std::shared_ptr<void> host_memory(int device, std::size_t bytes) override {
    const std::shared_ptr<void> memory = allocate(device, bytes);
    std::memset(memory.get(), 0, bytes);
    return memory;
  }
  launch::SharedMemory share(int device, const std::shared_ptr<void>& memory) override {
    check(device);
    return shared_.add(memory);
  }
  std::shared_ptr<void> open_shared(int device, const launch::SharedMemory& shared) override {
    check(device);
    return shared_.find(shared);
  }
  void copy_rows(int device, const launch::RowsToCopy& rows, Stream) override {
    check(device);
    for (std::int64_t row = 0; row < rows.rows; ++row)
      std::memcpy(static_cast<std::byte*>(rows.to) + row * rows.to_pitch,
                  static_cast<const std::byte*>(rows.from) + row * rows.from_pitch,
                  static_cast<std::size_t>(rows.row_bytes));
  }
  bool idle(int, Stream) override { return true; }
  std::shared_ptr<void> scratch(int device, std::size_t bytes, Stream) override { return allocate(device, bytes); }
  void zero(int device, void* memory, std::size_t bytes, Stream) override {
    check(device);
    std::memset(memory, 0, bytes);
  }
  void copy(int device, void* dst, bool, const void* src, bool, std::size_t bytes) override {
    check(device);
    if (bytes > 0) std::memmove(dst, src, bytes);
  }
  void synchronize(int device, Stream) override { check(device); }
  double time_ms(int device, const std::function<void()>& work) override {
    check(device);
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  std::shared_ptr<Recording> record(int device, const std::function<void(Stream)>&) override {
    check(device);
    support::fail(
        Stage::launch, Code::unsupported,
        "launches on the CPU model cannot be recorded: they run to their end at once; launch them again instead");
  }

  void set_options(ModelOptions options) override {
    check_sites("disabled_sites", options.disabled_sites);
    check_sites("weakened_sites", options.weakened_sites);
    const std::lock_guard lock(mutex_);
    options_ = std::move(options);
  }

 private:
  static void check(int device) {
    if (device != 0)
      fail(Stage::argument, Code::invalid_argument,
           cat("device cpu:", device, " does not exist; the CPU model is cpu:0"));
  }
  // Primitives without a site all bear 0.
  static void check_sites(const char* field, const std::vector<int>& sites) {
    for (const int site : sites)
      if (site < 1)
        fail(Stage::argument, Code::invalid_argument,
             cat("ModelOptions::", field, " has the site ", site,
                 "; allowed: a site's number from 1 on (tj-check --list-sites lists them)"));
  }
  static std::vector<bool> flags(const std::vector<int>& sites) {
    std::vector<bool> set;
    for (const int site : sites) {
      if (static_cast<std::size_t>(site) >= set.size()) set.resize(static_cast<std::size_t>(site) + 1);
      set[static_cast<std::size_t>(site)] = true;
    }
    return set;
  }
  static unsigned sm_count(const ModelOptions& options) { return options.sm_count != 0 ? options.sm_count : kSmCount; }
  /// Clusters that run side by side.
  static unsigned resident(const LaunchConfig& config, const ModelOptions& options) {
    return std::max(1u, sm_count(options) * std::max(1u, config.shape.blocks_per_sm) / config.shape.cluster);
  }
  static unsigned workers(const ModelOptions& options) {
    return options.workers != 0 ? options.workers : std::clamp(std::thread::hardware_concurrency(), 1u, kMaxWorkers);
  }
  ModelOptions options() {
    const std::lock_guard lock(mutex_);
    return options_;
  }

  StackPool stacks_;
  SharedAllocations shared_;
  support::Mutex mutex_;
  ModelOptions options_;
};

}  // namespace

std::shared_ptr<ModelDriver> open_model_driver() { return std::make_shared<Model>(); }
std::shared_ptr<Driver> open_model() { return open_model_driver(); }

}  // namespace tj::model
