// Kernels of a user's own: a dependence graph and a folder with the bodies of its nodes, in the place of a shipped op.
//
// Decides what a user gives and how such a kernel is launched. The kernel is scheduled, generated, compiled and cached
// as an op's is. Formats: src/graph/README.md (the graph), kernel_templates/README.md (bodies, contexts, tiles).
// Example: samples/05_custom_gemm. Invariant: every member function of Kernel may be called from any thread at any
// time.
//
// Limits: a grid has one dimension, and the graph's walk says how its tiles come to blocks. A kernel has one
// parameter, by value, of at most 4 KB. Where blocks draw or share tiles, each launch takes counters and
// memory for sums from Options::allocator, else from the library's pool. The graph names the machines that it is for.
// A folder has at most 256 files and 4 MiB. A body sees the library's primitives and no standard header. Of a graph's
// candidates the one is made that is predicted to do most, or that tune() or tj-warm --tune found to be the fastest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

// The library's device code declares the same type, so that one header can describe the parameter to host and device.
// The macro says that it is declared already.
#ifndef TJ_TENSOR_MAP
#define TJ_TENSOR_MAP
namespace tj {

/// A tensor map, which the copy engine reads. custom::Kernel::tensor_map() makes it, and a kernel's parameter has it as
/// a member. Its words are opaque.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

}  // namespace tj
#endif

namespace tj::custom {

/// The description that a kernel is made from. Kernel's constructor copies what it needs: the description may change or
/// end afterwards.
struct Description {
  std::string name;  ///< 1 to 64 letters, digits, '_', '-' and '.': in reports, logs and names of dumped files
  /// The JSON text itself, or Graph::json(), with "code" and the targets' machines, such as "sm_90a".
  std::string graph;
  std::string folder;  ///< its *.cuh, *.hpp and *.h files, subfolders included, are what units may include
  int max_stages = 0;  ///< most iterations in flight; 0: any
  int max_slots = 0;   ///< most slots of a ring; 0: what the graph's values allow
  bool turns = true;   ///< hold roles that alternate on a unit to their turns
};

/// The box that the copy engine cuts from a tensor. Elements of the box that lie outside the tensor arrive as zeros.
struct Box {
  std::array<std::int64_t, kMaxRank> shape{};  ///< elements, outermost dimension first, as Tensor::shape; each 1 to 256
  int swizzle_bytes = 128;                     ///< 0, 32, 64 or 128: what matrix instructions and the body expect
};

/// A handle: copies are the same kernel. It keeps its runtime's drivers, and may be used after its Runtime has ended.
class TJ_API Kernel {
 public:
  /// Reads and checks folder and graph; compiles nothing. Equal descriptions with equal files share one kernel. Throws
  /// tj::Error: argument for the description, a missing folder, file, body or context; graph for the graph.
  Kernel(Runtime& runtime, const Description& description);
  /// A kernel of Runtime::instance().
  explicit Kernel(const Description& description);

  /// Gets the kernel ready on a device (compiled, cached and loaded) without launching. Throws tj::Error. Stage target:
  /// the graph is for another machine. Stage schedule or codegen: no kernel can be made of the graph. Stage compile:
  /// the error has the compiler's log and the place of the source.
  KernelReport prepare(Device device) const;
  /// Compiles for a target ("sm_90a", "model:sm_90a") into the disk cache without any device. Throws tj::Error.
  KernelReport warm(std::string_view target) const;

  /// Times the graph's candidates on a GPU, by the first trial of its document that is timed, and keeps the fastest:
  /// later launches on devices of the same name and driver take it, of this process and of others. Names of kernels in
  /// the options are those of candidates. Throws tj::Error: argument where the graph has no candidates or no trial,
  /// target where the device is no GPU, and as launch() does where no candidate can be measured.
  TuneReport tune(Device device, const TuneOptions& options = {}) const;

  /// A map of the tensor's memory, for a member of the parameter; valid as long as that memory. The tensor's dimensions
  /// are those that the body's copy names (copy_box_4d: four). The last one is contiguous, the other strides and the
  /// address are multiples of 16 bytes; a dimension of size 1 may have any stride. Throws tj::Error(argument) that
  /// names what breaks these rules.
  TensorMap tensor_map(const Tensor& tensor, const Box& box) const;

  /// Multiprocessors of the device. The blocks that run at once are this number times the graph's blocks_per_sm (1 by
  /// default). Throws tj::Error(launch). Ask once, not for each launch.
  unsigned sm_count(Device device) const;

  /// Enqueues `blocks` blocks, a multiple of the graph's cluster, with the parameter by value; asynchronous on GPUs,
  /// finished on return on the model. The first launch on a device prepares; later ones allocate nothing. Throws
  /// tj::Error; nothing was launched then.
  template <class Params>
  void launch(Device device, const Params& params, unsigned blocks, Stream stream = {}) const {
    static_assert(std::is_trivially_copyable_v<Params> && !std::is_pointer_v<Params>, "the parameter travels as bytes");
    launch_bytes(device, &params, sizeof(Params), blocks, stream);
  }
  /// Launches as launch() does, with the parameter's bytes at `params`. A size that is not the kernel's own is refused
  /// where the driver tells it (CUDA 12.4 and newer).
  void launch_bytes(Device device, const void* params, std::size_t bytes, unsigned blocks, Stream stream = {}) const;

 private:
  friend class tj::Preparation;
  std::shared_ptr<Runtime::Impl> runtime_;
  const void* maker_;  ///< owned by the runtime
};

}  // namespace tj::custom
