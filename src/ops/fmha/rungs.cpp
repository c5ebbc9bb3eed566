// See rungs.hpp.
#include "ops/fmha/rungs.hpp"

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
constexpr FmhaRung kRungs[] = {
    {"none", false, false, kAnyNumber, kAnyNumber, 0, 0, 1, false},
    {"basic", true, true, 1, 1, 0, 0, 1, true},
    {"exp2", false, true, 1, 1, 0, 0, 1, true},
    {"transposed_k", false, false, 1, 1, 0, 0, 1, true},
    {"latency", false, false, kAnyNumber, kAnyNumber, 2, 4, 1, true},
    {"occupancy", false, false, kAnyNumber, kAnyNumber, 2, 4, 2, true},
    {"division", false, false, kAnyNumber, kAnyNumber, 2, 4, 2, false},
};
static_assert(std::size(kRungs) == kLastFmhaRung + 1);

constexpr auto kNames = [] {
  std::array<const char*, std::size(kRungs)> names{};
  for (std::size_t rung = 0; rung < names.size(); ++rung) names[rung] = kRungs[rung].name;
  return names;
}();
constexpr const char* kNumbers[] = {kRungs[kNoFmhaRung].name, "1", "2", "3", "4", "5", "6"};
static_assert(std::size(kNumbers) == std::size(kRungs));

}  // namespace

std::span<const FmhaRung> fmha_rungs() { return kRungs; }

std::string fmha_rung_names() {
  std::string names = kRungs[kNoFmhaRung].name;
  for (int rung = 1; rung <= kLastFmhaRung; ++rung) names += cat(", ", rung, " (", kRungs[rung].name, ")");
  return names;
}

std::span<const char* const> fmha_rung_words() { return kNames; }
std::span<const char* const> fmha_rung_numbers() { return kNumbers; }

std::vector<std::string> fmha_rung_flags() {
  std::vector<std::string> flags(std::begin(kNumbers), std::end(kNumbers));
  flags.insert(flags.end(), kNames.begin() + 1, kNames.end());
  return flags;
}

void check_fmha_rung(std::int32_t rung) {
  if (rung < kNoFmhaRung || rung > kLastFmhaRung)
    refuse("fmha", Code::invalid_argument, cat("rung is ", rung, "; allowed: 0 (none)", fmha_rung_names().substr(4)));
}

void require_fmha_rungs(std::int32_t rung, const arch::Arch& arch) {
  const auto has_rungs = [](const arch::Arch& of) {
    const FmhaFamily* family = find_fmha_family(of);
    return family != nullptr && family->has_rungs;
  };
  if (rung == kNoFmhaRung || has_rungs(arch)) return;
  std::string served;
  for (const arch::Arch* each : arch::all())
    if (has_rungs(*each)) served += cat(served.empty() ? "" : ", ", each->name);
  support::fail(Stage::target, Code::unsupported,
                cat("fmha: rung ", rung, " (", kRungs[rung].name, ") does not run on '", arch.name,
                    "'; rungs are for archs whose products are a warp's or a wave's: ", served));
}

FmhaSlots fmha_rung_slots(const FmhaRung& rung, std::int64_t fit) {
  FmhaSlots slots{rung.k_ahead + 1, rung.v_ahead + 1};
  while (slots.k + slots.v > std::max<std::int64_t>(2, fit)) --(slots.v > slots.k || slots.k == 1 ? slots.v : slots.k);
  return slots;
}

std::vector<std::pair<std::string, std::string>> fmha_rung_fields(std::int32_t number) {
  if (number == kNoFmhaRung) return {};
  const FmhaRung& rung = kRungs[number];
  const auto bound = [](int value) { return value == kAnyNumber ? std::string("any") : cat(value); };
  return {{"exponential", rung.natural_exponential ? "e" : "2"},
          {"keys", rung.transposes_keys ? "transposed" : "stored"},
          {"stages", bound(rung.max_stages)},
          {"slots", bound(rung.max_slots)},
          {"k_ahead", cat(rung.k_ahead)},
          {"v_ahead", cat(rung.v_ahead)},
          {"blocks_per_sm", cat(rung.blocks_per_sm)},
          {"division", rung.exact_division ? "exact" : "approximate"}};
}

}  // namespace tj::ops
