// The checks behind ops::validate(ChunkCumsumArgs); the words of those that every op makes are tensor_checks.hpp's.
#include "ops/chunk_cumsum/chunk_cumsum.hpp"
#include "ops/common/chunk_tokens.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr const char* kOp = "chunk_cumsum";
constexpr const char *kEach[] = {"B", "T", "H"}, *kHeads[] = {"H"};

/// Numbers of each head, of a raw gate.
void check_heads(const ChunkCumsumArgs& args, const Named& gate, const Named& t) {
  check_form(t);
  check_device(t, args.gate.device, "gate");
  check_same(t, 0, gate.at(gate.rank - 1), "gate's H");
  check_strides(t, size_of(t.tensor.dtype), 0);
  check_alignment(t, size_of(t.tensor.dtype));
}

void check_raw(const ChunkCumsumArgs& args, const Named& gate) {
  const bool raw = args.gate_form == GateForm::raw;
  if (raw && !args.a_log)
    refuse(kOp, Code::invalid_argument, "a_log is absent and gate_form is 2 (raw); allowed: f32 [H]");
  for (const auto* const given : {&args.a_log, &args.dt_bias})
    if (*given && !raw)
      refuse(kOp, Code::invalid_argument,
             cat(given == &args.a_log ? "a_log" : "dt_bias", " is given and gate_form is ",
                 static_cast<int>(args.gate_form), "; allowed with gate_form 2 (raw) alone"));
  if (args.a_log) {
    const Named a_log{kOp, "a_log", *args.a_log, kHeads, 1, "[H]"};
    check_dtype(a_log, DType::f32, "");
    check_heads(args, gate, a_log);
  }
  if (!args.dt_bias) return;
  const Named bias{kOp, "dt_bias", *args.dt_bias, kHeads, 1, "[H]"};
  if (args.dt_bias->dtype != DType::f32) check_dtype(bias, args.gate.dtype, ", as gate.dtype, or f32");
  check_heads(args, gate, bias);
}

}  // namespace

void validate(const ChunkCumsumConfig& config) {
  if (config.dtype != DType::f16 && config.dtype != DType::bf16)
    refuse(kOp, Code::unsupported, cat("dtype is ", to_string(config.dtype), "; allowed: f16, bf16"));
}

void validate(const ChunkCumsumArgs& args, bool on_model) {
  const ChunkTokens tokens{kOp, "gate", args.gate, 2, args.cu_seqlens};
  const Named gate{
      kOp, "gate", args.gate, kEach + tokens.first_axis(), tokens.batched() ? 3 : 2, "[T, H], or [B, T, H]"},
      g_cu = named_of(tokens, "g_cu", args.g_cu, kEach, 2, "[B, T, H], as gate", "[T, H], as gate");
  check_tokens(tokens, gate, on_model);
  if (args.gate.dtype != DType::f32 && args.gate.dtype != DType::f16 && args.gate.dtype != DType::bf16)
    refuse(kOp, Code::unsupported, cat("gate.dtype is ", to_string(args.gate.dtype), "; allowed: f16, bf16, f32"));
  check_elements(gate);
  const Size heads = gate.at(gate.rank - 1);
  check_token_numbers(tokens, g_cu, heads, "gate's H", {});
  check_chunk_units(tokens, heads, 1);
  if (args.gate_form < GateForm::log || args.gate_form > GateForm::raw)
    refuse(kOp, Code::invalid_argument,
           cat("gate_form is ", static_cast<int>(args.gate_form), "; allowed: 0 (log), 1 (exp), 2 (raw)"));
  check_raw(args, gate);
  std::optional<Named> a_log, bias;
  if (args.a_log) a_log.emplace(Named{kOp, "a_log", *args.a_log, kHeads, 1, "[H]"});
  if (args.dt_bias) bias.emplace(Named{kOp, "dt_bias", *args.dt_bias, kHeads, 1, "[H]"});
  check_written({&g_cu}, {&gate, a_log ? &*a_log : nullptr, bias ? &*bias : nullptr}, args.cu_seqlens);
  check_max_sms(kOp, args.max_sms);
}

}  // namespace tj::ops
