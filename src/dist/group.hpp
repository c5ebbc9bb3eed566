// The calls of a group, for its members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include <tilejit/dist.hpp>

#include "dist/prediction.hpp"
#include "dist/transport.hpp"
#include "launch/driver.hpp"
#include "launch/peer_memory.hpp"
#include "ops/op.hpp"

namespace tj::dist {

class Peers;

/// The turn of a rank's own rows in attention: TJ_DIST_ORDER, which is equal on all ranks.
enum class Order : std::uint8_t { predicted, whole, own_first };

/// The parts of a member that its calls work with.
struct Member {
  Transport& transport;
  Device device;
  /// Memory for work on the stream, until its owner lets go.
  std::function<std::shared_ptr<void>(std::size_t bytes, Stream stream)> workspace;
  /// Makes and loads the kernels of an op's call, whose addresses may be null.
  std::function<void(const ops::Op& op, const void* args)> prepare;
  /// The same for an op without plans, whose addresses nobody looks at.
  std::function<void(const ops::Op& op, const void* args)> make;
  /// Loads those that a call on the stream launches, as Options::on_miss and a capture allow.
  std::function<void(const ops::Op& op, const void* args, Stream stream)> load;
  std::function<void(const ops::Op& op, const void* args, Stream stream)> run;
  launch::SideStream& side;  ///< bytes travel in it while the caller's stream has products
  bool& begun;               ///< this call has exchanged something
  Peers* peers = nullptr;    ///< null: bytes go by messages alone
  Order order = Order::predicted;
  /// Launches take it and the caller's stream by turns where one may begin before the other has ended.
  launch::SideStream& work;
  int pieces = 0;                        ///< of a shard of a product, TJ_DIST_PIECES; 0: predicted
  launch::PeerMemory* memory = nullptr;  ///< copies rows between any places; null: the driver has none
  Rates rates = {};                      ///< of its GPU and link, for predictions: equal on all ranks

  /// The stream of `side` where it has one, else the caller's.
  Stream side_stream(Stream caller) const { return side.get().handle != nullptr ? side.get() : caller; }
  /// Peers::ready(), where there are any. One that fails leaves ranks out of step.
  bool opened(std::size_t slot_bytes, Stream stream) const;
  void exchange(std::span<const Send> sends, std::span<const Receive> receives, Stream stream) const {
    begun = true;
    transport.exchange(sends, receives, stream);
  }
};

/// Gets the kernels of a call ready.
void prepare_context_fmha(const Member& member, const ContextFmhaArgs& args);
/// Checks the call, brings keys and values together, and attends.
void run_context_fmha(const Member& member, const ContextFmhaArgs& args, Stream stream);
/// The same by exchanging heads, where all ranks do.
void prepare_by_heads(const Member& member, const ContextFmhaArgs& args);
void run_by_heads(const Member& member, const ContextFmhaArgs& args, Stream stream);
void prepare_context_decode(const Member& member, const ContextDecodeArgs& args);
void run_context_decode(const Member& member, const ContextDecodeArgs& args, Stream stream);
void prepare_all_gather_gemm(const Member& member, const AllGatherGemmArgs& args);
void run_all_gather_gemm(const Member& member, const AllGatherGemmArgs& args, Stream stream);
void prepare_gemm_reduce_scatter(const Member& member, const GemmReduceScatterArgs& args);
void run_gemm_reduce_scatter(const Member& member, const GemmReduceScatterArgs& args, Stream stream);

}  // namespace tj::dist
