// The runtime: finds, makes, keeps and launches kernels.
//
// Decides ownership and thread safety of the public calls. Does not know any op's mathematics.
// Invariant: every member function of Runtime may be called from any thread at any time.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/counters.hpp>
#include <tilejit/error.hpp>
#include <tilejit/export.hpp>
#include <tilejit/kernel_report.hpp>
#include <tilejit/plan.hpp>
#include <tilejit/remote.hpp>
#include <tilejit/tensor.hpp>
#include <tilejit/tune.hpp>

namespace tj {

namespace ops {
class Op;        // internal: what the library knows of an op
struct Request;  // internal: what tools enumerate
struct Problem;
}  // namespace ops
namespace custom {
class Kernel;  // custom.hpp
}
namespace dist {
class Group;  // dist.hpp
}

class Ladder;       // ladder.hpp
class Preparation;  // preparation.hpp

enum class LogLevel { trace, debug, info, warn, error, off };

/// The answer to a miss: what a call does whose kernel is neither in memory nor in the cache on disk.
///
/// - wait: it waits while the kernel is made, here or by another thread or process.
/// - error: it fails at once, and opens no compiler. The error's code is not_in_cache.
/// - quick: it makes a kernel in a part of the time, which is slower, and takes it until a thread in the background has
///   the best one. Both solve the call to the same accuracy (src/ops/NUMERICS.md). Their bits may differ: this is the
///   one exception to equal calls giving equal bits. Calls under a graph capture refuse as ever. On sm_90a there is
///   none, and the call waits.
///
/// run(), rungs of ladders and launches of custom kernels are such calls. plan() makes a plan for many runs: with
/// `quick` it waits, with `error` it fails. prepare(), Preparation, warm() and tune() ask for a kernel to be made, so
/// they make the best one whatever the policy.
enum class MissPolicy { wait, error, quick };

/// The compilers whose kernels serve from packs (Options::pack_compiler): any, or the one at hand alone.
enum class PackCompiler { any, own };

/// An allocator of workspaces (plan.hpp) in the place of the library's pool, such as a framework's own. It is called
/// from any thread. Runtime::allocate() does not use it. `allocate` may throw. `deallocate` must return: where it
/// throws or ends its thread, the process ends.
struct Allocator {
  /// Gives at least `bytes` bytes on the device at a multiple of 256, for work on this stream; null when there is no
  /// memory. While the stream records a graph, the memory must live as long as the graph.
  std::function<void*(Device, std::size_t bytes, Stream)> allocate;
  /// Called when all work that uses the memory has been enqueued on the stream; it may not have run by then.
  std::function<void(Device, void* memory, std::size_t bytes, Stream)> deallocate;
};

/// Kernels and memory that Runtime::trim() has freed.
struct TrimReport {
  std::uint64_t kernels = 0;          ///< that were unloaded
  std::uint64_t code_bytes = 0;       ///< of their binaries; what a driver frees is its own matter
  std::uint64_t workspace_bytes = 0;  ///< of the library's pools, as the driver tells
};

/// How kernels are made in the background (preparation.hpp).
struct PrepareOptions {
  int threads = 1;  ///< kernels that are made at once, 1 to 256
  /// Seconds from the preparation's start on, after which no kernel is begun, and no other maker is waited for; 0: no
  /// limit.
  double time_limit_s = 0;
};

/// Each field wins over its environment variable. An absent field takes the variable's value, else the default.
struct Options {
  /// TJ_CACHE_DIR; else $XDG_CACHE_HOME/tilejit, else ~/.cache/tilejit. Several folders, with ':' between them, are
  /// layers: the first that can be written is, the others are only searched (cache/README.md).
  std::optional<std::string> cache_dir;
  std::optional<std::uint64_t> cache_max_size_bytes;  ///< TJ_CACHE_MAX_SIZE (K, M, G suffixes); default 4 GiB
  /// TJ_CODE_MAX_SIZE: bytes of binaries that stay loaded on a device (K, M, G suffixes); 0, the default: no bound.
  /// Behind a load that goes beyond it, kernels whose last use is longest ago are unloaded, as trim() says which. With
  /// a bound, each launch asks whether its stream records a graph.
  std::optional<std::uint64_t> code_max_size_bytes;
  /// TJ_TARGET, "sm_90a", "gfx1100", "model:sm_90a"; default: the tensor's device. Options behind the name, in any
  /// order, take something from the device: "sm_90+copies=threads+smem=99K". copies=threads (sm_90, sm_100, sm_120a and
  /// others of their family): without the copy engine, as before sm_90; copies=engine: with it, which is the default.
  /// smem=<bytes> or smem=<n>K: the most shared memory of a block, from 1K to the device's own in steps of 128 bytes.
  /// code=ptx (archs of family sm80): PTX, which the driver compiles, also for later GPUs.
  /// smem-sm= is the same limit for an SM, which blocks side by side share. Reports, cache and dumped files name what
  /// an option changes, in one order.
  std::optional<std::string> target;
  /// TJ_FACTS: a file with facts of one arch, as tj-bench --calibrate writes it, in the place of those shipped
  /// (src/arch/README.md). Kernels are then chosen and scheduled by them. Cache, reports and manifests have the facts'
  /// hash in the target's name: "sm_90a+facts=0123456789abcdef". A target of another arch is refused, but for the CPU
  /// model where nobody names a target. Empty, the default: the shipped facts.
  std::optional<std::string> facts_file;
  /// TJ_DUMP_DIR: a folder. Sources and compiler logs of what is made are written there; a kernel that is found on disk
  /// is not made again.
  std::optional<std::string> dump_dir;
  std::optional<LogLevel> log_level;  ///< TJ_LOG_LEVEL; default warn
  /// TJ_HIP_COMPILER: auto (hiprtc where it is new enough for the GPU, else clang), hiprtc, clang; default auto.
  std::optional<std::string> hip_compiler;
  bool use_disk_cache = true;  ///< false: neither read nor write the disk
  /// TJ_TUNE (on, off): choices that tj-warm --tune measured go before predicted ones; default on.
  std::optional<bool> use_tuning;
  /// True: lists in memory of a device, such as cu_seqlens_q, are read before each call, which waits for its stream.
  /// The first bad entry, or counter of a plan's not at 0, is tj::Error(argument). Not within captures. TJ_CHECK: 1, 0.
  std::optional<bool> check_lists;
  /// TJ_WAIT_LIMIT: seconds that a call waits for another thread or process that makes the same kernel. Then it makes
  /// the kernel itself. 0: no limit; default 300.
  std::optional<double> wait_limit_s;
  /// TJ_COMPILE_LIMIT: seconds that a compiler program (clang, the host's compiler) may take; then it is ended and the
  /// call fails. 0: no limit; default 600. Compilers that are libraries (NVRTC, hiprtc) cannot be interrupted: no limit
  /// holds for them.
  std::optional<double> compile_limit_s;
  /// TJ_ON_MISS (wait, error, quick): what a call does whose kernel is not in the cache; default wait.
  std::optional<MissPolicy> on_miss;
  // Options of the CPU model alone (kernel_templates/model/README.md). tj-check sets the variables for the programs
  // that it runs.
  /// TJ_MODEL_SEED: another number gives another order in which threads run and copies and products complete.
  /// Default 1.
  std::optional<std::uint64_t> model_seed;
  /// TJ_MODEL_DISABLE: sites (waits, arrivals, fences, ...) that do nothing. "12,fmha_f16_d128:3" is site 12 of every
  /// kernel and site 3 of one. `tj-check --list-sites` numbers them.
  std::optional<std::string> model_disable;
  std::optional<std::string> model_weaken;  ///< TJ_MODEL_WEAKEN: sites that do less than they should, written likewise
  /// TJ_MODEL_REPORT: a file to which the model appends a line of JSON for each kernel that it launches and each
  /// report.
  std::optional<std::string> model_report;
  std::optional<Allocator> allocator;  ///< both functions; absent: the library's pool
  /// TJ_RECORD: a file that gets a line for each kernel and each measured choice that calls ask for, once in a process.
  /// `tj-warm --manifest` makes them (cache/README.md). A file that cannot be written is a warning and fails no call.
  std::optional<std::string> record_file;
  /// TJ_PACK_KEYS: a file of public keys. With it only packs that one of them has signed are searched
  /// (cache/README.md). Values of a remote store are believed by them, too.
  std::optional<std::string> pack_keys;
  /// TJ_PACK_COMPILER (any, own): whether a pack's kernel serves that another compiler made than the one at hand;
  /// default any. Kernels that the compiler at hand made go first.
  std::optional<PackCompiler> pack_compiler;
  /// A store elsewhere that is asked before a kernel is compiled, and gets what was compiled (remote.hpp).
  std::optional<Remote> remote;
  /// Receives what would be logged, instead of the default sink (standard error). Called from any thread.
  std::function<void(LogLevel, std::string_view)> log_sink;
};

/// The descriptor of a call: FmhaArgs, GemmArgs, ... Each op's header has its descriptor.
template <class T>
concept OpArgs = requires {
  { T::kOp } -> std::convertible_to<std::string_view>;
  typename T::Config;
};
/// The fields that choose a call's kernel, without any memory: FmhaConfig, GemmConfig, ...
template <class T>
concept OpConfig = requires { typename T::Args; } && OpArgs<typename T::Args>;

namespace detail {
/// The library's op of this name. Throws tj::Error(argument) with the names that there are.
TJ_API const ops::Op& find_op(std::string_view name);
/// The op of a descriptor, looked up once. A static object that is made at run time would have a guard, which a child
/// of fork() may find taken by a thread that it does not have.
template <OpArgs Args>
const ops::Op& op_of() {
  static constinit std::atomic<const ops::Op*> known{nullptr};
  const ops::Op* op = known.load(std::memory_order_acquire);
  if (op != nullptr) [[likely]]
    return *op;
  op = &find_op(Args::kOp);
  known.store(op, std::memory_order_release);
  return *op;
}
}  // namespace detail

/// After a fork() the child may use what its parent has made, and make kernels of its own, whatever the parent's
/// threads were doing. This holds on the CPU model and for the disk cache. GPUs are their driver's matter: a child of a
/// process that has used CUDA or HIP cannot use it. A child that was forked while another thread of its parent was in a
/// call of NVRTC or hiprtc cannot use that library, as its locks stay taken there, and neither can the child's own
/// children. Nor can a child of a process that was ending and had used it. Each compile by it fails at once with
/// Error(compile, io), which says so. Kernels that are in the cache load, also one that the parent goes on to compile.
/// A program that wants to compile in a child forks before the first compile, or while none is under way. Or its child
/// starts a program (exec). Only the library's own calls are known: a program that calls NVRTC itself sees to its
/// forks. A fork and the library's locks wait for each other 10 s at most, as a pthread_atfork() handler may wait for a
/// thread that compiles. Calls in a child of a fork that was given up on throw Error(launch, invalid_argument).
///
/// Calls may come while the process ends: from destructors of static objects, and from threads that go on. The end
/// waits for compiles that are under way; one that would begin then is refused, as a compiler may be gone. Signals do
/// what the program says: NVRTC is kept from setting handlers of its own, also in compiles that the program asks it for
/// later. A thread that pthread_cancel() cancels within a call in C, while it makes a kernel or runs one on the CPU
/// model, or while the library reads files or logs, finishes that first. Within a driver, cancellation of a call in C++
/// is not supported.
class TJ_API Runtime {
 public:
  /// Reads the environment once, for what the options leave open. Opens no driver and no compiler and makes no folder.
  /// Throws tj::Error(argument or target) that names the option or TJ_ variable with a bad value, and what is allowed.
  explicit Runtime(Options options = {});
  /// Does not wait for devices: synchronize() first. It drops what was to be made in the background and has not begun.
  /// It waits for kernels that are being made there: the log's sink is not called afterwards. Plans, custom kernels and
  /// memory of allocate() may outlive the runtime.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// The runtime of the process, made on first use with default Options; it lives until the process ends. Throws as the
  /// constructor does; the next call then tries anew.
  static Runtime& instance();

  /// Checks the arguments, gets the kernel (memory, disk or compiler) and enqueues it on the stream. The call is
  /// asynchronous on GPUs, and finished on return on the model. The op's header says which shapes are legal. Throws
  /// tj::Error; behind an error of the arguments nothing has been launched.
  /// While the stream records a graph, the kernels must be loaded already: call prepare() or plan() before. Otherwise
  /// the error's code is cold_in_capture.
  template <OpArgs Args>
  void run(const Args& args, Stream stream = {}) {
    run(detail::op_of<Args>(), &args, stream);
  }
  /// Runs the op of this name; `args` points at its descriptor (FmhaArgs for "fmha").
  void run(std::string_view op, const void* args, Stream stream = {});

  /// Validates and resolves a call once, to be run many times (plan.hpp). Gets its kernels ready as prepare() does.
  /// Addresses in args may be null: the plan then takes addresses that are multiples of 16 bytes. Throws tj::Error as
  /// run() does; addresses are checked by the plan's runs.
  template <OpArgs Args>
  Plan plan(const Args& args) {
    return plan(detail::op_of<Args>(), &args);
  }
  /// Plans the op of this name; `args` points at its descriptor.
  Plan plan(std::string_view op, const void* args);

  /// Gets the kernels of a call ready (compiled, cached and loaded) without launching. Addresses in args may be null:
  /// they count as multiples of 16 bytes. Throws tj::Error.
  template <OpArgs Args>
  KernelReport prepare(const Args& args) {
    return prepare(detail::op_of<Args>(), &args);
  }
  KernelReport prepare(std::string_view op, const void* args);
  /// Gets ready what calls with these fields need. Throws tj::Error.
  template <OpConfig Config>
  KernelReport prepare(const Config& config, Device device) {
    return prepare_config(detail::op_of<typename Config::Args>(), &config, device);
  }
  /// Prepares on default_device().
  template <OpConfig Config>
  KernelReport prepare(const Config& config) {
    return prepare(config, default_device());
  }
  /// Prepares in the background; preparation.hpp, which has to be included, says how. Throws tj::Error for the
  /// arguments; what cannot be made is told by the Preparation.
  template <OpArgs Args>
  Preparation prepare_async(const Args& args, const PrepareOptions& options = {});
  template <OpConfig Config>
  Preparation prepare_async(const Config& config, Device device, const PrepareOptions& options = {});
  /// Prepares the kernels that flags of tj-warm name: prepare_flags("fmha", "--dtype f16 --head-dim 64,128", device).
  /// Every combination of their values is made; a flag that is left out has the op's default set. gemm with --m, --n
  /// and --k (and --batch) makes the kernels that products of these sizes need. Throws tj::Error naming flag, value and
  /// what is allowed; kernels before it are ready. Up to four threads load what the disk has.
  std::vector<KernelReport> prepare_flags(std::string_view op, std::string_view flags, Device device);

  /// Compiles for a target into the disk cache without any device. Throws tj::Error.
  template <OpConfig Config>
  KernelReport warm(const Config& config, std::string_view target) {
    return warm_config(detail::op_of<typename Config::Args>(), &config, target);
  }
  /// Compiles the kernels that flags name, as prepare_flags() does, for a target and without any device.
  std::vector<KernelReport> warm_flags(std::string_view op, std::string_view flags, std::string_view target);
  /// Compiles the kernel of a request of any op. For the project's own tools: ops::Request is not a public type.
  KernelReport warm_op(const ops::Request& request, std::string_view target);
  /// The same for what a call on the device takes: PTX, where the compiler is too old for binaries.
  KernelReport warm_op(const ops::Request& request, Device device);

  /// Measures the kernels that can serve a call's sizes on its GPU, and keeps the fastest one's name in the cache.
  /// Calls of the same sizes on a device of the same name take it from then on. Other runtimes take it from their next
  /// prepare(), other processes from their start. Addresses in args may be null; operands are made up. Throws
  /// tj::Error: target when the device is no GPU of NVIDIA, argument for a call that has one kernel, as those of some
  /// ops have, and attention's with max_sms.
  template <OpArgs Args>
  TuneReport tune(const Args& args, const TuneOptions& options = {}) {
    return tune(detail::op_of<Args>(), &args, options);
  }
  TuneReport tune(std::string_view op, const void* args, const TuneOptions& options = {});
  /// For the project's own tools.
  TuneReport tune_op(std::string_view op, const ops::Problem& problem, Device device, const TuneOptions& options);

  /// The target that a tensor on this device would run on: "sm_90a", "model:sm_90a". Throws tj::Error: target when no
  /// architecture serves the device or TJ_TARGET does not fit it, launch without a driver, argument for a wrong index.
  std::string target_of(Device device) const;
  /// The target that this op ("chunk_o") would run on there. It is target_of(device), unless that has no kernel of the
  /// op, another target of the same device has one, and no target was asked for.
  std::string target_of(Device device, std::string_view op) const;

  /// The default device of this runtime: the first GPU (among AMD's the first that is served), else the CPU with the
  /// model. Under a target of a GPU it is the first GPU of that vendor, present or not. Never throws for a missing GPU:
  /// using the device says why it is missing.
  Device default_device() const;

  /// Returns the counts of this runtime so far. It never throws for a cache that cannot be used.
  Counters counters() const;

  /// Unloads the kernels that nothing needs, on one device or on all that kernels were loaded on, and gives the free
  /// memory of the library's pools back. Later calls load them again, from the disk mostly.
  ///
  /// These stay: kernels of plans; kernels of calls in other threads at that moment; quick kernels that still serve;
  /// and what a graph may launch, as a graph holds no kernel. With Options::code_max_size_bytes the library knows what
  /// was recorded. Without it a kernel stays that was launched on any stream but the default one, since that may have
  /// been recording. The driver waits for launches of a kernel before it frees it. No stream's recording is disturbed.
  /// Throws tj::Error(argument or launch) for a device that there is not.
  TrimReport trim(std::optional<Device> device = {});

  /// Memory helpers for programs that have no GPU framework of their own. cpu devices use host memory.
  /// allocate: 256-byte aligned; freed with the last copy of the pointer. Copies are synchronous. Throw tj::Error.
  std::shared_ptr<void> allocate(Device device, std::size_t bytes);
  void copy(void* dst, Device dst_device, const void* src, Device src_device, std::size_t bytes);
  /// Waits until the stream has done what was enqueued; returns at once on the model. Throws tj::Error(launch) when the
  /// device is missing or reports a failure, which may be that of an earlier kernel.
  void synchronize(Device device, Stream stream = {});
  /// Time of what `work` enqueues on the default stream, by device events (wall clock on the model), in milliseconds.
  /// Waits for it. Lets through what `work` throws; throws tj::Error as synchronize() does.
  double time_ms(Device device, const std::function<void()>& work);

 private:
  friend class custom::Kernel;
  friend class dist::Group;
  friend class Ladder;
  friend class Plan;
  friend class Preparation;
  void run(const ops::Op& op, const void* args, Stream stream);
  Plan plan(const ops::Op& op, const void* args);
  KernelReport prepare(const ops::Op& op, const void* args);
  KernelReport prepare_config(const ops::Op& op, const void* config, Device device);
  KernelReport warm_config(const ops::Op& op, const void* config, std::string_view target);
  TuneReport tune(const ops::Op& op, const void* args, const TuneOptions& options);

  struct Impl;
  std::shared_ptr<Impl> impl_;  ///< plans share it
};

/// The calls of Runtime::instance(), as functions.
template <OpArgs Args>
void run(const Args& args, Stream stream = {}) {
  Runtime::instance().run(args, stream);
}
template <OpArgs Args>
Plan plan(const Args& args) {
  return Runtime::instance().plan(args);
}
template <OpArgs Args>
KernelReport prepare(const Args& args) {
  return Runtime::instance().prepare(args);
}
template <OpConfig Config>
KernelReport prepare(const Config& config) {
  return Runtime::instance().prepare(config);
}
template <OpConfig Config>
KernelReport prepare(const Config& config, Device device) {
  return Runtime::instance().prepare(config, device);
}

/// The library's version, "0.2.0". The text is static.
TJ_API const char* version() noexcept;
/// Hash of the library's own code and templates; part of each alias's key in the cache. The text is static.
TJ_API const char* build_id() noexcept;

}  // namespace tj
