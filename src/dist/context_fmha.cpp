// Attention over a split sequence: keys and values come together, then each rank attends with its own rows.
//
// Decides which bytes travel, by messages or by copies, and what each rank does meanwhile. A call's checks and its
// calls of attention are context_call.hpp's. Invariant: nothing is sent before the call and all kernels behind it are
// known to be right.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "dist/beside.hpp"
#include "dist/call_hash.hpp"
#include "dist/context_call.hpp"
#include "dist/peers.hpp"
#include "ops/op.hpp"

namespace tj::dist {
namespace {

/// The messages of k or of v, in one order at both of their ends.
void add_messages(const Call& call, const Tensor& own, const Gathered& all, std::vector<Send>& sends,
                  std::vector<Receive>& receives) {
  const KeyRows& rows = all.rows;
  const std::int64_t own_stride = rows_of("own", own, rows.by_head).chunk_stride;
  const auto each = [&](int from, int to, const auto& add) {
    for (const Transfer& transfer : transfers(call.shape, from, to))
      for (std::int64_t chunk = 0; chunk < rows.chunks; ++chunk)
        add(chunk, transfer, static_cast<std::size_t>(transfer.rows * rows.row_bytes));
  };
  for (int peer = 0; peer < call.shape.size(); ++peer) {
    each(call.rank, peer, [&](std::int64_t chunk, const Transfer& transfer, std::size_t bytes) {
      sends.push_back({peer, address(own.data, chunk * own_stride + transfer.from * rows.row_bytes), bytes});
    });
    each(peer, call.rank, [&](std::int64_t chunk, const Transfer& transfer, std::size_t bytes) {
      receives.push_back(
          {peer, address(all.tensor.data, chunk * rows.chunk_stride + transfer.to * rows.row_bytes), bytes});
    });
  }
}

/// Gives the gathered rows and the states their addresses.
void place_keys(Call& call, void* memory) {
  call.k.tensor.data = memory;
  call.v.tensor.data = address(memory, static_cast<std::int64_t>(rounded(call.k.bytes())));
}
void place_states(Call& call, void* memory) {
  call.states.data = memory;
  call.lse_states.data = address(memory, static_cast<std::int64_t>(rounded(call.state_bytes())));
}
std::size_t key_bytes(const Call& call) { return rounded(call.k.bytes()) + rounded(call.v.bytes()); }
std::size_t result_bytes(const Call& call) { return rounded(call.state_bytes()) + rounded(call.lse_bytes()); }

/// Bytes of a rank's f32 results, or more.
std::size_t result_bytes(const Call& call, Way way, int rank) {
  const ContextFmhaArgs& args = call.args;
  const std::size_t states = way == Way::own_first          ? 2
                             : args.split == Split::striped ? visits(call.shape, rank).size()
                                                            : 0;
  const auto rows =
      static_cast<std::size_t>(args.q.shape[0] * args.q.shape[1] * call.shape.lengths[static_cast<std::size_t>(rank)]);
  return rounded(states * rows * static_cast<std::size_t>(args.v.shape[3]) * sizeof(float)) +
         rounded(states * rows * sizeof(float));
}

/// The launches of a call whose memory has its addresses.
struct Launches {
  std::vector<FmhaArgs> parts;
  std::vector<MergeStatesArgs> merges;
};
Launches loaded(const Member& member, const Call& call, Stream stream) {
  Launches launches;
  for (std::size_t n = 0; n < call.parts.size(); ++n) launches.parts.push_back(call.part(n));
  launches.merges = call.merges();
  for (const FmhaArgs& part : launches.parts) member.load(fmha_op(), &part, stream);
  for (const MergeStatesArgs& merge : launches.merges) member.load(merge_op(), &merge, stream);
  return launches;
}

void run_by_messages(const Member& member, const ContextFmhaArgs& args, Stream stream) {
  Call call = checked(member, args, Way::messages);
  const std::size_t bytes = key_bytes(call) + result_bytes(call);
  const std::shared_ptr<void> memory = bytes > 0 ? member.workspace(bytes, stream) : nullptr;
  place_keys(call, memory.get());
  place_states(call, address(memory.get(), static_cast<std::int64_t>(key_bytes(call))));
  const Launches launches = loaded(member, call, stream);
  std::vector<Send> sends;
  std::vector<Receive> receives;
  add_messages(call, args.k, call.k, sends, receives);
  add_messages(call, args.v, call.v, sends, receives);
  member.exchange(sends, receives, stream);
  for (const FmhaArgs& part : launches.parts) member.run(fmha_op(), &part, stream);
  for (const MergeStatesArgs& merge : launches.merges) member.run(merge_op(), &merge, stream);
}

/// The gathered keys and values of a rank, by its way.
struct Landing {
  Way way = Way::whole;
  Gathered k, v;
  std::size_t bytes() const { return rounded(k.bytes()) + rounded(v.bytes()); }
};
Landing landing(const Call& call, int rank) {
  const Way way = way_of(call, rank);
  const std::int64_t count = rows_to_gather(call, way, rank);
  const ContextFmhaArgs& args = call.args;
  return {way, gathered(args.k, rows_of("k", args.k, args.heads_first), count),
          gathered(args.v, rows_of("v", args.v, args.heads_first), count)};
}

/// Copies rows of this rank's k or v to where they lie at a rank. Heads with rows of their own go in one copy.
void copy_rows(const Peers& peers, const Tensor& own, const KeyRows& to, const Transfer& transfer, std::byte* there,
               Stream stream) {
  const KeyRows from = rows_of("own", own, to.by_head);
  peers.copy({there + transfer.to * to.row_bytes, to.chunk_stride, address(own.data, transfer.from * from.row_bytes),
              from.chunk_stride, transfer.rows * to.row_bytes, to.chunks},
             stream);
}

/// This rank's rows to a rank's slot.
void push(const Peers& peers, const Call& call, int to, Stream stream) {
  const Landing there = landing(call, to);
  std::byte* const slot = peers.slot(to);
  for (const Transfer& transfer : transfers(call, there.way, call.rank, to)) {
    copy_rows(peers, call.args.k, there.k.rows, transfer, slot, stream);
    copy_rows(peers, call.args.v, there.v.rows, transfer, slot + rounded(there.k.bytes()), stream);
  }
}

/// The hash of what must be equal on all ranks.
std::uint32_t hash_of(const Call& call) {
  const ContextFmhaArgs& args = call.args;
  CallHash hash(CallKind::keys);
  hash.add(call.order).add(args.split).add(args.causal).add(args.heads_first);
  for (const Tensor* t : {&args.q, &args.k, &args.v}) hash.add_heads(*t);
  return hash.add_scores(args).add(call.shape.lengths).value();
}

/// Parts in their order. A part that waits for no more ranks than the one before goes beside it, in the other stream.
/// Its first tiles are made while the last of that one are. Parts write rows or states of their own.
void attend(const Member& member, const Call& call, const Launches& launches, Stream stream) {
  const Peers& peers = *member.peers;
  const Stream other = member.work.get().handle != nullptr ? member.work.get() : stream;
  std::vector<std::uint32_t> wanted;
  std::uint32_t come = 0;
  for (const Part& part : call.parts) {
    wanted.push_back(part.behind & ~come);
    come |= part.behind;
  }
  unsigned segment = 0;
  Beside work(member.work, stream);
  bool beside = false;
  for (std::size_t n = 0; n < launches.parts.size(); ++n) {
    const bool waits = wanted[n] != 0;
    if (waits) peers.wait(wanted[n], segment++, stream);
    const bool turns = !waits && n > 0 && !beside;
    beside = turns;
    if (!turns && n + 1 < launches.parts.size() && wanted[n + 1] == 0) work.follow();
    member.run(fmha_op(), &launches.parts[n], turns ? other : stream);
  }
  work.end();
}

/// One turn: bytes travel on the side stream, while the caller's has what needs none of them.
void take_turn(const Member& member, const Call& call, const Launches& launches, Stream stream) {
  Peers& peers = *member.peers;
  Turn turn(peers, stream, hash_of(call));
  for (int n = 1; n < call.shape.size(); ++n) {
    const int to = (call.rank + n) % call.shape.size();
    push(peers, call, to, peers.side_stream(stream));
    peers.tell(to);
  }
  const bool keeps = std::any_of(call.parts.begin(), call.parts.end(), [](const Part& part) { return part.own; });
  if (!keeps) push(peers, call, call.rank, stream);
  attend(member, call, launches, stream);
  for (const MergeStatesArgs& merge : launches.merges) member.run(merge_op(), &merge, stream);
  turn.end();
}

/// False where ranks have no buffers that others write.
bool run_by_copies(const Member& member, const ContextFmhaArgs& args, Stream stream) {
  if (member.peers == nullptr || !member.peers->possible()) return false;
  Call call = checked(member, args, Way::whole);
  std::size_t keys = 0, results = 0;
  for (int rank = 0; rank < call.shape.size(); ++rank) {
    const Landing there = landing(call, rank);
    keys = std::max(keys, there.bytes());
    results = std::max(results, result_bytes(call, there.way, rank));
  }
  const bool kept = static_cast<std::int64_t>(results) <= kMostKeptBytes;
  if (!member.opened(keys + (kept ? results : 0), stream)) return false;
  std::byte* const slot = member.peers->slot(call.rank);
  place_keys(call, slot);
  const std::shared_ptr<void> memory = kept ? nullptr : member.workspace(result_bytes(call), stream);
  place_states(call, kept ? slot + keys : memory.get());
  const Launches launches = loaded(member, call, stream);
  member.begun = true;
  take_turn(member, call, launches, stream);
  return true;
}

void prepare(const Member& member, const Call& call) {
  for (std::size_t n = 0; n < call.parts.size(); ++n) {
    const FmhaArgs part = call.part(n);
    member.prepare(fmha_op(), &part);
  }
  for (const MergeStatesArgs& merge : call.merges()) member.prepare(merge_op(), &merge);
}

}  // namespace

void prepare_context_fmha(const Member& member, const ContextFmhaArgs& args) {
  if (takes_heads(member, args)) return prepare_by_heads(member, args);
  prepare(member, checked(member, args, Way::messages));
  if (member.peers == nullptr || !member.peers->possible()) return;
  prepare(member, checked(member, args, Way::whole));
  member.peers->prepare();
}

void run_context_fmha(const Member& member, const ContextFmhaArgs& args, Stream stream) {
  if (takes_heads(member, args)) return run_by_heads(member, args, stream);
  if (!run_by_copies(member, args, stream)) run_by_messages(member, args, stream);
}

}  // namespace tj::dist
