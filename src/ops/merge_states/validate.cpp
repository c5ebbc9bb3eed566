// The checks behind ops::validate(MergeStatesArgs); the words of those that every op makes are tensor_checks.hpp's.
//
// Decides the order of the checks.
#include "ops/common/empty.hpp"
#include "ops/common/list_checks.hpp"
#include "ops/common/tensor_checks.hpp"
#include "ops/merge_states/merge_states.hpp"
#include "ops/merge_states/params.cuh"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr const char* kOp = "merge_states";
constexpr const char* kAxes[] = {"N", "B", "H", "S", "D"};

void check_type(const char* name, DType dtype) {
  if (dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f32)
    refuse(kOp, Code::unsupported, cat(name, " is ", to_string(dtype), "; allowed: f16, bf16, f32"));
}

/// Units of a launch are counted in 32 bits.
void check_units(const Named& o) {
  const Size units = (o.at(o.rank - 1) + merge_states::kUnitColumns - 1) / merge_states::kUnitColumns;
  Size rows = units;
  if (is_empty(o.tensor)) return;
  for (int i = 0; i < o.rank - 1; ++i) {
    if (o.at(i) > kMaxSize / rows)
      refuse(kOp, Code::invalid_argument,
             cat("o.shape is ", shape_text(o.tensor), "; allowed: rows times ceil(D / 128) of at most ", kMaxSize));
    rows *= o.at(i);
  }
}

constexpr const char* kBegins[] = {"B + 1"};

void check_bounds(const Named& list, const Named& o, const Named* lse) {
  check_form(list);
  check_dtype(list, DType::i32, "");
  check_device(list, o.tensor.device, "o");
  check_strides(list, size_of(DType::i32), 0);
  check_alignment(list, size_of(DType::i32));
  const Range range = range_of(list);
  check_apart(o, range_of(o), list, range);
  if (lse != nullptr) check_apart(*lse, range_of(*lse), list, range);
}

void check_places(const Named& states, const Named& lse_states, const Named& o, const Named* lse) {
  for (const Named* t : {&states, &o}) {
    check_strides(*t, size_of(t->tensor.dtype), t->rank - 1);
    check_alignment(*t, size_of(t->tensor.dtype));
  }
  check_strides(lse_states, size_of(DType::f32), -1);
  check_alignment(lse_states, size_of(DType::f32));
  check_no_self_overlap(o);
  const Range from = range_of(states), of_lse = range_of(lse_states), to = range_of(o);
  check_apart(o, to, states, from);
  check_apart(o, to, lse_states, of_lse);
  if (lse == nullptr) return;
  check_strides(*lse, size_of(DType::f32), -1);
  check_alignment(*lse, size_of(DType::f32));
  check_no_self_overlap(*lse);
  const Range range = range_of(*lse);
  check_apart(*lse, range, states, from);
  check_apart(*lse, range, lse_states, of_lse);
  check_apart(*lse, range, o, to);
}

}  // namespace

void validate(const MergeStatesConfig& config) {
  check_type("dtype", config.dtype);
  check_type("out", config.out);
}

void validate(const MergeStatesArgs& args, bool on_model) {
  const int rank = args.o.rank;
  if (rank < 2 || rank > 4)
    refuse(kOp, Code::invalid_argument, cat("o.rank is ", rank, "; allowed: 2 to 4, one to three dimensions and D"));
  const char* const* const inner = kAxes + 5 - rank;  // of o
  const Named o{kOp, "o", args.o, inner, rank, "[..., D]"},
      states{kOp, "states", args.states, kAxes + 4 - rank, rank + 1, "[N, ..., D], with the dimensions of o"},
      lse_states{kOp, "lse_states", args.lse_states, kAxes + 4 - rank, rank, "[N, ...], with the dimensions of o"},
      lse{kOp, "lse", args.lse ? *args.lse : args.o, inner, rank - 1, "[...], with the dimensions of o"};
  const unsigned rows = (1u << (rank - 1)) - 1;  // B, H and S of o, from 0
  check_form(o, rows);
  for (const Named* t : {&states, &lse_states}) check_form(*t, rows << 1);
  check_type("states.dtype", args.states.dtype);
  check_type("o.dtype", args.o.dtype);
  check_dtype(lse_states, DType::f32, "");
  check_place(states, on_model);
  for (const Named* t : {&lse_states, &o}) check_device(*t, args.states.device, "states");
  check_same(lse_states, 0, states.at(0), "states.shape[0]");
  for (int i = 0; i < rank; ++i) check_same(states, i + 1, o.at(i), "o's shape");
  for (int i = 0; i < rank - 1; ++i) check_same(lse_states, i + 1, o.at(i), "o's shape");
  if (args.lse) {
    check_form(lse, rows);
    check_dtype(lse, DType::f32, "");
    check_device(lse, args.states.device, "states");
    for (int i = 0; i < rank - 1; ++i) check_same(lse, i, o.at(i), "o's shape");
  }
  check_units(o);
  check_places(states, lse_states, o, args.lse ? &lse : nullptr);
  if (args.cu_seqlens)
    check_bounds({kOp, "cu_seqlens", *args.cu_seqlens, kBegins, 1, "[B + 1]"}, o, args.lse ? &lse : nullptr);
  check_max_sms(kOp, args.max_sms);
}

void check_sequences(const MergeStatesArgs& args, const ReadList& read) {
  if (!args.cu_seqlens) return;
  const int rows = args.o.rank - 2;
  check_begins(kOp, "cu_seqlens", read(*args.cu_seqlens), args.o.shape[static_cast<std::size_t>(rows)],
               cat("o.shape[", rows, "]").c_str());
}

}  // namespace tj::ops
