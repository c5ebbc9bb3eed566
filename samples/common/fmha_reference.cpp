// Attention in f64; see fmha_reference.hpp.
#include "common/fmha_reference.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>
#include <thread>

#include "common/half.hpp"
#include "common/random.hpp"

namespace tj::samples {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A row of queries, counted over [B, H, Sq].
struct RowPlace {
  std::int64_t batch, head, row;
};

RowPlace place_of(const FmhaArgs& args, std::int64_t index) {
  const std::int64_t seq_q = args.q.shape[2], heads = args.q.shape[1];
  return {index / seq_q / heads, index / seq_q % heads, index % seq_q};
}

/// Elements of [b, h, s, :] as 16-bit patterns; the last dimension is contiguous.
const std::uint16_t* row_of(const Tensor& t, std::int64_t b, std::int64_t h, std::int64_t s) {
  return static_cast<const std::uint16_t*>(t.data) + b * t.strides[0] + h * t.strides[1] + s * t.strides[2];
}

/// Element d of the output's row: f32, or the type of q.
double output_of(const Tensor& o, const RowPlace& at, std::size_t d) {
  if (o.dtype != DType::f32) return static_cast<double>(to_float(row_of(o, at.batch, at.head, at.row)[d], o.dtype));
  const std::int64_t row = at.batch * o.strides[0] + at.head * o.strides[1] + at.row * o.strides[2];
  return static_cast<double>(static_cast<const float*>(o.data)[row + static_cast<std::int64_t>(d)]);
}

/// The key that query `row` stands at: row + Sk - Sq, or row.
std::int64_t stands_at(const FmhaArgs& args, std::int64_t row) {
  return args.top_left ? row : row + args.k.shape[2] - args.q.shape[2];
}

/// Keys [first, end) that query `row` sees: those that no mask hides.
struct SeenKeys {
  std::int64_t first = 0, end = 0;
  std::int64_t count() const { return std::max<std::int64_t>(0, end - first); }
};
SeenKeys seen_keys(const FmhaArgs& args, std::int64_t row) {
  const std::int64_t seq_k = args.k.shape[2], place = stands_at(args, row);
  SeenKeys seen{0, seq_k};
  if (args.causal) seen.end = std::min(seen.end, place + 1);
  if (args.window.right >= 0)
    seen.end = std::min(seen.end, place + std::min(args.window.right, seq_k + args.q.shape[2]) + 1);
  if (args.window.left >= 0) seen.first = std::max(seen.first, place - args.window.left);
  return seen;
}

double head_number(const Tensor& t, std::int64_t batch, std::int64_t head) {
  const std::int64_t at = t.rank == 2 ? batch * t.strides[0] + head * t.strides[1] : head * t.strides[0];
  return static_cast<double>(static_cast<const float*>(t.data)[at]);
}

/// A number of the bias; dimensions of size 1 are the same for all.
double bias_of(const Tensor& bias, const std::array<std::int64_t, 4>& at) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < at.size(); ++i) offset += std::min(at[i], bias.shape[i] - 1) * bias.strides[i];
  return bias.dtype == DType::f32
             ? static_cast<double>(static_cast<const float*>(bias.data)[offset])
             : static_cast<double>(to_float(static_cast<const std::uint16_t*>(bias.data)[offset], bias.dtype));
}

/// The score of a key, of the scaled product of its query and it.
double changed_score(const FmhaArgs& args, const FmhaModsOfHost& mods, const RowPlace& at, std::int64_t key,
                     double score) {
  const auto cap = static_cast<double>(args.softcap);
  if (cap > 0) score = cap * std::tanh(score / cap);
  if (args.alibi_slopes)
    score -= head_number(*args.alibi_slopes, at.batch, at.head) *
             static_cast<double>(std::abs(stands_at(args, at.row) - key));
  if (args.bias) score += bias_of(*args.bias, {at.batch, at.head, at.row, key});
  const int b = static_cast<int>(at.batch), h = static_cast<int>(at.head),
            q = static_cast<int>(stands_at(args, at.row)), k = static_cast<int>(key);
  if (mods.score) score = mods.score(score, b, h, q, k);
  return mods.mask && !mods.mask(b, h, q, k) ? -kInfinity : score;
}

/// The numbers of all 16-bit patterns, as rows of keys and values are read again for each query.
const float* numbers_of(DType dtype) {
  constexpr std::size_t kPatterns = 1 << 16;
  const auto fill = [](DType of) {
    std::array<float, kPatterns> numbers;
    for (std::size_t i = 0; i < kPatterns; ++i) numbers[i] = to_float(static_cast<std::uint16_t>(i), of);
    return numbers;
  };
  static const std::array<float, kPatterns> half = fill(DType::f16), bf16 = fill(DType::bf16);
  return dtype == DType::bf16 ? bf16.data() : half.data();
}

/// Room that one thread reuses from row to row.
struct Scratch {
  std::vector<double> q, scores;
};

/// Writes Dv values to o and returns the row's log-sum-exp.
double reference_row(const FmhaArgs& args, const FmhaModsOfHost& mods, const RowPlace& at, Scratch& scratch,
                     double* o) {
  const auto dim = static_cast<std::size_t>(args.q.shape[3]), values = static_cast<std::size_t>(args.v.shape[3]);
  const std::int64_t kv_head = at.head / (args.q.shape[1] / args.k.shape[1]);
  const SeenKeys seen = seen_keys(args, at.row);
  const auto keys = static_cast<std::size_t>(seen.count());
  const double sink = args.sinks ? head_number(*args.sinks, at.batch, at.head) : -kInfinity;
  const double scale = args.scale ? static_cast<double>(*args.scale) : 1.0 / std::sqrt(static_cast<double>(dim));
  const float* const numbers = numbers_of(args.q.dtype);
  std::fill(o, o + values, 0.0);
  if (keys == 0) return sink;

  scratch.q.resize(dim);
  scratch.scores.resize(keys);
  const std::uint16_t* q = row_of(args.q, at.batch, at.head, at.row);
  for (std::size_t d = 0; d < dim; ++d) scratch.q[d] = static_cast<double>(numbers[q[d]]);
  double largest = -kInfinity;
  for (std::size_t j = 0; j < keys; ++j) {
    const std::int64_t key = seen.first + static_cast<std::int64_t>(j);
    const std::uint16_t* k = row_of(args.k, at.batch, kv_head, key);
    double dot = 0;
    for (std::size_t d = 0; d < dim; ++d) dot += scratch.q[d] * static_cast<double>(numbers[k[d]]);
    scratch.scores[j] = changed_score(args, mods, at, key, dot * scale);
    largest = std::max(largest, scratch.scores[j]);
  }
  if (largest == -kInfinity) return sink;  // no key is left
  largest = std::max(largest, sink);
  double sum = std::exp(sink - largest);
  for (std::size_t j = 0; j < keys; ++j) {
    const double weight = std::exp(scratch.scores[j] - largest);
    const std::uint16_t* v = row_of(args.v, at.batch, kv_head, seen.first + static_cast<std::int64_t>(j));
    sum += weight;
    for (std::size_t d = 0; d < values; ++d) o[d] += weight * static_cast<double>(numbers[v[d]]);
  }
  for (std::size_t d = 0; d < values; ++d) o[d] /= sum;
  return largest + std::log(sum);
}

int thread_count(int wanted) {
  return wanted > 0 ? wanted : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Calls work(thread, index) for every index, handed out in small blocks.
template <class Work>
void parallel_for(std::int64_t count, int threads, const Work& work) {
  constexpr std::int64_t kBlock = 16;
  std::atomic<std::int64_t> next{0};
  const auto run = [&](std::size_t thread) {
    for (std::int64_t begin; (begin = next.fetch_add(kBlock)) < count;)
      for (std::int64_t i = begin; i < std::min(begin + kBlock, count); ++i) work(thread, i);
  };
  std::vector<std::thread> helpers;
  for (int t = 1; t < threads; ++t) helpers.emplace_back(run, static_cast<std::size_t>(t));
  run(0);
  for (std::thread& helper : helpers) helper.join();
}

bool is_close(double value, double wanted) { return std::abs(value - wanted) <= kClose + kClose * std::abs(wanted); }

/// Sums over compared rows.
struct Sums {
  double difference = 0, reference = 0;
};

void compare_row(const FmhaArgs& args, const RowPlace& at, const double* o, double lse, Sums& sums,
                 FmhaComparison& result) {
  const auto dim = static_cast<std::size_t>(args.v.shape[3]);
  for (std::size_t d = 0; d < dim; ++d) {
    const double value = output_of(args.o, at, d);
    const double difference = std::isfinite(value) ? std::abs(value - o[d]) : kInfinity;
    sums.difference += difference * difference;
    sums.reference += o[d] * o[d];
    result.apart += is_close(value, o[d]) ? 0 : 1;
    result.most_apart = std::max(result.most_apart, difference);
  }
  if (!args.lse) return;
  const Tensor& t = *args.lse;
  const auto value = static_cast<double>(
      static_cast<const float*>(t.data)[at.batch * t.strides[0] + at.head * t.strides[1] + at.row * t.strides[2]]);
  // Two equal infinities agree; their difference would be NaN.
  const double error = value == lse ? 0.0 : std::abs(value - lse);
  result.lse_error = std::isnan(error) ? kInfinity : std::max(result.lse_error, error);
}

}  // namespace

FmhaReference fmha_reference(const FmhaArgs& args, int threads) {
  const std::int64_t rows = args.q.shape[0] * args.q.shape[1] * args.q.shape[2], dim = args.v.shape[3];
  FmhaReference result;
  result.o.resize(static_cast<std::size_t>(rows * dim));
  result.lse.resize(static_cast<std::size_t>(rows));
  std::vector<Scratch> scratch(static_cast<std::size_t>(thread_count(threads)));
  parallel_for(rows, thread_count(threads), [&](std::size_t thread, std::int64_t i) {
    result.lse[static_cast<std::size_t>(i)] =
        reference_row(args, {}, place_of(args, i), scratch[thread], result.o.data() + i * dim);
  });
  return result;
}

FmhaRows fmha_reference_rows(const FmhaArgs& args, const CompareOptions& options) {
  FmhaRows result;
  result.total = args.q.shape[0] * args.q.shape[1] * args.q.shape[2];
  const std::int64_t dim = args.v.shape[3], row_work = args.k.shape[2] * (args.q.shape[3] + dim);
  const std::int64_t affordable = std::max<std::int64_t>(1, options.max_work / row_work);
  const std::int64_t count = std::min(affordable, result.total);
  for (std::int64_t i = 0; i < count; ++i) {
    // One random row of every equal share of the rows: distinct, and spread over batches and heads.
    const std::int64_t begin = result.total * i / count, end = result.total * (i + 1) / count;
    result.rows.push_back(
        begin + (end - begin == 1 ? 0
                                  : static_cast<std::int64_t>(random_bits(options.seed, static_cast<std::uint64_t>(i)) %
                                                              static_cast<std::uint64_t>(end - begin))));
  }
  result.values.o.resize(static_cast<std::size_t>(count * dim));
  result.values.lse.resize(static_cast<std::size_t>(count));
  std::vector<Scratch> scratch(static_cast<std::size_t>(thread_count(options.threads)));
  parallel_for(count, thread_count(options.threads), [&](std::size_t thread, std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    result.values.lse[at] = reference_row(args, options.mods, place_of(args, result.rows[at]), scratch[thread],
                                          result.values.o.data() + i * dim);
  });
  return result;
}

FmhaComparison compare_fmha(const FmhaArgs& args, const FmhaRows& reference) {
  const std::int64_t dim = args.v.shape[3];
  FmhaComparison result;
  result.rows_total = reference.total;
  result.rows = static_cast<std::int64_t>(reference.rows.size());
  Sums sums;
  for (std::size_t i = 0; i < reference.rows.size(); ++i)
    compare_row(args, place_of(args, reference.rows[i]), reference.values.o.data() + static_cast<std::int64_t>(i) * dim,
                reference.values.lse[i], sums, result);
  // A reference of nothing but zeros (no row sees a key) allows nothing but zeros.
  result.o_mean_square = sums.difference / static_cast<double>(result.rows * dim);
  result.o_error =
      sums.reference > 0 ? std::sqrt(sums.difference / sums.reference) : (sums.difference > 0 ? kInfinity : 0.0);
  return result;
}

FmhaComparison compare_fmha(const FmhaArgs& args, const CompareOptions& options) {
  return compare_fmha(args, fmha_reference_rows(args, options));
}

std::int64_t elements_apart(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b, DType dtype) {
  std::int64_t apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    apart += is_close(static_cast<double>(to_float(a[i], dtype)), static_cast<double>(to_float(b[i], dtype))) ? 0 : 1;
  return apart;
}

std::string FmhaComparison::text(DType dtype) const {
  char line[260], of_lse[60] = "";
  if (lse_error >= 0) std::snprintf(of_lse, sizeof of_lse, ", lse error %.2e (limit %.0e)", lse_error, kMaxLseError);
  std::snprintf(line, sizeof line,
                "error %.2e (limit %.0e)%s, %lld element%s apart (%.0e + %.0e of the value), %lld of "
                "%lld rows compared (%.3g%%)",
                o_error, max_error(dtype), of_lse, static_cast<long long>(apart), apart == 1 ? "" : "s", kClose, kClose,
                static_cast<long long>(rows), static_cast<long long>(rows_total),
                rows_total > 0 ? 100.0 * static_cast<double>(rows) / static_cast<double>(rows_total) : 0.0);
  return line;
}

double relative_distance(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b, DType dtype) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(to_float(a[i], dtype)), y = static_cast<double>(to_float(b[i], dtype));
    difference += std::isfinite(x) ? (x - y) * (x - y) : kInfinity;
    norm += y * y;
  }
  return norm > 0 ? std::sqrt(difference / norm) : (difference > 0 ? kInfinity : 0.0);
}

double fmha_flops(const FmhaArgs& args) {
  const std::int64_t seq_q = args.q.shape[2];
  double pairs = 0;
  for (std::int64_t row = 0; row < seq_q; ++row) pairs += static_cast<double>(seen_keys(args, row).count());
  return 2.0 * static_cast<double>(args.q.shape[0] * args.q.shape[1] * (args.q.shape[3] + args.v.shape[3])) * pairs;
}

}  // namespace tj::samples
