// See temporaries.hpp.
#include "support/temporaries.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "support/fork_safe.hpp"

namespace tj::support {
namespace {

constexpr std::size_t kLongestName = 31;

enum class State { free, claimed, made };

/// The claimer alone writes members that are not atomic, before the file is made.
struct Slot {
  std::atomic<State> state{State::free};
  std::uint32_t owner = 0;  ///< a generation of processes
  int directory = -1;
  std::array<char, kLongestName + 1> name{};
};
constinit std::array<Slot, kMostTemporaries> slots;
constinit std::atomic<std::uint64_t> ending{0};  // 1 + the generation that makes none any more; a child of it may

std::uint64_t own_mark() noexcept { return std::uint64_t{1} + process_generation(); }

Slot& slot_of(int place) noexcept { return slots[static_cast<std::size_t>(place)]; }

}  // namespace

TemporaryNote::TemporaryNote(int directory, const std::string& name) noexcept {
  for (int place = 0; place < kMostTemporaries && slot_ == kNone && name.size() <= kLongestName; ++place) {
    State expected = State::free;
    if (slot_of(place).state.compare_exchange_strong(expected, State::claimed)) slot_ = place;
  }
  // It is asked behind the claim: remove_temporaries() sees the claim, or this sees that it has begun.
  if (ending.load() == own_mark()) {
    forget();
    slot_ = kRefused;
  }
  if (slot_ < 0) return;
  Slot& slot = slot_of(slot_);
  slot.owner = process_generation();
  slot.directory = directory;
  slot.name[name.copy(slot.name.data(), kLongestName)] = '\0';
}

TemporaryNote& TemporaryNote::operator=(TemporaryNote&& other) noexcept {
  forget();
  slot_ = std::exchange(other.slot_, kNone);
  return *this;
}

void TemporaryNote::made() noexcept {
  if (slot_ >= 0) slot_of(slot_).state.store(State::made);
}

void TemporaryNote::publishing() noexcept {
  if (slot_ >= 0) slot_of(slot_).state.store(State::claimed);
}

void TemporaryNote::forget() noexcept {
  if (slot_ >= 0) slot_of(slot_).state.store(State::free);
  slot_ = kNone;
}

void remove_temporaries() noexcept {
  ending.store(own_mark());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (Slot& slot : slots) {
    // It is being made, or gets its name. A file system that hangs does so for ever.
    while (slot.state.load() == State::claimed && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (slot.state.load() == State::made && slot.owner == process_generation())
      ::unlinkat(slot.directory, slot.name.data(), 0);
  }
}

}  // namespace tj::support
