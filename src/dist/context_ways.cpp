// The ways of a call: keys of other ranks are gathered, a rank's own rows come first, or heads are exchanged.
//
// Decides ways by predicted times and by what a call asks for. Does not decide times (prediction.cpp). Invariant: equal
// arguments give equal ways on all ranks.
#include <algorithm>
#include <cstdint>
#include <string>

#include "dist/context_call.hpp"
#include "dist/head_rows.hpp"
#include "dist/prediction.hpp"
#include "support/fail.hpp"

namespace tj::dist {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

/// Rows that have come to a rank, those of one rank behind those of another, when all that keys of a range need are
/// there.
double rows_before(const Call& call, Way way, int rank, Range keys) {
  const int size = call.shape.size();
  double rows = 0, needed = 0;
  for (int n = 1; n < size; ++n)
    for (const Transfer& each : transfers(call, way, (rank + size - n) % size, rank)) {
      rows += number(each.rows);
      if (each.to < keys.end && each.to + each.rows > keys.begin) needed = rows;
    }
  return needed;
}

Load load_of(const Call& call, int rank) {
  const ContextFmhaArgs& args = call.args;
  const double heads = number(args.q.shape[0]) * number(args.q.shape[1]),
               of_pair = 2 * (number(args.q.shape[3]) + number(args.v.shape[3])),
               own = number(call.shape.lengths[static_cast<std::size_t>(rank)]),
               bytes_of_row = number(args.k.shape[0]) * number(args.k.shape[1]) * number(size_of(args.k.dtype)) *
                              (number(args.k.shape[3]) + number(args.v.shape[3]));
  const auto step = [&](Way way, const Visit& visit) {
    const double rows = number(visit.queries.rows()), keys = number(visit.keys.rows()),
                 hidden = visit.causal ? rows * rows / 2 : 0;
    return Step{(rows * keys - hidden) * heads * of_pair, rows_before(call, way, rank, visit.keys) * bytes_of_row};
  };
  Load load;
  for (const Visit& visit : visits(call.shape, rank)) load.whole.push_back(step(Way::whole, visit));
  load.own_first.push_back({own * own * (args.causal ? .5 : 1.) * heads * of_pair, 0});
  for (const Visit& visit : remote_visits(call.shape, rank)) load.own_first.push_back(step(Way::own_first, visit));
  load.tile_flops = std::min(own, 128.) * own * of_pair;
  load.own_bytes = own * bytes_of_row;
  load.output_values = own * heads * number(args.v.shape[3]);
  return load;
}

}  // namespace

Way way_of(const Call& call, int rank) {
  const ContextFmhaArgs& args = call.args;
  if (args.split == Split::striped || args.window.left >= 0 || args.alibi_slopes || args.sinks) return Way::whole;
  if (call.order != Order::predicted) return call.order == Order::whole ? Way::whole : Way::own_first;
  const Load load = load_of(call, rank);
  const Predicted predicted = predict(call.rates, load);
  return predicted.own_first_s < predicted.whole_s ? Way::own_first : Way::whole;
}

namespace {

constexpr double kGain = 0.95;  ///< of the time of keys, above which heads are not worth their memory

/// Seconds of the slowest rank where keys travel.
double keys_s(const Call& call) {
  double slowest = 0;
  for (int rank = 0; rank < call.shape.size(); ++rank) {
    const Load load = load_of(call, rank);
    const Predicted predicted = predict(call.rates, load);
    const bool merged = merges(call.shape);
    const double s = merged ? predicted.whole_s + merging_s(call.rates, call.shape.size(), load.output_values)
                            : std::min(predicted.whole_s, predicted.own_first_s);
    slowest = std::max(slowest, s);
  }
  return slowest;
}

/// Numbers of the ranks' rows.
struct RowCounts {
  explicit RowCounts(const Call& call) : least(number(call.shape.lengths[0])) {
    const bool ordered = call.args.causal && call.args.split == Split::contiguous;
    for (const std::int64_t each : call.shape.lengths) {
      const double own = number(each);
      pairs = std::max(pairs, ordered ? own * (all + own / 2) : 0);
      all += own;
      most = std::max(most, own);
      least = std::min(least, own);
    }
    if (!ordered) pairs = most * all * (call.args.causal ? .5 : 1.);
  }
  double all = 0, most = 0, least = 0;
  double pairs = 0;  ///< of queries and keys, of the rank that has most where keys travel
};

/// An upper bound of keys_s(): nothing hides the bytes.
double most_keys_s(const Call& call, const RowCounts& rows) {
  const ContextFmhaArgs& args = call.args;
  const double batch = number(args.q.shape[0]), heads = number(args.q.shape[1]),
               width = number(args.k.shape[3]) + number(args.v.shape[3]),
               row_bytes = batch * number(args.k.shape[1]) * number(size_of(args.k.dtype)) * width;
  HeadsLoad load;
  load.bytes_in = (rows.all - rows.least) * row_bytes;
  load.flops = rows.pairs * batch * heads * 2 * width;
  load.own_bytes = rows.most * row_bytes;
  const double output_values = rows.most * batch * heads * number(args.v.shape[3]);
  return heads_s(call.rates, load) + (merges(call.shape) ? merging_s(call.rates, call.shape.size(), output_values) : 0);
}

HeadsLoad heads_load(const Call& call, const RowCounts& counts) {
  const ContextFmhaArgs& args = call.args;
  const int size = call.shape.size();
  const double rows = counts.all, most = counts.most, least = counts.least;
  const double batch = number(args.q.shape[0]), heads = number(query_heads(args.q.shape[1], size, 0).rows()),
               keys = number(key_heads(args.q.shape[1], args.k.shape[1], size, 0).rows()),
               of_row = heads * number(args.q.shape[3]) + keys * (number(args.k.shape[3]) + number(args.v.shape[3])),
               of_output = heads * number(args.v.shape[3]) * number(size_of(args.o.dtype));
  HeadsLoad load;
  load.bytes_in = batch * std::max(rows - least, most * (size - 1)) * of_row * number(size_of(args.q.dtype));
  load.bytes_back = batch * std::max(rows - least, most * (size - 1)) * of_output;
  load.flops =
      rows * rows * (args.causal ? .5 : 1.) * batch * heads * 2 * (number(args.q.shape[3]) + number(args.v.shape[3]));
  load.own_bytes = batch * most * of_row * number(size_of(args.q.dtype)) + batch * most * of_output * (size + 1);
  return load;
}

/// May all ranks exchange heads? Throws where that is asked for, and a number of heads or the driver is in its way.
bool may_take_heads(const Member& member, const ContextFmhaArgs& args) {
  const int size = member.transport.size();
  const std::int64_t heads = args.q.shape[1], key_heads = args.k.shape[1];
  const bool suffice = heads_suffice(heads, key_heads, size);
  if (suffice && member.memory != nullptr) return true;
  if (args.exchange != Exchange::heads || heads <= 0 || key_heads <= 0) return false;  // refused later
  const auto refuse = [](Code code, const std::string& what) {
    support::fail(Stage::argument, code, support::cat("context fmha: ", what));
  };
  if (heads % key_heads != 0)
    refuse(Code::invalid_argument, support::cat("q.shape[1] (H) is ", heads, " and k.shape[1] (Hkv) is ", key_heads,
                                                "; allowed: H a multiple of Hkv"));
  if (!suffice)
    refuse(
        Code::unsupported,
        support::cat("exchange is heads with q.shape[1] (H) of ", heads, " and k.shape[1] (Hkv) of ", key_heads, " on ",
                     size, " ranks; allowed: H a multiple of the ranks, and Hkv a multiple or a divisor of them"));
  refuse(Code::unsupported, support::cat("exchange is heads on ", to_string(member.device),
                                         ", whose driver copies no rows; allowed there: automatic (0), keys (1)"));
  return false;
}

}  // namespace

bool takes_heads(const Member& member, const ContextFmhaArgs& args) {
  check_split(args);
  const int size = member.transport.size();
  const bool asked = args.exchange == Exchange::heads, by_keys = served_by_keys(args);
  if (args.exchange == Exchange::keys || (size == 1 && by_keys && !asked)) return false;
  if (args.q.rank != 4 || args.k.rank != 4 || args.v.rank != 4 || args.o.rank != 4) return false;  // refused later
  if (!may_take_heads(member, args)) return false;
  if (asked || !by_keys) return true;
  if (member.order != Order::predicted || args.window.left >= 0 || args.alibi_slopes || args.sinks) return false;
  const int rank = member.transport.rank();
  Call call{args, {args.split, lengths_of(args, rank, size), args.causal, args.window.left}, rank, Way::whole};
  call.rates = member.rates;
  const RowCounts rows(call);
  const double by_heads_s = heads_s(call.rates, heads_load(call, rows));
  // The first comparison costs the host nothing, and most calls no more than that.
  return by_heads_s < kGain * most_keys_s(call, rows) && by_heads_s < kGain * keys_s(call);
}

}  // namespace tj::dist
