// See launching.hpp.
#include "model/launching.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "model/grid.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"

namespace tj::model {
namespace {

using launch::Kernel;
using launch::LaunchConfig;
using support::cat;
using support::fail;

constexpr unsigned kMaxWorkers = 8;
constexpr unsigned kMaxCluster = 8;  // blocks that any device with clusters can run together
// Few, so that persistent kernels walk several tiles even for small tensors.
constexpr unsigned kSmCount = 4;

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

// Clusters in order, each by one worker, for kernels whose blocks tell each other nothing. No new cluster begins after
// a fault. Clusters that began earlier end, so that the fault that is reported does not depend on the number of
// workers.
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

std::vector<bool> flags(const std::vector<int>& sites) {
  std::vector<bool> set;
  for (const int site : sites) {
    if (static_cast<std::size_t>(site) >= set.size()) set.resize(static_cast<std::size_t>(site) + 1);
    set[static_cast<std::size_t>(site)] = true;
  }
  return set;
}
unsigned workers(const ModelOptions& options) {
  return options.workers != 0 ? options.workers : std::clamp(std::thread::hardware_concurrency(), 1u, kMaxWorkers);
}
const ModelKernel& checked(const Kernel& kernel, const LaunchConfig& config, std::size_t params_bytes) {
  const auto& loaded = static_cast<const ModelKernel&>(kernel);
  check_launch(loaded, config, params_bytes);
  return loaded;
}

}  // namespace

ModelKernel::ModelKernel(std::string_view bytes, const std::string& symbol, std::int64_t smem)
    : object(bytes, symbol, api()), notes(Notes::parse(object.kernel().notes)), smem_bytes(smem) {}

unsigned sm_count(const ModelOptions& options) { return options.sm_count != 0 ? options.sm_count : kSmCount; }

Launching::Params::Params(const void* from, std::size_t bytes, std::size_t alignment)
    : alignment_(std::max(alignment, sizeof(void*))),
      memory_(::operator new(std::max<std::size_t>(bytes, 1), std::align_val_t(alignment_))) {
  if (bytes > 0) std::memcpy(memory_, from, bytes);
}
Launching::Params::~Params() { ::operator delete(memory_, std::align_val_t(alignment_)); }

Launching::Launching(const Kernel& kernel, const LaunchConfig& config, const void* params, std::size_t params_bytes,
                     ModelOptions options)
    : params_(params, params_bytes, checked(kernel, config, params_bytes).object.kernel().params_alignment) {
  const auto& loaded = static_cast<const ModelKernel&>(kernel);
  launch_.kernel = &loaded.object.kernel();
  launch_.params = params_.get();
  launch_.grid_blocks = config.grid[0];
  launch_.cluster = config.shape.cluster;
  launch_.threads = config.shape.threads;
  launch_.smem_bytes = static_cast<std::size_t>(config.shape.smem_bytes);
  launch_.options = std::move(options);
  launch_.notes = &loaded.notes;
  launch_.waits_itself = config.waits_itself;
  launch_.memory.assign(config.memory.begin(), config.memory.end());
  launch_.disabled = flags(launch_.options.disabled_sites);
  launch_.weakened = flags(launch_.options.weakened_sites);
  side_by_side_ = config.shape.across_blocks != 0;
  resident_ = std::max(1u, sm_count(launch_.options) * std::max(1u, config.shape.blocks_per_sm) / config.shape.cluster);
}

void Launching::run(StackPool& stacks) const {
  if (side_by_side_) return Grid(launch_, stacks, resident_).run();
  Spread(launch_, stacks).run(std::min(launch_.grid_blocks / launch_.cluster, workers(launch_.options)));
}

}  // namespace tj::model
