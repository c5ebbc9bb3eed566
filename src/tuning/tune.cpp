// See tune.hpp.
#include "tuning/tune.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/common/graph_choice.hpp"
#include "support/fail.hpp"
#include "support/random_values.hpp"

namespace tj {
namespace {

using support::cat;

constexpr std::size_t kPatternValues = std::size_t{1} << 21;  // long enough that no two blocks of a tile look alike
constexpr double kReplayUs = 2000;                            // of calls in one recording: starting it must not count
constexpr int kMostCalls = 40;
constexpr int kReplays = 3;  // timed ones in a round, after one that is not
// Work before what counts: the clock of a device that was idle falls to the one that lasts. 3739 x 2048 x 8192 took 170
// us in the first 80 ms on an H200, and 195 to 204 from then on (2026-11-26).
constexpr double kSettleMs = 250;
constexpr int kMostSettling = 1000;  // replays: where times are nothing
constexpr double kFarBehind =
    1.25;  // slower than the fastest by this after a round: further rounds would not change who wins

/// Device memory for an operand, filled.
std::shared_ptr<void> make_operand(const ops::Operand& operand, const TuneSteps& steps, std::uint64_t seed) {
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < operand.shape.size(); ++i) elements += (operand.shape[i] - 1) * operand.strides[i];
  const std::size_t bytes = static_cast<std::size_t>(elements) * static_cast<std::size_t>(size_of(operand.dtype));
  auto memory = steps.driver->allocate(steps.device.index, bytes);
  const std::string pattern =
      operand.fill ? operand.fill(seed)
      : operand.numbers.empty()
          ? normal_values(operand.dtype, std::min(kPatternValues, static_cast<std::size_t>(elements)), seed)
          : std::string(reinterpret_cast<const char*>(operand.numbers.data()), bytes);
  for (std::size_t at = 0; at < bytes; at += pattern.size())
    steps.driver->copy(steps.device.index, static_cast<char*>(memory.get()) + at, true, pattern.data(), false,
                       std::min(pattern.size(), bytes - at));
  return memory;
}

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

/// A kernel that takes part.
struct Entrant {
  std::size_t place = 0;  ///< in the report
  std::shared_ptr<launch::Recording> recording;
  std::vector<double> times_us;  ///< of one call
};

int calls_of(const TuneReport& report) {
  double best_us = 0;
  for (const TunedVariant& variant : report.variants)
    if (variant.refused.empty() && (best_us == 0 || variant.predicted_us < best_us)) best_us = variant.predicted_us;
  return best_us > 0 ? std::clamp(static_cast<int>(kReplayUs / best_us), 2, kMostCalls) : kMostCalls;
}

void settle(const Entrant& entrant, const TuneSteps& steps) {
  double busy_ms = 0;
  for (int replay = 0; replay < kMostSettling && busy_ms < kSettleMs; ++replay)
    busy_ms += steps.driver->time_ms(steps.device.index, [&] { entrant.recording->replay({}); });
}

/// first: whose turn it is first.
void time_round(std::vector<Entrant>& entrants, std::size_t first, int calls, const TuneSteps& steps) {
  for (std::size_t i = 0; i < entrants.size(); ++i) {
    Entrant& entrant = entrants[(first + i) % entrants.size()];
    entrant.recording->replay({});  // caches and clocks as in the replays that count
    for (int replay = 0; replay < kReplays; ++replay)
      entrant.times_us.push_back(steps.driver->time_ms(steps.device.index, [&] { entrant.recording->replay({}); }) *
                                 1e3 / calls);
  }
}

void leave_out_slow(std::vector<Entrant>& entrants, TuneReport& report) {
  double best = median(entrants.front().times_us);
  for (const Entrant& entrant : entrants) best = std::min(best, median(entrant.times_us));
  std::erase_if(entrants, [&](const Entrant& entrant) {
    const double own = median(entrant.times_us);
    if (own <= kFarBehind * best) return false;
    report.variants[entrant.place].measured_us = own;
    report.variants[entrant.place].times = static_cast<int>(entrant.times_us.size());
    return true;
  });
}

/// Loads the kernels of each variant; those that there are none of say why.
void load_all(const ops::Op& op, const ops::Problem& problem, const std::vector<ops::Variant>& variants,
              const TuneSteps& steps, TuneReport& report) {
  const ops::Tunable& tunable = *op.tunable();
  std::vector<void*> places;  // made up: nothing looks there
  for (std::size_t i = 0; i < tunable.operands(problem).size(); ++i)
    places.push_back(reinterpret_cast<void*>((i + 1) << 44));
  std::optional<Error> reason;
  std::size_t refused = 0;
  tunable.with_args(problem, steps.device, places, [&](const void* args) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      try {
        steps.load({&op, args, variants[i].kernel});
      } catch (const Error& error) {  // another one may do
        report.variants[i].refused = error.message;
        reason = error;
        ++refused;
      }
    }
  });
  if (refused == variants.size()) throw *reason;
}

void measure(const ops::Op& op, const ops::Problem& problem, const std::vector<ops::Variant>& variants,
             const TuneOptions& options, const TuneSteps& steps, TuneReport& report) {
  const ops::Tunable& tunable = *op.tunable();
  std::vector<std::shared_ptr<void>> memory;
  std::vector<void*> places;
  for (const ops::Operand& operand : tunable.operands(problem)) {
    memory.push_back(make_operand(operand, steps, options.seed + memory.size()));
    places.push_back(memory.back().get());
  }
  const int calls = calls_of(report);
  std::vector<Entrant> entrants;
  tunable.with_args(problem, steps.device, places, [&](const void* args) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      if (!report.variants[i].refused.empty()) continue;
      const ops::Step call{&op, args, variants[i].kernel};
      steps.launch(call, {});
      auto recording = steps.driver->record(steps.device.index, [&](Stream stream) {
        for (int done = 0; done < calls; ++done) steps.launch(call, stream);
      });
      entrants.push_back({i, std::move(recording), {}});
    }
  });
  // Each has its turn at another time of the rounds.
  const int rounds = std::max(1, options.rounds);
  if (entrants.size() > 1) settle(entrants.front(), steps);  // one by itself is compared with nothing
  for (int round = 0; round < rounds; ++round) {
    time_round(entrants, entrants.size() * static_cast<std::size_t>(round) / static_cast<std::size_t>(rounds), calls,
               steps);
    if (round == 0) leave_out_slow(entrants, report);
  }
  steps.driver->synchronize(steps.device.index, {});
  for (const Entrant& entrant : entrants) {
    TunedVariant& variant = report.variants[entrant.place];
    variant.measured_us = median(entrant.times_us);
    variant.times = static_cast<int>(entrant.times_us.size());
    if (report.chosen < 0 || variant.measured_us < report.variants[static_cast<std::size_t>(report.chosen)].measured_us)
      report.chosen = static_cast<int>(entrant.place);
  }
}

}  // namespace

std::vector<ops::Variant> variants_of(const ops::Tunable& tunable, const ops::Problem& problem, const arch::Arch& arch,
                                      const TuneOptions& options) {
  std::vector<ops::Variant> variants = tunable.variants(problem, arch);
  std::string known;
  for (const ops::Variant& variant : variants) known += cat(known.empty() ? "" : ", ", variant.name);
  if (!options.only.empty())
    std::erase_if(variants, [&](const ops::Variant& variant) {
      return std::find(options.only.begin(), options.only.end(), variant.name) == options.only.end();
    });
  if (variants.empty())
    support::fail(Stage::argument, Code::invalid_argument,
                  cat("'", options.only.empty() ? std::string() : options.only.front(), "' does not serve ",
                      problem.name, " on ", arch.name, "; what does: ", known.empty() ? "nothing" : known));
  if (options.limit > 0 && variants.size() > static_cast<std::size_t>(options.limit))
    variants.resize(static_cast<std::size_t>(options.limit));
  return variants;
}

TuneReport tune(const ops::Op& op, const ops::Problem& problem, const TuneOptions& options, const TuneSteps& steps,
                Tunings& tunings) {
  const TunedMachine machine = tunings.machine(steps.device);
  const ops::Tunable* tunable = op.tunable();
  if (tunable == nullptr)
    support::fail(Stage::argument, Code::unsupported,
                  cat("op '", op.name(), "' has one kernel for each problem: there is nothing to measure"));
  const arch::Arch& arch = machine.arch_of(op);
  const std::vector<ops::Variant> variants = variants_of(*tunable, problem, arch, options);
  TuneReport report;
  report.problem = problem.name;
  report.flops = problem.flops;
  report.device = machine.device;
  report.sm_count = machine.sm_count;
  report.target = arch.name;
  if (variants.front().name == tunable->variants(problem, arch).front().name) report.usual = 0;
  for (const ops::Variant& variant : variants)
    report.variants.push_back(
        {variant.name, variant.predicted_cycles, variant.predicted_cycles / (arch.clock_ghz * 1e3), 0, 0, {}});
  load_all(op, problem, variants, steps, report);
  measure(op, problem, variants, options, steps, report);
  const auto chosen = static_cast<std::size_t>(report.chosen);
  // A user's graph is measured as an op of its own, and found by its fields.
  const ops::Op* const kept_as = ops::find_tuned(op.name());
  report.kept = tunings.keep(steps.device, kept_as != nullptr ? *kept_as : op, problem, variants[chosen],
                             report.variants[chosen].measured_us);
  return report;
}

}  // namespace tj
