// Buffers of a group are opened and grown here: by windows of NCCL, else by handles that go round.
//
// Decides what ranks tell each other about their memory. Invariant: all ranks come to one end, buffers or the reason
// why there are none.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <utility>

#include "dist/peer_words.hpp"
#include "dist/peers.hpp"
#include "support/fail.hpp"

namespace tj::dist {

using ops::peer_wait::Missed;
using support::cat;
using support::fail;

namespace {

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
  if (!idle_within(limit_s_, [&] { transport_.check(); }))
    fail(Stage::launch, Code::driver_error,
         cat("a rank did not come to the exchange of buffers within ", limit_s_,
             " s (TJ_WAIT_LIMIT); make a new group"));
  std::vector<Offer> all(size);
  driver_.copy(device_.index, all.data(), false, offers + sizeof(Offer), true, size * sizeof(Offer));
  for (std::size_t rank = 0; rank < size; ++rank)
    if (all[rank].bytes != own.bytes)
      fail(Stage::launch, Code::driver_error,
           cat("the ranks' arguments differ: rank ", rank, " opens ", all[rank].bytes, " bytes and rank ",
               transport_.rank(), " ", own.bytes, "; make a new group"));
  return all;
}

/// Opens by NCCL's windows, whose addresses a rank may lack. None is registered before all ranks have memory: one that
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
  // Another rank comes to the exchange behind its copies into the buffers that go.
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
    refusal_ =
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

}  // namespace tj::dist
