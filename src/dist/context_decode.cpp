// Attention over a cache that ranks hold together: each attends with its own keys, and all merge the outputs of all.
//
// Decides which states travel and where they are merged. FmhaArgs says which calls of attention there are. Invariant:
// nothing is sent before the call and all kernels behind it are known to be right. All ranks merge the same bytes in
// the ranks' order, so their bits are equal.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "dist/call_hash.hpp"
#include "dist/context_call.hpp"
#include "dist/made_up.hpp"
#include "dist/peers.hpp"
#include "ops/op.hpp"
#include "support/fail.hpp"

namespace tj::dist {
namespace {

using support::cat;

[[noreturn]] void refuse_decode(const std::string& what) {
  support::fail(Stage::argument, Code::unsupported, cat("context decode: ", what));
}

/// A call of one rank, checked. A state is the output over one rank's keys, in f32, and the log-sum-exps behind it.
struct Decode {
  FmhaArgs attention;
  int rank = 0, size = 1;
  bool sequences = false;     ///< o is [T, H, Dv], else [B, H, Sq, Dv]
  std::int64_t elements = 0;  ///< of o
  std::int64_t rows = 0;      ///< of all heads

  std::int64_t output_bytes() const {
    return static_cast<std::int64_t>(rounded(static_cast<std::size_t>(elements) * sizeof(float)));
  }
  std::int64_t state_bytes() const {
    return output_bytes() + static_cast<std::int64_t>(rounded(static_cast<std::size_t>(rows) * sizeof(float)));
  }
  FmhaArgs own(void* states) const;
  MergeStatesArgs merge(void* states) const;
};

/// The two dimensions of rows exchanged: [T, H, ...] as [H, T, ...].
Tensor heads_first(Tensor t) {
  std::swap(t.shape[0], t.shape[1]);
  std::swap(t.strides[0], t.strides[1]);
  return t;
}

/// f32 with o's shape, heads before rows, without gaps.
Tensor state_like(const Decode& call, void* at) {
  Tensor t = call.sequences ? heads_first(call.attention.o) : call.attention.o;
  t.dtype = DType::f32;
  t.data = at;
  std::int64_t stride = 1;
  for (int i = t.rank; i-- > 0; stride *= t.shape[static_cast<std::size_t>(i)])
    t.strides[static_cast<std::size_t>(i)] = stride;
  return t;
}
/// Its log-sum-exps.
Tensor lse_like(const Decode& call, void* states, std::int64_t state) {
  Tensor t =
      state_like(call, states == nullptr ? nullptr : address(states, state * call.state_bytes() + call.output_bytes()));
  const std::int64_t width = t.shape[static_cast<std::size_t>(--t.rank)];
  for (int i = 0; i < t.rank; ++i) t.strides[static_cast<std::size_t>(i)] /= width;
  return t;
}

/// Attention over this rank's keys into its state. The first rank's state has the sinks.
FmhaArgs Decode::own(void* states) const {
  FmhaArgs call = attention;
  if (size == 1) return call;
  call.o = state_like(*this, states == nullptr ? nullptr : address(states, rank * state_bytes()));
  if (sequences) call.o = heads_first(call.o);
  call.lse = lse_like(*this, states, rank);
  if (rank != 0) call.sinks.reset();
  return call;
}

MergeStatesArgs Decode::merge(void* states) const {
  MergeStatesArgs call;
  const auto of_all = [&](const Tensor& first) {
    Tensor all = first;
    ++all.rank;
    for (int i = 1; i < all.rank; ++i) {
      all.shape[static_cast<std::size_t>(i)] = first.shape[static_cast<std::size_t>(i) - 1];
      all.strides[static_cast<std::size_t>(i)] = first.strides[static_cast<std::size_t>(i) - 1];
    }
    all.shape[0] = size;
    all.strides[0] = state_bytes() / std::int64_t{sizeof(float)};
    return all;
  };
  call.states = of_all(state_like(*this, states));
  call.lse_states = of_all(lse_like(*this, states, 0));
  call.o = sequences ? heads_first(attention.o) : attention.o;
  call.lse = attention.lse;
  call.cu_seqlens = attention.cu_seqlens_q;
  call.max_sms = attention.max_sms;
  return call;
}

void check_places(const FmhaArgs& call) {
  const bool one = !call.cu_seqlens_q && call.q.rank == 4 && call.q.shape[2] == 1 && !call.top_left;
  if (call.causal && !one)
    refuse_decode(cat("causal is true",
                      call.cu_seqlens_q ? " with cu_seqlens_q"
                      : call.top_left   ? " with top_left"
                                        : "",
                      "; allowed: false, or one query a sequence, q.shape[2] of 1: a rank does not know the places of "
                      "other ranks' keys"));
  if (call.window.left >= 0 || call.window.right >= 0)
    refuse_decode(cat("window is ", call.window.left, ", ", call.window.right,
                      "; allowed: -1, -1: a rank does not know the places of other ranks' keys"));
  if (call.alibi_slopes)
    refuse_decode("alibi_slopes are given; allowed: none: a rank does not know the places of other ranks' keys");
}

Decode checked_decode(const Member& member, const ContextDecodeArgs& args) {
  Decode call{args.attention, member.transport.rank(), member.transport.size()};
  FmhaArgs& own = call.attention;
  check_places(own);
  own.causal = false;
  if (own.q.device != member.device)
    support::fail(Stage::argument, Code::invalid_argument,
                  cat("context decode: q is on ", to_string(own.q.device), "; allowed: the group's device, ",
                      to_string(member.device)));
  FmhaArgs known = own;
  place_tensors(known);
  fmha_op().validate(&known, member.device.kind == DeviceKind::cpu);
  call.sequences = own.cu_seqlens_q.has_value();
  call.elements = 1;
  for (int i = 0; i < own.o.rank; ++i) call.elements *= own.o.shape[static_cast<std::size_t>(i)];
  call.rows = call.elements / own.o.shape[static_cast<std::size_t>(own.o.rank - 1)];
  return call;
}

/// The hash of what must be equal on all ranks.
std::uint32_t hash_of(const Decode& call) {
  const FmhaArgs& own = call.attention;
  CallHash hash(CallKind::decode);
  hash.add(call.sequences).add(call.sequences ? own.cu_seqlens_q->shape[0] : 0);
  for (const Tensor* t : {&own.q, &own.o}) {
    hash.add(t->dtype);
    for (int i = 0; i < t->rank; ++i) hash.add(t->shape[static_cast<std::size_t>(i)]);
  }
  return hash.add_scores(own).value();
}

/// The launches of a call whose memory has its addresses.
struct DecodeLaunches {
  DecodeLaunches(const Member& member, const Decode& call, void* states, Stream stream)
      : own(call.own(states)), merge(call.merge(states)) {
    member.load(fmha_op(), &own, stream);
    member.load(merge_op(), &merge, stream);
  }
  FmhaArgs own;
  MergeStatesArgs merge;
};

/// False where ranks have no buffers that others write.
bool decode_by_copies(const Member& member, const Decode& call, Stream stream) {
  if (!member.opened(static_cast<std::size_t>(call.state_bytes() * call.size), stream)) return false;
  Peers& peers = *member.peers;
  std::byte* const states = peers.slot(call.rank);
  const DecodeLaunches launches(member, call, states, stream);
  member.begun = true;
  Turn turn(peers, stream, hash_of(call));
  member.run(fmha_op(), &launches.own, stream);
  peers.side().follow(stream);
  const std::int64_t bytes = call.state_bytes(), place = call.rank * bytes;
  for (int n = 1; n < call.size; ++n) {
    const int to = (call.rank + n) % call.size;
    peers.copy({peers.slot(to) + place, bytes, states + place, bytes, bytes}, peers.side_stream(stream));
    peers.tell(to);
  }
  peers.wait(peers.others(), 0, stream);
  member.run(merge_op(), &launches.merge, stream);
  turn.end();
  return true;
}

void decode_by_messages(const Member& member, const Decode& call, Stream stream) {
  const std::int64_t bytes = call.state_bytes();
  const std::shared_ptr<void> memory = member.workspace(static_cast<std::size_t>(bytes * call.size), stream);
  const DecodeLaunches launches(member, call, memory.get(), stream);
  member.run(fmha_op(), &launches.own, stream);
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (int peer = 0; peer < call.size; ++peer) {
    if (peer == call.rank) continue;
    sends.push_back({peer, address(memory.get(), call.rank * bytes), static_cast<std::size_t>(bytes)});
    receives.push_back({peer, address(memory.get(), peer * bytes), static_cast<std::size_t>(bytes)});
  }
  member.exchange(sends, receives, stream);
  member.run(merge_op(), &launches.merge, stream);
}

}  // namespace

void prepare_context_decode(const Member& member, const ContextDecodeArgs& args) {
  const Decode call = checked_decode(member, args);
  const FmhaArgs own = call.own(nullptr);
  member.prepare(fmha_op(), &own);
  if (call.size == 1 || call.elements == 0) return;
  const MergeStatesArgs merge = call.merge(nullptr);
  member.prepare(merge_op(), &merge);
  if (member.peers != nullptr) member.peers->prepare();
}

void run_context_decode(const Member& member, const ContextDecodeArgs& args, Stream stream) {
  const Decode call = checked_decode(member, args);
  if (call.elements == 0) return;
  if (call.size == 1) return member.run(fmha_op(), &call.attention, stream);
  if (!decode_by_copies(member, call, stream)) decode_by_messages(member, call, stream);
}

}  // namespace tj::dist
