// Products whose sums are scattered: the others' rows come first and travel in pieces, this rank's come last.
//
// Decides in which order pieces are made, which travel meanwhile, and where sums are added. Invariant: nothing is sent
// before the call and all kernels behind it are known to be right. A product of two ranks adds what has come to its own
// sums, which has the same bits in either order. Sums of more ranks are added in the ranks' order.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "dist/beside.hpp"
#include "dist/call_hash.hpp"
#include "dist/lengths.hpp"
#include "dist/peers.hpp"
#include "dist/products.hpp"
#include "ops/sum_parts/sum_parts.hpp"
#include "support/fail.hpp"

namespace tj::dist {
namespace {

using support::cat;

constexpr const char* kScatter = "gemm reduce-scatter";

struct Scatter {
  const GemmReduceScatterArgs& args;
  Ranks ranks;
  int pieces = 0;  ///< Member::pieces
  Rates rates = {};
  std::int64_t row_floats = 0;

  Range own_rows() const { return {0, ranks.own_rows()}; }
  std::size_t matrix_bytes(std::int64_t rows) const {
    return static_cast<std::size_t>(rows * row_floats) * sizeof(float);
  }
  /// Rows of sums that lie at `at` all together.
  Tensor sums(void* at, Range rows) const {
    Tensor t;
    t.data = at;
    t.device = args.product.d.device;
    t.dtype = DType::f32;
    t.rank = 2;
    t.shape = {rows.rows(), args.product.d.shape[1]};
    t.strides = {row_floats, 1};
    return matrix_rows(t, rows);
  }
  /// This rank's sums for rows of a rank, which lie at `at` all together.
  GemmArgs part(int of, Range rows, void* at) const {
    GemmArgs call;
    call.a = matrix_rows(args.product.a, {ranks.first(of) + rows.begin, ranks.first(of) + rows.end});
    call.b = args.product.b;
    call.d = sums(at, rows);
    call.max_sms = args.product.max_sms;
    return call;
  }
  /// The call of rows of this rank's d, whose sums come from all.
  GemmArgs end(Range rows) const {
    GemmArgs call = args.product;
    call.a = matrix_rows(args.product.a, {ranks.first(ranks.rank) + rows.begin, ranks.first(ranks.rank) + rows.end});
    call.d = matrix_rows(args.product.d, rows);
    if (call.c) call.c = matrix_rows(*args.product.c, rows);
    return call;
  }
  /// Does the own product of two ranks finish d? It adds what has come as its c, in f32. A call with a c of its own,
  /// or with a text, which is told the sum, takes a pass.
  bool direct() const { return args.product.beta == 0 && !args.product.end_text.given(); }
  Cut cut(int of) const { return cut_of(ranks.rows(of), matrix_bytes(1), pieces); }
  ScatterLaunches launches() const {
    if (pieces > 0) return {kMostPieces, kMostPieces};
    const auto rows = static_cast<double>(ranks.all() - ranks.own_rows()) / std::max(1, ranks.size - 1);
    const double flops_of_row = 2. * static_cast<double>(args.product.a.shape[1]) * static_cast<double>(row_floats);
    const double pass = direct() && ranks.size == 2
                            ? 0
                            : static_cast<double>(ranks.own_rows() * args.product.d.shape[1]) *
                                  static_cast<double>((ranks.size == 2 ? 1 : ranks.size) * std::int64_t{sizeof(float)} +
                                                      size_of(args.product.d.dtype));
    return scatter_launches(rates, {ranks.size - 1, cut(ranks.rank).count, rows * flops_of_row,
                                    rows * static_cast<double>(matrix_bytes(1)), pass});
  }
};

Scatter checked(const Member& member, const GemmReduceScatterArgs& args) {
  const GemmArgs& product = args.product;
  check_product(kScatter, product, member);
  if (product.gate != Activation::none)
    refuse_product(kScatter, cat("gate is ", static_cast<int>(product.gate), "; allowed: none (0)"), Code::unsupported);
  Scatter scatter{args, {member.transport.rank(), member.transport.size(), {}}, member.pieces, member.rates};
  scatter.ranks.lengths =
      checked_lengths(kScatter, args.lengths, product.d.shape[0], "d.shape[0]", scatter.ranks.rank, scatter.ranks.size);
  if (product.a.shape[0] != scatter.ranks.all())
    refuse_product(kScatter, cat("a.shape[0] is ", product.a.shape[0], "; allowed: the rows of d on all ranks, ",
                                 scatter.ranks.all()));
  scatter.row_floats = (product.d.shape[1] + 3) / 4 * 4;  // rows at multiples of 16 bytes, as sums are read
  validate_product(scatter.end(scatter.own_rows()), member.device);
  return scatter;
}

/// The places of sums: what has come for this rank's rows, then what goes. More than two ranks have a place each.
struct Places {
  std::size_t received = 0, sent = 0;
};
Places places(const Scatter& scatter, int rank) {
  const Ranks& ranks = scatter.ranks;
  const std::int64_t own = ranks.rows(rank);
  return {scatter.matrix_bytes(own) * (ranks.size == 2 ? 1 : static_cast<std::size_t>(ranks.size)),
          scatter.matrix_bytes(ranks.all() - own)};
}

/// A product of a shard's rows up to the end of a piece.
struct Launch {
  GemmArgs product;
  int first = 0, last = 0;  ///< pieces
};
/// The end of some rows of d, behind the product of some: all parts of their sums are added.
struct End {
  GemmArgs call;
  Tensor sums;
  int parts = 0;
  ops::SumPartsArgs args() const { return {call, sums, parts}; }
};

/// The launches of a call. memory: Places, null while it is prepared.
struct Launches {
  Launches(const Scatter& of, std::byte* memory) : scatter(of), at(memory) {
    const Ranks& ranks = scatter.ranks;
    const ScatterLaunches wanted = scatter.launches();
    std::byte* to = beyond(places(scatter, ranks.rank).received);
    for (int n = 1; n < ranks.size; ++n) {
      const int rank = ranks.behind(n);
      sent_at.push_back(to);
      sent.push_back({});
      each(rank, wanted.sent, [&](Range rows, int first, int last) {
        sent.back().push_back({scatter.part(rank, rows, to), first, last});
      });
      if (to != nullptr) to += scatter.matrix_bytes(ranks.rows(rank));
    }
    add_own(wanted.own);
  }
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;

  template <class Work>
  void all(const Work& work) const {
    for (const auto& shard : sent)
      for (const Launch& launch : shard) work(gemm_op(), &launch.product);
    for (const Launch& launch : own) work(gemm_op(), &launch.product);
    for (const End& end : ends) {
      const ops::SumPartsArgs args = end.args();
      work(ops::sum_parts_op(), &args);
    }
  }
  /// Sums of a rank for this one's rows.
  std::byte* received(int of) const {
    return beyond(
        scatter.ranks.size == 2 ? 0 : scatter.matrix_bytes(scatter.ranks.own_rows()) * static_cast<std::size_t>(of));
  }

  const Scatter& scatter;
  std::byte* const at;
  std::vector<std::vector<Launch>> sent;  ///< of each rank behind this one
  std::vector<std::byte*> sent_at;
  std::vector<Launch> own;
  std::vector<End> ends;  ///< of each of `own`, or one behind all of them, or none

 private:
  std::byte* beyond(std::size_t bytes) const { return at == nullptr ? nullptr : at + bytes; }
  template <class Add>
  void each(int rank, int launches, const Add& add) const {
    const Cut cut = scatter.cut(rank);
    const int count = std::min(launches, cut.count);
    for (int n = 0; n < count; ++n)
      add(cut.launch(n, count), n == 0 ? 0 : cut.last(n - 1, count) + 1, cut.last(n, count));
  }
  void add_own(int launches) {
    const Ranks& ranks = scatter.ranks;
    const Range all = scatter.own_rows();
    if (ranks.size == 1) own.push_back({scatter.end(all)});
    if (ranks.size == 1 || all.rows() == 0) return;
    each(ranks.rank, launches, [&](Range rows, int first, int last) {
      GemmArgs product = scatter.part(ranks.rank, rows, received(ranks.rank));
      const Tensor come = product.d;
      const bool direct = ranks.size == 2 && scatter.direct();
      if (direct) product = scatter.end(rows);
      if (ranks.size == 2) {
        product.beta = product.alpha;  // 1 where there is a pass
        product.c = come;
      }
      if (ranks.size == 2 && !direct) ends.push_back({scatter.end(rows), parts_of(received(ranks.rank), rows, 1), 1});
      own.push_back({product, first, last});
    });
    if (ranks.size > 2) ends.push_back({scatter.end(all), parts_of(at, all, ranks.size), ranks.size});
  }
  Tensor parts_of(void* first, Range rows, int parts) const {
    Tensor sums = scatter.sums(first, rows);
    sums.rank = 3;
    sums.shape = {parts, rows.rows(), args().d.shape[1]};
    sums.strides = {rows.rows() * scatter.row_floats, scatter.row_floats, 1};
    return sums;
  }
  const GemmArgs& args() const { return scatter.args.product; }
};

void run_end(const Member& member, const End& end, Stream stream) {
  const ops::SumPartsArgs args = end.args();
  member.run(ops::sum_parts_op(), &args, stream);
}
/// The ends behind all products, of more than two ranks.
bool ends_last(const Launches& launches) { return launches.scatter.ranks.size > 2; }

/// Products of others' rows take two streams by turns, so that one begins while the last tiles of another are made. A
/// single one needs no second stream: four calls of the driver less.
void send_sums(const Member& member, const Launches& launches, Stream stream) {
  const Peers& peers = *member.peers;
  const Scatter& scatter = launches.scatter;
  std::size_t count = 0;
  for (const auto& shard : launches.sent) count += shard.size();
  const bool by_turns = count > 1 && member.work.get().handle != nullptr;
  const Stream other = by_turns ? member.work.get() : stream;
  Beside work(member.work, stream);
  if (by_turns) work.follow();
  int turn = 0;
  for (std::size_t n = 0; n < launches.sent.size(); ++n) {
    const int to = scatter.ranks.behind(static_cast<int>(n) + 1);
    const Cut cut = scatter.cut(to);
    // Sums of all ranks lie one behind the other there, or those of the other rank alone.
    const std::size_t place =
        scatter.ranks.size == 2 ? 0 : scatter.matrix_bytes(cut.rows) * static_cast<std::size_t>(scatter.ranks.rank);
    for (const Launch& launch : launches.sent[n]) {
      const Stream at = turn++ % 2 == 0 ? stream : other;
      member.run(gemm_op(), &launch.product, at);
      peers.side().follow(at);
      for (int piece = launch.first; piece <= launch.last; ++piece) {
        const Range rows = cut.piece(piece);
        const std::size_t begin = scatter.matrix_bytes(rows.begin);
        const auto bytes = static_cast<std::int64_t>(scatter.matrix_bytes(rows.rows()));
        peers.copy({peers.slot(to) + place + begin, bytes, launches.sent_at[n] + begin, bytes, bytes},
                   peers.side_stream(at));
        peers.tell(to, piece);
      }
    }
  }
  work.end();
}

/// False where ranks have no buffers that others write. Sums that go lie in them, too: memory of the pool would be
/// allocated afresh for each call.
bool scatter_by_copies(const Member& member, const Scatter& scatter, Stream stream) {
  const Ranks& ranks = scatter.ranks;
  std::size_t slot = 0;
  for (int rank = 0; rank < ranks.size; ++rank) {
    const Places of = places(scatter, rank);
    slot = std::max(slot, of.received + of.sent);
  }
  if (!member.opened(slot, stream)) return false;
  Peers& peers = *member.peers;
  const Launches launches(scatter, peers.slot(ranks.rank));
  launches.all([&](const ops::Op& op, const void* args) { member.load(op, args, stream); });
  member.begun = true;
  Turn turn(peers, stream,
            CallHash(CallKind::scattered_sums)
                .add(scatter.pieces)
                .add(scatter.args.product.d.shape[1])
                .add(ranks.lengths)
                .value());
  send_sums(member, launches, stream);
  for (std::size_t n = 0; n < launches.own.size(); ++n) {
    if (!ends_last(launches)) peers.wait(peers.others(), 0, stream, launches.own[n].last);
    member.run(gemm_op(), &launches.own[n].product, stream);
    if (!ends_last(launches) && n < launches.ends.size()) run_end(member, launches.ends[n], stream);
  }
  if (ends_last(launches)) {
    for (int piece = 0; piece < scatter.cut(ranks.rank).count; ++piece) peers.wait(peers.others(), 0, stream, piece);
    for (const End& end : launches.ends) run_end(member, end, stream);
  }
  turn.end();
  return true;
}

}  // namespace

void prepare_gemm_reduce_scatter(const Member& member, const GemmReduceScatterArgs& args) {
  const Scatter scatter = checked(member, args);
  const Launches launches(scatter, nullptr);
  launches.all([&](const ops::Op& op, const void* call) {
    if (&op == &gemm_op())
      member.prepare(op, call);
    else
      member.make(op, call);
  });
  if (member.peers != nullptr) member.peers->prepare();
}

void run_gemm_reduce_scatter(const Member& member, const GemmReduceScatterArgs& args, Stream stream) {
  const Scatter scatter = checked(member, args);
  if (scatter_by_copies(member, scatter, stream)) return;
  const Ranks& ranks = scatter.ranks;
  const Places of = places(scatter, ranks.rank);
  const std::shared_ptr<void> memory =
      of.received + of.sent > 0 ? member.workspace(of.received + of.sent, stream) : nullptr;
  const Launches launches(scatter, static_cast<std::byte*>(memory.get()));
  launches.all([&](const ops::Op& op, const void* call) { member.load(op, call, stream); });
  Beside beside(member.side, stream);
  for (int n = 1; n < ranks.size; ++n) {
    const auto shard = static_cast<std::size_t>(n - 1);
    for (const Launch& launch : launches.sent[shard]) member.run(gemm_op(), &launch.product, stream);
    const int to = ranks.behind(n), from = ranks.before(n);
    const Send send{to, launches.sent_at[shard], scatter.matrix_bytes(ranks.rows(to))};
    const Receive receive{from, launches.received(from), scatter.matrix_bytes(ranks.own_rows())};
    beside.follow();  // the sums travel while the next ones are made
    member.exchange({&send, send.bytes > 0 ? 1u : 0u}, {&receive, receive.bytes > 0 ? 1u : 0u},
                    member.side_stream(stream));
  }
  if (!ends_last(launches)) beside.join();  // for what own products add
  for (const Launch& launch : launches.own) member.run(gemm_op(), &launch.product, stream);
  if (ends_last(launches)) beside.end();
  for (const End& end : launches.ends) run_end(member, end, stream);
}

}  // namespace tj::dist
