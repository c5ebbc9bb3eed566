// Attention over a split sequence: keys and values come together, then each rank attends with its own rows.
//
// Decides what a call must look like, which bytes travel, and the calls of attention behind them. Who needs which rows
// is split.hpp's. Invariant: nothing is sent before the call and all kernels behind it are known to be right.
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <tilejit/merge_states.hpp>

#include "dist/group.hpp"
#include "dist/lengths.hpp"
#include "dist/made_up.hpp"
#include "dist/split.hpp"
#include "ops/op.hpp"
#include "support/fail.hpp"

namespace tj::dist {
namespace {

using support::cat;

constexpr const char* kOp = "context fmha";
constexpr std::size_t kAlignment = 256;

[[noreturn]] void refuse(Code code, const std::string& what) {
  support::fail(Stage::argument, code, cat(kOp, ": ", what));
}

/// Rows of k or v in memory: `chunks` runs of rows, `chunk_stride` bytes apart.
struct KeyRows {
  bool by_head = false;  ///< [B, H, S, D]: each head's rows by themselves; else [B, S, H, D]
  std::int64_t chunks = 0, row_bytes = 0, chunk_stride = 0;
};

KeyRows rows_of(const char* name, const Tensor& t, bool heads_first) {
  const std::int64_t heads = t.shape[1], rows = t.shape[2], d = t.shape[3], bytes = size_of(t.dtype);
  const std::int64_t of_head = heads_first ? rows * d : d, of_row = heads_first ? d : heads * d;
  // A stride counts where its dimension has more than one element, and none where there is no row.
  const bool dense =
      rows == 0 || ((heads <= 1 || t.strides[1] == of_head) && (rows <= 1 || t.strides[2] == of_row) &&
                    t.strides[3] == 1 && (!heads_first || t.shape[0] <= 1 || t.strides[0] == heads * rows * d));
  if (!dense)
    refuse(Code::unsupported, cat(name, ".strides are [", t.strides[0], ", ", t.strides[1], ", ", t.strides[2], ", ",
                                  t.strides[3], "]; allowed with heads_first ",
                                  heads_first ? "true: those of [B, Hkv, S, D]" : "false: those of [B, S, Hkv, D]",
                                  " memory without gaps: pass a contiguous copy, or set heads_first as memory is"));
  if (heads_first) return {true, t.shape[0] * heads, d * bytes, rows * d * bytes};
  return {false, t.shape[0], heads * d * bytes, (t.shape[0] > 1 ? t.strides[0] : rows * heads * d) * bytes};
}

/// Rows that were gathered, in the order of memory of the rank's own.
struct Gathered {
  Tensor tensor;
  KeyRows rows;
  std::size_t bytes() const { return static_cast<std::size_t>(rows.chunks * rows.chunk_stride); }
};
Gathered gathered(const Tensor& own, const KeyRows& own_rows, std::int64_t count) {
  Gathered made{own, own_rows};
  const std::int64_t heads = own.shape[1], d = own.shape[3];
  made.tensor.data = nullptr;
  made.tensor.shape[2] = count;
  made.rows.chunk_stride = count * own_rows.row_bytes;
  if (own_rows.by_head)
    made.tensor.strides = {heads * count * d, count * d, d, 1};
  else
    made.tensor.strides = {count * heads * d, d, heads * d, 1};
  return made;
}

std::byte* address(const void* base, std::int64_t bytes) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(base)) + bytes;
}
/// Rows of a tensor [B, H, S, D], or of an lse [B, H, S].
Tensor some_rows(const Tensor& t, Range rows) {
  Tensor some = t;
  some.shape[2] = rows.rows();
  if (t.data != nullptr) some.data = address(t.data, rows.begin * t.strides[2] * size_of(t.dtype));
  return some;
}

/// A call of one rank, checked, before memory is known.
struct Call {
  const ContextFmhaArgs& args;
  SplitShape shape;
  int rank = 0;
  Gathered k, v;
  std::vector<Visit> visits;
  Tensor states, lse_states;  ///< of parts that are merged

  bool merges() const { return visits.size() > 1 && dist::merges(shape); }
  std::size_t state_bytes() const {
    return merges() ? static_cast<std::size_t>(states.shape[0] * states.strides[0]) * sizeof(float) : 0;
  }
  std::size_t lse_bytes() const {
    return merges() ? static_cast<std::size_t>(lse_states.shape[0] * lse_states.strides[0]) * sizeof(float) : 0;
  }
  FmhaArgs visit(std::size_t n) const;
  MergeStatesArgs merge() const;
};

/// A part of f32 states: number n of them.
Tensor part(const Tensor& states, std::size_t n) {
  Tensor one = states;
  one.rank = states.rank - 1;
  for (int i = 0; i < one.rank; ++i) {
    const auto to = static_cast<std::size_t>(i);
    one.shape[to] = states.shape[to + 1];
    one.strides[to] = states.strides[to + 1];
  }
  if (states.data != nullptr)
    one.data = address(states.data, static_cast<std::int64_t>(n) * states.strides[0] * size_of(states.dtype));
  return one;
}

FmhaArgs Call::visit(std::size_t n) const {
  const Visit& visit = visits[n];
  FmhaArgs call;
  call.q = some_rows(args.q, visit.queries);
  call.k = some_rows(k.tensor, visit.keys);
  call.v = some_rows(v.tensor, visit.keys);
  if (merges()) {
    call.o = part(states, n);
    call.lse = part(lse_states, n);
  } else {
    call.o = some_rows(args.o, visit.queries);
    if (args.lse) call.lse = some_rows(*args.lse, visit.queries);
  }
  call.scale = args.scale;
  call.causal = visit.causal;
  if (visit.causal) call.window.left = args.window.left;
  call.softcap = args.softcap;
  call.alibi_slopes = args.alibi_slopes;
  call.sinks = args.sinks;
  call.max_sms = args.max_sms;
  return call;
}

MergeStatesArgs Call::merge() const {
  MergeStatesArgs call;
  call.states = states;
  call.lse_states = lse_states;
  call.o = args.o;
  call.lse = args.lse;
  call.max_sms = args.max_sms;
  return call;
}

/// The call as one of this rank's rows alone, by which its own arguments are checked.
FmhaArgs own_call(const ContextFmhaArgs& args) {
  FmhaArgs call;
  call.q = args.q;
  call.k = args.k;
  call.v = args.v;
  call.o = args.o;
  call.lse = args.lse;
  call.scale = args.scale;
  call.causal = args.causal;
  call.window = args.window;
  call.softcap = args.softcap;
  call.alibi_slopes = args.alibi_slopes;
  call.sinks = args.sinks;
  call.max_sms = args.max_sms;
  return call;
}

void check_masks(const ContextFmhaArgs& args) {
  const bool striped = args.split == Split::striped;
  if (args.split != Split::contiguous && args.split != Split::zigzag && !striped)
    refuse(Code::invalid_argument,
           cat("split is ", static_cast<int>(args.split), "; allowed: contiguous (0), zigzag (1), striped (2)"));
  if (args.window.left >= 0 && (striped || !args.causal))
    refuse(Code::unsupported,
           cat("window.left is ", args.window.left, striped ? " with split striped" : " without causal",
               "; allowed: -1, or a causal call whose split is contiguous or zigzag"));
  if (args.window.right >= 0 && !args.causal)
    refuse(Code::unsupported, cat("window.right is ", args.window.right, " without causal; allowed: -1"));
  if (args.alibi_slopes && !args.causal)
    refuse(Code::unsupported, "alibi_slopes without causal; allowed: a causal call, whose queries have places");
  if (striped && args.alibi_slopes)
    refuse(Code::unsupported, "alibi_slopes with split striped; allowed: contiguous, zigzag");
  if (striped && args.sinks) refuse(Code::unsupported, "sinks with split striped; allowed: contiguous, zigzag");
}

std::vector<std::int64_t> lengths_of(const ContextFmhaArgs& args, int rank, int size) {
  const std::int64_t own = args.q.shape[2];
  if (args.k.shape[2] != own)
    refuse(Code::invalid_argument, cat("k.shape[2] is ", args.k.shape[2], "; allowed: q.shape[2], ", own));
  if (args.split == Split::zigzag && own % 2 != 0)
    refuse(Code::invalid_argument,
           cat("q.shape[2] is ", own, " with split zigzag; allowed: two pieces of equal length"));
  std::vector<std::int64_t> lengths = checked_lengths(kOp, args.lengths, own, "q.shape[2]", rank, size);
  for (std::size_t r = 0; r < lengths.size(); ++r)
    if (args.split != Split::contiguous && lengths[r] != own)
      refuse(Code::invalid_argument, cat("lengths[", r, "] is ", lengths[r], "; allowed: ", own,
                                         ": with zigzag and striped all ranks have as many rows"));
  return lengths;
}

Tensor states_of(const ContextFmhaArgs& args, std::size_t count, bool values) {
  Tensor t;
  t.device = args.q.device;
  t.dtype = DType::f32;
  t.rank = values ? 5 : 4;
  t.shape = {static_cast<std::int64_t>(count), args.o.shape[0], args.o.shape[1], args.o.shape[2], args.o.shape[3]};
  std::int64_t stride = 1;
  for (int i = t.rank; i-- > 0; stride *= t.shape[static_cast<std::size_t>(i)])
    t.strides[static_cast<std::size_t>(i)] = stride;
  return t;
}

Call checked(const Member& member, const ContextFmhaArgs& args) {
  if (args.q.rank != 4 || args.k.rank != 4 || args.v.rank != 4 || args.o.rank != 4)
    refuse(Code::invalid_argument, cat("q, k, v and o have ", args.q.rank, ", ", args.k.rank, ", ", args.v.rank,
                                       " and ", args.o.rank, " dimensions; allowed: [B, H, S, D], 4"));
  if (args.q.device != member.device)
    refuse(Code::invalid_argument,
           cat("q is on ", to_string(args.q.device), "; allowed: the group's device, ", to_string(member.device)));
  check_masks(args);
  FmhaArgs own = own_call(args);
  place_nulls({&own.q, &own.k, &own.v, &own.o, own.lse ? &*own.lse : nullptr,
               own.alibi_slopes ? &*own.alibi_slopes : nullptr, own.sinks ? &*own.sinks : nullptr});
  detail::op_of<FmhaArgs>().validate(&own, member.device.kind == DeviceKind::cpu);
  const int rank = member.transport.rank();
  Call call{args, {args.split, lengths_of(args, rank, member.transport.size()), args.causal, args.window.left},
            rank, {},
            {},   {},
            {},   {}};
  const std::int64_t count = gathered_rows(call.shape, rank);
  call.k = gathered(args.k, rows_of("k", args.k, args.heads_first), count);
  call.v = gathered(args.v, rows_of("v", args.v, args.heads_first), count);
  call.visits = visits(call.shape, rank);
  if (call.merges()) {
    call.states = states_of(args, call.visits.size(), true);
    call.lse_states = states_of(args, call.visits.size(), false);
  }
  return call;
}

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

std::size_t rounded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Gives the call's own memory its addresses.
void place(Call& call, void* memory) {
  std::int64_t at = 0;
  const auto next = [&](Tensor& tensor, std::size_t bytes) {
    tensor.data = address(memory, at);
    at += static_cast<std::int64_t>(rounded(bytes));
  };
  next(call.k.tensor, call.k.bytes());
  next(call.v.tensor, call.v.bytes());
  next(call.states, call.state_bytes());
  next(call.lse_states, call.lse_bytes());
}
std::size_t workspace_bytes(const Call& call) {
  return rounded(call.k.bytes()) + rounded(call.v.bytes()) + rounded(call.state_bytes()) + rounded(call.lse_bytes());
}

const ops::Op& fmha_op() { return detail::op_of<FmhaArgs>(); }
const ops::Op& merge_op() { return detail::op_of<MergeStatesArgs>(); }

}  // namespace

void prepare_context_fmha(const Member& member, const ContextFmhaArgs& args) {
  const Call call = checked(member, args);
  for (std::size_t n = 0; n < call.visits.size(); ++n) {
    const FmhaArgs visit = call.visit(n);
    member.prepare(fmha_op(), &visit);
  }
  const MergeStatesArgs merge = call.merge();
  if (call.merges()) member.prepare(merge_op(), &merge);
}

void run_context_fmha(const Member& member, const ContextFmhaArgs& args, Stream stream) {
  Call call = checked(member, args);
  const std::size_t bytes = workspace_bytes(call);
  const std::shared_ptr<void> memory = bytes > 0 ? member.workspace(bytes, stream) : nullptr;
  place(call, memory.get());
  std::vector<FmhaArgs> visits;
  for (std::size_t n = 0; n < call.visits.size(); ++n) {
    visits.push_back(call.visit(n));
    member.load(fmha_op(), &visits.back(), stream);
  }
  const MergeStatesArgs merge = call.merge();
  if (call.merges()) member.load(merge_op(), &merge, stream);
  std::vector<Send> sends;
  std::vector<Receive> receives;
  add_messages(call, args.k, call.k, sends, receives);
  add_messages(call, args.v, call.v, sends, receives);
  member.exchange(sends, receives, stream);
  for (const FmhaArgs& visit : visits) member.run(fmha_op(), &visit, stream);
  if (call.merges()) member.run(merge_op(), &merge, stream);
}

}  // namespace tj::dist
