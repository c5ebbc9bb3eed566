// Checks of raw gates; see raw_gate.hpp.
#include "ops/gated_delta_rule/raw_gate.hpp"

#include "support/fail.hpp"

namespace tj::ops::gated_delta_rule {

using support::cat;

void check_gate_form(const char* op, GateForm form) {
  if (form < GateForm::log || form > GateForm::raw)
    refuse(op, Code::invalid_argument,
           cat("gate_form is ", static_cast<int>(form), "; allowed: 0 (log), 1 (exp), 2 (raw)"));
}

Named head_numbers(const char* op, const char* name, const Tensor& tensor) {
  static constexpr const char* kHeads[] = {"H"};
  return {op, name, tensor, kHeads, 1, "[H]"};
}

void check_head_numbers(const Named& t, const GateHeads& heads) {
  check_form(t);
  check_device(t, heads.device, heads.beside);
  check_same(t, 0, heads.count, heads.like);
  check_strides(t, size_of(t.tensor.dtype), 0);
  check_alignment(t, size_of(t.tensor.dtype));
}

void check_raw_gate(GateForm form, const std::optional<Tensor>& a_log, const std::optional<Tensor>& dt_bias,
                    const GateHeads& heads) {
  const bool raw = form == GateForm::raw;
  if (raw && !a_log)
    refuse(heads.op, Code::invalid_argument, "a_log is absent and gate_form is 2 (raw); allowed: f32 [H]");
  for (const auto* const given : {&a_log, &dt_bias})
    if (*given && !raw)
      refuse(heads.op, Code::invalid_argument,
             cat(given == &a_log ? "a_log" : "dt_bias", " is given and gate_form is ", static_cast<int>(form),
                 "; allowed with gate_form 2 (raw) alone"));
  if (!a_log) return;
  const Named numbers = head_numbers(heads.op, "a_log", *a_log);
  check_dtype(numbers, DType::f32, "");
  check_head_numbers(numbers, heads);
}

}  // namespace tj::ops::gated_delta_rule
