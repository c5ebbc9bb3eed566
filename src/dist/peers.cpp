// See peers.hpp.
#include "dist/peers.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "dist/peer_words.hpp"
#include "ops/peer_wait/peer_wait.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/lasting.hpp"
#include "support/patience.hpp"

namespace tj::dist {

using ops::peer_wait::kFreeing;
using ops::peer_wait::kOtherCall;
using ops::peer_wait::kRankBits;
using ops::peer_wait::kRankMask;
using ops::peer_wait::Missed;
using support::cat;
using support::fail;

struct Meeting : ops::PeerWaitArgs {};

namespace {

/// A rank waits so long for the others at the end of a group, and as long beside that for its own work.
constexpr double kLeavingSeconds = 10;
/// The same for its own work where a group is broken, or the others did not come.
constexpr double kEndingSeconds = 5;

struct Kept {
  support::Mutex mutex;
  std::vector<std::shared_ptr<void>> memory;
};

}  // namespace

Peers::Peers(Transport& transport, launch::Driver& driver, launch::SideStream& side, Device device, double limit_s,
             Kernels kernels)
    : transport_(transport),
      driver_(driver),
      memory_(launch::peer_memory_of(driver)),
      side_(side),
      device_(device),
      limit_s_(limit_s),
      kernels_(std::move(kernels)) {
  if (memory_ == nullptr)
    why_not_ = cat("the driver of ", to_string(device), " shares no memory");
  else if (transport.size() > kMostRanks)
    why_not_ = cat("the group has ", transport.size(), " ranks; allowed: up to ", kMostRanks);
}
Peers::~Peers() = default;

std::string Peers::description() const {
  if (!why_not_.empty()) return cat("messages, as buffers cannot be opened: ", why_not_);
  const std::string missing = cat(refusal_, refusal_.empty() || too_small_.empty() ? "" : "; ", too_small_);
  if (data_.bytes == 0) return missing.empty() ? "buffers that are not open yet" : missing;
  return cat(data_.by_windows                   ? "NCCL's windows, "
             : device_.kind == DeviceKind::cuda ? "CUDA IPC, "
                                                : "shared memory, ",
             kSlots, " slots of ", data_.bytes, " bytes", missing.empty() ? "" : "; ", missing);
}

bool Peers::ready(std::size_t slot_bytes, Stream stream) {
  if (!possible()) return false;
  recording_ = driver_.capturing(device_.index, stream);
  const std::size_t needed = std::max<std::size_t>(slot_bytes, 1);
  if (data_.bytes < needed) {
    if (needed >= refused_) return false;
    if (recording_) {
      too_small_ = cat("a graph was recorded that needs slots of ", slot_bytes,
                       " bytes and exchanges by messages; make "
                       "the call once before it is recorded");
      return false;
    }
    grow(needed, stream);
    kernels_.say(cat("rank ", transport_.rank(), " of ", transport_.size(), ": bytes travel by ", description()));
    if (data_.bytes < needed) return false;
    meet(stream, nullptr);
  }
  recorded_ = recorded_ || recording_;
  return true;
}

void Peers::prepare() const {
  if (!possible()) return;
  const ops::PeerWaitArgs any{{}, device_};
  kernels_.make(ops::peer_wait_op(), &any);
}

std::byte* Peers::slot(int rank) const {
  return static_cast<std::byte*>(data_.of[static_cast<std::size_t>(rank)].get()) +
         static_cast<std::size_t>(at_) * data_.bytes;
}
std::uint32_t* Peers::word(int rank, int list, int at) const {
  return static_cast<std::uint32_t*>(control_.of[static_cast<std::size_t>(rank)].get()) + list * kMostRanks + at;
}
std::uint32_t Peers::others() const {
  const auto all = static_cast<std::uint32_t>((std::uint64_t{1} << transport_.size()) - 1);
  return all & ~(1u << transport_.rank());
}
Stream Peers::side_stream(Stream main) const { return side_.get().handle != nullptr ? side_.get() : main; }

/// The kernel is only loaded without `set`.
void Peers::meet(Stream stream, const std::function<void(Meeting&)>& set) const {
  const int own = transport_.rank();
  Meeting meeting;
  meeting.device = device_;
  ops::peer_wait::Params& p = meeting.params = {};
  p.epochs = word(own, kEpochs + at_, 0);
  p.call = call_;
  p.own = static_cast<unsigned>(own);
  p.broken = word(own, kBroken, 0);
  for (int rank = 0; rank < transport_.size(); ++rank)
    if (rank != own) p.broken_of[rank] = word(rank, kBroken, 0);
  p.missed = static_cast<Missed*>(missed_.get());
  p.limit_ns =
      limit_s_ > 0 ? static_cast<unsigned long long>(limit_s_ * 1e9) : std::numeric_limits<unsigned long long>::max();
  const ops::PeerWaitArgs& args = meeting;
  if (set == nullptr) return kernels_.load(ops::peer_wait_op(), &args, stream);
  set(meeting);
  kernels_.run(ops::peer_wait_op(), &args, stream);
}

void Peers::announce(const char* what, std::uint32_t from, int segment, Stream stream) const {
  memory_->announce(device_.index, {transport_.rank(), what, from, segment}, stream);
}

/// Words of the slot's list, in each other rank's memory at this one's place.
void Peers::tell_all(Meeting& meeting, int list) const {
  for (int rank = 0; rank < transport_.size(); ++rank)
    if (rank != transport_.rank()) meeting.params.tell[rank] = word(rank, list + at_, transport_.rank());
}

void Peers::begin(Stream main, std::uint32_t call) {
  call_ = call;
  // Earlier turns of another stream; what is recorded runs in the order of its replays.
  if (!recording_) side_.join(main);
  announce("begins a turn: waits until ranks have let go", others(), -1, main);
  meet(main, [&](Meeting& meeting) {
    meeting.params.raise = meeting.params.behind = 1;
    meeting.params.mask = others();
    meeting.params.segment = kFreeing;
    meeting.params.words = word(transport_.rank(), kFreed + at_, 0);
    tell_all(meeting, kCalls);
    meeting.params.tells_call = 1;
  });
}
void Peers::copy(const launch::RowsToCopy& rows, Stream stream) const {
  if (rows.rows > 0 && rows.row_bytes > 0) memory_->copy_rows(device_.index, rows, stream);
}
void Peers::tell(int to, int piece) const {
  constexpr std::int64_t kBytes = sizeof(std::uint32_t);
  const int own = transport_.rank();
  memory_->copy_rows(
      device_.index,
      {word(to, kArrived + kSlots * piece + at_, own), kBytes, word(own, kEpochs + at_, to), kBytes, kBytes},
      side_.get());
}
void Peers::wait(std::uint32_t ranks, unsigned segment, Stream main, int piece) const {
  if (ranks == 0) return;
  announce("waits for bytes", ranks, static_cast<int>(segment), main);
  meet(main, [&](Meeting& meeting) {
    meeting.params.mask = ranks;
    meeting.params.segment = segment + 1;
    meeting.params.words = word(transport_.rank(), kArrived + kSlots * piece + at_, 0);
    meeting.params.calls = word(transport_.rank(), kCalls + at_, 0);
  });
}
void Peers::end(Stream main) {
  memory_->let_go(device_.index, slot(transport_.rank()), data_.bytes, main);
  announce("ends a turn: tells that it has let go", 0, -1, main);
  meet(main, [&](Meeting& meeting) { tell_all(meeting, kFreed); });
  if (!recording_) side_.follow(main);
  at_ = (at_ + 1) % kSlots;
}

bool Peers::idle_within(double seconds, const std::function<void()>& each_round) const {
  support::Patience patience(seconds);
  while (!memory_->idle(device_.index, side_.get())) {
    if (each_round) each_round();
    if (patience.over()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

/// The side stream is behind all turns, so a rank says that it leaves when its copies have ended.
bool Peers::leave() noexcept try {
  if (data_.bytes == 0 || !transport_.apart()) return true;
  const double limit_s = limit_s_ > 0 ? std::min(limit_s_, kLeavingSeconds) : kLeavingSeconds;
  recording_ = false;
  const auto with = [&](const std::function<void(Meeting&)>& set) {
    meet(side_.get(), [&](Meeting& meeting) {
      meeting.params.epochs = word(transport_.rank(), kLeaving, 0);
      for (unsigned*& each : meeting.params.broken_of) each = nullptr;  // work of a rank that comes late is right
      meeting.params.limit_ns = static_cast<unsigned long long>(limit_s * 1e9);
      set(meeting);
    });
  };
  with([&](Meeting& meeting) {
    meeting.params.raise = 1;
    for (int rank = 0; rank < transport_.size(); ++rank)
      if (rank != transport_.rank()) meeting.params.tell[rank] = word(rank, kLeft, transport_.rank());
  });
  with([&](Meeting& meeting) {
    meeting.params.mask = others();
    meeting.params.segment = kFreeing;
    meeting.params.words = word(transport_.rank(), kLeft, 0);
  });
  if (!idle_within(limit_s + kLeavingSeconds)) return false;
  check();
  return true;
} catch (...) {
  return false;
}

void Peers::keep() noexcept try {
  // The process never lets go of these. Other ranks' memory is this one's to close when its own copies have ended.
  static constinit support::Lasting<Kept> all;
  bool ended = false;
  try {
    ended = idle_within(kEndingSeconds);
  } catch (const std::exception&) {  // nobody knows: all of it stays
  }
  std::vector<std::shared_ptr<void>> memory{control_.own, data_.own};
  for (const Opened& each : kept_) memory.push_back(each.own);
  if (!ended) {
    memory.insert(memory.end(), {missed_, exchanged_});
    for (const Opened* each : {&control_, &data_}) memory.insert(memory.end(), each->of.begin(), each->of.end());
    for (const Opened& each : kept_) memory.insert(memory.end(), each.of.begin(), each.of.end());
  }
  Kept& kept = all.get();
  const std::lock_guard lock(kept.mutex);
  kept.memory.insert(kept.memory.end(), memory.begin(), memory.end());
} catch (...) {  // without memory for the list, or with a device that is lost
}

void Peers::check() const {
  if (missed_ == nullptr) return;
  auto* const missed = static_cast<Missed*>(missed_.get());
  const auto segment_of = [&](int at) { return std::atomic_ref(missed[at].segment).load(std::memory_order_acquire); };
  for (int rank = 0; rank < transport_.size(); ++rank)
    if (const unsigned segment = segment_of(rank); segment != 0)
      fail_broken(rank, transport_.rank(), segment, missed[rank].epoch);
  const unsigned told = segment_of(kMostRanks);
  if (told == 0) return;
  const auto number = [&](unsigned shift) { return static_cast<int>(told >> shift & kRankMask); };
  fail_broken(number(kRankBits), number(0) - 1, told >> 2 * kRankBits, missed[kMostRanks].epoch);
}

void Peers::fail_broken(int awaited, int waited, unsigned segment, unsigned epoch) const {
  if (segment == kOtherCall)
    fail(Stage::launch, Code::driver_error,
         cat("the group is broken: the ranks' arguments differ: rank ", awaited, " came to epoch ", epoch,
             " with another call than rank ", waited, "; make a new group"));
  const std::string text =
      segment == kFreeing ? std::string("did not let go of its buffer") : cat("did not bring segment ", segment - 1);
  fail(Stage::launch, Code::driver_error,
       cat("the group is broken: rank ", awaited, " ", text, " of epoch ", epoch, " to rank ", waited, " within ",
           limit_s_, " s (TJ_WAIT_LIMIT); results since then are wrong, and the device is not lost: make a new group"));
}

}  // namespace tj::dist
