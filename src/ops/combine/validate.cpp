// The checks behind ops::validate(CombineArgs); the words of those that every op makes are tensor_checks.hpp's.
//
// Decides the order of the checks. Slots are looked at by check_slots() alone: the device reads them.
#include <cstdint>
#include <vector>

#include "ops/combine/combine.hpp"
#include "ops/combine/params.cuh"
#include "ops/common/tensor_checks.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr const char* kOp = "combine";
constexpr const char *kRows[] = {"S", "H"}, *kSums[] = {"T", "H"}, *kChoices[] = {"T", "J"};

void check_element(DType dtype, const char* name) {
  if (dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f32)
    refuse(kOp, Code::unsupported, cat(name, " is ", to_string(dtype), "; allowed: f16, bf16, f32"));
}

void check_memory(const Named& t) {
  check_strides(t, size_of(t.tensor.dtype), 1);
  check_alignment(t, size_of(t.tensor.dtype));
}

/// An operand beside y, of d's rows.
void check_operand(const Named& t, const Named& y, const Named& d, const Range& d_range) {
  check_device(t, y.tensor.device, "y");
  check_same(t, 0, d.at(0), "d's T");
  check_memory(t);
  check_apart(d, d_range, t, range_of(t));
}

}  // namespace

void validate(const CombineConfig& config) {
  check_element(config.dtype, "dtype");
  check_element(config.out, "out");
}

void validate(const CombineArgs& args, bool on_model) {
  const Named y{kOp, "y", args.y, kRows, 2, "[S, H]"}, d{kOp, "d", args.d, kSums, 2, "[T, H]"},
      slots{kOp, "slots", args.slots, kChoices, 2, "[T, J]"};
  for (const Named* t : {&y, &d, &slots}) check_form(*t, kAllAxes);
  check_element(args.y.dtype, "y.dtype");
  check_element(args.d.dtype, "d.dtype");
  check_dtype(slots, DType::i32, "");
  check_place(y, on_model);
  check_device(d, args.y.device, "y");
  check_same(d, 1, y.at(1), "y's H");
  const Size units = (d.at(1) + combine::kUnitColumns - 1) / combine::kUnitColumns;
  if (units != 0 && d.at(0) > kMaxSize / units)
    refuse(kOp, Code::invalid_argument,
           cat("d.shape is ", shape_text(args.d), "; allowed: T * ceil(H / ", combine::kUnitColumns, ") of at most ",
               kMaxSize));
  for (const Named* t : {&y, &d}) check_memory(*t);
  check_no_self_overlap(d);
  const Range d_range = range_of(d);
  check_apart(d, d_range, y, range_of(y));
  check_operand(slots, y, d, d_range);
  if (args.weights) {
    const Named weights{kOp, "weights", *args.weights, kChoices, 2, "[T, J]"};
    check_form(weights, kAllAxes);
    check_dtype(weights, DType::f32, "");
    check_same(weights, 1, slots.at(1), "slots' J");
    check_operand(weights, y, d, d_range);
  }
  if (args.residual) {
    const Named residual{kOp, "residual", *args.residual, kSums, 2, "[T, H]"};
    check_form(residual, kAllAxes);
    check_dtype(residual, args.d.dtype, ", as d.dtype");
    check_same(residual, 1, d.at(1), "d's H");
    check_operand(residual, y, d, d_range);
  }
  check_max_sms(kOp, args.max_sms);
}

void check_slots(const CombineArgs& args, const ReadList& read) {
  const std::vector<std::int32_t> list = read(args.slots);  // memory up to the last slot
  const Size apart = args.slots.shape[0] == 1 ? 0 : args.slots.strides[0], rows = args.y.shape[0];
  for (Size t = 0; t < args.slots.shape[0]; ++t)
    for (Size j = 0; j < args.slots.shape[1]; ++j)
      if (const Size slot = list[static_cast<std::size_t>(t * apart + j)]; slot < -1 || slot >= rows)
        refuse(kOp, Code::invalid_argument,
               cat("slots[", t, "][", j, "] is ", slot, "; allowed: -1 (skipped) to ", rows - 1, ", the rows of y"));
}

}  // namespace tj::ops
