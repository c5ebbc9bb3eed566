// The lists of a call, which TJ_CHECK reads: bounds of sequences, and slots.
//
// Decides which entry is bad, and its words. Invariant: kernels take the same lists as they are.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/common/tensor_checks.hpp"
#include "ops/gated_delta_rule/gated_delta_rule.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::ops {
namespace {

using support::cat;

using Numbers = std::vector<std::int32_t>;
constexpr const char* kOp = "gated_delta_rule";

[[noreturn]] void refuse_entry(const char* list, std::size_t at, std::int32_t entry, const std::string& allowed) {
  refuse(kOp, Code::invalid_argument, cat(list, "[", at, "] is ", entry, "; allowed: ", allowed));
}

void check_ends(const Numbers& ends, Size tokens) {
  std::int32_t least = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] < least || ends[i] > tokens)
      refuse_entry("cu_seqlens", i, ends[i], cat(least, i > 0 ? " (the one before it)" : "", " to ", tokens, " (T)"));
    least = ends[i];
  }
}

void check_slots(const char* name, const Numbers& slots, Size count) {
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i] < -1 || slots[i] >= count) refuse_entry(name, i, slots[i], cat("-1 (none) to ", count - 1));
}

/// The slots of sequences: those of a list, or their numbers.
Numbers slots_of(const std::optional<Tensor>& list, Size sequences, const ReadList& read) {
  if (list) return read(*list);
  Numbers slots(support::at(sequences));
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(i);
  return slots;
}

/// Written slots, each with its sequence, in order.
using Written = std::vector<std::pair<std::int32_t, std::size_t>>;

/// Up to the first slot that is none at all.
Written check_written_once(const Numbers& slots, Size count) {
  Written written;
  for (std::size_t i = 0; i < slots.size() && slots[i] >= -1 && slots[i] < count; ++i)
    if (slots[i] >= 0) written.emplace_back(slots[i], i);
  std::sort(written.begin(), written.end());
  std::size_t worst = slots.size(), first = 0;
  for (std::size_t i = 1; i < written.size(); ++i)
    if (written[i].first == written[i - 1].first && written[i].second < worst)
      worst = written[i].second, first = written[i - 1].second;
  if (worst < slots.size())
    refuse_entry("write_slots", worst, slots[worst],
                 cat("slots that no other sequence writes, and sequence ", first, " writes this one"));
  return written;
}

/// In one pool, no sequence reads what another one writes.
void check_read_apart(const Numbers& reads, const Written& written) {
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const auto found = std::lower_bound(written.begin(), written.end(), std::pair{reads[i], std::size_t{0}});
    if (reads[i] >= 0 && found != written.end() && found->first == reads[i] && found->second != i)
      refuse_entry("read_slots", i, reads[i],
                   cat("slots of the same pool that no other sequence writes, and sequence ", found->second,
                       " writes this one"));
  }
}

}  // namespace

void check_lists(const GatedDeltaRuleArgs& args, const ReadList& read) {
  if (args.cu_seqlens) check_ends(read(*args.cu_seqlens), args.q.shape[0]);
  const Size sequences = gated_delta_rule_sequences(args);
  const Numbers reads = args.initial_state ? slots_of(args.read_slots, sequences, read) : Numbers();
  if (args.initial_state) check_slots("read_slots", reads, args.initial_state->shape[0]);
  if (!args.final_state) return;
  const Numbers writes = slots_of(args.write_slots, sequences, read);
  const Written written = check_written_once(writes, args.final_state->shape[0]);
  check_slots("write_slots", writes, args.final_state->shape[0]);
  if (args.initial_state && args.initial_state->data == args.final_state->data) check_read_apart(reads, written);
}

}  // namespace tj::ops
