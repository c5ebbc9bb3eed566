// The checks behind ops::validate(ChunkCumsumArgs); the words of those that every op makes are tensor_checks.hpp's.
#include "ops/chunk_cumsum/chunk_cumsum.hpp"
#include "ops/common/chunk_tokens.hpp"
#include "ops/gated_delta_rule/raw_gate.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;
using namespace gated_delta_rule;

constexpr const char* kOp = "chunk_cumsum";
constexpr const char* kEach[] = {"B", "T", "H"};

void check_raw(const ChunkCumsumArgs& args, const Named& gate) {
  const GateHeads heads{kOp, gate.at(gate.rank - 1), "gate's H", args.gate.device, "gate"};
  check_raw_gate(args.gate_form, args.a_log, args.dt_bias, heads);
  if (!args.dt_bias) return;
  const Named bias = head_numbers(kOp, "dt_bias", *args.dt_bias);
  if (args.dt_bias->dtype != DType::f32) check_dtype(bias, args.gate.dtype, ", as gate.dtype, or f32");
  check_head_numbers(bias, heads);
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
  check_gate_form(kOp, args.gate_form);
  check_raw(args, gate);
  std::optional<Named> a_log, bias;
  if (args.a_log) a_log.emplace(head_numbers(kOp, "a_log", *args.a_log));
  if (args.dt_bias) bias.emplace(head_numbers(kOp, "dt_bias", *args.dt_bias));
  check_written({&g_cu}, {&gate, a_log ? &*a_log : nullptr, bias ? &*bias : nullptr}, args.cu_seqlens);
  check_max_sms(kOp, args.max_sms);
}

}  // namespace tj::ops
