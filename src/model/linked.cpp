// See linked.hpp: what is enqueued. linked_run.cpp has how it is done.
#include "model/linked.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "support/fail.hpp"

namespace tj::model {

using support::cat;
using support::fail;

/// A stream of the model's own.
class Linked::Side final : public launch::SideStream {
 public:
  explicit Side(Linked& model) : model_(model) {}
  Stream get() const noexcept override { return {const_cast<Side*>(this)}; }
  void follow(Stream main) override {
    model_.same_rank(get(), main);
    model_.wait_for(get(), main, "a wait for the caller's stream");
  }
  void join(Stream main) override {
    model_.same_rank(get(), main);
    model_.wait_for(main, get(), "a wait for the library's stream");
  }

 private:
  Linked& model_;
};

Linked::Linked() : memory_(std::make_shared<Memory>()) {}
Linked::~Linked() = default;

LinkOrder& Linked::order() const { return memory_->order; }
LinkWords& Linked::words() const { return memory_->words; }
std::uint64_t& Linked::steps() const { return memory_->steps; }

void Linked::begin(std::uint64_t seed, std::optional<LinkMutant> mutant) {
  const std::lock_guard lock(mutex_);
  clear();
  queue_of_.clear();
  queues_.clear();
  streams_of_.clear();
  works_.clear();
  mutant_ = std::move(mutant);
  mutant_met_ = false;
  steps() = 0;
  seed_ = seed;
}

/// Work that failed leaves nothing behind.
void Linked::clear() {
  for (const auto& each : queues_) {
    each->waiting.clear();
    each->knows.clear();
    each->done = 0;
    each->announced.clear();
  }
  const auto freed_without_the_lock = std::exchange(kept_, {});
  const std::lock_guard lock(memory_->mutex);
  order().settle();
}

Linked::Queue& Linked::queue(Stream stream) {
  const auto found = queue_of_.find(stream.handle);
  if (found != queue_of_.end()) return *found->second;
  queues_.push_back(std::make_unique<Queue>());
  queues_.back()->number = static_cast<unsigned>(queues_.size() - 1);
  return *queue_of_.emplace(stream.handle, queues_.back().get()).first->second;
}

std::string Linked::name(const Queue& queue) const {
  return queue.rank < 0 ? cat("queue ", queue.number) : cat("rank ", queue.rank, ", stream ", queue.of_rank);
}

void Linked::set_rank(Queue& queue, int rank) {
  if (queue.rank >= 0 || rank < 0) return;
  queue.rank = rank;
  queue.of_rank = ++streams_of_[rank];
}

void Linked::same_rank(Stream one, Stream other) {
  const std::lock_guard lock(mutex_);
  Queue &a = queue(one), &b = queue(other);
  set_rank(a, b.rank);
  set_rank(b, a.rank);
}

void Linked::enqueue(Stream stream, std::unique_ptr<QueuedWork> work, LinkWork what) {
  Queue& to = queue(stream);
  work->number = works_.size();
  work->index = to.enqueued++;
  work->text = what.text;
  what.index = work->index;
  to.numbers.push_back(work->number);
  works_.push_back(std::move(what));
  to.waiting.push_back(std::move(work));
}

void Linked::wait_for(Stream behind, Stream before, const char* what) {
  const std::lock_guard lock(mutex_);
  const auto event = std::make_shared<LinkEvent>();
  enqueue(before, std::make_unique<QueuedEvent>(event, false), {{}, "an event", 0, LinkWork::Kind::event});
  enqueue(behind, std::make_unique<QueuedEvent>(event, true), {{}, what, 0, LinkWork::Kind::wait});
}

void Linked::launch(int device, const launch::Kernel& kernel, const launch::LaunchConfig& config, const void* params,
                    std::size_t params_bytes, Stream stream) {
  if (stream.handle == nullptr) return Model::launch(device, kernel, config, params, params_bytes, stream);
  check(device);
  auto work = std::make_unique<QueuedLaunch>(kernel, config, params, params_bytes, options(), stacks_, words());
  const std::lock_guard lock(mutex_);
  const std::string announced = std::exchange(queue(stream).announced, {});
  const std::string& kernel_name = static_cast<const ModelKernel&>(kernel).notes.name;
  enqueue(stream, std::move(work),
          {{}, announced.empty() ? cat("launch of ", kernel_name) : announced, 0, LinkWork::Kind::launch});
}

std::shared_ptr<launch::SideStream> Linked::side_stream(int device) {
  check(device);
  return std::make_shared<Side>(*this);
}

std::shared_ptr<void> Linked::allocate(int device, std::size_t bytes) {
  const std::shared_ptr<void> owner = Model::allocate(device, bytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(owner.get());
  const LinkOrder::Span span{begin, begin + bytes};
  const std::lock_guard lock(memory_->mutex);
  order().add_memory(span);
  return {owner.get(), [owner, span, memory = memory_](void*) {
            const std::lock_guard free(memory->mutex);
            memory->order.remove_memory(span);
          }};
}

std::shared_ptr<void> Linked::scratch(int device, std::size_t bytes, Stream stream) {
  std::shared_ptr<void> memory = allocate(device, bytes);
  if (stream.handle == nullptr) return memory;
  const std::lock_guard lock(mutex_);
  kept_.push_back(memory);
  return memory;
}

void Linked::zero(int device, void* memory, std::size_t bytes, Stream stream) {
  if (stream.handle == nullptr) return Model::zero(device, memory, bytes, stream);
  check(device);
  const std::lock_guard lock(mutex_);
  enqueue(stream, std::make_unique<QueuedBytes>(memory, bytes, QueuedBytes::What::zeroed, order()),
          {{}, cat("zeroing of ", bytes, " bytes"), 0, LinkWork::Kind::zero});
}

void Linked::caller_writes(void* memory, std::size_t bytes, Stream stream) {
  const std::lock_guard lock(mutex_);
  enqueue(stream, std::make_unique<QueuedBytes>(memory, bytes, QueuedBytes::What::written, order()),
          {{}, "the caller's work", 0, LinkWork::Kind::zero});
}

void Linked::copy_rows(int device, const launch::RowsToCopy& rows, Stream stream) {
  if (stream.handle == nullptr) return Model::copy_rows(device, rows, stream);
  check(device);
  auto work = std::make_unique<QueuedCopy>(rows, state_, words());
  const std::lock_guard lock(mutex_);
  const bool is_word = work->is_word();
  const std::int64_t bytes = rows.rows * rows.row_bytes;
  enqueue(stream, std::move(work),
          {{},
           is_word ? "copy of a word" : cat("copy of ", bytes, " bytes"),
           0,
           LinkWork::Kind::copy,
           false,
           false,
           is_word});
}

void Linked::announce(int, const launch::PeerStep& step, Stream stream) {
  const std::lock_guard lock(mutex_);
  Queue& of = queue(stream);
  set_rank(of, step.rank);
  std::string ranks;
  for (int rank = 0; rank < 32; ++rank)
    if ((step.from >> rank & 1u) != 0) ranks += cat(ranks.empty() ? " of rank " : ", ", rank);
  of.announced =
      cat("launch that ", step.what, step.segment < 0 ? std::string() : cat(" of segment ", step.segment), ranks);
}

void Linked::let_go(int device, void* memory, std::size_t bytes, Stream stream) {
  if (stream.handle == nullptr) return;
  check(device);
  const std::lock_guard lock(mutex_);
  enqueue(stream, std::make_unique<QueuedBytes>(memory, bytes, QueuedBytes::What::let_go, order()),
          {{}, "letting go of its bytes", 0, LinkWork::Kind::let_go});
}

bool Linked::idle(int device, Stream stream) {
  check(device);
  const std::lock_guard lock(mutex_);
  return stream.handle == nullptr || queue(stream).waiting.empty();
}

void Linked::synchronize(int device, Stream stream) {
  if (!idle(device, stream))
    fail(Stage::launch, Code::unsupported, "a stream of the model with links has work; call run() first");
}

std::shared_ptr<Linked> open_linked_model() { return std::make_shared<Linked>(); }

}  // namespace tj::model
