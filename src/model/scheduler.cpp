// See scheduler.hpp.
#include "model/scheduler.hpp"

#include <bit>
#include <utility>

#include "support/fail.hpp"
#include "support/text_stream.hpp"

namespace tj::model {
namespace {

thread_local constinit Thread* running = nullptr;

constexpr std::uint64_t kNever = ~std::uint64_t{0};

unsigned nth_bit(std::uint32_t bits, unsigned n) {
  for (; n > 0; --n) bits &= bits - 1;
  return static_cast<unsigned>(std::countr_zero(bits));
}

}  // namespace

Thread* current_thread() noexcept { return running; }

std::string name_of(const Thread& thread) {
  return support::cat("block ", thread.self.block, ", warp ", thread.warp(), ", lane ", thread.lane());
}

void fault(const std::string& message) { support::fail(Stage::model, Code::model_fault, message); }

std::string hex(std::uint64_t value) {
  support::TextStream out;
  out << "0x" << std::hex << value;
  return out.str();
}

std::uint64_t split_mix(std::uint64_t& state) noexcept {
  std::uint64_t z = state += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

Scheduler::Scheduler(StackPool& pool, unsigned threads, unsigned warp_threads)
    : warp_threads_(warp_threads), runnable_lanes_((threads + warp_threads - 1) / warp_threads) {
  threads_.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) threads_.push_back(std::make_unique<Thread>(pool, warp_threads));
}

void Scheduler::start(std::uint64_t seed, Fiber::Entry entry) {
  state_ = seed;
  step_ = 0;
  error_ = nullptr;
  patience_.clear();
  alive_ = size();
  runnable_warps_ = 0;
  manner_.clear();
  const std::uint64_t starve = random() % 4, which = random() % runnable_lanes_.size();
  starved_ = starve == 0 ? 1u << which : starve == 1 ? 0xfu << which / kGroupWarps * kGroupWarps : 0;
  for (unsigned i = 0; i < size(); ++i) {
    threads_[i]->fiber.prepare(entry, threads_[i].get());
    wake(*threads_[i]);
  }
}

bool Scheduler::step(const std::vector<AsyncUnit*>& units, const std::function<void(Thread&)>& ended) {
  // Waits between "at once" and "only when nothing else can happen": late copies and late products show different
  // missing waits.
  static constexpr std::uint64_t kPatience[] = {1, 4, 32, 256, kNever, kNever};
  while (patience_.size() < units.size()) {
    patience_.push_back(kPatience[random() % std::size(kPatience)]);
    manner_.push_back(static_cast<Manner>(random() % 3));
  }
  ++step_;
  if (complete_one(units, runnable_warps_ == 0)) return true;
  if (runnable_warps_ == 0) return false;
  // A warp that runs long after the others shows who does not wait for it.
  constexpr std::uint64_t kStarvation = 256;
  const std::uint32_t others = runnable_warps_ & ~starved_,
                      warps = others == 0 || random() % kStarvation == 0 ? runnable_warps_ : others;
  run_warp(nth_bit(warps, static_cast<unsigned>(random() % static_cast<unsigned>(std::popcount(warps)))), ended);
  return true;
}

bool Scheduler::complete_one(const std::vector<AsyncUnit*>& units, bool stalled) {
  AsyncUnit* chosen = nullptr;
  Manner manner = Manner::random;
  std::uint64_t least = kNever, seen = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u]->ready() == 0) continue;
    if (!stalled && (patience_[u] == kNever || random() % patience_[u] != 0)) continue;
    // The least patient unit goes first when all wait; among equals each has the same chance.
    if (patience_[u] > least) continue;
    seen = patience_[u] < least ? 1 : seen + 1;
    least = patience_[u];
    if (random() % seen != 0) continue;
    chosen = units[u];
    manner = manner_[u];
  }
  if (chosen == nullptr) return false;
  chosen->complete(choose(chosen->ready(), manner));
  return true;
}

// Units without a promised order of ends keep what is under way in the order of its issue.
std::size_t Scheduler::choose(std::size_t ready, Manner manner) {
  if (manner == Manner::random) return random() % ready;
  return manner == Manner::oldest ? 0 : ready - 1;
}

void Scheduler::run_warp(unsigned warp, const std::function<void(Thread&)>& ended) {
  // Lanes that become runnable on the way wait for the next turn, so that the lanes stay together.
  for (std::uint64_t lanes = std::exchange(runnable_lanes_[warp], 0); lanes != 0; lanes &= lanes - 1) {
    Thread& thread = *threads_[warp * warp_threads_ + static_cast<unsigned>(std::countr_zero(lanes))];
    running = &thread;
    thread.fiber.resume();
    running = nullptr;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (thread.state != ThreadState::done) continue;
    --alive_;
    ended(thread);
  }
  if (runnable_lanes_[warp] == 0) runnable_warps_ &= ~(1u << warp);
}

void Scheduler::park(Thread& thread, Wait wait) {
  wait.since = step_;
  thread.wait = wait;
  thread.state = ThreadState::waiting;
  thread.fiber.suspend();
}

void Scheduler::wake(Thread& thread) {
  thread.state = ThreadState::runnable;
  thread.wait = {};
  runnable_lanes_[thread.warp()] |= std::uint64_t{1} << thread.lane();
  runnable_warps_ |= 1u << thread.warp();
}

void Scheduler::abandon(Thread& thread, std::exception_ptr error) {
  error_ = std::move(error);
  thread.state = ThreadState::done;
  thread.fiber.finish();
}

void Scheduler::end(Thread& thread) {
  thread.state = ThreadState::done;
  thread.fiber.finish();
}

}  // namespace tj::model
