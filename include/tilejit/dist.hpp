// Attention over sequences that several GPUs hold together, and products beside their collectives.
//
// Decides how ranks meet, how a sequence is split over them, and what a call of all of them means. Does not start ranks
// and does not move bytes: NCCL does, which is opened at run time. Invariant: each rank has one device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/export.hpp>
#include <tilejit/fmha.hpp>
#include <tilejit/gemm.hpp>
#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>

namespace tj::dist {

/// The rows of a sequence that each of P ranks holds. Example of eight rows and two ranks:
///
///   contiguous   rank 0: 0 1 2 3    rank 1: 4 5 6 7    one run each, of any length
///   zigzag       rank 0: 0 1 6 7    rank 1: 2 3 4 5    2 P pieces; rank r has pieces r and 2 P - 1 - r
///   striped      rank 0: 0 2 4 6    rank 1: 1 3 5 7    rank r has rows r, r + P, r + 2 P, ...
///
/// Causal work is equal on all ranks for zigzag and striped, and not for contiguous.
enum class Split : std::uint8_t { contiguous, zigzag, striped };

/// The rows that travel in attention. keys: keys and values go to the ranks whose rows see them. heads: each rank gets
/// all rows of some heads. automatic: keys, unless heads alone serve the call, or are predicted to be faster on all
/// ranks together.
enum class Exchange : std::uint8_t { automatic, keys, heads };

/// Attention forward of one sequence a batch element whose rows are split over the ranks of a group. Each rank passes
/// its own rows, in the order of Split, and gets the output of these rows over the keys of all ranks.
///
/// Shapes and types are FmhaArgs', with S of this rank: q [B, H, S, D]; k [B, Hkv, S, D]; v [B, Hkv, S, Dv];
/// o [B, H, S, Dv]; lse f32 [B, H, S]. Memory of k and v has no gaps. It is [B, S, Hkv, D], with heads_first
/// [B, Hkv, S, D]. All ranks pass equal values of everything but addresses and, with contiguous, S.
///
/// Masks count rows of the whole sequence. A window needs causal in an exchange of keys, and so does ALiBi; sinks,
/// ALiBi and windows go with contiguous and zigzag alone. The list lengths has each rank's S where contiguous runs
/// differ; empty: all have this rank's. Zigzag takes an even S.
///
/// An exchange of heads lets each rank attend with H / P heads over all rows, and send their rows back. H is a
/// multiple of P then. Hkv is a multiple of P, or P one of Hkv, where several ranks get the same head of keys. Any mask
/// goes with any split, without causal, too. Memory of k and v may have gaps, which automatic does not look at. Bits
/// are those of one GPU's call of as many heads in the same tile.
///
/// cu_seqlens, i32 [N + 1] on the device, makes the rows of all ranks those of N sequences, as FmhaArgs has them.
/// Heads are exchanged, and B is 1. Rows of no sequence get any number. Masks are each sequence's own, and
/// alibi_slopes are [H] or [N, H]. The list is equal on all ranks.
///
/// Each rank gathers keys and values by an exchange of keys, from the first that its rows see to the last, and then
/// attends. A row's output with contiguous and zigzag has the bits of a call of one GPU over the same keys in the same
/// tile. The ranks' keys are parts with striped, whose outputs are merged in the ranks' order. Contiguous and zigzag
/// ranks on GPUs with a buffer for each other attend with their own keys first where that is predicted to be faster.
/// These and the others' are two parts then, merged in this order (TJ_DIST_ORDER=whole: never).
struct ContextFmhaArgs {
  Tensor q, k, v, o;
  std::optional<Tensor> lse;
  std::optional<float> scale;
  bool causal = false;
  Split split = Split::zigzag;
  std::vector<std::int64_t> lengths;
  FmhaWindow window;
  float softcap = 0;
  std::optional<Tensor> alibi_slopes, sinks;
  int max_sms = 0;           ///< of the launches, as FmhaArgs::max_sms
  bool heads_first = false;  ///< memory of k and v
  Exchange exchange = Exchange::automatic;
  std::optional<Tensor> cu_seqlens;
};

/// Attention of a few queries over a cache that the ranks hold together. Each rank has some keys of each sequence, and
/// all queries. All of them get the output over the keys of all ranks, in equal bits.
///
/// Example: a cache in pages of 64 keys, of which rank r of P has those of number r, r + P, ... of each sequence. Then
/// each rank passes q, cu_seqlens_q, its own k and v, its own block_table, and in seqused_k how many keys of each
/// sequence it has.
///
/// attention is FmhaArgs' call over this rank's keys alone, with or without lists and pages. Equal on all ranks: q, the
/// shapes and types of q and o, D, Dv, scale, softcap, sinks, cu_seqlens_q. A rank's own: keys, how many it has of a
/// sequence, from 0, their pages and lists, bias, texts and mod_params. These count the rank's keys from 0. The ranks'
/// outputs travel in f32, with their log-sum-exps, and are merged in the ranks' order. The first rank adds the sinks.
///
/// Windows and ALiBi are refused, as they count places among all keys. So is causal, but for one query a sequence, q of
/// [B, H, 1, D], which sees all keys. A mask_mod may say what queries see of this rank's keys.
struct ContextDecodeArgs {
  FmhaArgs attention;
};

/// A product whose rows of a are split over the ranks: each passes its own rows and gets the rows of all.
/// The product is GemmArgs': d = activation(alpha * a b^T + beta * c + bias). The other ranks' rows travel while the
/// product of those that have come is made, this rank's first.
///
/// Shapes: product.a [M of this rank, K], rows one behind another; product.b [N, K] of this rank, often its part of the
/// columns; product.d and c [M of all ranks, N]. Types of a and b are f16 or bf16, without scales and batch. The list
/// lengths has each rank's M; empty: all have this rank's.
struct AllGatherGemmArgs {
  GemmArgs product;
  std::vector<std::int64_t> lengths;
};

/// A product whose K is split over the ranks. Each passes its part of K of all rows, and gets its own rows of the sum
/// over all ranks: d = activation(alpha * sum of a b^T + beta * c + bias). Sums travel in f32 while the next ones are
/// made. They are added in the ranks' order, of two ranks in either: equal calls give equal bits.
///
/// Shapes: product.a [M of all ranks, K of this rank]; product.b [N, K of this rank]; product.d and c [M of this rank,
/// N]. Types of a and b are f16 or bf16, without scales, batch and gate. The list lengths has each rank's rows of d;
/// empty: all have this rank's.
struct GemmReduceScatterArgs {
  GemmArgs product;
  std::vector<std::int64_t> lengths;
};

/// Ranks that work together, one device each. A copy is the same member, which may outlive its runtime. Calls are
/// collective: every rank makes the same ones in the same order, each from a thread or process of its own. Work of
/// other communicators goes before or behind them in one order on all ranks, as NCCL asks. Graphs that recorded calls
/// go before the last copy. All ranks record a call, or none does. A child of fork() has no group: prepare(),
/// collective calls and check() of its parent's are tj::Error(launch), and dropping one does nothing there. Not thread
/// safe: one call of a member at a time.
///
/// GPUs of one host copy into buffers of each other, which the first call opens and larger ones grow. A buffer has two
/// slots. Each slot holds what a call gathers and its f32 results (up to 512 MB), or its sums. Buffers stay until the
/// last copy goes, older ones too where graphs were recorded.
///
/// A rank has ended its work before it drops its last copy. That copy meets those of the other ranks, as each writes
/// into the others' buffers. It waits for them for up to 10 s, or TJ_WAIT_LIMIT if that is less. Work of this rank that
/// has not ended is waited for, too: up to 25 s pass in all. Buffers of a broken group, or of one where a rank did not
/// come, stay until the process ends. Ranks of one process by NCCL drop their last copies in threads of their own.
class TJ_API Group {
 public:
  /// An id that one rank makes and brings to all others by means of its own, for NCCL's communicators. Throws
  /// tj::Error(load, not_found) without NCCL, and (launch, driver_error) with its reason.
  static std::string unique_id();
  /// Joins a group; returns when all `size` ranks have joined. `device` is a GPU of NVIDIA, which is the thread's
  /// current one (cudaSetDevice), or cpu where a library stands in for NCCL. NCCL_NVLS_ENABLE=0 must be in the
  /// environment: nothing here needs NVLink multicast, and NCCL must not set it up. Throws tj::Error.
  Group(Runtime& runtime, std::string_view id, int rank, int size, Device device);
  /// A member that sends by the caller's ncclComm_t, which stays the caller's and outlives all copies. The caller
  /// decides the communicator's settings, NVLink multicast too.
  Group(Runtime& runtime, void* nccl_comm, Device device);
  /// `size` ranks of one process on the CPU model: each is given to a thread of its own. No NCCL is needed.
  static std::vector<Group> on_model(Runtime& runtime, int size);
  ~Group();
  Group(const Group&) = default;
  Group& operator=(const Group&) = default;

  int rank() const noexcept;
  int size() const noexcept;
  Device device() const noexcept;

  /// Gets the kernels of a call ready, as Runtime::prepare() does. Sends nothing. Needed before a graph's capture.
  void prepare(const ContextFmhaArgs& args);
  /// Enqueues the call on the stream; on the model it is done on return. Throws tj::Error: argument, before anything is
  /// sent; launch for what NCCL says, or a rank that does not come. A call that fails behind its first exchange breaks
  /// the group: later calls of this rank say so, and other ranks may wait for it.
  void fmha(const ContextFmhaArgs& args, Stream stream = {});
  /// Attention over a split cache. Waits, errors and streams are those of fmha().
  void prepare(const ContextDecodeArgs& args);
  void decode(const ContextDecodeArgs& args, Stream stream = {});
  /// The same of products beside their collectives.
  void prepare(const AllGatherGemmArgs& args);
  void all_gather_gemm(const AllGatherGemmArgs& args, Stream stream = {});
  void prepare(const GemmReduceScatterArgs& args);
  void gemm_reduce_scatter(const GemmReduceScatterArgs& args, Stream stream = {});
  /// Throws tj::Error(launch) when NCCL has met an error since, such as a rank that is gone. The same when bytes of a
  /// rank have not come in time, to this rank or to one that told it. That rank's number and the segment are named. The
  /// epoch beside them is the one at which this rank learnt of it, and stays. The same when a rank's arguments, as its
  /// bytes came, were not those of this one. Never waits.
  void check();
  /// The way of keys and values: "CUDA IPC, 2 slots of 4194304 bytes", or why not by copies. Words for people.
  std::string description() const;

 private:
  struct Impl;
  explicit Group(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace tj::dist
