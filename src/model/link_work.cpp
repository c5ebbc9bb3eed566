// See link_work.hpp.
#include "model/link_work.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;

constexpr std::int64_t kPieces = 4;  // in which a copy arrives at most

/// Disjoint, in their order.
std::vector<LinkOrder::Span> merged(std::vector<LinkOrder::Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::vector<LinkOrder::Span> all;
  for (const LinkOrder::Span& span : spans)
    if (!all.empty() && span.begin <= all.back().end)
      all.back().end = std::max(all.back().end, span.end);
    else
      all.push_back(span);
  return all;
}

}  // namespace

QueuedLaunch::QueuedLaunch(const launch::Kernel& kernel, const launch::LaunchConfig& config, const void* params,
                           std::size_t params_bytes, ModelOptions options, StackPool& stacks, LinkWords& words)
    : launching_(kernel, config, params, params_bytes, std::move(options)), stacks_(stacks), words_(words) {
  launching_.launch().options.workers = 1;  // all of a run is on one thread
  launching_.launch().links = this;
}

void QueuedLaunch::start(LinkOrder::Work work) {
  work_ = std::move(work);
  knows_ = work_.knows;
  if (!launching_.is_one_cluster()) {
    launching_.run(stacks_);
    return finish();
  }
  cluster_ = std::make_unique<Cluster>(launching_.launch(), stacks_);
  cluster_->begin(0);
  seen_ = ~words_.written;
}

bool QueuedLaunch::go_on() {
  if (cluster_ == nullptr) return true;
  seen_ = words_.written;
  for (Thread* thread : std::exchange(resting_, {})) thread->block->scheduler.wake(*thread);
  while (cluster_->step()) {
  }
  if (cluster_->ended()) {
    finish();
    return true;
  }
  if (resting_.empty())
    support::fail(Stage::model, Code::deadlock, cat("deadlock in ", text, ": no thread can run"), cluster_->report());
  return false;
}

void QueuedLaunch::finish() {
  for (const auto& [thread, clock] : of_threads_) LinkOrder::join(knows_, clock);
  work_.knows = knows_;
  words_.order.touch(work_, merged(std::move(reads_)), merged(std::move(writes_)));
}

unsigned QueuedLaunch::number_of(const Thread& thread) const {
  return thread.self.block * launching_.launch().threads + thread.index();
}

LinkOrder::Clock& QueuedLaunch::knowledge_of(const Thread& thread) {
  return of_threads_.try_emplace(number_of(thread), work_.knows).first->second;
}

std::uint32_t QueuedLaunch::load(Thread& thread, const std::uint32_t* word) {
  loads_words_ = true;
  words_.order.use_word(work_, word, false);
  asked_[number_of(thread)].insert(word);
  if (const LinkOrder::Clock* const told = words_.order.told(word); told != nullptr && !deaf_)
    LinkOrder::join(knowledge_of(thread), *told);
  return *word;
}

void QueuedLaunch::store(Thread& thread, std::uint32_t* word, std::uint32_t value) {
  stores_words_ = true;
  words_.order.use_word(work_, word, true);
  if (mute_)
    words_.order.tell_nothing(word);
  else
    words_.order.tell(word, knowledge_of(thread));
  *word = value;
  ++words_.written;
}

void QueuedLaunch::rest(Thread& thread) {
  if (cluster_ == nullptr) fault(thread, "waits for another rank; allowed: in a launch of one block or cluster");
  resting_.push_back(&thread);
  thread.block->scheduler.park(thread, {WaitKind::word, 0, 0, 0, 0});
  asked_.erase(number_of(thread));
}

bool QueuedLaunch::change(LinkMutant::Kind kind) {
  deaf_ = kind == LinkMutant::Kind::deaf;
  mute_ = kind == LinkMutant::Kind::mute;
  return deaf_ || mute_ || QueuedWork::change(kind);
}

void QueuedLaunch::note(LinkWork& what) const {
  what.loads_words = loads_words_;
  what.stores_words = stores_words_;
}

void QueuedLaunch::access(std::uintptr_t address, std::size_t bytes, bool write) {
  if (bytes == 0) return;
  std::vector<LinkOrder::Span>& spans = write ? writes_ : reads_;
  if (!spans.empty() && spans.back().end == address)
    spans.back().end += bytes;
  else
    spans.push_back({address, address + bytes});
}

std::string QueuedLaunch::waits_for() const {
  std::string all;
  for (const Thread* thread : resting_) {
    all += cat(all.empty() ? "" : "; ", "lane ", thread->lane(), " has loaded");
    if (const auto asked = asked_.find(number_of(*thread)); asked != asked_.end())
      for (const std::uint32_t* word : asked->second)
        all += cat(" ", *word, " from ", words_.order.place(reinterpret_cast<std::uintptr_t>(word)));
  }
  return all;
}

QueuedCopy::QueuedCopy(const launch::RowsToCopy& rows, std::uint64_t& random, LinkWords& words)
    : rows_(rows), random_(random), words_(words) {}

void QueuedCopy::start(LinkOrder::Work work) {
  work_ = std::move(work);
  std::vector<LinkOrder::Row> rows;
  const std::int64_t cuts = is_word() || rows_.rows == 0 ? 1 : std::max<std::int64_t>(1, kPieces / rows_.rows);
  for (std::int64_t row = 0; row < rows_.rows; ++row) {
    auto* const to = static_cast<std::byte*>(rows_.to) + row * rows_.to_pitch;
    const auto* const from = static_cast<const std::byte*>(rows_.from) + row * rows_.from_pitch;
    rows.push_back({reinterpret_cast<std::uintptr_t>(from), reinterpret_cast<std::uintptr_t>(to),
                    static_cast<std::size_t>(rows_.row_bytes)});
    for (std::int64_t n = 0; n < cuts; ++n) {
      const std::int64_t begin = n * rows_.row_bytes / cuts, end = (n + 1) * rows_.row_bytes / cuts;
      if (begin < end) pieces_.push_back({to + begin, from + begin, static_cast<std::size_t>(end - begin)});
    }
  }
  for (std::size_t n = pieces_.size(); n > 1; --n) std::swap(pieces_[n - 1], pieces_[split_mix(random_) % n]);
  if (is_word())
    words_.order.use_word(work_, static_cast<const std::uint32_t*>(rows_.from), false);
  else
    words_.order.copy(work_, rows);
}

bool QueuedCopy::go_on() {
  const std::size_t most = std::max<std::size_t>(1, static_cast<std::size_t>(rows_.rows) / kPieces);
  for (std::size_t n = 0; n < most && !pieces_.empty(); ++n) {
    std::memcpy(pieces_.back().to, pieces_.back().from, pieces_.back().bytes);
    pieces_.pop_back();
  }
  if (!pieces_.empty()) return false;
  if (is_word()) {
    words_.order.use_word(work_, static_cast<const std::uint32_t*>(rows_.to), true);
    words_.order.tell(static_cast<const std::uint32_t*>(rows_.to), work_.knows);
    ++words_.written;
  }
  return true;
}

void QueuedBytes::start(LinkOrder::Work work) {
  knows_ = work.knows;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory_);
  if (what_ == What::let_go)
    order_.let_go(work, {begin, begin + bytes_});
  else
    order_.touch(work, {}, {{begin, begin + bytes_}});
  if (what_ == What::zeroed) std::memset(memory_, 0, bytes_);
}

void QueuedEvent::start(LinkOrder::Work work) {
  knows_ = std::move(work.knows);
  if (left_out) return;
  if (waits_) {
    LinkOrder::join(knows_, event_->knows);
  } else {
    event_->knows = knows_;
    event_->done = true;
  }
}

}  // namespace tj::model
