// See mods.hpp.
#include "ops/fmha/mods.hpp"

#include <iterator>

#include "ops/common/tensor_args.hpp"
#include "ops/common/tensor_checks.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr const char* kOp = "fmha";

/// A text that a call may have.
struct Mod : OwnText {
  DeviceText FmhaArgs::* of_args;
  DeviceText FmhaConfig::* of_config;
};
constexpr Mod kMods[] = {
    {{"score_mod", kScoreModField, "kScoreMod",
      "float score_mod([[maybe_unused]] float score, [[maybe_unused]] int b, [[maybe_unused]] int h, [[maybe_unused]] "
      "int q, [[maybe_unused]] int k, [[maybe_unused]] const ModParams& params)",
      "return score * 2;"},
     &FmhaArgs::score_mod,
     &FmhaConfig::score_mod},
    {{"mask_mod", kMaskModField, "kMaskMod",
      "bool mask_mod([[maybe_unused]] int b, [[maybe_unused]] int h, [[maybe_unused]] int q, [[maybe_unused]] int k, "
      "[[maybe_unused]] const ModParams& params)",
      "return k <= q;"},
     &FmhaArgs::mask_mod,
     &FmhaConfig::mask_mod},
    {{"key_range", kKeyRangeField, "kKeyRange",
      "void key_range([[maybe_unused]] int b, [[maybe_unused]] int h, [[maybe_unused]] int q0, [[maybe_unused]] int "
      "q1, [[maybe_unused]] const ModParams& params, [[maybe_unused]] int& k0, [[maybe_unused]] int& k1, "
      "[[maybe_unused]] int& all0, [[maybe_unused]] int& all1)",
      nullptr},
     &FmhaArgs::key_range,
     &FmhaConfig::key_range},
};
static_assert(std::size(kMods) == kMostOwnTexts);

TextSets& sets() {
  static constinit support::Lasting<TextSets> all;
  return all.get();
}

[[noreturn, gnu::noinline, gnu::cold]] void refuse_range() {
  refuse(kOp, Code::invalid_argument,
         "key_range is given; allowed: with mask_mod or score_mod, which hide the keys that it leaves out");
}

constexpr const char* kBiasAxes[] = {"B", "H", "Sq", "Sk"};

void check_bias_shape(const Named& bias, const FmhaBeside& of, Size batch, Size heads, bool varlen) {
  if (bias.at(0) != 1) check_same(bias, 0, batch, of.batch_like);
  if (bias.at(1) != 1) check_same(bias, 1, heads, "q.shape[1]");
  if (!varlen && bias.at(2) != 1) check_same(bias, 2, of.q.at(2), "q.shape[2]");
  if (!varlen && bias.at(3) != 1) check_same(bias, 3, of.k.at(2), "k.shape[2]");
}

void check_bias(const FmhaArgs& args, const FmhaBeside& of, Size batch, Size heads, bool varlen) {
  const Named given{kOp, "bias", *args.bias, kBiasAxes, 4, "[B or 1, H or 1, Sq or 1, Sk or 1]"};
  check_form(given, axis_bits({0, 2, 3}));
  check_bias_shape(given, of, batch, heads, varlen);
  Tensor stored = *args.bias;  // a stride of 0 is one number for all
  for (std::size_t i = 0; i < 4; ++i)
    if (stored.strides[i] == 0) stored.shape[i] = 1;
  const Named bias{kOp, "bias", stored, kBiasAxes, 4, given.form};
  if (bias.tensor.dtype != DType::f32) check_dtype(bias, of.q.tensor.dtype, ", as q.dtype, or f32");
  check_device(bias, of.q.tensor.device, "q");
  const int bytes = size_of(bias.tensor.dtype);
  check_strides(bias, bytes, -1);
  check_alignment(bias, bytes);
  constexpr Size kMost = 0x7fffffff;
  if (bias.at(3) > 1 && bias.stride(3) > kMost)
    refuse(kOp, Code::unsupported, cat("bias.strides[3] is ", bias.stride(3), "; allowed: up to ", kMost));
  const Range range = range_of(bias);
  check_apart(of.o, of.outputs.o, bias, range);
  if (of.lse != nullptr) check_apart(*of.lse, range_of(*of.lse), bias, range);
}

void check_params(const FmhaArgs& args, const FmhaBeside& of) {
  if (!args.mod_params) {
    for (const Mod& mod : kMods) check_text_reads(kOp, mod, args.*mod.of_args, "mod_params");
    return;
  }
  if (!has_mods(args))
    refuse(kOp, Code::invalid_argument, "mod_params is given; allowed: with score_mod, mask_mod or key_range");
  const Range range = check_text_params(kOp, "mod_params", *args.mod_params, of.q);
  const Named params{kOp, "mod_params", *args.mod_params, nullptr, 1, "[N]"};
  check_apart(of.o, of.outputs.o, params, range);
  if (of.lse != nullptr) check_apart(*of.lse, range_of(*of.lse), params, range);
}

}  // namespace

unsigned mods_number(const FmhaConfig& config) {
  if (!has_mods(config)) return 0;  // most calls, on the hot path
  return sets().number(kOp, "score_mod, mask_mod and key_range are another set of texts", "mod_params",
                       {config.score_mod, config.mask_mod, config.key_range});
}

void set_mods_number(FmhaConfig& config, unsigned number) {
  if (number == 0) return;
  const TextSets::Set texts = sets().texts(number);
  for (std::size_t i = 0; i < kMostOwnTexts; ++i) config.*kMods[i].of_config = texts[i];
}

std::span<const char* const> mods_words() { return sets().words(); }

void set_mods(FmhaConfig& config, const FmhaArgs& args) {
  for (const Mod& mod : kMods) config.*mod.of_config = args.*mod.of_args;
  config.bias = !args.bias ? FmhaBias::none : args.bias->dtype == DType::f32 ? FmhaBias::f32 : FmhaBias::same;
}

void set_mods(fmha::Params& params, const FmhaArgs& args) {
  if (args.bias) {
    const Tensor& bias = *args.bias;
    params.bias = bias.data;
    params.bias_stride_batch = stride(bias, 0);
    params.bias_stride_head = stride(bias, 1);
    params.bias_stride_query = stride(bias, 2);
    params.bias_stride_key = static_cast<int>(stride(bias, 3));
    params.last_bias_query = static_cast<int>(bias.shape[2] - 1);
    params.last_bias_key = static_cast<int>(bias.shape[3] - 1);
  }
  set_text_params(args.mod_params, &fmha::Params::mod_params, &fmha::Params::last_mod_param, params);
}

void check_mods(const FmhaConfig& config) {
  for (const Mod& mod : kMods) check_own_text(kOp, mod, config.*mod.of_config);
  if (config.key_range.given() && !config.mask_mod.given() && !config.score_mod.given()) refuse_range();
}

void check_mods(const FmhaArgs& args, const FmhaBeside& of, Size batch, Size heads, bool varlen) {
  for (const Mod& mod : kMods) check_own_text(kOp, mod, args.*mod.of_args);
  if (args.key_range.given() && !args.mask_mod.given() && !args.score_mod.given()) refuse_range();
  check_params(args, of);
  if (args.bias) check_bias(args, of, batch, heads, varlen);
}

std::string mods_tag(const FmhaConfig& config) { return texts_tag(mods_fields(config)); }

TextFields mods_fields(const FmhaConfig& config) {
  TextFields fields;
  for (const Mod& mod : kMods)
    if (const DeviceText& text = config.*mod.of_config; text.given()) fields.emplace_back(mod.field, text.text());
  return fields;
}

void read_mods(FmhaConfig& config, const TextFields& fields) {
  for (const auto& [name, text] : fields)
    for (const Mod& mod : kMods)
      if (name == mod.field) config.*mod.of_config = text;
}

FmhaConfig take_mods(Flags& flags) {
  FmhaConfig config;
  for (const Mod& mod : kMods) config.*mod.of_config = take_text(flags, mod);
  return config;
}

void add_mods(graph::Graph& graph, const FmhaConfig& config) {
  for (const Mod& mod : kMods) add_text(graph, mod, config.*mod.of_config);
}

int mods_operations(const FmhaConfig& config) {
  int operations = has_bias(config) ? 6 : 0;
  for (const Mod& mod : kMods)
    if (mod.example != nullptr) operations += text_operations(config.*mod.of_config);
  return operations;
}

int mods_registers(const FmhaConfig& config) {
  return (config.score_mod.given() ? 8 : 0) + (config.mask_mod.given() ? 6 : 0) + (config.key_range.given() ? 2 : 0) +
         (has_bias(config) ? 8 : 0);
}

}  // namespace tj::ops
