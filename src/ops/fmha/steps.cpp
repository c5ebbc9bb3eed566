// See steps.hpp.
#include "ops/fmha/steps.hpp"

#include <algorithm>
#include <array>

#include "ops/common/tensor_checks.hpp"
#include "ops/fmha/family.hpp"
#include "support/fail.hpp"

namespace tj::ops {
namespace {

using support::cat;

// In order: natural exponential, keys transposed, most stages, most slots, copies of keys and of values ahead, blocks
// an SM, exact division.
constexpr FmhaStep kSteps[] = {
    {"none", false, false, kAnyNumber, kAnyNumber, 0, 0, 1, false},
    {"basic", true, true, 1, 1, 0, 0, 1, true},
    {"exp2", false, true, 1, 1, 0, 0, 1, true},
    {"transposed_k", false, false, 1, 1, 0, 0, 1, true},
    {"latency", false, false, kAnyNumber, kAnyNumber, 2, 4, 1, true},
    {"occupancy", false, false, kAnyNumber, kAnyNumber, 2, 4, 2, true},
    {"division", false, false, kAnyNumber, kAnyNumber, 2, 4, 2, false},
};
static_assert(std::size(kSteps) == kLastFmhaStep + 1);

constexpr auto kNames = [] {
  std::array<const char*, std::size(kSteps)> names{};
  for (std::size_t step = 0; step < names.size(); ++step) names[step] = kSteps[step].name;
  return names;
}();
constexpr const char* kNumbers[] = {kSteps[kNoFmhaStep].name, "1", "2", "3", "4", "5", "6"};
static_assert(std::size(kNumbers) == std::size(kSteps));

}  // namespace

std::span<const FmhaStep> fmha_steps() { return kSteps; }

std::string fmha_step_names() {
  std::string names = kSteps[kNoFmhaStep].name;
  for (int step = 1; step <= kLastFmhaStep; ++step) names += cat(", ", step, " (", kSteps[step].name, ")");
  return names;
}

std::span<const char* const> fmha_step_words() { return kNames; }
std::span<const char* const> fmha_step_numbers() { return kNumbers; }

std::vector<std::string> fmha_step_flags() {
  std::vector<std::string> flags(std::begin(kNumbers), std::end(kNumbers));
  flags.insert(flags.end(), kNames.begin() + 1, kNames.end());
  return flags;
}

void check_fmha_step(std::int32_t step) {
  if (step < kNoFmhaStep || step > kLastFmhaStep)
    refuse("fmha", Code::invalid_argument, cat("step is ", step, "; allowed: 0 (none)", fmha_step_names().substr(4)));
}

void require_fmha_steps(std::int32_t step, const arch::Arch& arch) {
  const auto has_steps = [](const arch::Arch& of) {
    const FmhaFamily* family = find_fmha_family(of);
    return family != nullptr && family->has_steps;
  };
  if (step == kNoFmhaStep || has_steps(arch)) return;
  std::string served;
  for (const arch::Arch* each : arch::all())
    if (has_steps(*each)) served += cat(served.empty() ? "" : ", ", each->name);
  support::fail(Stage::target, Code::unsupported,
                cat("fmha: step ", step, " (", kSteps[step].name, ") does not run on '", arch.name,
                    "'; steps are for archs whose products are a warp's: ", served));
}

FmhaSlots fmha_step_slots(const FmhaStep& step, std::int64_t fit) {
  FmhaSlots slots{step.k_ahead + 1, step.v_ahead + 1};
  while (slots.k + slots.v > std::max<std::int64_t>(2, fit)) --(slots.v > slots.k || slots.k == 1 ? slots.v : slots.k);
  return slots;
}

std::vector<std::pair<std::string, std::string>> fmha_step_fields(std::int32_t number) {
  if (number == kNoFmhaStep) return {};
  const FmhaStep& step = kSteps[number];
  const auto bound = [](int value) { return value == kAnyNumber ? std::string("any") : cat(value); };
  return {{"exponential", step.natural_exponential ? "e" : "2"},
          {"keys", step.transposes_keys ? "transposed" : "stored"},
          {"stages", bound(step.max_stages)},
          {"slots", bound(step.max_slots)},
          {"k_ahead", cat(step.k_ahead)},
          {"v_ahead", cat(step.v_ahead)},
          {"blocks_per_sm", cat(step.blocks_per_sm)},
          {"division", step.exact_division ? "exact" : "approximate"}};
}

}  // namespace tj::ops
