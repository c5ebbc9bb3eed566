// Protects products beside their collectives on ranks of the CPU model: against f64, with ends, ranks without rows, on
// several families. Calls give equal bits, and what is not served is refused.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <thread>

#include <tilejit/tilejit.hpp>

#include "common/half.hpp"
#include "common/random.hpp"
#include "support/expect.hpp"
#include "support/fail.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};
using Matrix = std::vector<std::uint16_t>;

struct Sizes {
  std::vector<std::int64_t> rows, depths;  ///< of each rank: of a and d; K of a and b
  std::int64_t n = 72;
  bool ends = false;
  bool adds = true;  ///< ends: c, too
  std::int64_t m() const { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }
  std::int64_t k() const { return std::accumulate(depths.begin(), depths.end(), std::int64_t{0}); }
  std::int64_t row(std::size_t rank) const {
    return std::accumulate(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(rank), std::int64_t{0});
  }
  std::int64_t depth(std::size_t rank) const {
    return std::accumulate(depths.begin(), depths.begin() + static_cast<std::ptrdiff_t>(rank), std::int64_t{0});
  }
};

Matrix normal(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  return samples::random_normal(static_cast<std::size_t>(rows * columns), DType::f16, seed);
}
double at(const Matrix& matrix, std::int64_t place) {
  return static_cast<double>(samples::to_float(matrix[static_cast<std::size_t>(place)], DType::f16));
}
std::vector<double> numbers_of(const Matrix& matrix) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < std::ssize(matrix); ++i) numbers.push_back(at(matrix, i));
  return numbers;
}
Tensor tensor(Matrix& matrix, std::int64_t rows, std::int64_t columns) {
  return Tensor::contiguous(matrix.data(), kCpu, DType::f16, {rows, columns});
}
/// Columns [begin, begin + count) of a matrix.
Matrix columns_of(const Matrix& whole, std::int64_t columns, std::int64_t begin, std::int64_t count) {
  Matrix part;
  for (std::size_t row = 0; row * static_cast<std::size_t>(columns) < whole.size(); ++row)
    for (std::int64_t c = begin; c < begin + count; ++c)
      part.push_back(whole[row * static_cast<std::size_t>(columns) + static_cast<std::size_t>(c)]);
  return part;
}

/// Each rank's work in a thread of its own; what one of them threw, else "".
std::string together(std::vector<dist::Group>& members, const std::function<void(dist::Group&, std::size_t)>& work) {
  std::vector<std::string> said(members.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    threads.emplace_back([&, rank] { said[rank] = testing::said_by([&] { work(members[rank], rank); }); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : said)
    if (!each.empty()) return each;
  return "";
}

struct Problem {
  Problem(const Sizes& of, std::uint64_t seed)
      : sizes(of),
        a(normal(of.m(), of.k(), seed)),
        b(normal(of.n, of.k(), seed + 1)),
        c(normal(of.m(), of.n, seed + 2)),
        bias(normal(1, of.n, seed + 3)) {}

  void add_ends(GemmArgs& product, std::int64_t first, std::int64_t rows) {
    if (!sizes.ends) return;
    product.alpha = 0.5f;
    product.beta = sizes.adds ? 2.f : 0.f;
    product.activation = Activation::relu;
    product.c = Tensor::contiguous(c.data() + first * sizes.n, kCpu, DType::f16, {rows, sizes.n});
    product.bias = Tensor::contiguous(bias.data(), kCpu, DType::f16, {sizes.n});
  }
  /// "", or how far rows [first, ...) of d are from f64.
  std::string problem(const Matrix& d, std::int64_t first) const {
    double wrong = 0, all = 0;
    const std::int64_t depth = sizes.k();
    const std::vector<double> left = numbers_of(a), right = numbers_of(b);
    for (std::int64_t row = 0; row * sizes.n < std::ssize(d); ++row)
      for (std::int64_t column = 0; column < sizes.n; ++column) {
        const auto begin = left.begin() + (first + row) * depth;
        double wanted = std::inner_product(begin, begin + depth, right.begin() + column * depth, 0.0);
        if (sizes.ends)
          wanted = std::max(
              0.0, 0.5 * wanted + (sizes.adds ? 2 : 0) * at(c, (first + row) * sizes.n + column) + at(bias, column));
        const double error = at(d, row * sizes.n + column) - wanted;
        wrong += error * error;
        all += wanted * wanted;
      }
    const double relative = all > 0 ? std::sqrt(wrong / all) : std::sqrt(wrong);
    return relative <= 6e-4 ? "" : support::cat("relative error ", relative);
  }

  Sizes sizes;
  Matrix a, b, c, bias;
};

std::string gathered(Problem& problem, std::vector<dist::Group>& members, std::vector<Matrix>& d) {
  const Sizes& sizes = problem.sizes;
  d.assign(members.size(), Matrix(static_cast<std::size_t>(sizes.m() * sizes.n), 0x7fff));
  const std::string said = together(members, [&](dist::Group& member, std::size_t rank) {
    dist::AllGatherGemmArgs args;
    Matrix own(problem.a.begin() + sizes.row(rank) * sizes.k(), problem.a.begin() + sizes.row(rank + 1) * sizes.k());
    args.product.a = tensor(own, sizes.rows[rank], sizes.k());
    args.product.b = tensor(problem.b, sizes.n, sizes.k());
    args.product.d = tensor(d[rank], sizes.m(), sizes.n);
    problem.add_ends(args.product, 0, sizes.m());
    args.lengths = sizes.rows;
    member.prepare(args);
    member.all_gather_gemm(args);
  });
  if (!said.empty()) return said;
  for (const Matrix& each : d)
    if (const std::string wrong = problem.problem(each, 0); !wrong.empty()) return wrong;
  return "";
}

std::string scattered(Problem& problem, std::vector<dist::Group>& members, std::vector<Matrix>& d) {
  const Sizes& sizes = problem.sizes;
  d.assign(members.size(), {});
  const std::string said = together(members, [&](dist::Group& member, std::size_t rank) {
    d[rank].assign(static_cast<std::size_t>(sizes.rows[rank] * sizes.n), 0x7fff);
    Matrix a = columns_of(problem.a, sizes.k(), sizes.depth(rank), sizes.depths[rank]);
    Matrix b = columns_of(problem.b, sizes.k(), sizes.depth(rank), sizes.depths[rank]);
    dist::GemmReduceScatterArgs args;
    args.product.a = tensor(a, sizes.m(), sizes.depths[rank]);
    args.product.b = tensor(b, sizes.n, sizes.depths[rank]);
    args.product.d = tensor(d[rank], sizes.rows[rank], sizes.n);
    problem.add_ends(args.product, sizes.row(rank), sizes.rows[rank]);
    args.lengths = sizes.rows;
    member.prepare(args);
    member.gemm_reduce_scatter(args);
  });
  if (!said.empty()) return said;
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    if (const std::string wrong = problem.problem(d[rank], sizes.row(rank)); !wrong.empty()) return wrong;
  return "";
}

const std::vector<Sizes>& cases() {
  static const auto* const list = new std::vector<Sizes>{
      {{40}, {96}, 72, true},
      {{64, 64}, {64, 64}, 136, false},
      {{70, 3}, {40, 88}, 72, true},
      {{0, 33, 20}, {16, 48, 8}, 40, true},
      {{16, 16, 16, 16}, {32, 32, 32, 32}, 64, false},
      {{5, 20}, {35, 14}, 37, true},
      {{24, 40}, {48, 16}, 72, true, false},
  };
  return *list;
}

/// Both products, call after call, by messages and by copies: against f64, with equal bits in all of them.
void check_both(const Sizes& sizes, std::uint64_t seed, int calls, const std::string& target = "model:sm_90a") {
  CAPTURE(target);
  CAPTURE(seed);
  Problem problem(sizes, seed);
  std::vector<Matrix> gather, scatter;
  for (const char* by : {"nccl", "ipc"}) {
    ::setenv("TJ_DIST_TRANSPORT", by, 1);
    auto members = dist::Group::on_model(testing::model_runtime(target), static_cast<int>(sizes.rows.size()));
    ::unsetenv("TJ_DIST_TRANSPORT");
    CAPTURE(by);
    for (int call = 0; call < calls; ++call) {
      std::vector<Matrix> found;
      CHECK(gathered(problem, members, found) == "");
      CHECK((gather.empty() || gather == found));
      gather = found;
      CHECK(scattered(problem, members, found) == "");
      CHECK((scatter.empty() || scatter == found));
      scatter = found;
    }
  }
}

}  // namespace

TEST_CASE(
    "rows that are gathered, sums that are scattered, against f64; equal bits by messages, copies, in each call") {
  std::uint64_t seed = 1;
  for (const std::string target : {"model:sm_90a", "model:sm_80"})
    for (const Sizes& sizes : cases()) {
      ++seed;
      if (testing::sampled_out(static_cast<int>(seed), 1)) continue;
      check_both(sizes, seed, 2, target);
    }
}

TEST_CASE("shards in pieces: rows and sums against f64, by messages and by copies, of ranks of unequal rows") {
  std::uint64_t seed = 100;
  int index = 0;
  for (const char* pieces : {"2", "4"})
    for (const Sizes& sizes : {Sizes{{300, 140}, {24, 40}, 40, true},
                               {{0, 400}, {16, 16}, 24, false},
                               {{260, 20, 130}, {16, 8, 24}, 40, true}}) {
      if (testing::thinned_out(index++)) continue;
      CAPTURE(pieces);
      ::setenv("TJ_DIST_PIECES", pieces, 1);
      check_both(sizes, seed++, 3);
      ::unsetenv("TJ_DIST_PIECES");
    }
}

TEST_CASE("sums of two ranks in f32 have the bits of both ranks' products, added") {
  constexpr std::int64_t kM = 400, kN = 40, kK = 16, kOwn = kM / 2;
  std::vector<Matrix> a, b;
  std::vector<std::vector<float>> parts;
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    a.push_back(normal(kM, kK, 200 + rank));
    b.push_back(normal(kN, kK, 300 + rank));
    parts.emplace_back(static_cast<std::size_t>(kM * kN));
    GemmArgs part;
    part.a = tensor(a.back(), kM, kK);
    part.b = tensor(b.back(), kN, kK);
    part.d = Tensor::contiguous(parts.back().data(), kCpu, DType::f32, {kM, kN});
    testing::model_runtime().run(part);
  }
  for (const char* by : {"nccl", "ipc"}) {
    ::setenv("TJ_DIST_TRANSPORT", by, 1);
    ::setenv("TJ_DIST_PIECES", "2", 1);
    auto members = dist::Group::on_model(testing::model_runtime(), 2);
    ::unsetenv("TJ_DIST_TRANSPORT");
    ::unsetenv("TJ_DIST_PIECES");
    std::vector<std::vector<float>> d(2, std::vector<float>(static_cast<std::size_t>(kOwn * kN)));
    CHECK(together(members, [&](dist::Group& member, std::size_t rank) {
            dist::GemmReduceScatterArgs args;
            args.product.a = tensor(a[rank], kM, kK);
            args.product.b = tensor(b[rank], kN, kK);
            args.product.d = Tensor::contiguous(d[rank].data(), kCpu, DType::f32, {kOwn, kN});
            member.gemm_reduce_scatter(args);
          }) == "");
    std::size_t wrong = 0;
    for (std::size_t rank = 0; rank < 2; ++rank)
      for (std::size_t i = 0; i < d[rank].size(); ++i)
        wrong += d[rank][i] != parts[0][rank * d[rank].size() + i] + parts[1][rank * d[rank].size() + i];
    CAPTURE(by);
    CHECK(wrong == 0);
  }
}

TEST_CASE("what is not served is refused by name") {
  auto member = dist::Group::on_model(testing::model_runtime(), 1)[0];
  Matrix a = normal(32, 64, 1), b = normal(32, 64, 2), d = normal(32, 32, 3);
  const auto refuses = [&](const std::string& part, const std::function<void(GemmArgs&)>& change) {
    dist::AllGatherGemmArgs gather;
    gather.product.a = tensor(a, 32, 64);
    gather.product.b = tensor(b, 32, 64);
    gather.product.d = tensor(d, 32, 32);
    change(gather.product);
    const dist::GemmReduceScatterArgs scatter{gather.product, {}};
    const std::string text = testing::said_by([&] { member.all_gather_gemm(gather); }) + "; " +
                             testing::said_by([&] { member.gemm_reduce_scatter(scatter); });
    CHECK_MESSAGE(testing::has(text, part), text);
  };
  refuses("all-gather gemm: a.strides are [128, 1]; allowed: [64, 1]", [](GemmArgs& g) {
    g.a.strides[0] = 128;
    g.a.shape[0] = 16;
    g.d.shape[0] = 16;
  });
  refuses("all-gather gemm: d.shape[0] is 31; allowed: the rows of all ranks, 32",
          [](GemmArgs& g) { g.d.shape[0] = 31; });
  refuses("gemm reduce-scatter: a.shape[0] is 31", [](GemmArgs& g) { g.a.shape[0] = 31; });
  refuses("a is e4m3; allowed: f16, bf16", [](GemmArgs& g) { g.a.dtype = g.b.dtype = DType::e4m3; });
  refuses("all-gather gemm: c has 2 dimensions and 16 rows; allowed: those of d, 2 and 32", [&](GemmArgs& g) {
    g.beta = 1;
    g.c = tensor(d, 16, 32);
  });
  refuses("all-gather gemm: end_text is given", [](GemmArgs& g) { g.end_text = "return value;"; });
  refuses("scale_b is given", [&](GemmArgs& g) { g.scale_b = tensor(b, 1, 1); });
  refuses("gemm reduce-scatter: gate is 3; allowed: none (0)", [](GemmArgs& g) {
    g.gate = Activation::silu;
    g.d.shape[1] = 16;
  });
  refuses("dimensions; allowed: matrices", [](GemmArgs& g) { g.b.rank = 1; });
  refuses("a is on cuda:0; allowed: the group's device, cpu", [](GemmArgs& g) { g.a.device = {DeviceKind::cuda, 0}; });
  refuses("b.shape[1] (K) is 63", [](GemmArgs& g) { g.b.shape[1] = 63; });
}
