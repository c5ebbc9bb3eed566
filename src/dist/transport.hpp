// Transport of bytes between the ranks of a group.
//
// Decides what a rank hands over: what it sends and what it receives, in one order for each pair. Does not decide who
// needs what (split.hpp). Invariant: messages of a pair arrive in the order of their sending.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <tilejit/tensor.hpp>

#include "support/log.hpp"

namespace tj::dist {

struct Send {
  int to = 0;
  const void* from = nullptr;
  std::size_t bytes = 0;
};
struct Receive {
  int from = 0;
  void* to = nullptr;
  std::size_t bytes = 0;
};

/// Memory of this rank that all others reach, and theirs at addresses of this rank's device.
struct Window {
  std::shared_ptr<void> own;
  std::vector<void*> of;  ///< each rank's; null: not reached
};

/// One rank's end. Not thread safe.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// May ranks be in processes of their own, each of which lets go of its member by itself?
  virtual bool apart() const noexcept { return false; }
  /// Enqueues all of them on the stream; messages to the rank itself are among them. Throws tj::Error(launch).
  virtual void exchange(std::span<const Send> sends, std::span<const Receive> receives, Stream stream) = 0;
  /// May ranks have windows, memory that is opened by the transport's own means? Equal on all of them.
  virtual bool may_have_windows() const noexcept { return false; }
  /// This rank's memory for one. Throws tj::Error(launch) where it can have none. Tells nobody.
  virtual std::shared_ptr<void> window_memory(std::size_t /*bytes*/) { return nullptr; }
  /// Opens it on all ranks. Waits for them: all have memory. Throws tj::Error(launch).
  virtual Window window(const std::shared_ptr<void>& /*memory*/, std::size_t /*bytes*/) { return {}; }
  /// Throws tj::Error(launch) for an error that has come since.
  virtual void check() = 0;
  /// A call of this rank has failed between exchanges: nothing more comes from it.
  virtual void give_up(std::string_view why) noexcept = 0;
  /// Ends work of a transport that was given up, which freeing memory would wait for. No call but the destructor's
  /// comes behind it.
  virtual void end() noexcept {}
};

/// Throws tj::Error(load, not_found) without NCCL.
std::string nccl_unique_id();
/// Waits for all ranks. Throws tj::Error(argument, load, launch).
std::unique_ptr<Transport> nccl_by_id(std::string_view id, int rank, int size, Device device, double wait_limit_s);
/// The same by the caller's communicator.
std::unique_ptr<Transport> nccl_of(void* comm, Device device, double wait_limit_s);

/// Ranks of one process that copy host memory, each from a thread of its own. A rank that does not come within the
/// limit (0: none) ends the exchange of all, and the ends are of no use then.
std::vector<std::unique_ptr<Transport>> local_transports(int size, double wait_limit_s);

}  // namespace tj::dist
