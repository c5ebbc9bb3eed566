// Products beside their collectives: rows of a are gathered, or sums over parts of K are scattered.
//
// Decides in which order shards are multiplied and which bytes travel meanwhile. Invariant: nothing is sent before the
// call and all kernels behind it are known to be right; sums are added in the ranks' order.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "dist/group.hpp"
#include "dist/lengths.hpp"
#include "dist/made_up.hpp"
#include "dist/peers.hpp"
#include "ops/op.hpp"
#include "ops/sum_parts/sum_parts.hpp"
#include "support/fail.hpp"

namespace tj::dist {
namespace {

using support::cat;

constexpr const char *kGather = "all-gather gemm", *kScatter = "gemm reduce-scatter";

[[noreturn]] void refuse(const char* op, const std::string& what, Code code = Code::invalid_argument) {
  support::fail(Stage::argument, code, cat(op, ": ", what));
}

/// Rows of a matrix [M, K].
Tensor some_rows(const Tensor& t, std::int64_t begin, std::int64_t rows) {
  Tensor some = t;
  some.shape[0] = rows;
  if (t.data != nullptr) some.data = static_cast<std::byte*>(t.data) + begin * t.strides[0] * size_of(t.dtype);
  return some;
}

void check_common(const char* op, const GemmArgs& product, const Member& member) {
  if (product.a.rank != 2 || product.b.rank != 2 || product.d.rank != 2)
    refuse(op, cat("a, b and d have ", product.a.rank, ", ", product.b.rank, " and ", product.d.rank,
                   " dimensions; allowed: matrices, 2"));
  if (product.a.device != member.device)
    refuse(op,
           cat("a is on ", to_string(product.a.device), "; allowed: the group's device, ", to_string(member.device)));
  if (product.a.dtype != DType::f16 && product.a.dtype != DType::bf16)
    refuse(op, cat("a is ", to_string(product.a.dtype), "; allowed: f16, bf16"), Code::unsupported);
  for (const auto& [name, scale] :
       {std::pair{"scale_a", &product.scale_a}, {"scale_b", &product.scale_b}, {"scale_d", &product.scale_d}})
    if (*scale) refuse(op, cat(name, " is given; allowed: none"), Code::unsupported);
}

void validate(GemmArgs product, Device device) {
  place_nulls(
      {&product.a, &product.b, &product.d, product.c ? &*product.c : nullptr, product.bias ? &*product.bias : nullptr});
  detail::op_of<GemmArgs>().validate(&product, device.kind == DeviceKind::cpu);
}

/// Work in the side stream, which the caller's stream waits for at the end, also where a call throws: the workspace
/// goes back behind it.
class Beside {
 public:
  Beside(launch::SideStream& side, Stream main) : side_(side), main_(main) { side_.follow(main_); }
  ~Beside() {
    try {
      side_.join(main_);
    } catch (const Error&) {  // a device that is lost has no order to keep
    }
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

 private:
  launch::SideStream& side_;
  const Stream main_;
};

/// The ranks of a call, in the order of shards: rank `at(n)` n places behind this one.
struct Ranks {
  int rank = 0, size = 1;
  std::vector<std::int64_t> lengths;
  int behind(int n) const { return (rank + n) % size; }
  int before(int n) const { return (rank + size - n) % size; }
  std::int64_t rows(int of) const { return lengths[static_cast<std::size_t>(of)]; }
  std::int64_t first(int of) const { return std::accumulate(lengths.begin(), lengths.begin() + of, std::int64_t{0}); }
  std::int64_t all() const { return first(size); }
};

// ---- gathering ------------------------------------------------------------------------------------------------------

struct Gather {
  const AllGatherGemmArgs& args;
  Ranks ranks;

  std::size_t row_bytes() const {
    return static_cast<std::size_t>(args.product.a.shape[1] * size_of(args.product.a.dtype));
  }
  /// The product of a rank's rows, which lie at `a`.
  GemmArgs shard(int of, void* a) const {
    GemmArgs call = args.product;
    if (of != ranks.rank) {
      call.a.data = a;
      call.a.shape[0] = ranks.rows(of);
      call.a.strides[0] = call.a.shape[1];
    }
    call.d = some_rows(args.product.d, ranks.first(of), ranks.rows(of));
    if (call.c) call.c = some_rows(*args.product.c, ranks.first(of), ranks.rows(of));
    return call;
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
  check_common(kGather, product, member);
  Gather gather{args, {member.transport.rank(), member.transport.size(), {}}};
  gather.ranks.lengths =
      checked_lengths(kGather, args.lengths, product.a.shape[0], "a.shape[0]", gather.ranks.rank, gather.ranks.size);
  if (product.d.shape[0] != gather.ranks.all())
    refuse(kGather,
           cat("d.shape[0] is ", product.d.shape[0], "; allowed: the rows of all ranks, ", gather.ranks.all()));
  if ((product.a.strides[1] != 1 && product.a.shape[1] > 1) ||
      (product.a.strides[0] != product.a.shape[1] && product.a.shape[0] > 1))
    refuse(kGather, cat("a.strides are [", product.a.strides[0], ", ", product.a.strides[1], "]; allowed: [",
                        product.a.shape[1], ", 1], rows one behind another: pass a contiguous copy"));
  if (product.beta != 0 && product.c && (product.c->rank != 2 || product.c->shape[0] != product.d.shape[0]))
    refuse(kGather, cat("c has ", product.c->rank, " dimensions and ", product.c->shape[0],
                        " rows; allowed: those of d, 2 and ", product.d.shape[0]));
  if (product.end_text.given())
    refuse(kGather, "end_text is given; allowed: none, as it would be told rows of a shard", Code::unsupported);
  validate(gather.shard(gather.ranks.rank, nullptr), member.device);
  return gather;
}

const ops::Op& gemm_op() { return detail::op_of<GemmArgs>(); }

// ---- scattering -----------------------------------------------------------------------------------------------------

struct Scatter {
  const GemmReduceScatterArgs& args;
  Ranks ranks;
  std::int64_t row_floats = 0;

  std::size_t matrix_bytes(std::int64_t rows) const {
    return static_cast<std::size_t>(rows * row_floats) * sizeof(float);
  }
  Tensor sums(void* at, std::int64_t rows) const {
    Tensor t;
    t.data = at;
    t.device = args.product.d.device;
    t.dtype = DType::f32;
    t.rank = 2;
    t.shape = {rows, args.product.d.shape[1]};
    t.strides = {row_floats, 1};
    return t;
  }
  /// This rank's sums for the rows of another one.
  GemmArgs part(int of, void* at) const {
    GemmArgs call;
    call.a = some_rows(args.product.a, ranks.first(of), ranks.rows(of));
    call.b = args.product.b;
    call.d = sums(at, ranks.rows(of));
    call.max_sms = args.product.max_sms;
    return call;
  }
  /// The call of this rank's rows of d, whose sums come from all.
  GemmArgs own() const {
    GemmArgs call = args.product;
    call.a = some_rows(args.product.a, ranks.first(ranks.rank), ranks.rows(ranks.rank));
    return call;
  }
};

Scatter checked(const Member& member, const GemmReduceScatterArgs& args) {
  const GemmArgs& product = args.product;
  check_common(kScatter, product, member);
  if (product.gate != Activation::none)
    refuse(kScatter, cat("gate is ", static_cast<int>(product.gate), "; allowed: none (0)"), Code::unsupported);
  Scatter scatter{args, {member.transport.rank(), member.transport.size(), {}}};
  scatter.ranks.lengths =
      checked_lengths(kScatter, args.lengths, product.d.shape[0], "d.shape[0]", scatter.ranks.rank, scatter.ranks.size);
  if (product.a.shape[0] != scatter.ranks.all())
    refuse(kScatter,
           cat("a.shape[0] is ", product.a.shape[0], "; allowed: the rows of d on all ranks, ", scatter.ranks.all()));
  scatter.row_floats = (product.d.shape[1] + 3) / 4 * 4;  // rows at multiples of 16 bytes, as sums are read
  validate(scatter.own(), member.device);
  return scatter;
}

ops::SumPartsArgs adding(const Scatter& scatter, const GemmArgs& own, void* received) {
  ops::SumPartsArgs call{own, scatter.sums(received, scatter.ranks.rows(scatter.ranks.rank)), scatter.ranks.size};
  call.sums.rank = 3;
  call.sums.shape = {scatter.ranks.size, call.sums.shape[0], call.sums.shape[1]};
  call.sums.strides = {call.sums.shape[1] * scatter.row_floats, scatter.row_floats, 1};
  return call;
}

}  // namespace

void prepare_all_gather_gemm(const Member& member, const AllGatherGemmArgs& args) {
  const Gather gather = checked(member, args);
  for (int of = 0; of < gather.ranks.size; ++of) {
    const GemmArgs shard = gather.shard(of, nullptr);
    member.prepare(gemm_op(), &shard);
  }
  if (member.peers != nullptr) member.peers->prepare();
}

namespace {

/// Products of all shards, in their order, loaded.
std::vector<GemmArgs> shards_at(const Member& member, const Gather& gather, std::byte* gathered, Stream stream) {
  std::vector<GemmArgs> shards;
  for (int n = 0; n < gather.ranks.size; ++n) {
    shards.push_back(gather.shard(gather.ranks.before(n), n == 0 ? nullptr : gathered + gather.place(n)));
    member.load(gemm_op(), &shards.back(), stream);
  }
  return shards;
}

/// All copies are enqueued at once; the products wait for one shard after the other. False where ranks have no buffers
/// that others write.
bool gather_by_copies(const Member& member, const Gather& gather, Stream stream) {
  const Ranks& ranks = gather.ranks;
  std::size_t bytes = 0;
  for (int rank = 0; rank < ranks.size; ++rank) bytes = std::max(bytes, gather.place(ranks.size, rank));
  if (!member.opened(bytes, stream)) return false;
  Peers& peers = *member.peers;
  const std::vector<GemmArgs> shards = shards_at(member, gather, peers.slot(ranks.rank), stream);
  member.begun = true;
  peers.begin(stream);
  const auto own_bytes =
      static_cast<std::int64_t>(static_cast<std::size_t>(ranks.rows(ranks.rank)) * gather.row_bytes());
  for (int n = 1; n < ranks.size; ++n) {
    const int to = ranks.behind(n);
    peers.copy({peers.slot(to) + gather.place(n, to), own_bytes, gather.args.product.a.data, own_bytes, own_bytes},
               peers.side_stream(stream));
    peers.tell(to);
  }
  for (int n = 0; n < ranks.size; ++n) {
    if (n > 0) peers.wait(1u << ranks.before(n), static_cast<unsigned>(n - 1), stream);
    member.run(gemm_op(), &shards[static_cast<std::size_t>(n)], stream);
  }
  peers.end(stream);
  return true;
}

}  // namespace

void run_all_gather_gemm(const Member& member, const AllGatherGemmArgs& args, Stream stream) {
  const Gather gather = checked(member, args);
  if (gather_by_copies(member, gather, stream)) return;
  const Ranks& ranks = gather.ranks;
  const std::size_t bytes = gather.place(ranks.size);
  const std::shared_ptr<void> memory = bytes > 0 ? member.workspace(bytes, stream) : nullptr;
  auto* const gathered = static_cast<std::byte*>(memory.get());
  const std::vector<GemmArgs> shards = shards_at(member, gather, gathered, stream);
  const auto bytes_of = [&](int of) { return static_cast<std::size_t>(ranks.rows(of)) * gather.row_bytes(); };
  const Beside beside(member.side, stream);
  for (int n = 0; n < ranks.size; ++n) {
    if (n > 0) member.side.join(stream);  // for this shard; the next one travels while it is multiplied
    if (n + 1 < ranks.size) {
      const int from = ranks.before(n + 1);
      const Send send{ranks.behind(n + 1), args.product.a.data, bytes_of(ranks.rank)};
      const Receive receive{from, gathered + gather.place(n + 1), bytes_of(from)};
      member.exchange({&send, send.bytes > 0 ? 1u : 0u}, {&receive, receive.bytes > 0 ? 1u : 0u},
                      member.side_stream(stream));
    }
    member.run(gemm_op(), &shards[static_cast<std::size_t>(n)], stream);
  }
}

void prepare_gemm_reduce_scatter(const Member& member, const GemmReduceScatterArgs& args) {
  const Scatter scatter = checked(member, args);
  for (int of = 0; of < scatter.ranks.size; ++of) {
    const GemmArgs part = scatter.part(of, nullptr);
    member.prepare(gemm_op(), &part);
  }
  if (member.peers != nullptr) member.peers->prepare();
  if (scatter.ranks.rows(scatter.ranks.rank) == 0) return;
  const GemmArgs own = scatter.own();
  const ops::SumPartsArgs call = adding(scatter, own, nullptr);
  member.make(ops::sum_parts_op(), &call);
}

namespace {

/// A call whose memory has its addresses, loaded. received: sums of all ranks for this one's rows, in their order;
/// sent: this rank's for the others, in the order of their products.
struct Sums {
  Sums(const Member& member, const Scatter& of, std::byte* received_at, std::byte* sent, Stream stream)
      : scatter(of), received(received_at), own(of.own()), sum(adding(of, own, received_at)) {
    const Ranks& ranks = scatter.ranks;
    for (int n = 1; n <= ranks.size; ++n) {
      const int to = ranks.behind(n);
      parts.push_back(scatter.part(to, n < ranks.size ? sent : place(to)));
      sent += scatter.matrix_bytes(ranks.rows(to));
      member.load(gemm_op(), &parts.back(), stream);
    }
    if (adds()) member.load(ops::sum_parts_op(), &sum, stream);
  }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;
  std::size_t bytes_of(int rank) const { return scatter.matrix_bytes(scatter.ranks.rows(rank)); }
  std::byte* place(int of) const { return received + bytes_of(scatter.ranks.rank) * static_cast<std::size_t>(of); }
  bool adds() const { return scatter.ranks.rows(scatter.ranks.rank) > 0; }

  const Scatter& scatter;
  std::byte* const received;
  const GemmArgs own;
  const ops::SumPartsArgs sum;
  std::vector<GemmArgs> parts;  ///< in the order of their products, this rank's last
};

std::size_t sent_bytes(const Scatter& scatter) { return scatter.matrix_bytes(scatter.ranks.all()); }

/// Sums go into their owner's slot. False where ranks have no buffers that others write.
bool scatter_by_copies(const Member& member, const Scatter& scatter, Stream stream) {
  const Ranks& ranks = scatter.ranks;
  std::size_t slot = 0;
  for (int rank = 0; rank < ranks.size; ++rank)
    slot = std::max(slot, scatter.matrix_bytes(ranks.rows(rank)) * static_cast<std::size_t>(ranks.size));
  if (!member.opened(slot, stream)) return false;
  Peers& peers = *member.peers;
  const std::size_t bytes = sent_bytes(scatter);
  const std::shared_ptr<void> memory = bytes > 0 ? member.workspace(bytes, stream) : nullptr;
  const Sums sums(member, scatter, peers.slot(ranks.rank), static_cast<std::byte*>(memory.get()), stream);
  member.begun = true;
  peers.begin(stream);
  for (int n = 1; n <= ranks.size; ++n) {
    const GemmArgs& part = sums.parts[static_cast<std::size_t>(n - 1)];
    member.run(gemm_op(), &part, stream);
    if (n == ranks.size) break;
    const int to = ranks.behind(n);
    const auto of_part = static_cast<std::int64_t>(sums.bytes_of(to));
    member.side.follow(stream);  // the sums travel while the next ones are made
    peers.copy({peers.slot(to) + sums.bytes_of(to) * static_cast<std::size_t>(ranks.rank), of_part, part.d.data,
                of_part, of_part},
               peers.side_stream(stream));
    peers.tell(to);
  }
  peers.wait(peers.others(), 0, stream);
  if (sums.adds()) member.run(ops::sum_parts_op(), &sums.sum, stream);
  peers.end(stream);
  return true;
}

}  // namespace

void run_gemm_reduce_scatter(const Member& member, const GemmReduceScatterArgs& args, Stream stream) {
  const Scatter scatter = checked(member, args);
  if (scatter_by_copies(member, scatter, stream)) return;
  const Ranks& ranks = scatter.ranks;
  const std::size_t received = scatter.matrix_bytes(ranks.rows(ranks.rank)) * static_cast<std::size_t>(ranks.size),
                    bytes = received + sent_bytes(scatter);
  const std::shared_ptr<void> memory = bytes > 0 ? member.workspace(bytes, stream) : nullptr;
  auto* const at = static_cast<std::byte*>(memory.get());
  const Sums sums(member, scatter, at, at + received, stream);
  const Beside beside(member.side, stream);
  for (int n = 1; n <= ranks.size; ++n) {
    const GemmArgs& part = sums.parts[static_cast<std::size_t>(n - 1)];
    member.run(gemm_op(), &part, stream);
    if (n == ranks.size) break;
    const int to = ranks.behind(n), from = ranks.before(n);
    const Send send{to, part.d.data, sums.bytes_of(to)};
    const Receive receive{from, sums.place(from), sums.bytes_of(ranks.rank)};
    member.side.follow(stream);  // the sums travel while the next ones are made
    member.exchange({&send, send.bytes > 0 ? 1u : 0u}, {&receive, receive.bytes > 0 ? 1u : 0u},
                    member.side_stream(stream));
  }
  member.side.join(stream);
  if (sums.adds()) member.run(ops::sum_parts_op(), &sums.sum, stream);
}

}  // namespace tj::dist
