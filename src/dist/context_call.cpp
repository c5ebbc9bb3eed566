// See context_call.hpp.
#include "dist/context_call.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "dist/lengths.hpp"
#include "dist/made_up.hpp"
#include "dist/prediction.hpp"
#include "ops/op.hpp"
#include "support/fail.hpp"

namespace tj::dist {
namespace {

using support::cat;

constexpr const char* kOp = "context fmha";

[[noreturn]] void refuse(Code code, const std::string& what) {
  support::fail(Stage::argument, code, cat(kOp, ": ", what));
}

/// Rows of a tensor [B, H, S, D], or of an lse [B, H, S].
Tensor some_rows(const Tensor& t, Range rows) {
  Tensor some = t;
  some.shape[2] = rows.rows();
  if (t.data != nullptr) some.data = address(t.data, rows.begin * t.strides[2] * size_of(t.dtype));
  return some;
}

/// Number n of f32 states.
Tensor state(const Tensor& states, std::size_t n) {
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

}  // namespace

void check_split(const ContextFmhaArgs& args) {
  if (args.split != Split::contiguous && args.split != Split::zigzag && args.split != Split::striped)
    refuse(Code::invalid_argument,
           cat("split is ", static_cast<int>(args.split), "; allowed: contiguous (0), zigzag (1), striped (2)"));
  if (args.exchange != Exchange::automatic && args.exchange != Exchange::keys && args.exchange != Exchange::heads)
    refuse(Code::invalid_argument,
           cat("exchange is ", static_cast<int>(args.exchange), "; allowed: automatic (0), keys (1), heads (2)"));
}

bool served_by_keys(const ContextFmhaArgs& args) {
  const bool places = args.window.left >= 0 || args.window.right >= 0 || args.alibi_slopes.has_value(),
             striped = args.split == Split::striped;
  return !args.cu_seqlens && (args.causal || !places) &&
         (!striped || (args.window.left < 0 && !args.alibi_slopes && !args.sinks));
}

namespace {

constexpr const char* kOrHeads =
    ", or an exchange of heads, where H is a multiple of the ranks, and Hkv a multiple or a divisor of them";

void check_masks(const ContextFmhaArgs& args) {
  const bool striped = args.split == Split::striped;
  if (args.cu_seqlens)
    refuse(Code::unsupported, cat("cu_seqlens is given where keys are exchanged; allowed: none", kOrHeads));
  if (args.window.left >= 0 && (striped || !args.causal))
    refuse(Code::unsupported,
           cat("window.left is ", args.window.left, striped ? " with split striped" : " without causal",
               "; allowed: -1, or a causal call whose split is contiguous or zigzag", kOrHeads));
  if (args.window.right >= 0 && !args.causal)
    refuse(Code::unsupported, cat("window.right is ", args.window.right, " without causal; allowed: -1", kOrHeads));
  if (args.alibi_slopes && !args.causal)
    refuse(Code::unsupported,
           cat("alibi_slopes without causal; allowed: a causal call, whose queries have places", kOrHeads));
  if (striped && args.alibi_slopes)
    refuse(Code::unsupported, cat("alibi_slopes with split striped; allowed: contiguous, zigzag", kOrHeads));
  if (striped && args.sinks)
    refuse(Code::unsupported, cat("sinks with split striped; allowed: contiguous, zigzag", kOrHeads));
}

}  // namespace

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

namespace {

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

}  // namespace

void check_own(const Member& member, const ContextFmhaArgs& args) {
  if (args.q.rank != 4 || args.k.rank != 4 || args.v.rank != 4 || args.o.rank != 4)
    refuse(Code::invalid_argument, cat("q, k, v and o have ", args.q.rank, ", ", args.k.rank, ", ", args.v.rank,
                                       " and ", args.o.rank, " dimensions; allowed: [B, H, S, D], 4"));
  if (args.q.device != member.device)
    refuse(Code::invalid_argument,
           cat("q is on ", to_string(args.q.device), "; allowed: the group's device, ", to_string(member.device)));
  check_split(args);
  FmhaArgs own = own_call(args);
  if (args.cu_seqlens) own.alibi_slopes.reset();  // which may have a list's sequences
  place_tensors(own);
  fmha_op().validate(&own, member.device.kind == DeviceKind::cpu);
}

namespace {

/// Ranks that bring keys of a range, beside this one.
std::uint32_t bringers(const Call& call, Range keys) {
  std::uint32_t ranks = 0;
  for (int from = 0; from < std::min(call.shape.size(), 32); ++from)
    for (const Transfer& each : transfers(call, call.way, from, call.rank))
      if (from != call.rank && each.to < keys.end && each.to + each.rows > keys.begin) ranks |= 1u << from;
  return ranks;
}

/// A state for each rank's keys, in the ranks' order.
void add_striped(Call& call) {
  const std::int64_t own = call.args.q.shape[2];
  const std::vector<Visit> each = visits(call.shape, call.rank);
  const bool merges = each.size() > 1;
  for (std::size_t n = 0; n < each.size(); ++n) {
    Part part{each[n], false, merges ? static_cast<int>(n) : -1, bringers(call, each[n].keys)};
    if (call.way == Way::whole && each[n].keys.begin == call.rank * own) {
      part.own = true;
      part.visit.keys = {0, each[n].keys.rows()};
    }
    call.parts.push_back(part);
  }
  if (merges) call.merged = {{0, own}};
  std::stable_sort(call.parts.begin(), call.parts.end(), [](const Part& a, const Part& b) { return a.own > b.own; });
}

/// The rank's own rows in state 0, those of others in state 1.
void add_own_first(Call& call) {
  const std::int64_t own = call.args.q.shape[2];
  const std::vector<Visit> remote = remote_visits(call.shape, call.rank);
  if (own == 0) return;
  call.parts.push_back({{{0, own}, {0, own}, call.args.causal}, true, remote.empty() ? -1 : 0});
  std::int64_t end = 0;
  for (const Visit& visit : remote) {
    call.parts.push_back({visit, false, 1, bringers(call, visit.keys)});
    if (visit.queries.begin > end) call.single.push_back({end, visit.queries.begin});
    if (!call.merged.empty() && call.merged.back().end == visit.queries.begin)
      call.merged.back().end = visit.queries.end;
    else
      call.merged.push_back(visit.queries);
    end = visit.queries.end;
  }
}

}  // namespace

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

std::size_t Call::state_bytes() const {
  return merged.empty() ? 0 : static_cast<std::size_t>(states.shape[0] * states.strides[0]) * sizeof(float);
}
std::size_t Call::lse_bytes() const {
  return merged.empty() ? 0 : static_cast<std::size_t>(lse_states.shape[0] * lse_states.strides[0]) * sizeof(float);
}

FmhaArgs Call::part(std::size_t n) const {
  const Part& of = parts[n];
  FmhaArgs call;
  call.q = some_rows(args.q, of.visit.queries);
  call.k = some_rows(of.own ? args.k : k.tensor, of.visit.keys);
  call.v = some_rows(of.own ? args.v : v.tensor, of.visit.keys);
  if (of.state >= 0) {
    call.o = some_rows(state(states, static_cast<std::size_t>(of.state)), of.visit.queries);
    call.lse = some_rows(state(lse_states, static_cast<std::size_t>(of.state)), of.visit.queries);
  } else {
    call.o = some_rows(args.o, of.visit.queries);
    if (args.lse) call.lse = some_rows(*args.lse, of.visit.queries);
  }
  call.scale = args.scale;
  call.causal = of.visit.causal;
  if (of.visit.causal) call.window.left = args.window.left;
  call.softcap = args.softcap;
  call.alibi_slopes = args.alibi_slopes;
  call.sinks = args.sinks;
  call.max_sms = args.max_sms;
  return call;
}

std::vector<MergeStatesArgs> Call::merges() const {
  std::vector<MergeStatesArgs> calls;
  const auto add = [&](const Range& rows, std::int64_t count) {
    MergeStatesArgs call;
    const auto some = [&](Tensor all) {
      all.shape[0] = count;
      all.shape[3] = rows.rows();
      if (all.data != nullptr) all.data = address(all.data, rows.begin * all.strides[3] * size_of(all.dtype));
      return all;
    };
    call.states = some(states);
    call.lse_states = some(lse_states);
    call.o = some_rows(args.o, rows);
    if (args.lse) call.lse = some_rows(*args.lse, rows);
    call.max_sms = args.max_sms;
    calls.push_back(call);
  };
  for (const Range& rows : single) add(rows, 1);
  for (const Range& rows : merged) add(rows, states.shape[0]);
  return calls;
}

std::int64_t rows_to_gather(const Call& call, Way way, int rank) {
  return way == Way::own_first ? remote_rows(call.shape, rank) : gathered_rows(call.shape, rank);
}
std::vector<Transfer> transfers(const Call& call, Way way, int from, int to) {
  std::vector<Transfer> runs;
  for (const Transfer& each :
       way == Way::own_first ? remote_transfers(call.shape, from, to) : transfers(call.shape, from, to)) {
    const bool goes_on = !runs.empty() && each.from - runs.back().from == runs.back().rows &&
                         each.to - runs.back().to == runs.back().rows;
    if (goes_on)
      runs.back().rows += each.rows;
    else
      runs.push_back(each);
  }
  return runs;
}

Call checked(const Member& member, const ContextFmhaArgs& args, Way way) {
  check_own(member, args);
  check_masks(args);
  const int rank = member.transport.rank();
  Call call{args, {args.split, lengths_of(args, rank, member.transport.size()), args.causal, args.window.left}, rank};
  call.order = member.order;
  call.rates = member.rates;
  call.way = way == Way::messages ? way : way_of(call, rank);
  const std::int64_t count = rows_to_gather(call, call.way, rank);
  call.k = gathered(args.k, rows_of("k", args.k, args.heads_first), count);
  call.v = gathered(args.v, rows_of("v", args.v, args.heads_first), count);
  if (call.way == Way::own_first)
    add_own_first(call);
  else if (args.split == Split::striped)
    add_striped(call);
  else
    for (const Visit& visit : visits(call.shape, rank))
      call.parts.push_back({visit, false, -1, bringers(call, visit.keys)});
  if (!call.merged.empty()) {
    const std::size_t count_of_states = call.way == Way::own_first ? 2 : call.parts.size();
    call.states = states_of(args, count_of_states, true);
    call.lse_states = states_of(args, count_of_states, false);
  }
  return call;
}

}  // namespace tj::dist
