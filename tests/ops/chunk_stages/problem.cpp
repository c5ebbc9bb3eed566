// See problem.hpp.
#include "ops/chunk_stages/problem.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "support/model_runtime.hpp"

namespace tj::test {

StageProblem::StageProblem(const StageShape& shape, unsigned seed) : shape_(shape) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  tokens_ = shape.tokens;
  if (!shape.lengths.empty()) {
    ends = {shape.lead};
    for (const std::int32_t length : shape.lengths) ends.push_back(ends.back() + length);
    tokens_ = std::max(1, ends.back() + shape.tail);
  }
  const Shaped shaped = [&](std::vector<std::int64_t> last) {
    last.insert(last.begin(), tokens_);
    if (shape.batch > 0) last.insert(last.begin(), shape.batch);
    return last;
  };
  const DType numbers = shape.half_numbers ? shape.dtype : DType::f32;
  cumsum.gate = make_tensor(gate_, numbers, shaped({shape.heads}), 1, [&] {
    if (shape.form == GateForm::raw) return 4 * uniform(random) - 2;
    return shape.form == GateForm::exp ? uniform(random) : -shape.gate_size * uniform(random);
  });
  cumsum.gate_form = shape.form;
  if (shape.form == GateForm::raw) {
    cumsum.a_log = make_tensor(a_log_, DType::f32, {shape.heads}, 0, [&] { return normal(random); });
    cumsum.dt_bias = make_tensor(dt_bias_, numbers, {shape.heads}, 0, [&] { return normal(random); });
  }
  cumsum.g_cu = make_tensor(g_cu_, DType::f32, shaped({shape.heads}), 2, {});
  if (!ends.empty()) cumsum.cu_seqlens = list_tensor(ends);
  make_rows(shaped, random);
}

std::string StageProblem::Error::above(const char* name, double limit) const {
  const double error = size > 0 ? std::sqrt(wrong / size) : std::sqrt(wrong);
  return error <= limit ? "" : std::string(name) + " is wrong by " + std::to_string(error);
}

/// Keys, beta and sums of gates, the last as the first stage would leave them.
void StageProblem::make_rows(const Shaped& shaped, std::mt19937& random) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const double small = 1 / std::sqrt(static_cast<double>(shape_.width));
  solve.k = make_tensor(k_, shape_.dtype, shaped({shape_.k_heads, shape_.width}), shape_.padding,
                        [&] { return small * normal(random); });
  solve.a = make_tensor(a_, shape_.dtype, shaped({shape_.heads, kChunkTokens}), shape_.padding, {});
  if (shape_.strengths)
    solve.beta = make_tensor(beta_, shape_.half_numbers ? shape_.dtype : DType::f32, shaped({shape_.heads}), 3,
                             [&] { return uniform(random); });
  if (shape_.gated) {
    solve.g_cu = make_tensor(sums_, DType::f32, shaped({shape_.heads}), 1, {});
    for (const Chunk& chunk : chunks())
      for (std::int64_t head = 0; head < shape_.heads; ++head) {
        double sum = 0;
        for (std::int64_t t = chunk.first; t < chunk.first + chunk.rows; ++t) {
          sum -= shape_.gate_size * uniform(random);
          put(sums_, chunk.sequence, {t, head, 0}, sum);
        }
      }
  }
  solve.cu_seqlens = cumsum.cu_seqlens;
  make_products(shaped, random);
}

/// Solved matrices as the second stage would leave them, with NaN above the diagonal.
void StageProblem::make_products(const Shaped& shaped, std::mt19937& random) {
  std::normal_distribution<double> normal;
  wu.k = solve.k;
  wu.v = make_tensor(v_, shape_.dtype, shaped({shape_.v_heads, shape_.width}), shape_.padding,
                     [&] { return normal(random); });
  wu.a = make_tensor(solved_, shape_.dtype, shaped({shape_.heads, kChunkTokens}), shape_.padding, {});
  for (const Chunk& chunk : chunks())
    for (std::int64_t head = 0; head < shape_.heads; ++head) {
      const std::vector<double> matrix = matrix_of(chunk, head);
      for (std::int64_t i = 0; i < chunk.rows; ++i)
        for (std::int64_t j = 0; j <= i; ++j)
          put(solved_, chunk.sequence, {chunk.first + i, head, j},
              matrix[static_cast<std::size_t>(i * kChunkTokens + j)]);
    }
  wu.w = make_tensor(w_, shape_.dtype, shaped({shape_.heads, shape_.width}), shape_.padding, {});
  wu.u = make_tensor(u_, shape_.dtype, shaped({shape_.heads, shape_.width}), shape_.padding, {});
  wu.beta = solve.beta;
  wu.g_cu = solve.g_cu;
  wu.cu_seqlens = solve.cu_seqlens;
  make_states(shaped, random);
}

/// Of a token, a head and, where the tensor has them, a column.
void StageProblem::put(Memory& memory, std::int64_t sequence, Place place, double value) const {
  const auto* const p = place.begin();
  const bool columns = memory.shape.size() > (shape_.batch > 0 ? 3u : 2u);
  if (shape_.batch > 0)
    columns ? memory.set({sequence, p[0], p[1], p[2]}, value) : memory.set({sequence, p[0], p[1]}, value);
  else
    columns ? memory.set({p[0], p[1], p[2]}, value) : memory.set({p[0], p[1]}, value);
}

std::int64_t StageProblem::sequences() const {
  return ends.empty() ? std::max<std::int64_t>(1, shape_.batch) : static_cast<std::int64_t>(ends.size()) - 1;
}

std::vector<StageProblem::Chunk> StageProblem::chunks() const {
  std::vector<Chunk> list;
  for (std::int64_t n = 0; n < sequences(); ++n) {
    const auto at = static_cast<std::size_t>(n);
    const std::int64_t begin = ends.empty() ? 0 : ends[at], end = ends.empty() ? tokens_ : ends[at + 1];
    for (std::int64_t first = begin; first < end; first += kChunkTokens)
      list.push_back({n, first, std::min<std::int64_t>(kChunkTokens, end - first)});
  }
  return list;
}

double StageProblem::number(const Memory& memory, std::int64_t sequence, std::int64_t token, std::int64_t head) const {
  return shape_.batch > 0 ? memory.get({sequence, token, head}) : memory.get({token, head});
}

double StageProblem::element(const Memory& memory, std::int64_t sequence, std::int64_t token, std::int64_t head,
                             std::int64_t column) const {
  return shape_.batch > 0 ? memory.get({sequence, token, head, column}) : memory.get({token, head, column});
}
double StageProblem::beta_of(const Chunk& chunk, std::int64_t token, std::int64_t head) const {
  return shape_.strengths ? number(beta_, chunk.sequence, token, head) : 1;
}
double StageProblem::sum_of(const Chunk& chunk, std::int64_t token, std::int64_t head) const {
  return shape_.gated ? number(sums_, chunk.sequence, token, head) : 0;
}

std::vector<double> StageProblem::matrix_of(const Chunk& chunk, std::int64_t head) const {
  const std::int64_t k_head = head / (shape_.heads / shape_.k_heads);
  std::vector<double> matrix(kChunkTokens * kChunkTokens);
  for (std::int64_t i = 0; i < chunk.rows; ++i) {
    matrix[static_cast<std::size_t>(i * kChunkTokens + i)] = 1;
    for (std::int64_t j = 0; j < i; ++j) {
      double product = 0;
      for (std::int64_t e = 0; e < shape_.width; ++e)
        product += element(k_, chunk.sequence, chunk.first + i, k_head, e) *
                   element(k_, chunk.sequence, chunk.first + j, k_head, e);
      const double weight = beta_of(chunk, chunk.first + i, head) * product *
                            std::exp(sum_of(chunk, chunk.first + i, head) - sum_of(chunk, chunk.first + j, head));
      for (std::int64_t c = 0; c <= j; ++c)
        matrix[static_cast<std::size_t>(i * kChunkTokens + c)] -=
            weight * matrix[static_cast<std::size_t>(j * kChunkTokens + c)];
    }
  }
  return matrix;
}

std::string StageProblem::run_twice(const std::function<void()>& run, std::initializer_list<Memory*> results) {
  std::vector<std::vector<unsigned char>> before, first;
  for (Memory* memory : results) before.push_back(memory->bytes);
  run();
  for (Memory* memory : results) first.push_back(memory->bytes);
  std::size_t i = 0;
  for (Memory* memory : results) std::copy(before[i].begin(), before[i].end(), memory->bytes.begin()), ++i;
  run();
  i = 0;
  for (Memory* memory : results)
    if (memory->bytes != first[i++]) return "other bits";
  return "";
}

std::string StageProblem::check_gaps(const Memory& memory, std::int64_t per_token) const {
  std::vector<bool> written(memory.bytes.size());
  const auto bytes = static_cast<std::size_t>(size_of(memory.dtype));
  const std::size_t axis = shape_.batch > 0 ? 1 : 0;
  const std::int64_t rows = per_token / memory.shape.back();
  for (const Chunk& chunk : chunks())
    for (std::int64_t t = chunk.first; t < chunk.first + chunk.rows; ++t)
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t e = 0; e < memory.shape.back(); ++e) {
          std::int64_t at = t * memory.strides[axis] + (axis > 0 ? chunk.sequence * memory.strides[0] : 0) + e;
          if (rows > 1 || memory.shape.size() > axis + 2) at += row * memory.strides[axis + 1];
          std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(at) * bytes), bytes, true);
        }
  for (std::size_t i = 0; i < written.size(); ++i)
    if (!written[i] && memory.bytes[i] != kPoison) return "byte " + std::to_string(i) + " of no token was written";
  return "";
}

std::string StageProblem::run_cumsum(const std::string& target) {
  const std::string other = run_twice([&] { testing::model_runtime(target).run(cumsum); }, {&g_cu_});
  if (!other.empty()) return other;
  for (const Chunk& chunk : chunks())
    for (std::int64_t head = 0; head < shape_.heads; ++head) {
      double sum = 0, size = 0;
      for (std::int64_t t = chunk.first; t < chunk.first + chunk.rows; ++t) {
        double gate = number(gate_, chunk.sequence, t, head);
        if (shape_.form == GateForm::exp) gate = std::log(gate);
        if (shape_.form != GateForm::raw && std::isinf(gate)) gate = -150 * std::log(2.0);
        if (shape_.form == GateForm::raw) {
          const double x = gate + dt_bias_.get({head});
          gate = -std::exp(a_log_.get({head})) * std::log1p(std::exp(x));
        }
        sum += gate, size += std::abs(gate);
        const double found = number(g_cu_, chunk.sequence, t, head);
        const double each = shape_.form == GateForm::log ? 0 : 2e-6 * (size + static_cast<double>(t - chunk.first + 1));
        if (!(std::abs(found - sum) <= 8 * 0x1p-24 * size + each))
          return "g_cu of token " + std::to_string(t) + " head " + std::to_string(head) + " is " +
                 std::to_string(found) + ", not " + std::to_string(sum);
      }
    }
  return check_gaps(g_cu_, shape_.heads);
}

std::string StageProblem::run_solve(const std::string& target) {
  const std::string other = run_twice([&] { testing::model_runtime(target).run(solve); }, {&a_});
  if (!other.empty()) return other;
  Error error;
  for (const Chunk& chunk : chunks())
    for (std::int64_t head = 0; head < shape_.heads; ++head) {
      const std::vector<double> wanted = matrix_of(chunk, head);
      for (std::int64_t i = 0; i < chunk.rows; ++i)
        for (std::int64_t j = 0; j < kChunkTokens; ++j) {
          const double found = element(a_, chunk.sequence, chunk.first + i, head, j);
          if (j >= i && found != (j == i ? 1 : 0)) return "a is not lower, or its diagonal is not 1";
          error.add(found, wanted[static_cast<std::size_t>(i * kChunkTokens + j)]);
        }
    }
  const std::string wrong = error.above("a", shape_.dtype == DType::bf16 ? 2e-3 : 3e-4);
  return wrong.empty() ? check_gaps(a_, shape_.heads * kChunkTokens) : wrong;
}

std::string StageProblem::run_wu(const std::string& target) {
  const std::string other = run_twice([&] { testing::model_runtime(target).run(wu); }, {&w_, &u_});
  if (!other.empty()) return other;
  Error of_w, of_u;
  for (const Chunk& chunk : chunks())
    for (std::int64_t head = 0; head < shape_.heads; ++head)
      for (std::int64_t i = 0; i < chunk.rows; ++i)
        for (std::int64_t e = 0; e < shape_.width; ++e) {
          double w = 0, u = 0;
          for (std::int64_t j = 0; j <= i; ++j) {
            const std::int64_t token = chunk.first + j;
            const double weight =
                element(solved_, chunk.sequence, chunk.first + i, head, j) * beta_of(chunk, token, head);
            w += weight * std::exp(sum_of(chunk, token, head)) *
                 element(k_, chunk.sequence, token, head / (shape_.heads / shape_.k_heads), e);
            u += weight * element(v_, chunk.sequence, token, head / (shape_.heads / shape_.v_heads), e);
          }
          of_w.add(element(w_, chunk.sequence, chunk.first + i, head, e), w);
          of_u.add(element(u_, chunk.sequence, chunk.first + i, head, e), u);
        }
  const double limit = shape_.dtype == DType::bf16 ? 2e-3 : 2.5e-4;  // w and u are rounded, and nothing else
  for (const std::string& wrong :
       {of_w.above("w", limit), of_u.above("u", limit), check_gaps(w_, shape_.heads * shape_.width),
        check_gaps(u_, shape_.heads * shape_.width)})
    if (!wrong.empty()) return wrong;
  return "";
}

}  // namespace tj::test
