// Products whose rows of a are gathered: this rank's rows come first, the others' as they arrive.
//
// Decides in which order shards are multiplied and which bytes travel meanwhile. Invariant: nothing is sent before the
// call and all kernels behind it are known to be right.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "dist/beside.hpp"
#include "dist/call_hash.hpp"
#include "dist/lengths.hpp"
#include "dist/peers.hpp"
#include "dist/products.hpp"
#include "support/fail.hpp"

namespace tj::dist {
namespace {

using support::cat;

constexpr const char* kGather = "all-gather gemm";

struct Gather {
  const AllGatherGemmArgs& args;
  Ranks ranks;
  int pieces = 0;  ///< Member::pieces
  Rates rates = {};

  std::size_t row_bytes() const {
    return static_cast<std::size_t>(args.product.a.shape[1] * size_of(args.product.a.dtype));
  }
  /// The product of some of a rank's rows, which lie at `a` all together.
  GemmArgs shard(int of, Range rows, void* a) const {
    GemmArgs call = args.product;
    if (of != ranks.rank) {
      call.a.data = a;
      call.a.strides[0] = call.a.shape[1];
    }
    call.a = matrix_rows(call.a, rows);
    const Range places{ranks.first(of) + rows.begin, ranks.first(of) + rows.end};
    call.d = matrix_rows(args.product.d, places);
    if (call.c) call.c = matrix_rows(*args.product.c, places);
    return call;
  }
  Cut cut(int of) const { return cut_of(ranks.rows(of), row_bytes(), pieces); }
  /// The number of launches that make the product of another rank's shard.
  int launches(int of) const {
    const Cut whole = cut(of);
    if (pieces > 0) return whole.count;
    const double flops_of_row =
        2. * static_cast<double>(args.product.a.shape[1]) * static_cast<double>(args.product.b.shape[0]);
    const auto rows = [](std::int64_t count) { return static_cast<double>(count); };
    return gather_launches(rates,
                           {ranks.size - 1, whole.count, rows(whole.rows) * flops_of_row,
                            rows(whole.rows) * static_cast<double>(row_bytes())},
                           rows(ranks.own_rows()) * flops_of_row);
  }
  /// Remote rows of a rank in the order of their arrival, one shard behind the other.
  std::size_t place(int n, int rank) const {
    std::int64_t before = 0;
    for (int m = 1; m < n; ++m) before += ranks.rows((rank + ranks.size - m) % ranks.size);
    return static_cast<std::size_t>(before) * row_bytes();
  }
  std::size_t place(int n) const { return place(n, ranks.rank); }
};

Gather checked(const Member& member, const AllGatherGemmArgs& args) {
  const GemmArgs& product = args.product;
  check_product(kGather, product, member);
  Gather gather{args, {member.transport.rank(), member.transport.size(), {}}, member.pieces, member.rates};
  gather.ranks.lengths =
      checked_lengths(kGather, args.lengths, product.a.shape[0], "a.shape[0]", gather.ranks.rank, gather.ranks.size);
  if (product.d.shape[0] != gather.ranks.all())
    refuse_product(kGather,
                   cat("d.shape[0] is ", product.d.shape[0], "; allowed: the rows of all ranks, ", gather.ranks.all()));
  if ((product.a.strides[1] != 1 && product.a.shape[1] > 1) ||
      (product.a.strides[0] != product.a.shape[1] && product.a.shape[0] > 1))
    refuse_product(kGather, cat("a.strides are [", product.a.strides[0], ", ", product.a.strides[1], "]; allowed: [",
                                product.a.shape[1], ", 1], rows one behind another: pass a contiguous copy"));
  if (product.beta != 0 && product.c && (product.c->rank != 2 || product.c->shape[0] != product.d.shape[0]))
    refuse_product(kGather, cat("c has ", product.c->rank, " dimensions and ", product.c->shape[0],
                                " rows; allowed: those of d, 2 and ", product.d.shape[0]));
  if (product.end_text.given())
    refuse_product(kGather, "end_text is given; allowed: none, as it would be told rows of a shard", Code::unsupported);
  validate_product(gather.shard(gather.ranks.rank, {0, gather.ranks.own_rows()}, nullptr), member.device);
  return gather;
}

/// A product of some rows, behind a piece of a shard.
struct Arrival {
  GemmArgs product;
  int piece = 0;
};
/// Products of shard n, in the order of their arrival; n 0: this rank's.
std::vector<Arrival> arrivals(const Gather& gather, int n, std::byte* gathered) {
  const int of = gather.ranks.before(n);
  if (n == 0) return {{gather.shard(of, {0, gather.ranks.rows(of)}, nullptr)}};
  void* const a = gathered == nullptr ? nullptr : gathered + gather.place(n);
  const Cut cut = gather.cut(of);
  const int launches = gather.launches(of);
  std::vector<Arrival> list;
  for (int launch = 0; launch < launches; ++launch)
    list.push_back({gather.shard(of, cut.launch(launch, launches), a), cut.last(launch, launches)});
  return list;
}
/// Arrivals of all shards, whose kernels are loaded.
std::vector<std::vector<Arrival>> loaded(const Member& member, const Gather& gather, std::byte* gathered,
                                         Stream stream) {
  std::vector<std::vector<Arrival>> shards;
  for (int n = 0; n < gather.ranks.size; ++n) {
    shards.push_back(arrivals(gather, n, gathered));
    for (const Arrival& each : shards.back()) member.load(gemm_op(), &each.product, stream);
  }
  return shards;
}

/// This rank's rows, piece by piece, to all others.
void push(const Peers& peers, const Gather& gather, Stream stream) {
  const Ranks& ranks = gather.ranks;
  const Cut cut = gather.cut(ranks.rank);
  const auto row_bytes = static_cast<std::int64_t>(gather.row_bytes());
  const auto* const own = static_cast<const std::byte*>(gather.args.product.a.data);
  for (int n = 1; n < ranks.size; ++n) {
    const int to = ranks.behind(n);
    for (int piece = 0; piece < cut.count; ++piece) {
      const Range rows = cut.piece(piece);
      const std::int64_t at = rows.begin * row_bytes, bytes = rows.rows() * row_bytes;
      peers.copy({peers.slot(to) + gather.place(n, to) + at, bytes, own + at, bytes, bytes}, peers.side_stream(stream));
      peers.tell(to, piece);
    }
  }
}

/// The own product is enqueued before the copies, whose enqueuing costs the host time. False where ranks have no
/// buffers that others write.
bool gather_by_copies(const Member& member, const Gather& gather, Stream stream) {
  const Ranks& ranks = gather.ranks;
  std::size_t bytes = 0;
  for (int rank = 0; rank < ranks.size; ++rank) bytes = std::max(bytes, gather.place(ranks.size, rank));
  if (!member.opened(bytes, stream)) return false;
  Peers& peers = *member.peers;
  const auto shards = loaded(member, gather, peers.slot(ranks.rank), stream);
  member.begun = true;
  const GemmArgs& product = gather.args.product;
  Turn turn(peers, stream,
            CallHash(CallKind::gathered_rows)
                .add(gather.pieces)
                .add(product.a.shape[1])
                .add(product.a.dtype)
                .add(ranks.lengths)
                .value());
  member.run(gemm_op(), &shards[0][0].product, stream);
  push(peers, gather, stream);
  for (int n = 1; n < ranks.size; ++n)
    for (const Arrival& each : shards[static_cast<std::size_t>(n)]) {
      peers.wait(1u << ranks.before(n), static_cast<unsigned>(n - 1), stream, each.piece);
      member.run(gemm_op(), &each.product, stream);
    }
  turn.end();
  return true;
}

}  // namespace

void prepare_all_gather_gemm(const Member& member, const AllGatherGemmArgs& args) {
  const Gather gather = checked(member, args);
  for (int n = 0; n < gather.ranks.size; ++n)
    for (const Arrival& each : arrivals(gather, n, nullptr)) member.prepare(gemm_op(), &each.product);
  if (member.peers != nullptr) member.peers->prepare();
}

void run_all_gather_gemm(const Member& member, const AllGatherGemmArgs& args, Stream stream) {
  const Gather gather = checked(member, args);
  if (gather_by_copies(member, gather, stream)) return;
  const Ranks& ranks = gather.ranks;
  const std::size_t bytes = gather.place(ranks.size);
  const std::shared_ptr<void> memory = bytes > 0 ? member.workspace(bytes, stream) : nullptr;
  auto* const gathered = static_cast<std::byte*>(memory.get());
  const auto shards = loaded(member, gather, gathered, stream);
  const auto bytes_of = [&](int of) { return static_cast<std::size_t>(ranks.rows(of)) * gather.row_bytes(); };
  Beside beside(member.side, stream);
  beside.follow();
  for (int n = 0; n < ranks.size; ++n) {
    if (n > 0) beside.join();  // for this shard; the next one travels while it is multiplied
    if (n + 1 < ranks.size) {
      const int from = ranks.before(n + 1);
      const Send send{ranks.behind(n + 1), args.product.a.data, bytes_of(ranks.rank)};
      const Receive receive{from, gathered + gather.place(n + 1), bytes_of(from)};
      member.exchange({&send, send.bytes > 0 ? 1u : 0u}, {&receive, receive.bytes > 0 ? 1u : 0u},
                      member.side_stream(stream));
    }
    for (const Arrival& each : shards[static_cast<std::size_t>(n)]) member.run(gemm_op(), &each.product, stream);
  }
}

}  // namespace tj::dist
