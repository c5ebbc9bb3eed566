// How well an arch's facts predict the best tile of products, and which facts would do so better: a fit of documents of
// tune_drawn.py. Prints; decides nothing.
//
//   build/release/tests/gpu.gemm_facts_bench tuned.json                      the facts as they are, and the worst
//   problems build/release/tests/gpu.gemm_facts_bench --steps 2000 --fact multicast_copy_factor --fact busy_clock_ghz
//   a.json b.json
//   --seed N       of the fit's steps (1)
//   --third N      leaves out each third problem from the N-th on in the fit (0 to 2), and judges these alone as well
//   --set F=V      a fact's value to begin with
//   --worst N      problems that are listed (10)
//   --table FILE   each kernel that the choice ranks, a line each: sizes, name, measured and predicted us
//
// A step changes one to three of the facts at random and is kept where the score falls. The score is the spread of
// predicted over measured times among a problem's kernels, of those that are near the best or predicted to be. A part
// is what the kernels that would be taken need beyond the best ones; those predicted alike count by halves. That part
// alone fits the problems at hand and no others: too few kernels say something in it.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <stdexcept>

#include <nlohmann/json.hpp>
#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "ops/common/tunable.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/params.cuh"
#include "ops/gemm/rates.hpp"
#include "support/text.hpp"

namespace {

using namespace tj;
using ops::GemmChoice;

constexpr double kAlike = 0.02;  // of a prediction
constexpr double kNear = 0.15;   // of the best time
constexpr double kErrorWeight = 0.02, kTakenWeight = 0.4;
/// Of a launch and of a time as it is measured, which no prediction has: small problems would have a wide spread.
constexpr double kLaunchUs = 1.5, kTimedUs = 0.5;

struct Timed {
  GemmChoice choice;
  double us = 0;
  std::string name;
};
struct Case {
  std::string title;
  ops::GemmSizes sizes;
  ops::GemmKernel kind;
  std::vector<Timed> timed;
  double best = 0;
};

/// "64x64x128c2x1sk8+split"; tile -1 where there is no such tile.
GemmChoice choice_of(std::string name) {
  GemmChoice choice{-1, 1};
  if (const auto plus = name.find('+'); plus != std::string::npos) {
    const std::string word = name.substr(plus + 1);
    choice.walk = word == "split" ? ops::WalkChoice::split : ops::WalkChoice::dynamic;
    name.resize(plus);
  }
  if (const auto cut = name.find('k'); cut != std::string::npos) {
    std::from_chars(name.data() + cut + 1, name.data() + name.size(), choice.parts);
    name.resize(cut);
  }
  const auto tiles = ops::gemm_tiles();
  for (std::size_t t = 0; t < tiles.size(); ++t)
    if (ops::gemm_tile_name(tiles[t]) == name && choice.tile < 0) choice.tile = static_cast<int>(t);
  return choice;
}

/// 8-bit tiles go by names of their own sizes; 16-bit tiles come first.
GemmChoice choice_of(const std::string& name, int element_bytes) {
  GemmChoice choice = choice_of(name);
  const auto tiles = ops::gemm_tiles();
  for (std::size_t t = 0; t < tiles.size() && choice.tile >= 0; ++t)
    if (tiles[t].element_bytes == element_bytes &&
        ops::gemm_tile_name(tiles[t]) == ops::gemm_tile_name(tiles[static_cast<std::size_t>(choice.tile)])) {
      choice.tile = static_cast<int>(t);
      return choice;
    }
  return choice;
}

Case case_of(const nlohmann::json& row) {
  Case made;
  made.title = row.at("title");
  ops::Flags flags;
  const auto words = row.at("flags").get<std::vector<std::string>>();
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) flags[words[i].substr(2)] = {words[i + 1]};
  flags["dtype"] = {row.at("dtype").get<std::string>()};
  const auto sizes = row.at("sizes").get<std::vector<std::int64_t>>();
  flags["sizes"] = {support::cat(sizes.at(0), "x", sizes.at(1), "x", sizes.at(2))};
  const auto key = ops::gemm_tunable().key_of(ops::gemm_tunable().problems(flags).at(0));
  made.sizes = ops::gemm_sizes(key);
  made.kind = ops::gemm_kernel(key.kind);
  for (const auto& kernel : row.at("kernels")) {
    const std::string name = kernel.at(0);
    const GemmChoice choice = choice_of(name, size_of(made.kind.dtype));
    if (choice.tile >= 0) made.timed.push_back({choice, kernel.at(1), name});
  }
  for (const Timed& timed : made.timed)
    if (made.best == 0 || timed.us < made.best) made.best = timed.us;
  return made;
}

/// Cycles by which the choice ranks a kernel; none for kernels that it never takes without a measurement.
double ranked(const Case& of, const Timed& timed, const ops::GemmRates& rates) {
  const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(timed.choice.tile)];
  const arch::Arch& arch = *rates.arch;
  if (timed.choice.walk == ops::WalkChoice::dynamic) return 0;
  const double doubt = ops::gemm_doubt(tile, of.sizes, arch);
  const bool cut = timed.choice.parts > 1;
  if (!std::isfinite(doubt) || (cut && !ops::gemm_taken_unmeasured(tile, of.sizes, arch))) return 0;
  const ops::GemmPrediction prediction(of.sizes, of.kind, timed.choice.tile, rates);
  if (timed.choice.walk == ops::WalkChoice::split)
    return tile.blocks() > 2 ? 0 : prediction.split_cycles() / ops::kGemmSharedGain;
  return cut ? prediction.cycles(timed.choice.parts) / ops::kGemmJointPartsGain : doubt * prediction.cycles(1);
}

struct Judged {
  double excess = 0, smooth = 0,
         error = 0;   ///< of the kernel that is taken, beyond the best; logarithm of predicted over measured
  double spread = 0;  ///< variance of that logarithm among kernels near the best
  const Timed* taken = nullptr;
};

double spread_of(const Case& of, const std::vector<std::pair<double, const Timed*>>& list, double fewest,
                 double clock_ghz) {
  double weights = 0, sum = 0, squares = 0;
  for (const auto& [cycles, timed] : list) {
    const double near = std::min(timed->us / of.best, cycles / fewest) - 1, weight = std::exp2(-near / kNear),
                 log = std::log((cycles / clock_ghz * 1e-3 + kLaunchUs) / (timed->us + kTimedUs));
    weights += weight;
    sum += weight * log;
    squares += weight * log * log;
  }
  return squares / weights - (sum / weights) * (sum / weights);
}

Judged judge(const Case& of, const ops::GemmRates& rates) {
  Judged judged;
  std::vector<std::pair<double, const Timed*>> list;
  double fewest = 0;
  for (const Timed& timed : of.timed)
    if (const double cycles = ranked(of, timed, rates); cycles > 0) {
      list.push_back({cycles, &timed});
      if (fewest == 0 || cycles < fewest) fewest = cycles, judged.taken = &timed;
    }
  double weights = 0;
  for (const auto& [cycles, timed] : list) {
    const double weight = std::exp2(-(cycles / fewest - 1) / kAlike), us = cycles / rates.arch->clock_ghz * 1e-3;
    weights += weight;
    judged.smooth += weight * (timed->us / of.best - 1);
    judged.error += std::abs(std::log(us / timed->us)) / static_cast<double>(list.size());
  }
  judged.smooth /= weights;
  judged.spread = spread_of(of, list, fewest, rates.arch->clock_ghz);
  judged.excess = judged.taken->us / of.best - 1;
  return judged;
}

struct Score {
  double total = 0, mean = 0, high = 0, worst = 0, error = 0, spread = 0;
};
Score score_of(const std::vector<Case>& cases, const arch::Arch& arch) {
  const ops::GemmRates rates = ops::gemm_rates_of(arch);
  Score score;
  std::vector<double> excesses;
  double squares = 0;
  for (const Case& of : cases) {
    const Judged judged = judge(of, rates);
    excesses.push_back(judged.excess);
    score.mean += judged.excess;
    score.total += judged.smooth;
    squares += judged.smooth * judged.smooth;
    score.error += judged.error;
    score.spread += judged.spread;
  }
  const auto count = static_cast<double>(cases.size());
  score.mean /= count;
  score.error /= count;
  std::sort(excesses.begin(), excesses.end());
  score.high = excesses[static_cast<std::size_t>(0.95 * (count - 1))];
  score.worst = excesses.back();
  score.spread = std::sqrt(score.spread / count);
  score.total = score.spread + kErrorWeight * score.error +
                kTakenWeight * (score.total / count + 0.3 * std::sqrt(squares / count));
  return score;
}

void print(const char* of, std::size_t count, const Score& score) {
  std::printf(
      "%s: %zu problems, taken over best %.2f%%, 95th percentile %.1f%%, worst %.1f%%; error of predictions %.1f%%, "
      "spread %.1f%%; score %.5f\n",
      of, count, 100 * score.mean, 100 * score.high, 100 * score.worst, 100 * score.error, 100 * score.spread,
      score.total);
}

void fit(const std::vector<Case>& cases, const std::vector<std::string>& facts, int steps, unsigned seed,
         arch::Arch& arch) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  double least = score_of(cases, arch).total;
  for (int step = 0; step < steps; ++step) {
    const auto before = arch.facts;
    const double width = 0.3 * std::pow(0.03, static_cast<double>(step) / steps);
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
      arch.facts.at(facts[random() % facts.size()]).value *= std::exp(width * normal(random));
    const double now = score_of(cases, arch).total;
    if (now < least)
      least = now;
    else
      arch.facts = before;
    if (step % 200 == 199) std::fprintf(stderr, "step %d: %.5f\n", step + 1, least);
  }
}

void print_worst(const std::vector<Case>& cases, const arch::Arch& arch, std::size_t count) {
  const ops::GemmRates rates = ops::gemm_rates_of(arch);
  std::vector<std::pair<double, const Case*>> order;
  for (const Case& of : cases) order.push_back({-judge(of, rates).excess, &of});
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), count));
  for (const auto& [excess, of] : order) {
    const Judged judged = judge(*of, rates);
    const auto best = std::min_element(of->timed.begin(), of->timed.end(),
                                       [](const Timed& x, const Timed& y) { return x.us < y.us; });
    const auto us = [&, of = of](const Timed& timed) { return ranked(*of, timed, rates) / arch.clock_ghz * 1e-3; };
    std::printf("  %5.1f%%  %-52s takes %s %.1f us (predicted %.1f), best %s %.1f (%.1f)\n", -100 * excess,
                of->title.c_str(), judged.taken->name.c_str(), judged.taken->us, us(*judged.taken), best->name.c_str(),
                best->us, us(*best));
  }
}

void write_table(const std::string& file, const std::vector<Case>& cases, const arch::Arch& arch) {
  std::ofstream out(file);
  const ops::GemmRates rates = ops::gemm_rates_of(arch);
  for (const Case& of : cases)
    for (const Timed& timed : of.timed)
      if (const double cycles = ranked(of, timed, rates); cycles > 0)
        out << of.sizes.m << ' ' << of.sizes.n << ' ' << of.sizes.k << ' ' << timed.name << ' ' << timed.us << ' '
            << cycles / arch.clock_ghz * 1e-3 << '\n';
  if (!out.flush()) throw std::runtime_error(file + ": cannot be written");
}

struct Wish {
  std::vector<std::string> facts, files, sets;
  std::string table;
  int steps = 0, third = -1, worst = 10;
  unsigned seed = 1;
};

Wish wish_of(int count, char** words) {
  Wish wish;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word.substr(0, 2) != "--") {
      wish.files.push_back(word);
      continue;
    }
    if (++i == count) throw std::invalid_argument(word + " needs a value");
    if (word == "--fact")
      wish.facts.push_back(words[i]);
    else if (word == "--set")
      wish.sets.push_back(words[i]);
    else if (word == "--steps")
      wish.steps = std::stoi(words[i]);
    else if (word == "--third")
      wish.third = std::stoi(words[i]);
    else if (word == "--worst")
      wish.worst = std::stoi(words[i]);
    else if (word == "--seed")
      wish.seed = static_cast<unsigned>(std::stoul(words[i]));
    else if (word == "--table")
      wish.table = words[i];
    else
      throw std::invalid_argument(word + ": allowed are --fact, --set, --steps, --third, --worst, --table and --seed");
  }
  if (wish.files.empty()) throw std::invalid_argument("no document of tune_drawn.py is named");
  if (wish.steps > 0 && wish.facts.empty()) throw std::invalid_argument("--steps without --fact");
  return wish;
}

int run(const Wish& wish) {
  std::vector<Case> all, fitted, rest;
  for (const std::string& file : wish.files) {
    std::ifstream in(file);
    const nlohmann::json document = nlohmann::json::parse(in);
    for (const auto& row : document.at("problems")) all.push_back(case_of(row));
  }
  if (all.empty()) throw std::invalid_argument("the documents have no problems");
  for (std::size_t i = 0; i < all.size(); ++i)
    (wish.third >= 0 && static_cast<int>(i % 3) == wish.third ? rest : fitted).push_back(all[i]);
  arch::Arch arch = *arch::find("sm_90a");
  for (const std::string& set : wish.sets)
    arch.facts.at(set.substr(0, set.find('='))).value = std::stod(set.substr(set.find('=') + 1));
  for (const std::string& fact : wish.facts) arch.fact(fact);
  print("begin", fitted.size(), score_of(fitted, arch));
  if (!rest.empty()) print("rest", rest.size(), score_of(rest, arch));
  if (wish.steps > 0) {
    fit(fitted, wish.facts, wish.steps, wish.seed, arch);
    print("fitted", fitted.size(), score_of(fitted, arch));
    if (!rest.empty()) print("rest", rest.size(), score_of(rest, arch));
    for (const std::string& fact : wish.facts)
      std::printf("  --set %s=%.4g  (%.4g before)\n", fact.c_str(), arch.fact(fact), arch::find("sm_90a")->fact(fact));
  }
  print_worst(all, arch, static_cast<std::size_t>(wish.worst));
  if (!wish.table.empty()) write_table(wish.table, all, arch);
  return 0;
}

}  // namespace

int main(int count, char** words) try { return run(wish_of(count, words)); } catch (const std::exception& error) {
  std::fprintf(stderr, "gemm_facts_bench: %s\n", error.what());
  return 2;
}
