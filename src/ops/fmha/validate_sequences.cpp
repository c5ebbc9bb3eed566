// The checks of a call with lists, and those of the lists' numbers, which TJ_CHECK asks for.
//
// Decides which forms tensors and lists have, and in which order they are checked. Words are tensor_checks.hpp's.
// Invariant: passing validate_sequences() allocates nothing.
#include <cstdint>
#include <vector>

#include "ops/common/list_checks.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/fmha/sequences.hpp"
#include "ops/fmha/validate.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr const char* kOp = "fmha";
constexpr const char *kQueryAxes[] = {"T", "H", "D"}, *kOutputAxes[] = {"T", "H", "Dv"},
                     *kKeyAxes[] = {"Tk", "Hkv", "D"}, *kValueAxes[] = {"Tk", "Hkv", "Dv"}, *kLseAxes[] = {"H", "T"};
constexpr const char *kBegins[] = {"B + 1"}, *kSequences[] = {"B"}, *kTable[] = {"B", "pages"},
                     *kPageAxes[] = {"pages", "page size", "Hkv", "D"},
                     *kValuePageAxes[] = {"pages", "page size", "Hkv", "Dv"};
constexpr const char *kForm = "[T, H, D], with cu_seqlens_q",
                     *kPagesForm = "[pages, page size, Hkv, D], with block_table";

constexpr unsigned kFirst = axis_bits({0}),
                   kLast = axis_bits({1});  // rows, pages and sequences; rows of lse, pages of one

/// A list of i32 without gaps.
void check_list(const Named& t, const FmhaArgs& args, Size size, const char* like) {
  check_form(t, kFirst);
  check_dtype(t, DType::i32, "");
  check_device(t, args.q.device, "q");
  check_same(t, 0, size, like);
  check_strides(t, size_of(DType::i32), t.rank - 1);
  check_alignment(t, size_of(DType::i32));
}

[[noreturn, gnu::noinline, gnu::cold]] void refuse_absent(const char* name, const char* given) {
  refuse(kOp, Code::invalid_argument, cat(name, " is absent; allowed: a list of i32, as ", given, " is given"));
}

/// Lists by their names, those that are given.
template <class Use>
void each_list(const FmhaArgs& args, const Use& use) {
  const Size sequences = fmha_sequences(args);
  use(Named{kOp, "cu_seqlens_q", *args.cu_seqlens_q, kBegins, 1, "[B + 1]"}, sequences + 1);
  if (args.cu_seqlens_k) use(Named{kOp, "cu_seqlens_k", *args.cu_seqlens_k, kBegins, 1, "[B + 1]"}, sequences + 1);
  if (args.seqused_k) use(Named{kOp, "seqused_k", *args.seqused_k, kSequences, 1, "[B]"}, sequences);
}

void check_lists(const FmhaArgs& args) {
  if (!args.cu_seqlens_q) refuse_absent("cu_seqlens_q", args.cu_seqlens_k ? "cu_seqlens_k" : "a list of keys");
  if (!args.block_table && !args.cu_seqlens_k) refuse_absent("cu_seqlens_k", "cu_seqlens_q");
  if (args.block_table && !args.cu_seqlens_k && !args.seqused_k) refuse_absent("seqused_k", "block_table");
  const Named begins{kOp, "cu_seqlens_q", *args.cu_seqlens_q, kBegins, 1, "[B + 1]"};
  check_form(begins);
  each_list(args, [&](const Named& list, Size size) { check_list(list, args, size, "B of cu_seqlens_q asks for"); });
}

/// Pages of a tensor, whose rows one map has.
void check_pages(const Named& t) {
  const Size apart = t.stride(0), row = t.stride(1);
  if (t.at(0) > 1 && t.at(1) > 1 && apart % row != 0)
    refuse(kOp, Code::unsupported,
           cat(t.name, ".strides[0] (pages) is ", apart, "; allowed: multiples of ", t.name, ".strides[1], ", row));
  if (t.at(0) > 1 && t.at(1) > 1 && apart / row > kMaxSize / t.at(0))
    refuse(kOp, Code::unsupported,
           cat(t.name, ".strides[0] (pages) is ", apart, "; allowed: pages within ", kMaxSize, " rows of ", row));
}

void check_table(const Named& k, const Named& v, const FmhaArgs& args) {
  const Named table{kOp, "block_table", *args.block_table, kTable, 2, "[B, pages]"};
  check_form(table, kFirst | kLast);
  check_dtype(table, DType::i32, "");
  check_device(table, args.q.device, "q");
  check_same(table, 0, fmha_sequences(args), "B of cu_seqlens_q");
  check_strides(table, size_of(DType::i32), 1);
  check_alignment(table, size_of(DType::i32));
  if (table.at(1) > kMaxSize / k.at(1))
    refuse(kOp, Code::invalid_argument,
           cat("block_table.shape[1] (pages) is ", table.at(1), "; allowed: pages of ", k.at(1), " keys up to ",
               kMaxSize));
  check_pages(k);
  check_pages(v);
}

void check_shapes(const Named& q, const Named& k, const Named& v, const Named& o, const FmhaArgs& args) {
  const int last = k.rank - 1;
  check_same(k, last, q.at(2), "q.shape[2]");
  for (int i = 0; i < last; ++i) check_same(v, i, k.at(i), "k's shape");
  for (int i = 0; i < 2; ++i) check_same(o, i, q.at(i), "q's shape");
  check_same(o, 2, v.at(last), last == 3 ? "v.shape[3]" : "v.shape[2]");
  check_fmha_groups("q.shape[1]", q.at(1), last == 3 ? "k.shape[2]" : "k.shape[1]", k.at(last - 1));
  // Blocks of a launch are counted in 32 bits; no kernel takes fewer than 64 rows a block.
  if (fmha_row_blocks(q.at(0), fmha_sequences(args), 64) > kMaxSize / q.at(1))
    refuse(kOp, Code::invalid_argument,
           cat("q.shape is ", shape_text(q.tensor), " with ", fmha_sequences(args),
               " sequences; allowed: H * (T / 64 + B) of at most ", kMaxSize));
}

}  // namespace

void validate_sequences(const FmhaArgs& args, bool on_model) {
  const bool paged = args.block_table.has_value();
  const char* const form = paged ? kPagesForm : kForm;
  const Named q{kOp, "q", args.q, kQueryAxes, 3, kForm},
      k{kOp, "k", args.k, paged ? kPageAxes : kKeyAxes, paged ? 4 : 3, form},
      v{kOp, "v", args.v, paged ? kValuePageAxes : kValueAxes, paged ? 4 : 3, form},
      o{kOp, "o", args.o, kOutputAxes, 3, kForm};
  for (const Named* t : {&q, &k, &v, &o}) check_form(*t, kFirst);
  check_fmha_types(q, k, v, o, on_model);
  check_lists(args);
  check_shapes(q, k, v, o, args);
  const FmhaOutputs outputs = check_fmha_places(q, k, v, o);
  if (paged) check_table(k, v, args);
  check_fmha_numbers(args);
  const Named lse{kOp, "lse", args.lse ? *args.lse : args.o, kLseAxes, 2, "[H, T]"};
  if (args.lse) {
    check_form(lse, kLast);
    check_same(lse, 0, q.at(1), "q.shape[1]");
    check_same(lse, 1, q.at(0), "q.shape[0]");
  }
  check_fmha_beside(args, {q, k, v, o, args.lse ? &lse : nullptr, outputs}, fmha_sequences(args), q.at(1));
  const auto apart = [&](const Named& list) {
    const Range range = range_of(list);
    check_apart(o, outputs.o, list, range);
    if (args.lse) check_apart(lse, range_of(lse), list, range);
  };
  each_list(args, [&](const Named& list, Size) { apart(list); });
  if (paged) apart({kOp, "block_table", *args.block_table, kTable, 2, ""});
}

namespace {

using Numbers = std::vector<std::int32_t>;

/// The pages that a sequence's keys lie in.
void check_table_entries(const FmhaArgs& args, const Numbers& lengths, const ReadList& read) {
  const Numbers table = read(*args.block_table);
  const Size apart = args.block_table->shape[0] == 1 ? 0 : args.block_table->strides[0], size = args.k.shape[1],
             pages = args.k.shape[0];
  for (std::size_t s = 0; s < lengths.size(); ++s)
    for (Size i = 0; i * size < lengths[s]; ++i) {
      const std::int32_t page = table[s * support::at(apart) + support::at(i)];
      if (page < 0 || page >= pages)
        refuse(kOp, Code::invalid_argument,
               cat("block_table[", s, "][", i, "] is ", page, "; allowed: 0 to ", pages - 1, ", the pages"));
    }
}

/// seqused_k, or the lengths that cu_seqlens_k has; begins: that list, where it is given.
Numbers checked_lengths(const FmhaArgs& args, const Numbers& begins, const ReadList& read) {
  const bool paged = args.block_table.has_value();
  Numbers lengths(support::at(fmha_sequences(args)));
  const Numbers used = args.seqused_k ? read(*args.seqused_k) : Numbers();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const Size most = paged ? args.block_table->shape[1] * args.k.shape[1] : begins[i + 1] - begins[i];
    lengths[i] = args.seqused_k ? used[i] : begins[i + 1] - begins[i];
    if (lengths[i] < 0 || lengths[i] > most)
      refuse(kOp, Code::invalid_argument,
             cat(args.seqused_k ? "seqused_k[" : "cu_seqlens_k[", args.seqused_k ? i : i + 1, "] ",
                 args.seqused_k ? "is " : "makes a length of ", lengths[i], "; allowed: 0 to ", most,
                 paged ? ", the keys of its pages" : ", the sequence's keys"));
  }
  return lengths;
}

}  // namespace

void check_sequences(const FmhaArgs& args, const ReadList& read) {
  if (!has_sequences(args)) return;
  check_begins(kOp, "cu_seqlens_q", read(*args.cu_seqlens_q), args.q.shape[0], "q.shape[0]");
  Numbers begins;
  if (args.cu_seqlens_k) {
    begins = read(*args.cu_seqlens_k);
    if (args.block_table)
      check_begins(kOp, "cu_seqlens_k", begins, kMaxSize, "as no tensor is larger");
    else
      check_begins(kOp, "cu_seqlens_k", begins, args.k.shape[0], "k.shape[0]");
  }
  const Numbers lengths = checked_lengths(args, begins, read);
  if (args.block_table) check_table_entries(args, lengths, read);
}

}  // namespace tj::ops
