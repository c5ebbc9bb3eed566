// Attention over a split sequence by exchanging heads: each rank gets all rows of some heads, attends, and sends their
// rows back.
//
// Decides which heads a rank has, where rows lie meanwhile, and how they travel, by copies or by messages. Does not
// decide when heads are exchanged (context_ways.cpp). Invariant: nothing is sent before the call and all kernels behind
// it are known to be right. A rank's call is one GPU's over fewer heads, so any mask goes with any split.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dist/call_hash.hpp"
#include "dist/context_call.hpp"
#include "dist/head_rows.hpp"
#include "dist/made_up.hpp"
#include "dist/peers.hpp"
#include "support/fail.hpp"

namespace tj::dist {
namespace {

/// The places of a rank's memory, in bytes; those before `returned` are the same on all ranks.
struct Places {
  std::int64_t q = 0, k = 0, v = 0, lse = 0, returned = 0, end = 0;
};

/// A call of one rank, checked.
struct Heads {
  const ContextFmhaArgs& args;
  SplitShape shape;
  int rank = 0;
  std::int64_t rows = 0;  ///< of the sequence

  int size() const { return shape.size(); }
  std::int64_t own_rows(int of) const { return shape.lengths[static_cast<std::size_t>(of)]; }
  Range q_heads(int of) const { return query_heads(args.q.shape[1], size(), of); }
  Range k_heads(int of) const { return key_heads(args.q.shape[1], args.k.shape[1], size(), of); }
  /// [B, heads, rows, D] like one of the arguments, in its order of memory.
  Tensor dense(const Tensor& like, std::int64_t heads, std::int64_t count, void* at) const {
    return dense_rows(like, heads, count, args.heads_first, at);
  }
  std::int64_t lse_bytes() const { return rounded_bytes(args.q.shape[0] * args.q.shape[1] * rows, DType::f32); }
  std::int64_t bytes(const Tensor& like, std::int64_t heads, std::int64_t count) const {
    return rounded_bytes(like.shape[0] * heads * count * like.shape[3], like.dtype);
  }
  Places places(int of) const {
    const std::int64_t heads = q_heads(rank).rows(), keys = k_heads(rank).rows();
    Places p;
    p.k = bytes(args.q, heads, rows);
    p.v = p.k + bytes(args.k, keys, rows);
    p.lse = p.v + bytes(args.v, keys, rows);
    p.returned = p.lse + lse_bytes();
    p.end = p.returned + bytes(args.o, args.q.shape[1], own_rows(of));
    return p;
  }
  std::int64_t slot_bytes() const {
    std::int64_t most = 0;
    for (int of = 0; of < size(); ++of) most = std::max(most, places(of).end);
    return most;
  }
  std::int64_t result_bytes() const {
    const std::int64_t heads = q_heads(rank).rows();
    return bytes(args.o, heads, rows) + rounded_bytes(args.q.shape[0] * heads * rows, DType::f32);
  }
};

/// Tensors in a rank's memory.
struct GatheredHeads {
  Tensor q, k, v, lse, returned;
};
/// base: the memory of rank `of`; null: unknown yet.
GatheredHeads gathered_at(const Heads& call, int of, void* base) {
  const Places p = call.places(of);
  const auto at = [&](std::int64_t place) { return base == nullptr ? nullptr : address(base, place); };
  const std::int64_t heads = call.q_heads(of).rows(), keys = call.k_heads(of).rows();
  return {call.dense(call.args.q, heads, call.rows, at(p.q)), call.dense(call.args.k, keys, call.rows, at(p.k)),
          call.dense(call.args.v, keys, call.rows, at(p.v)),
          lse_rows(call.args.q, call.args.q.shape[1], call.rows, at(p.lse)),
          call.dense(call.args.o, call.args.q.shape[1], call.own_rows(of), at(p.returned))};
}

/// This rank's results over all rows of its heads.
struct Results {
  Tensor o, lse;
};
Results results_at(const Heads& call, void* base) {
  const std::int64_t heads = call.q_heads(call.rank).rows();
  return {call.dense(call.args.o, heads, call.rows, base),
          lse_rows(call.args.q, heads, call.rows,
                   base == nullptr ? nullptr : address(base, call.bytes(call.args.o, heads, call.rows)))};
}

/// A tensor with a number for each head, or for each of a batch's.
std::optional<Tensor> some_heads(const std::optional<Tensor>& all, Range heads) {
  if (!all) return all;
  Tensor some = *all;
  const auto last = static_cast<std::size_t>(some.rank - 1);
  some.shape[last] = heads.rows();
  if (some.data != nullptr) some.data = address(some.data, heads.begin * some.strides[last] * size_of(some.dtype));
  return some;
}

/// [1, H, S, D] as rows of sequences, [S, H, D]; an lse [1, H, S] as [H, S].
Tensor of_sequences(const Tensor& t) {
  Tensor made = t;
  --made.rank;
  const bool values = made.rank == 3;
  const std::array<std::size_t, 3> from =
      values ? std::array<std::size_t, 3>{2, 1, 3} : std::array<std::size_t, 3>{1, 2, 3};
  for (int i = 0; i < made.rank; ++i) {
    made.shape[static_cast<std::size_t>(i)] = t.shape[from[static_cast<std::size_t>(i)]];
    made.strides[static_cast<std::size_t>(i)] = t.strides[from[static_cast<std::size_t>(i)]];
  }
  return made;
}

FmhaArgs attention(const Heads& call, const GatheredHeads& of, const Results& results) {
  const ContextFmhaArgs& args = call.args;
  FmhaArgs made;
  made.q = of.q;
  made.k = of.k;
  made.v = of.v;
  made.o = results.o;
  made.lse = results.lse;
  made.scale = args.scale;
  made.causal = args.causal;
  made.window = args.window;
  made.softcap = args.softcap;
  made.alibi_slopes = some_heads(args.alibi_slopes, call.q_heads(call.rank));
  made.sinks = some_heads(args.sinks, call.q_heads(call.rank));
  made.max_sms = args.max_sms;
  if (args.cu_seqlens) {
    for (Tensor* const t : {&made.q, &made.k, &made.v, &made.o, &*made.lse}) *t = of_sequences(*t);
    made.cu_seqlens_q = made.cu_seqlens_k = args.cu_seqlens;
  }
  return made;
}

/// Puts rows that came back into o and lse: merges of one state each, which copy between any strides.
std::vector<MergeStatesArgs> ends(const Heads& call, const GatheredHeads& of) {
  std::vector<MergeStatesArgs> calls;
  for (const HeldRows& held : held_rows(call.shape, call.rank)) {
    MergeStatesArgs end;
    end.states = one_state(own_of(of.returned, held));
    end.lse_states = one_state(places_of(of.lse, held));
    end.o = own_of(call.args.o, held);
    if (call.args.lse) end.lse = own_of(*call.args.lse, held);
    end.max_sms = call.args.max_sms;
    calls.push_back(end);
  }
  return calls;
}

struct HeadsLaunches {
  HeadsLaunches(const Heads& call, void* base, void* results_base)
      : gathered(gathered_at(call, call.rank, base)),
        results(results_at(call, results_base)),
        own(attention(call, gathered, results)),
        last(ends(call, gathered)) {}
  void load(const Member& member, Stream stream) const {
    member.load(fmha_op(), &own, stream);
    for (const MergeStatesArgs& end : last) member.load(merge_op(), &end, stream);
  }
  GatheredHeads gathered;
  Results results;
  FmhaArgs own;
  std::vector<MergeStatesArgs> last;
};

using Copy = std::function<void(const Tensor& from, const Tensor& to)>;

/// Rows of `from` to their places at rank `to`, whose memory is `there`.
void bring(const Heads& call, int from, int to, const Tensor (&own)[3], const GatheredHeads& there, const Copy& copy) {
  const Tensor* const places[] = {&there.q, &there.k, &there.v};
  for (const HeldRows& held : held_rows(call.shape, from))
    for (int n = 0; n < 3; ++n) {
      const Range heads = n == 0 ? call.q_heads(to) : call.k_heads(to);
      const Tensor& rows = own[n];
      const bool all = rows.shape[1] == heads.rows();  // a block that was packed has no other heads
      copy(own_of(all ? rows : heads_of(rows, heads), held), places_of(*places[n], held));
    }
}
/// Results over heads of `from` to rank `to`.
void bring_back(const Heads& call, int from, int to, const Results& results, const GatheredHeads& there,
                const Copy& copy) {
  for (const HeldRows& held : held_rows(call.shape, to))
    copy(places_of(results.o, held), own_of(heads_of(there.returned, call.q_heads(from)), held));
  copy(results.lse, heads_of(there.lse, call.q_heads(from)));
}

std::uint32_t hash_of(const Heads& call) {
  const ContextFmhaArgs& args = call.args;
  CallHash hash(CallKind::heads);
  hash.add(args.split).add(args.causal).add(args.heads_first);
  for (const Tensor* t : {&args.q, &args.k, &args.v, &args.o}) hash.add_heads(*t);
  hash.add_scores(args).add(args.cu_seqlens ? args.cu_seqlens->shape[0] : 0);
  return hash.add(call.shape.lengths).value();
}

/// Heads are cut out of the slopes before attention checks them, so their number is checked here.
void check_slopes(const ContextFmhaArgs& args) {
  if (!args.alibi_slopes) return;
  const Tensor& slopes = *args.alibi_slopes;
  const auto refuse = [](const std::string& what) {
    support::fail(Stage::argument, Code::invalid_argument, support::cat("context fmha: alibi_slopes", what));
  };
  if (slopes.rank != 1 && slopes.rank != 2)
    refuse(support::cat(" has ", slopes.rank, " dimensions; allowed: [H], 1, or [B, H], with cu_seqlens [N, H], 2"));
  const std::int64_t heads = slopes.shape[static_cast<std::size_t>(slopes.rank - 1)];
  if (heads != args.q.shape[1])
    refuse(support::cat(".shape[", slopes.rank - 1, "] is ", heads, "; allowed: q.shape[1], ", args.q.shape[1]));
}

Heads checked_heads(const Member& member, const ContextFmhaArgs& args) {
  check_own(member, args);
  if (args.cu_seqlens && args.q.shape[0] != 1)
    support::fail(Stage::argument, Code::invalid_argument,
                  support::cat("context fmha: q.shape[0] (B) is ", args.q.shape[0], " with cu_seqlens; allowed: 1"));
  check_slopes(args);
  for (const auto& [name, t] : {std::pair{"q", &args.q}, {"k", &args.k}, {"v", &args.v}}) check_apart(name, *t);
  const int rank = member.transport.rank(), size = member.transport.size();
  Heads call{args, {args.split, lengths_of(args, rank, size), args.causal, args.window.left}, rank};
  call.rows = std::accumulate(call.shape.lengths.begin(), call.shape.lengths.end(), std::int64_t{0});
  const HeadsLaunches launches(call, nullptr, nullptr);
  FmhaArgs own = launches.own;
  place_tensors(own);
  fmha_op().validate(&own, member.device.kind == DeviceKind::cpu);
  return call;
}

/// Each other rank, the next one first.
template <class Use>
void each_other(const Heads& call, const Use& use) {
  for (int n = 1; n < call.size(); ++n) use((call.rank + n) % call.size());
}

/// False where ranks have no buffers that others write.
bool heads_by_copies(const Member& member, const Heads& call, Stream stream) {
  const std::int64_t slot = call.slot_bytes(), results = call.result_bytes();
  const bool kept = results <= kMostKeptBytes;
  if (!member.opened(static_cast<std::size_t>(slot + (kept ? results : 0)), stream)) return false;
  Peers& peers = *member.peers;
  const std::shared_ptr<void> memory = kept ? nullptr : member.workspace(static_cast<std::size_t>(results), stream);
  std::byte* const base = peers.slot(call.rank);
  const HeadsLaunches launches(call, base, kept ? base + slot : memory.get());
  launches.load(member, stream);
  member.begun = true;
  Turn turn(peers, stream, hash_of(call));
  const auto by = [&](Stream in) {
    return [&peers, in](const Tensor& from, const Tensor& to) {
      copies_between(from, to, [&](const launch::RowsToCopy& rows) { peers.copy(rows, in); });
    };
  };
  const Stream side = peers.side_stream(stream);
  const Tensor own[3] = {call.args.q, call.args.k, call.args.v};
  each_other(call, [&](int to) {
    bring(call, call.rank, to, own, gathered_at(call, to, peers.slot(to)), by(side));
    peers.tell(to, 0);
  });
  bring(call, call.rank, call.rank, own, launches.gathered, by(stream));
  peers.wait(peers.others(), 0, stream, 0);
  member.run(fmha_op(), &launches.own, stream);
  peers.side().follow(stream);
  each_other(call, [&](int to) {
    bring_back(call, call.rank, to, launches.results, gathered_at(call, to, peers.slot(to)), by(side));
    peers.tell(to, 1);
  });
  bring_back(call, call.rank, call.rank, launches.results, launches.gathered, by(stream));
  peers.wait(peers.others(), 1, stream, 1);
  for (const MergeStatesArgs& end : launches.last) member.run(merge_op(), &end, stream);
  turn.end();
  return true;
}

/// One rank's message to another: rows of q, k and v, or of o and all of an lse.
struct Block {
  Block(const Heads& call, int from, int to, bool back, void* at) {
    const ContextFmhaArgs& args = call.args;
    const auto next = [&](std::int64_t size) {
      void* const place = at == nullptr ? nullptr : address(at, bytes);
      bytes += size;
      return place;
    };
    const auto rows_like = [&](const Tensor& like, std::int64_t heads, std::int64_t rows) {
      return call.dense(like, heads, rows, next(call.bytes(like, heads, rows)));
    };
    if (back) {
      const std::int64_t heads = call.q_heads(from).rows();
      tensors[0] = rows_like(args.o, heads, call.own_rows(to));
      tensors[1] =
          lse_rows(args.q, heads, call.rows, next(rounded_bytes(args.q.shape[0] * heads * call.rows, DType::f32)));
    } else {
      tensors[0] = rows_like(args.q, call.q_heads(to).rows(), call.own_rows(from));
      tensors[1] = rows_like(args.k, call.k_heads(to).rows(), call.own_rows(from));
      tensors[2] = rows_like(args.v, call.k_heads(to).rows(), call.own_rows(from));
    }
  }
  Tensor tensors[3];
  std::int64_t bytes = 0;
};

/// The blocks of all other ranks, those to send and those that come, one behind the other.
struct Blocks {
  Blocks(const Heads& call, bool back, void* at) {
    const auto add = [&](std::vector<Block>& list, int from, int to) {
      list.emplace_back(call, from, to, back, at == nullptr ? nullptr : address(at, bytes));
      bytes += list.back().bytes;
    };
    each_other(call, [&](int other) { ranks.push_back(other); });
    for (const int other : ranks) add(sent, call.rank, other);
    for (const int other : ranks) add(come, other, call.rank);
  }
  void exchange(const Member& member, Stream stream) const {
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for (std::size_t n = 0; n < ranks.size(); ++n) {
      if (sent[n].bytes > 0)
        sends.push_back({ranks[n], sent[n].tensors[0].data, static_cast<std::size_t>(sent[n].bytes)});
      if (come[n].bytes > 0)
        receives.push_back({ranks[n], come[n].tensors[0].data, static_cast<std::size_t>(come[n].bytes)});
    }
    member.exchange(sends, receives, stream);
  }
  std::vector<int> ranks;
  std::vector<Block> sent, come;
  std::int64_t bytes = 0;
};

void heads_by_messages(const Member& member, const Heads& call, Stream stream) {
  const std::int64_t slot = call.slot_bytes(), results = call.result_bytes(),
                     blocks = std::max(Blocks(call, false, nullptr).bytes, Blocks(call, true, nullptr).bytes);
  const std::shared_ptr<void> memory = member.workspace(static_cast<std::size_t>(slot + results + blocks), stream);
  void* const base = memory.get();
  const HeadsLaunches launches(call, base, address(base, slot));
  launches.load(member, stream);
  const Copy copy = [&](const Tensor& from, const Tensor& to) {
    copies_between(
        from, to, [&](const launch::RowsToCopy& rows) { member.memory->copy_rows(member.device.index, rows, stream); });
  };
  const Tensor own[3] = {call.args.q, call.args.k, call.args.v};
  const Blocks there(call, false, address(base, slot + results)), back(call, true, address(base, slot + results));
  for (std::size_t n = 0; n < there.ranks.size(); ++n)
    for (int t = 0; t < 3; ++t)
      copy(heads_of(own[t], t == 0 ? call.q_heads(there.ranks[n]) : call.k_heads(there.ranks[n])),
           there.sent[n].tensors[t]);
  bring(call, call.rank, call.rank, own, launches.gathered, copy);
  there.exchange(member, stream);
  for (std::size_t n = 0; n < there.ranks.size(); ++n)
    bring(call, there.ranks[n], call.rank, there.come[n].tensors, launches.gathered, copy);
  member.run(fmha_op(), &launches.own, stream);
  for (std::size_t n = 0; n < back.ranks.size(); ++n) {
    for (const HeldRows& held : held_rows(call.shape, back.ranks[n]))
      copy(places_of(launches.results.o, held), own_of(back.sent[n].tensors[0], held));
    copy(launches.results.lse, back.sent[n].tensors[1]);
  }
  bring_back(call, call.rank, call.rank, launches.results, launches.gathered, copy);
  back.exchange(member, stream);
  for (std::size_t n = 0; n < back.ranks.size(); ++n) {
    const Range heads = call.q_heads(back.ranks[n]);
    copy(back.come[n].tensors[0], heads_of(launches.gathered.returned, heads));
    copy(back.come[n].tensors[1], heads_of(launches.gathered.lse, heads));
  }
  for (const MergeStatesArgs& end : launches.last) member.run(merge_op(), &end, stream);
}

}  // namespace

void prepare_by_heads(const Member& member, const ContextFmhaArgs& args) {
  const Heads call = checked_heads(member, args);
  const HeadsLaunches launches(call, nullptr, nullptr);
  member.prepare(fmha_op(), &launches.own);
  for (const MergeStatesArgs& end : launches.last) member.prepare(merge_op(), &end);
  if (member.peers != nullptr) member.peers->prepare();
}

void run_by_heads(const Member& member, const ContextFmhaArgs& args, Stream stream) {
  const Heads call = checked_heads(member, args);
  if (call.rows == 0) return;
  if (!heads_by_copies(member, call, stream)) heads_by_messages(member, call, stream);
}

}  // namespace tj::dist
