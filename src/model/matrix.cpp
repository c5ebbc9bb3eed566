// See matrix.hpp. Rules: PTX ISA 8.7, "Asynchronous Warpgroup Level Matrix Instructions".
#include "model/matrix.hpp"

#include <algorithm>
#include <cstring>

#include "model/operand.hpp"
#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;

// Registers of an instruction in flight hold signalling NaNs, no two alike. Reading one early gives a NaN. Any
// arithmetic on it makes it a quiet NaN, so even something added to it shows.
constexpr std::uint32_t in_flight_word(int i) { return 0x7fa0de00u + static_cast<std::uint32_t>(i); }
static_assert((in_flight_word(kMaxMatrixColumns / 2) & 0x00400000u) == 0, "quiet: arithmetic would leave it as it is");

bool in_flight(const float* d, int count) {
  for (int i = 0; i < count; ++i) {
    const std::uint32_t word = in_flight_word(i);
    if (std::memcmp(d + i, &word, sizeof(word)) != 0) return false;
  }
  return true;
}

void mark_in_flight(float* d, int count) {
  for (int i = 0; i < count; ++i) {
    const std::uint32_t word = in_flight_word(i);
    std::memcpy(d + i, &word, sizeof(word));
  }
}

std::uint64_t content_of(const void* registers, std::size_t bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (std::size_t at = 0; at + 4 <= bytes; at += 4) {
    std::uint32_t word;
    std::memcpy(&word, static_cast<const std::byte*>(registers) + at, sizeof(word));
    hash = (hash ^ word) * 0x100000001b3ull;
  }
  return hash;
}

}  // namespace

void MatrixUnit::reset() {
  agent_ = monitor_.order.add_agent();
  operations_.clear();
  first_ = executed_ = 0;
  for (ThreadState& state : threads_) state = {};
  waiting_.clear();
  left_.resize(kMatrixRows * kMaxMatrixDepth);
  right_.resize(kMaxMatrixColumns * kMaxMatrixDepth);
  transposed_.resize(kMaxMatrixColumns * kMaxMatrixDepth);
}

// ---- issue --------------------------------------------------------------------------------------

void MatrixUnit::issue(Thread& thread, const tj_model_matrix& instruction) {
  if (instruction.columns < 8 || instruction.columns > kMaxMatrixColumns || instruction.columns % 8 != 0)
    fault(thread, cat("matrix_multiply with ", instruction.columns, " columns; allowed are multiples of 8 up to ",
                      kMaxMatrixColumns));
  if (instruction.element == TJ_MODEL_E4M3 &&
      (instruction.transpose_a != 0 || instruction.transpose_b != 0 || instruction.a != nullptr))
    fault(thread, "matrix_multiply of e4m3; allowed are both operands in shared memory, K-major");
  ThreadState& state = threads_[thread.in_group()];
  const auto same_registers = [&](const Owned& owned) { return owned.d == instruction.d; };
  const auto found = std::find_if(state.owned.rbegin(), state.owned.rend(), same_registers);
  const Owned* chain = found == state.owned.rend() ? nullptr : &*found;
  Operation& operation = operation_at(thread, instruction, chain);
  if (chain == nullptr)
    check_fence(thread, instruction.d, sizeof(float) * static_cast<std::size_t>(instruction.columns / 2));
  if (instruction.a != nullptr) check_fence(thread, instruction.a, 4 * sizeof(unsigned));
  check_order(thread, operation);
  take(thread, operation, instruction, chain != nullptr);
  state.owned.push_back({state.issued, instruction.d, instruction.a, thread.call, thread.iteration});
  ++state.issued;
}

MatrixUnit::Operation& MatrixUnit::operation_at(Thread& thread, const tj_model_matrix& instruction,
                                                const Owned* chain) {
  const std::uint64_t index = threads_[thread.in_group()].issued;
  if (index < first_ + operations_.size()) {
    check_alike(thread, at(index), instruction, chain);
    return at(index);
  }
  Operation operation{};
  operation.instruction = instruction;
  operation.left_in_registers = instruction.a != nullptr;
  operation.continues = chain != nullptr;
  if (chain != nullptr) {
    operation.sums = at(chain->operation).sums;
    if (operation.sums->columns != instruction.columns)
      fault(thread, cat("matrix_multiply with ", instruction.columns, " columns on accumulators in flight for ",
                        operation.sums->columns));
  } else {
    operation.sums = std::make_shared<Accumulators>();
    operation.sums->columns = instruction.columns;
    operation.sums->values.resize(static_cast<std::size_t>(kMatrixRows * instruction.columns));
  }
  if (operation.left_in_registers) operation.left.resize(kGroupThreads);
  operations_.push_back(std::move(operation));
  return operations_.back();
}

void MatrixUnit::check_alike(const Thread& thread, const Operation& operation, const tj_model_matrix& instruction,
                             const Owned* chain) const {
  const tj_model_matrix& first = operation.instruction;
  const char* what = nullptr;
  if (first.element != instruction.element)
    what = "the element type";
  else if (first.columns != instruction.columns)
    what = "the number of columns";
  else if (first.transpose_a != instruction.transpose_a)
    what = "the order of the left operand";
  else if (first.transpose_b != instruction.transpose_b)
    what = "the order of the right operand";
  else if (first.accumulate != instruction.accumulate)
    what = "whether to accumulate";
  else if (operation.left_in_registers != (instruction.a != nullptr))
    what = "the place of the left operand";
  else if (first.descriptor_a != instruction.descriptor_a)
    what = "the left descriptor";
  else if (first.descriptor_b != instruction.descriptor_b)
    what = "the right descriptor";
  else if (operation.continues != (chain != nullptr))
    what = "whether the accumulators are in flight";
  else if (chain != nullptr && at(chain->operation).sums != operation.sums)
    what = "which accumulators continue";
  if (what != nullptr)
    fault(thread, cat("matrix_multiply: the threads of warpgroup ", thread.group(), " disagree on ", what,
                      "; all 128 must issue the same instruction"));
}

void MatrixUnit::take(const Thread& thread, Operation& operation, const tj_model_matrix& instruction, bool chained) {
  const unsigned place = thread.in_group();
  const int count = instruction.columns / 2;
  if (!chained && instruction.accumulate) {
    for (int i = 0; i < count; ++i) {
      const AccumulatorPlace at_place = accumulator_place(place, i);
      operation.sums->values[static_cast<std::size_t>(at_place.row * instruction.columns + at_place.column)] =
          instruction.d[i];
    }
  }
  if (!chained) mark_in_flight(instruction.d, count);
  if (instruction.a != nullptr) std::memcpy(operation.left[place].data(), instruction.a, sizeof(operation.left[place]));
  ++operation.issued;
}

void MatrixUnit::fence(const Thread& thread) {
  ThreadState& state = threads_[thread.in_group()];
  state.fenced = true;
  for (Registers& each : state.registers) {
    each.handed_back = false;
    each.fenced = true;
    each.content = content_of(each.at, each.bytes);
  }
}

// A fence alone orders a thread's work on registers before the matrix unit's work on them.
void MatrixUnit::check_fence(const Thread& thread, const void* registers, std::size_t bytes) {
  ThreadState& state = threads_[thread.in_group()];
  const auto found = std::find_if(state.registers.begin(), state.registers.end(),
                                  [&](const Registers& each) { return each.at == registers && each.bytes == bytes; });
  const char* lacks = nullptr;
  if (!state.fenced)
    lacks = "that no matrix_fence has preceded";
  else if (found != state.registers.end() && found->handed_back)
    lacks = "that a matrix_wait has handed back, with no matrix_fence since";
  else if (found != state.registers.end() && found->fenced && found->content != content_of(registers, bytes))
    lacks = "that have changed since the last matrix_fence";
  if (lacks != nullptr) fault(thread, cat("matrix_multiply is given registers ", lacks));
  if (found == state.registers.end()) state.registers.push_back({registers, bytes});
}

// Each thread must know that its operands are there: the warps of a group run their parts each for itself.
void MatrixUnit::check_order(const Thread& thread, Operation& operation) {
  const void* known = monitor_.order.identity(thread.actor);
  if (operation.access != 0) {
    if (operation.known != known) monitor_.join(thread, operation.access, operation.read);
  } else {
    const tj_model_matrix& instruction = operation.instruction;
    operation.access = monitor_.begin(thread, Access::By::matrix, false, agent_,
                                      static_cast<Order::Time>(threads_[thread.in_group()].issued + 1));
    if (!operation.left_in_registers)
      read(thread, operation, instruction.descriptor_a, kMatrixRows, instruction.transpose_a != 0);
    read(thread, operation, instruction.descriptor_b, instruction.columns, instruction.transpose_b != 0);
  }
  // Threads know of writes each in its own way.
  const auto by_thread = [&](Shadow::Id id) { return monitor_.at(id).by == Access::By::thread; };
  operation.known =
      std::any_of(operation.read.writers.begin(), operation.read.writers.end(), by_thread) ? nullptr : known;
}

void MatrixUnit::read(const Thread& thread, Operation& operation, std::uint64_t descriptor, int count, bool mn_major) {
  read_operand(monitor_, shared_, thread, operation.access,
               {MatrixOperand::decode(descriptor), descriptor, operation.instruction.element, count, mn_major},
               operation.read);
}

void MatrixUnit::commit(Thread& thread) {
  ThreadState& state = threads_[thread.in_group()];
  state.groups.push_back(state.issued);
}

// ---- execution ----------------------------------------------------------------------------------

std::size_t MatrixUnit::ready() const {
  const std::size_t next = static_cast<std::size_t>(executed_ - first_);
  return next < operations_.size() && operations_[next].issued == kGroupThreads ? 1 : 0;
}

void MatrixUnit::load_left(const Operation& operation) {
  const tj_model_matrix& instruction = operation.instruction;
  if (operation.left_in_registers)
    return load_fragments(reinterpret_cast<const std::uint32_t(*)[4]>(operation.left.data()), instruction.element,
                          left_.data());
  const MatrixOperand operand = MatrixOperand::decode(instruction.descriptor_a);
  if (!instruction.transpose_a) return load_k_major(shared_, operand, instruction.element, kMatrixRows, left_.data());
  load_mn_major(shared_, operand, instruction.element, kMatrixRows, transposed_.data());
  const int depth = matrix_depth(instruction.element);
  for (int i = 0; i < kMatrixRows; ++i)
    for (int k = 0; k < depth; ++k)
      left_[static_cast<std::size_t>(i * depth + k)] = transposed_[static_cast<std::size_t>(k * kMatrixRows + i)];
}

void MatrixUnit::load_right(const Operation& operation) {
  const tj_model_matrix& instruction = operation.instruction;
  const int columns = instruction.columns, depth = matrix_depth(instruction.element);
  const MatrixOperand operand = MatrixOperand::decode(instruction.descriptor_b);
  if (instruction.transpose_b) return load_mn_major(shared_, operand, instruction.element, columns, right_.data());
  load_k_major(shared_, operand, instruction.element, columns, transposed_.data());
  for (int k = 0; k < depth; ++k)
    for (int j = 0; j < columns; ++j)
      right_[static_cast<std::size_t>(k * columns + j)] = transposed_[static_cast<std::size_t>(j * depth + k)];
}

void MatrixUnit::load_operands(const Operation& operation) {
  const char* side = "left";
  try {
    load_left(operation);
    side = "right";
    load_right(operation);
  } catch (const Error& e) {
    fault(cat("block ", scheduler_.thread(0).self.block, ", warpgroup ", group_, ", matrix instruction ", executed_,
              ", ", side, " operand: ", e.message));
  }
}

void MatrixUnit::complete(std::size_t) {
  Operation& operation = at(executed_);
  load_operands(operation);
  std::vector<float>& sums = operation.sums->values;
  if (!operation.instruction.accumulate) std::fill(sums.begin(), sums.end(), 0.0f);
  const auto product = operation.instruction.element == TJ_MODEL_E4M3 ? multiply_e4m3 : multiply;
  product(left_.data(), right_.data(), sums.data(), operation.instruction.columns);
  ++executed_;
  const auto done =
      std::partition(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.until > executed_; });
  for (auto w = done; w != waiting_.end(); ++w) scheduler_.wake(*w->thread);
  waiting_.erase(done, waiting_.end());
}

// ---- completion ---------------------------------------------------------------------------------

void MatrixUnit::wait(Thread& thread, int site, int pending) {
  ThreadState& state = threads_[thread.in_group()];
  const auto groups = state.groups.size(), keep = static_cast<std::size_t>(std::max(pending, 0));
  if (groups <= keep) return;
  const std::uint64_t until = state.groups[groups - keep - 1];
  if (executed_ < until) {
    waiting_.push_back({&thread, until});
    scheduler_.park(thread, {WaitKind::matrix, site, thread.group(), static_cast<std::uint32_t>(pending), 0});
  }
  state.groups.erase(state.groups.begin(), state.groups.begin() + static_cast<std::ptrdiff_t>(groups - keep));
  retire(thread, until);
  monitor_.order.observe(thread.actor, agent_, static_cast<Order::Time>(until));
}

void MatrixUnit::retire(Thread& thread, std::uint64_t until) {
  ThreadState& state = threads_[thread.in_group()];
  while (!state.owned.empty() && state.owned.front().operation < until) {
    const Owned owned = state.owned.front();
    state.owned.pop_front();
    const bool last =
        std::none_of(state.owned.begin(), state.owned.end(), [&](const Owned& later) { return later.d == owned.d; });
    retire_one(thread, owned, last);
    ++at(owned.operation).retired;
  }
  while (!operations_.empty() && operations_.front().retired == kGroupThreads) {
    operations_.pop_front();
    ++first_;
  }
}

void MatrixUnit::retire_one(const Thread& thread, const Owned& owned, bool last_of_chain) {
  const Operation& operation = at(owned.operation);
  const unsigned place = thread.in_group();
  const auto issued = [&] {
    const std::string node = monitor_.node(owned.call, thread);
    return node.empty() ? node : cat("; it was issued in node ", node, ", iteration ", owned.iteration);
  };
  if (owned.a != nullptr && std::memcmp(operation.left[place].data(), owned.a, sizeof(operation.left[place])) != 0)
    fault(thread,
          cat("registers of a matrix instruction's left operand changed between its issue and its wait", issued()));
  if (!last_of_chain) return;
  for (Registers& each : threads_[place].registers)
    if (each.at == owned.d) each.handed_back = true;
  const int columns = operation.instruction.columns;
  if (!in_flight(owned.d, columns / 2))
    fault(thread, cat("accumulators of a matrix instruction changed between its issue and its wait", issued()));
  for (int i = 0; i < columns / 2; ++i) {
    const AccumulatorPlace from = accumulator_place(place, i);
    owned.d[i] = operation.sums->values[static_cast<std::size_t>(from.row * columns + from.column)];
  }
}

bool MatrixUnit::under_way(const Thread& thread, const std::string& node, int iteration) const {
  const auto& owned = threads_[thread.in_group()].owned;
  return std::any_of(owned.begin(), owned.end(), [&](const Owned& each) {
    return each.iteration == iteration && monitor_.node(each.call, thread) == node;
  });
}

void MatrixUnit::ended(const Thread& thread) const {
  const ThreadState& state = threads_[thread.in_group()];
  if (!state.owned.empty())
    fault(thread, cat("ends while ", state.owned.size(), " matrix instructions have not been waited for"));
}

MatrixUnit::Progress MatrixUnit::progress(const Thread& thread) const {
  std::uint64_t complete = executed_;
  while (complete < first_ + operations_.size() && at(complete).issued == kGroupThreads) ++complete;
  return {threads_[thread.in_group()].issued, complete, executed_};
}

}  // namespace tj::model
