// See sequences_problem.hpp.
#include "ops/fmha/sequences_problem.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "common/half.hpp"
#include "common/random.hpp"
#include "support/fail.hpp"
#include "support/model_runtime.hpp"

namespace tj::test {
namespace {

constexpr std::size_t kGuard = 64;                // elements before and behind
constexpr std::uint16_t kNan = 0x7fff;            // in both 16-bit types
constexpr std::uint32_t kLsePoison = 0x7fc0dead;  // a NaN that no kernel writes
constexpr Device kCpu{DeviceKind::cpu, 0};

/// The first element behind the guard whose address is a multiple of 16 bytes.
std::size_t start(const std::vector<std::uint16_t>& memory) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data() + kGuard);
  return kGuard + ((at + 15) / 16 * 16 - at) / 2;
}
void poison(std::vector<std::uint16_t>& memory, std::int64_t elements) {
  memory.assign(static_cast<std::size_t>(elements) + 2 * kGuard + 8, kNan);
}
std::string numbers(const std::vector<int>& list) {
  std::string text;
  for (const int each : list) text += support::cat(text.empty() ? "" : ",", each);
  return text;
}
void append_begins(std::vector<std::int32_t>& begins, const std::vector<int>& lengths, int front, int more) {
  begins.assign(1, front);
  for (const int length : lengths) begins.push_back(begins.back() + length + more);
}

}  // namespace

std::string SequencesShape::text() const {
  return support::cat("Sq ", numbers(queries), " Sk ", numbers(keys), " H ", heads, "/", heads_kv, " D ", head_dim, "/",
                      value_dim, " ", to_string(dtype), causal ? " causal" : " full", top_left ? " top left" : "",
                      " window ", window.left, " ", window.right, " softcap ", softcap, alibi ? " alibi" : "",
                      sinks ? " sinks" : "", with_lse ? " lse" : "", " unused ", unused, " front ", front, " page ",
                      page_size, heads_first ? " heads first" : "", shifted_o ? " o off 16 bytes" : "", " nan ", nan);
}

SequencesProblem::SequencesProblem(const SequencesShape& shape, std::uint64_t seed) : shape_(shape), seed_(seed) {
  const auto sum = [&](const std::vector<int>& lengths, int more) {
    return std::accumulate(lengths.begin(), lengths.end(), 2 * shape.front) + more * static_cast<int>(lengths.size());
  };
  const auto count = static_cast<std::int64_t>(shape.queries.size());
  rows_q_ = std::max(1, sum(shape.queries, 0));
  rows_k_ = std::max(1, sum(shape.keys, shape.unused));
  const std::int64_t width = shape.head_dim, h = shape.heads, kv = shape.heads_kv;
  poison(q_, rows_q_ * h * width);
  poison(o, rows_q_ * h * values() + 8);
  args.q = Tensor::contiguous(q_.data() + start(q_), kCpu, shape.dtype, {rows_q_, h, width});
  args.o =
      Tensor::contiguous(o.data() + start(o) + (shape.shifted_o ? 1 : 0), kCpu, shape.dtype, {rows_q_, h, values()});
  const auto keys = [&](std::vector<std::uint16_t>& memory, std::int64_t columns) {
    const std::int64_t size = shape.page_size;
    poison(memory, (size > 0 ? pages_ * size : rows_k_) * kv * columns);
    void* const at = memory.data() + start(memory);
    if (size == 0) return Tensor::contiguous(at, kCpu, shape.dtype, {rows_k_, kv, columns});
    if (!shape.heads_first) return Tensor::contiguous(at, kCpu, shape.dtype, {pages_, size, kv, columns});
    return Tensor::strided(at, kCpu, shape.dtype, {pages_, size, kv, columns},
                           {kv * size * columns, columns, size * columns, 1});
  };
  if (shape.page_size > 0) {
    const auto most = *std::max_element(shape.keys.begin(), shape.keys.end()) + shape.unused;
    table_pages_ = std::max<std::int64_t>(1, (most + shape.page_size - 1) / shape.page_size);
    pages_ = count * table_pages_ + 2;
  }
  args.k = keys(k_, width);
  args.v = keys(v_, values());
  if (shape.with_lse) {
    lse_.resize(static_cast<std::size_t>(h * rows_q_) + 2 * kGuard);
    args.lse = Tensor::contiguous(lse_.data() + kGuard, kCpu, DType::f32, {h, rows_q_});
  }
  args.causal = shape.causal, args.top_left = shape.top_left, args.window = shape.window;
  args.softcap = shape.softcap;
  for (std::int64_t i = 0; shape.alibi && i < count * h; ++i)
    slopes_.push_back(std::exp2(-1.0f - static_cast<float>(i % 8)));
  if (shape.alibi) args.alibi_slopes = Tensor::contiguous(slopes_.data(), kCpu, DType::f32, {count, h});
  for (std::int64_t i = 0; shape.sinks && i < h; ++i) sinks_.push_back(i % 2 == 0 ? 1.5f : -3.0f);
  if (shape.sinks) args.sinks = Tensor::contiguous(sinks_.data(), kCpu, DType::f32, {h});
  set_lengths(shape.queries, shape.keys);
}

void SequencesProblem::set_lengths(const std::vector<int>& queries, const std::vector<int>& keys) {
  shape_.queries = queries, shape_.keys = keys;
  append_begins(begins_q, queries, shape_.front, 0);
  append_begins(begins_k, keys, shape_.front, shape_.unused);
  used.assign(keys.begin(), keys.end());
  for (std::vector<std::uint16_t>* memory : {&q_, &k_, &v_, &o}) std::fill(memory->begin(), memory->end(), kNan);
  std::fill(lse_.begin(), lse_.end(), std::bit_cast<float>(kLsePoison));
  const auto count = static_cast<std::int64_t>(queries.size());
  if (shape_.page_size > 0) {  // pages in another order than keys; those that no key needs are none of the memory's
    table.assign(static_cast<std::size_t>(count * table_pages_), 1 << 29);
    for (std::size_t i = 0; i < table.size(); ++i) {
      const std::size_t sequence = i / static_cast<std::size_t>(table_pages_);
      const int first = static_cast<int>(i % static_cast<std::size_t>(table_pages_)) * shape_.page_size;
      if (first < keys[sequence]) table[i] = static_cast<std::int32_t>(table.size() - i);
    }
    args.block_table = Tensor::contiguous(table.data(), kCpu, DType::i32, {count, table_pages_});
  }
  args.cu_seqlens_q = Tensor::contiguous(begins_q.data(), kCpu, DType::i32, {count + 1});
  if (shape_.page_size == 0) args.cu_seqlens_k = Tensor::contiguous(begins_k.data(), kCpu, DType::i32, {count + 1});
  if (shape_.page_size > 0 || shape_.unused > 0)
    args.seqused_k = Tensor::contiguous(used.data(), kCpu, DType::i32, {count});
  for (std::size_t s = 0; s < queries.size(); ++s) {
    if (static_cast<int>(s) == shape_.nan) continue;
    const auto elements = static_cast<std::size_t>(queries[s] * shape_.heads * shape_.head_dim);
    const auto values = samples::random_normal(elements, shape_.dtype, seed_ + 7 * s);
    std::copy(values.begin(), values.end(),
              static_cast<std::uint16_t*>(args.q.data) + begins_q[s] * shape_.heads * shape_.head_dim);
    fill_keys(s);
  }
}

std::uint16_t* SequencesProblem::key_row(std::vector<std::uint16_t>& memory, int width, std::size_t sequence, int key,
                                         int head) {
  std::int64_t row = (begins_k[sequence] + key) * std::int64_t{shape_.heads_kv} + head;
  if (const int size = shape_.page_size; size > 0) {
    const std::int64_t page =
        table[sequence * static_cast<std::size_t>(table_pages_) + static_cast<std::size_t>(key / size)];
    row = shape_.heads_first ? (page * shape_.heads_kv + head) * size + key % size
                             : (page * size + key % size) * shape_.heads_kv + head;
  }
  return memory.data() + start(memory) + row * width;
}

void SequencesProblem::fill_keys(std::size_t sequence) {
  for (auto& [memory, width, seed] : {std::tuple{&k_, shape_.head_dim, 1u}, {&v_, values(), 2u}}) {
    const int rows = shape_.keys[sequence] * shape_.heads_kv;
    const auto drawn =
        samples::random_normal(static_cast<std::size_t>(rows * width), shape_.dtype, seed_ + 7 * sequence + seed);
    for (int row = 0; row < rows; ++row)
      std::copy_n(drawn.begin() + row * width, width,
                  key_row(*memory, width, sequence, row / shape_.heads_kv, row % shape_.heads_kv));
  }
}

FmhaArgs SequencesProblem::dense(std::size_t sequence, std::vector<std::uint16_t>& k,
                                 std::vector<std::uint16_t>& v) const {
  FmhaArgs one = args;
  one.cu_seqlens_q.reset(), one.cu_seqlens_k.reset(), one.seqused_k.reset(), one.block_table.reset();
  const std::int64_t h = shape_.heads, rows = shape_.queries[sequence], begin = begins_q[sequence],
                     keys = shape_.keys[sequence], kv = shape_.heads_kv;
  const auto part = [&](const Tensor& of, std::int64_t width) {
    return Tensor::strided(static_cast<std::uint16_t*>(of.data) + begin * h * width, kCpu, shape_.dtype,
                           {1, h, rows, width}, {rows_q_ * h * width, width, h * width, 1});
  };
  one.q = part(args.q, shape_.head_dim), one.o = part(args.o, values());
  const auto gathered = [&](std::vector<std::uint16_t>& into, const std::vector<std::uint16_t>& from,
                            std::int64_t width) {
    into.resize(static_cast<std::size_t>(keys * kv * width));
    auto* const self = const_cast<SequencesProblem*>(this);
    for (std::int64_t row = 0; row < keys * kv; ++row)
      std::copy_n(self->key_row(const_cast<std::vector<std::uint16_t>&>(from), static_cast<int>(width), sequence,
                                static_cast<int>(row / kv), static_cast<int>(row % kv)),
                  width, into.begin() + row * width);
    return Tensor::strided(into.data(), kCpu, shape_.dtype, {1, kv, keys, width},
                           {keys * kv * width, width, kv * width, 1});
  };
  one.k = gathered(k, k_, shape_.head_dim), one.v = gathered(v, v_, values());
  if (args.lse)
    one.lse = Tensor::strided(static_cast<float*>(args.lse->data) + begin, kCpu, DType::f32, {1, h, rows},
                              {h * rows_q_, rows_q_, 1});
  if (args.bias && args.bias->shape[0] != 1) {
    one.bias->data = static_cast<char*>(args.bias->data) +
                     static_cast<std::int64_t>(sequence) * args.bias->strides[0] * size_of(args.bias->dtype);
    one.bias->shape[0] = 1;
  }
  if (args.alibi_slopes)
    one.alibi_slopes =
        Tensor::contiguous(const_cast<float*>(slopes_.data()) + sequence * shape_.heads, kCpu, DType::f32, {h});
  return one;
}

std::string SequencesProblem::problem_of(std::size_t sequence) const {
  const int rows = shape_.queries[sequence];
  const bool nan = static_cast<int>(sequence) == shape_.nan && shape_.keys[sequence] > 0;
  const auto* first = static_cast<const std::uint16_t*>(args.o.data) + begins_q[sequence] * shape_.heads * values();
  for (int i = 0; !nan && i < rows * shape_.heads * values(); ++i) {
    if (std::isnan(samples::to_float(first[i], shape_.dtype))) return "an element of o was not written, or is NaN";
    if (shape_.keys[sequence] == 0 && (first[i] & 0x7fff) != 0) return "a row without keys is not 0";
  }
  for (int h = 0; args.lse && h < shape_.heads; ++h)
    for (int row = 0; row < rows; ++row) {
      const float lse = static_cast<const float*>(args.lse->data)[h * rows_q_ + begins_q[sequence] + row];
      if (std::bit_cast<std::uint32_t>(lse) == kLsePoison) return "an element of lse was not written";
      if (shape_.keys[sequence] == 0 &&
          lse != (shape_.sinks ? sinks_[static_cast<std::size_t>(h)] : -std::numeric_limits<float>::infinity()))
        return "lse of a row without keys is another";
    }
  if (nan || rows == 0 || shape_.keys[sequence] == 0) return {};
  std::vector<std::uint16_t> k, v;
  samples::FmhaModsOfHost own;  // b is the sequence's number
  const int b = static_cast<int>(sequence);
  if (mods.score) own.score = [&](double score, int, int h, int q, int key) { return mods.score(score, b, h, q, key); };
  if (mods.mask) own.mask = [&](int, int h, int q, int key) { return mods.mask(b, h, q, key); };
  const auto comparison = samples::compare_fmha(dense(sequence, k, v), {.mods = own});
  return comparison.within(shape_.dtype) ? std::string() : comparison.text(shape_.dtype);
}

std::string SequencesProblem::problem() const {
  const auto* at = static_cast<const std::uint16_t*>(args.o.data);
  const std::int64_t width = shape_.heads * values(), first = begins_q.front() * width, last = begins_q.back() * width;
  for (const std::uint16_t& element : o) {
    const std::int64_t place = &element - at;
    if ((place < first || place >= last) && element != kNan) return "an element beside the sequences' rows was written";
  }
  for (std::size_t i = 0; i < lse_.size(); ++i) {
    const std::int64_t place = static_cast<std::int64_t>(i) - static_cast<std::int64_t>(kGuard),
                       row = ((place % rows_q_) + rows_q_) % rows_q_;
    const bool inside =
        place >= 0 && place < shape_.heads * rows_q_ && row >= begins_q.front() && row < begins_q.back();
    if (!inside && std::bit_cast<std::uint32_t>(lse_[i]) != kLsePoison) return "lse beside the rows was written";
  }
  for (std::size_t s = 0; s < shape_.queries.size(); ++s)
    if (const std::string found = problem_of(s); !found.empty()) return support::cat("sequence ", s, ": ", found);
  return {};
}

SequencesShape sequences_shape(std::vector<int> queries, std::vector<int> keys) {
  SequencesShape shape;
  shape.queries = std::move(queries), shape.keys = std::move(keys);
  return shape;
}

std::string run_sequences(const char* target, const SequencesShape& shape, std::uint64_t seed, int max_sms) {
  SequencesProblem problem(shape, seed);
  problem.args.max_sms = max_sms;
  testing::model_runtime(target).run(problem.args);
  return problem.problem();
}

std::string plan_for_other_lengths(const SequencesShape& shape, std::uint64_t seed, const std::vector<int>& queries,
                                   const std::vector<int>& keys) {
  SequencesProblem problem(shape, seed);
  const Plan plan = testing::model_runtime().plan(problem.args);
  const auto run_plan = [&] {
    void* const addresses[] = {problem.args.q.data,
                               problem.args.k.data,
                               problem.args.v.data,
                               problem.args.o.data,
                               problem.args.lse->data,
                               problem.args.cu_seqlens_q->data,
                               problem.args.cu_seqlens_k->data};
    plan.run(addresses);
    return problem.problem();
  };
  if (const std::string wrong = run_plan(); !wrong.empty()) return wrong;
  const auto first = problem.o;
  problem.set_lengths(queries, keys);
  if (const std::string wrong = run_plan(); !wrong.empty()) return "other lengths: " + wrong;
  problem.set_lengths(shape.queries, shape.keys);
  if (const std::string wrong = run_plan(); !wrong.empty()) return "its own again: " + wrong;
  return problem.o == first ? "" : "its own again: other bits";
}

}  // namespace tj::test
