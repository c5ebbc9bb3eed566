// Buffers that the ranks of a group write for each other: who may write when, and how everybody learns that bytes came.
//
// Decides the order of a turn's waits, copies and words, and what stays when a group ends. Does not decide what lies in
// a buffer, how buffers are opened (peers_open.cpp), nor where words lie (peer_words.hpp).
//
//   a turn      begin()              the slot's epoch is raised; waits until each rank has let go of the turn before
//               copy(), tell()       on the side stream: bytes into other ranks' slots, then the epoch into their words
//               wait()               until ranks have told the epoch
//               end()                tells each rank that its bytes are of no use any more
//
// Turns take two slots by turns, and a slot's epochs count its turns in the device's memory. So a CUDA graph that is
// replayed counts on. Invariant: ranks take equal turns in one order; a wait ends after the time limit, and is then
// reported by rank, segment and epoch. A turn's calls are compared when bytes of a rank have come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dist/beside.hpp"
#include "dist/transport.hpp"
#include "launch/peer_memory.hpp"
#include "ops/op.hpp"

namespace tj::dist {

struct Meeting;

inline constexpr int kMostPieces = 4;  ///< of a rank's bytes to another one, in one turn

/// Not thread safe.
class Peers {
 public:
  /// Ways to make, load and launch its kernel, and to tell something about buffers.
  struct Kernels {
    std::function<void(const ops::Op& op, const void* args)> make;
    std::function<void(const ops::Op& op, const void* args, Stream stream)> load, run;
    std::function<void(const std::string& text)> say;
  };
  /// limit_s: of a wait; 0: none. All else outlives this.
  Peers(Transport& transport, launch::Driver& driver, launch::SideStream& side, Device device, double limit_s,
        Kernels kernels);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Are slots of so many bytes open on all ranks? They grow where they are too small, unless the stream records a
  /// graph: then what was missing is in description(). Slots that are open stay and serve where larger ones cannot be
  /// opened, and as many bytes are not tried again. All ranks ask for equal bytes and get equal answers. Throws
  /// tj::Error(launch) for a rank that does not come.
  bool ready(std::size_t slot_bytes, Stream stream);
  /// Gets its kernel ready. Sends nothing.
  void prepare() const;
  /// May ready() be true ever?
  bool possible() const { return why_not_.empty(); }
  /// "CUDA IPC, 2 slots of 4194304 bytes", or NCCL's windows, or why there are none.
  std::string description() const;

  /// The slot of this turn in a rank's buffer, at an address of this device.
  std::byte* slot(int rank) const;
  /// The side stream follows afterwards. call: a number that equal calls of all ranks have in common.
  void begin(Stream main, std::uint32_t call);
  void copy(const launch::RowsToCopy& rows, Stream stream) const;
  /// piece: of what is copied to a rank in this turn, which may be told and awaited in up to kMostPieces.
  void tell(int to, int piece = 0) const;
  /// ranks: a bit each. segment: its number in reports, from 0 on.
  void wait(std::uint32_t ranks, unsigned segment, Stream main, int piece = 0) const;
  /// The side stream was joined.
  void end(Stream main);
  /// All other ranks, as wait() takes them.
  std::uint32_t others() const;
  Stream side_stream(Stream main) const;
  launch::SideStream& side() const { return side_; }

  /// Meets the other ranks for the last time. False when one of them does not come, or this rank's work does not end,
  /// for up to 20 s. Only in a group that works.
  bool leave() noexcept;
  /// Waits up to 5 s for this rank's work. Keeps memory that another rank, or work that has not ended, may still use
  /// for the life of the process.
  void keep() noexcept;

  /// Throws tj::Error(launch) when a wait has ended without an arrival, or a rank has come with another call.
  /// Never waits.
  void check() const;

 private:
  struct Opened {
    std::shared_ptr<void> own;
    std::vector<std::shared_ptr<void>> of;  ///< each rank's
    std::size_t bytes = 0;                  ///< of a slot
    bool by_windows = false;                ///< NCCL has opened it
  };
  struct Offer;
  void grow(std::size_t slot_bytes, Stream stream);
  std::string open(Opened& memory, std::size_t bytes, const std::function<void(void*)>& fill);
  bool open_window(Opened& memory, std::size_t bytes, const std::function<void(void*)>& fill);
  std::vector<Offer> exchange(const Offer& own);
  static std::string refused(const std::vector<Offer>& offers);
  std::uint32_t* word(int rank, int list, int at) const;
  void tell_all(Meeting& meeting, int list) const;
  void announce(const char* what, std::uint32_t from, int segment, Stream stream) const;
  /// Is the side stream idle within so many seconds? 0: without an end. each_round may throw.
  bool idle_within(double seconds, const std::function<void()>& each_round = nullptr) const;
  void meet(Stream stream, const std::function<void(Meeting&)>& set) const;
  [[noreturn]] void fail_broken(int awaited, int waited, unsigned segment, unsigned epoch) const;

  Transport& transport_;
  launch::Driver& driver_;
  launch::PeerMemory* const memory_;
  launch::SideStream& side_;
  const Device device_;
  const double limit_s_;
  const Kernels kernels_;
  std::string why_not_;
  std::string too_small_;                                          ///< for a graph that was recorded
  std::string refusal_;                                            ///< of larger slots
  std::size_t refused_ = std::numeric_limits<std::size_t>::max();  ///< bytes of slots that could not be opened
  std::shared_ptr<void> missed_;
  Opened control_, data_;
  std::vector<Opened> kept_;         ///< that graphs may use, or other ranks have not let go of yet
  std::shared_ptr<void> exchanged_;  ///< memory of the last exchange
  bool recorded_ = false;            ///< a graph may have this buffer's addresses
  bool recording_ = false;           ///< this turn is recorded
  std::uint32_t call_ = 0;           ///< of this turn
  int at_ = 0;                       ///< the slot of this turn, or of the next one
};

/// A turn. The caller's stream waits for the side stream at its end, also where a call throws before it.
class Turn {
 public:
  Turn(Peers& peers, Stream main, std::uint32_t call) : peers_(peers), main_(main), beside_(peers.side(), main) {
    peers_.begin(main, call);
    beside_.follow();
  }
  void end() {
    beside_.end();
    peers_.end(main_);
  }

 private:
  Peers& peers_;
  const Stream main_;
  Beside beside_;
};

}  // namespace tj::dist
