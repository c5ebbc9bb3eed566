// One thread of a block, and the thing that it waits for.
//
// Decides what is known about a thread at any moment; the scheduler decides who runs next.
#pragma once

#include <cstdint>
#include <string>

#include "model/abi.h"
#include "model/fiber.hpp"

namespace tj::model {

inline constexpr unsigned kWarpThreads = 32;  ///< warps of NVIDIA's, which make up groups
inline constexpr unsigned kMaxWarpThreads = 64;
inline constexpr unsigned kGroupWarps = 4;
inline constexpr unsigned kGroupThreads = kWarpThreads * kGroupWarps;
inline constexpr unsigned kMaxThreads = 1024;

enum class WaitKind {
  none,
  block,
  warp,
  named,
  mbarrier,
  matrix,
  store,
  copies,
  registers,
  cluster,
  tensor,
  tensor_pair,
  counter,
  word
};

/// Why a thread does not run. The kind says which numbers count.
struct Wait {
  WaitKind kind = WaitKind::none;
  int site = 0;
  std::uint32_t object = 0;  ///< named: id; mbarrier: address; matrix: warpgroup; tensor: columns
  std::uint32_t detail = 0;  ///< named: threads; mbarrier: parity; matrix, store, copies: groups that may stay pending
  std::uint64_t since = 0;   ///< scheduler step
  const std::uint32_t* counter = nullptr;  ///< counter: its address, and what it is to reach in `detail`
};

enum class ThreadState { runnable, waiting, done };

class Block;

struct Thread {
  Thread(StackPool& pool, unsigned threads_of_warp) : warp_threads(threads_of_warp), fiber(pool) {}

  unsigned index() const noexcept { return self.thread; }
  unsigned warp() const noexcept { return self.thread / warp_threads; }
  unsigned lane() const noexcept { return self.thread % warp_threads; }
  unsigned group() const noexcept { return self.thread / kGroupThreads; }
  unsigned in_group() const noexcept { return self.thread % kGroupThreads; }

  const unsigned warp_threads;  ///< a power of two, at most kMaxWarpThreads
  tj_model_thread self{};
  Block* block = nullptr;
  unsigned actor = 0;             ///< its number in the cluster, as Order counts
  int call = 0, iteration = 0;    ///< the node that it is in, as the unit says
  bool grids_waited_for = false;  ///< the grids that were launched before its own
  ThreadState state = ThreadState::done;
  Wait wait;
  Fiber fiber;
};

/// "block 3, warp 4, lane 2".
std::string name_of(const Thread& thread);

/// Throws tj::Error(model, model_fault): who, what, and what is allowed. A thread is named with its role and node where
/// the unit's notes say so.
[[noreturn]] void fault(const std::string& message);
[[noreturn]] void fault(const Thread& thread, const std::string& message);

/// "0x1c408".
std::string hex(std::uint64_t value);

}  // namespace tj::model
