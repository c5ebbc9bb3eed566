// See peers.hpp.
#include "dist/peers.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include "ops/peer_wait/peer_wait.hpp"
#include "support/fail.hpp"
#include "support/patience.hpp"

namespace tj::dist {
namespace {

using ops::peer_wait::kFreeing;
using ops::peer_wait::kMostRanks;
using ops::peer_wait::kOtherCall;
using ops::peer_wait::kRankBits;
using ops::peer_wait::kRankMask;
using ops::peer_wait::Missed;
using support::cat;
using support::fail;

constexpr int kSlots = 2;
/// Lists of words, kMostRanks each, one of a kind for each slot: turns so far, what ranks have let go of, what they
/// have brought, one of these for each piece, and their calls. A word behind them says that a wait has failed.
constexpr int kEpochs = 0, kFreed = kSlots, kArrived = 2 * kSlots, kCalls = kArrived + kMostPieces * kSlots,
              kBroken = kCalls + kSlots;
constexpr std::size_t kWords = std::size_t{kBroken} * kMostRanks + 1;
/// Epochs begin shortly before they wrap, so that each long run has it behind itself.
constexpr std::uint32_t kFirstEpoch = 0xfffffff0u;
/// Allocations of whole pages of a GPU: a handle is of the whole page that memory lies in.
constexpr std::size_t kPage = std::size_t{2} << 20;

std::size_t whole_pages(std::size_t bytes) { return (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage; }

std::string host_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

template <std::size_t N>
void put(std::array<char, N>& to, const std::string& text) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), N - 1));
}

}  // namespace

/// A rank's word to all others.
struct Peers::Offer {
  std::uint64_t bytes = 0;  ///< of the memory that is opened
  launch::SharedMemory memory;
  std::array<char, 64> host{};
  std::array<char, 116> why{};
  std::uint32_t good = 1;
  void refuse(const std::string& reason) {
    good = 0;
    put(why, reason);
  }
};

struct Meeting : ops::PeerWaitArgs {};

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
  if (data_.bytes == 0) return too_small_.empty() ? "buffers that are not open yet" : too_small_;
  return cat(data_.by_windows                   ? "NCCL's windows, "
             : device_.kind == DeviceKind::cuda ? "CUDA IPC, "
                                                : "shared memory, ",
             kSlots, " slots of ", data_.bytes, " bytes", too_small_.empty() ? "" : "; ", too_small_);
}

/// Why not all ranks can; "" if they can.
std::string Peers::refused(const std::vector<Offer>& offers) {
  for (std::size_t rank = 0; rank < offers.size(); ++rank)
    if (offers[rank].good == 0) return cat("rank ", rank, ": ", offers[rank].why.data());
  return "";
}

std::vector<Peers::Offer> Peers::exchange(const Offer& own) {
  const auto size = static_cast<std::size_t>(transport_.size());
  const std::shared_ptr<void> memory = driver_.allocate(device_.index, (size + 1) * sizeof(Offer));
  auto* const offers = static_cast<std::byte*>(memory.get());
  exchanged_ = memory;  // an exchange that is given up may still write there
  driver_.copy(device_.index, offers, true, &own, false, sizeof(Offer));
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (int rank = 0; rank < transport_.size(); ++rank) {
    sends.push_back({rank, offers, sizeof(Offer)});
    receives.push_back({rank, offers + (static_cast<std::size_t>(rank) + 1) * sizeof(Offer), sizeof(Offer)});
  }
  transport_.exchange(sends, receives, side_.get());
  support::Patience patience(limit_s_);
  while (!memory_->idle(device_.index, side_.get())) {
    transport_.check();
    if (patience.over())
      fail(Stage::launch, Code::driver_error,
           cat("a rank did not come to the exchange of buffers within ", limit_s_,
               " s (TJ_WAIT_LIMIT); make a new group"));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::vector<Offer> all(size);
  driver_.copy(device_.index, all.data(), false, offers + sizeof(Offer), true, size * sizeof(Offer));
  for (std::size_t rank = 0; rank < size; ++rank)
    if (all[rank].bytes != own.bytes)
      fail(Stage::launch, Code::driver_error,
           cat("the ranks' arguments differ: rank ", rank, " opens ", all[rank].bytes, " bytes and rank ",
               transport_.rank(), " ", own.bytes, "; make a new group"));
  return all;
}

/// By NCCL's windows, whose addresses a rank may lack. None is registered before all ranks have memory: one that
/// registers alone would wait for the others for good.
bool Peers::open_window(Opened& opened, std::size_t bytes, const std::function<void(void*)>& fill) {
  if (!transport_.may_have_windows()) return false;
  std::shared_ptr<void> memory;
  const auto all_can = [&](const std::function<void(Offer&)>& step) {
    Offer own;
    own.bytes = bytes;
    try {
      step(own);
    } catch (const Error& error) {
      own.refuse(error.message);
    }
    return refused(exchange(own)).empty();
  };
  if (!all_can([&](Offer&) { memory = transport_.window_memory(bytes); })) return false;
  const bool good = all_can([&](Offer& own) {
    const Window window = transport_.window(memory, bytes);
    opened.own = window.own;
    for (void* const of : window.of) {
      if (of == nullptr) own.refuse("a window is out of reach");
      opened.of.emplace_back(opened.own, of);
    }
    if (own.good != 0) fill(opened.own.get());
  });
  if (!good) opened.own = nullptr, opened.of.clear();
  opened.by_windows = good;
  return good;
}

/// All ranks come to the same end: each tells the others what it has, then whether it could open theirs. Returns why
/// not; "" where all could.
std::string Peers::open(Opened& opened, std::size_t bytes, const std::function<void(void*)>& fill) {
  if (open_window(opened, bytes, fill)) return "";
  Offer own;
  own.bytes = bytes;
  put(own.host, host_id());
  try {
    opened.own = driver_.allocate(device_.index, bytes);
    fill(opened.own.get());
    own.memory = memory_->share(device_.index, opened.own);
  } catch (const Error& error) {
    own.refuse(error.message);
  }
  const std::vector<Offer> offers = exchange(own);
  if (std::string why = refused(offers); !why.empty()) return why;
  Offer then;
  then.bytes = bytes;
  opened.of.assign(offers.size(), nullptr);
  for (std::size_t rank = 0; rank < offers.size() && then.good != 0; ++rank) try {
      if (offers[rank].host != own.host) {
        then.refuse(cat("rank ", rank, " is on another host"));
      } else {
        opened.of[rank] = static_cast<int>(rank) == transport_.rank()
                              ? opened.own
                              : memory_->open_shared(device_.index, offers[rank].memory);
      }
    } catch (const Error& error) {
      then.refuse(error.message);
    }
  return refused(exchange(then));
}

void Peers::grow(std::size_t slot_bytes, Stream stream) {
  // What another rank still copies into the buffers that go ends before it comes to the exchange.
  driver_.synchronize(device_.index, stream);
  driver_.synchronize(device_.index, side_.get());
  if (control_.own == nullptr) {
    missed_ = memory_->host_memory(device_.index, sizeof(Missed) * (kMostRanks + 1));
    why_not_ = open(control_, whole_pages(kWords * sizeof(std::uint32_t)), [&](void* memory) {
      std::vector<std::uint32_t> words(kWords, kFirstEpoch);
      words[std::size_t{kBroken} * kMostRanks] = 0;
      driver_.copy(device_.index, memory, true, words.data(), false, words.size() * sizeof(words[0]));
    });
    if (!possible()) return;
  }
  Opened opened;
  opened.bytes = whole_pages(slot_bytes);
  if (const std::string why = open(opened, kSlots * opened.bytes, [](void*) {}); !why.empty()) {
    refused_ = slot_bytes;
    too_small_ =
        cat("slots of ", opened.bytes, " bytes cannot be opened, and calls that need them exchange by messages: ", why);
    return;
  }
  if (!recorded_) {
    data_.of.clear();
    kept_.clear();
  }
  kept_.push_back(std::exchange(data_, std::move(opened)));
  too_small_.clear();
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

/// Without `set` the kernel is loaded alone.
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

/// Words of the slot's list, in each other rank's memory at this one's place.
void Peers::tell_all(Meeting& meeting, int list) const {
  for (int rank = 0; rank < transport_.size(); ++rank)
    if (rank != transport_.rank()) meeting.params.tell[rank] = word(rank, list + at_, transport_.rank());
}

void Peers::begin(Stream main, std::uint32_t call) {
  call_ = call;
  // Earlier turns of another stream; what is recorded runs in the order of its replays.
  if (!recording_) side_.join(main);
  meet(main, [&](Meeting& meeting) {
    meeting.params.raise = meeting.params.behind = 1;
    meeting.params.mask = others();
    meeting.params.segment = kFreeing;
    meeting.params.words = word(transport_.rank(), kFreed + at_, 0);
    tell_all(meeting, kCalls);
    meeting.params.tells_call = 1;
  });
  side_.follow(main);
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
  meet(main, [&](Meeting& meeting) {
    meeting.params.mask = ranks;
    meeting.params.segment = segment + 1;
    meeting.params.words = word(transport_.rank(), kArrived + kSlots * piece + at_, 0);
    meeting.params.calls = word(transport_.rank(), kCalls + at_, 0);
  });
}
void Peers::end(Stream main) {
  side_.join(main);
  meet(main, [&](Meeting& meeting) { tell_all(meeting, kFreed); });
  if (!recording_) side_.follow(main);
  at_ = (at_ + 1) % kSlots;
}

Turn::~Turn() {
  if (ended_) return;
  try {
    peers_.side().join(main_);
  } catch (const Error&) {  // a device that is lost has no order to keep
  }
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
