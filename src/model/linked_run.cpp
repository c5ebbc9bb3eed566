// See linked.hpp: how work in queues is done.
#include <algorithm>
#include <iterator>
#include <mutex>
#include <tuple>
#include <utility>

#include "model/default_math.hpp"
#include "model/linked.hpp"
#include "support/fail.hpp"
#include "support/uncancelled.hpp"

namespace tj::model {

using support::cat;
using support::fail;

void Linked::run() {
  const std::lock_guard lock(mutex_);
  const support::Uncancelled whole;
  const DefaultMath math;
  state_ = seed_ * 0xd1342543de82ef95ull + 0x9e3779b97f4a7c15ull;
  sort_queues();
  name_works();
  apply_mutant();
  draw_manner();
  try {
    while (step()) {
    }
    const bool left =
        std::any_of(queues_.begin(), queues_.end(), [](const auto& each) { return !each->waiting.empty(); });
    if (left) deadlock();
  } catch (...) {
    clear();
    throw;
  }
  clear();
}

/// Threads of several ranks make queues in any order, and what is drawn is a place among them.
void Linked::sort_queues() {
  const auto key = [](const std::unique_ptr<Queue>& each) {
    return std::tuple(each->rank, each->of_rank, each->number);
  };
  std::sort(queues_.begin(), queues_.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

void Linked::name_works() {
  for (const auto& each : queues_)
    for (const std::size_t number : each->numbers) works_[number].queue = name(*each);
}

void Linked::apply_mutant() {
  if (!mutant_) return;
  for (const auto& each : queues_) {
    if (name(*each) != mutant_->queue) continue;
    auto& waiting = each->waiting;
    const auto found =
        std::find_if(waiting.begin(), waiting.end(), [&](const auto& work) { return work->index == mutant_->index; });
    if (found == waiting.end()) return;
    mutant_met_ = (*found)->change(mutant_->kind);
    if (mutant_->kind != LinkMutant::Kind::early) return;
    auto first = found;
    while (first != waiting.begin() && works_[(*std::prev(first))->number].kind == LinkWork::Kind::copy) --first;
    mutant_met_ = first != found;
    std::rotate(first, found, std::next(found));
    return;
  }
}

void Linked::draw_manner() {
  static constexpr std::uint64_t kLateness[] = {1, 2, 8, 64, 0, 0};
  lateness_ = kLateness[split_mix(state_) % std::size(kLateness)];
  starved_ = split_mix(state_) % 2 == 0 ? queues_.size() : split_mix(state_) % std::max<std::size_t>(1, queues_.size());
}

/// A queue whose first work can move: of those with a copy seldom, of the starved one hardly ever.
Linked::Queue* Linked::choose() {
  std::vector<Queue*> copies, others, starved;
  for (std::size_t n = 0; n < queues_.size(); ++n) {
    Queue& each = *queues_[n];
    if (each.waiting.empty() || !each.waiting.front()->can_move()) continue;
    const bool copies_now = works_[each.waiting.front()->number].kind == LinkWork::Kind::copy;
    (n == starved_ ? starved : copies_now ? copies : others).push_back(&each);
  }
  const auto any = [&](const std::vector<Queue*>& list) { return list[split_mix(state_) % list.size()]; };
  if (!starved.empty() && ((copies.empty() && others.empty()) || split_mix(state_) % 256 == 0)) return any(starved);
  if (!copies.empty() && (others.empty() || (lateness_ != 0 && split_mix(state_) % lateness_ == 0))) return any(copies);
  return others.empty() ? nullptr : any(others);
}

bool Linked::step() {
  Queue* const chosen = choose();
  if (chosen == nullptr) return false;
  const std::lock_guard lock(memory_->mutex);  // others free memory meanwhile
  ++steps();
  QueuedWork& work = *chosen->waiting.front();
  try {
    if (!work.started) start(*chosen, work);
    if (!work.left_out && !work.go_on()) return true;
  } catch (const Error& e) {
    const std::string who = name(*chosen) + ", ";
    fail(e.stage, e.code, e.message.starts_with(who) ? e.message : cat(who, work.text, ": ", e.message),
         report() + e.log);
  }
  LinkOrder::join(chosen->knows, work.left_out ? LinkOrder::Clock{} : work.knows());
  work.note(works_[work.number]);
  works_[work.number].ended = steps();
  chosen->waiting.pop_front();
  return true;
}

void Linked::start(Queue& queue, QueuedWork& work) {
  work.started = true;
  const auto place = static_cast<std::size_t>(queue.number);
  if (queue.knows.size() <= place) queue.knows.resize(place + 1);
  queue.knows[place] = ++queue.done;
  if (work.left_out) return;
  const bool copies = works_[work.number].kind == LinkWork::Kind::copy;
  work.start(
      {queue.number, queue.knows, cat(name(queue), ", ", work.text, " (work ", work.index, ")"), copies, queue.rank});
}

void Linked::deadlock() const {
  const std::lock_guard lock(memory_->mutex);
  std::string who;
  for (const auto& each : queues_) {
    if (each->waiting.empty()) continue;
    const QueuedWork& work = *each->waiting.front();
    if (works_[work.number].kind != LinkWork::Kind::launch) continue;
    who += cat(who.empty() ? ": " : "; ", name(*each), ", ", work.text);
  }
  fail(Stage::model, Code::deadlock,
       cat("deadlock of ranks: no stream can go on and nothing is under way", who, "; the log says who waits for what"),
       report());
}

std::string Linked::report() const {
  std::string text;
  for (const auto& each : queues_) {
    if (each->waiting.empty()) {
      text += cat(name(*each), ": all ", each->enqueued, " works are done\n");
      continue;
    }
    const QueuedWork& work = *each->waiting.front();
    const std::string waits = work.waits_for();
    text += cat(name(*each), ": work ", work.index, " of ", each->enqueued, ", ", work.text,
                work.started ? ", has begun" : ", has not begun", waits.empty() ? "" : "; waits: ", waits, "\n");
  }
  return text;
}

}  // namespace tj::model
