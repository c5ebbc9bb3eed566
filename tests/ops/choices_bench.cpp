// What calls of many products take, without a device: counts of walks, slices and parts of K. Prints; decides nothing.
//
//   python3 tests/gpu/compare.py --op gemm --list --seed 4242 --count 1000 > drawn.txt
//   build/release/tests/ops.choices_bench drawn.txt
//   --arch NAME   whose choices (sm_90a)
//   --set F=V     a fact's value
//   --each N      a line for each product: what is taken with its predicted us, then the N others predicted best
//
// Lines are those of --list: "3  f16 5 x 4040 x 14288 bT bias, gelu  (Mistral-7B-v0.3 down, odd)". Others are left out.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "ops/common/tunable.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/text.hpp"

namespace {

using namespace tj;

/// Of an epilogue's words, what goes with a bias, an addend or an activation.
void add_epilogue(const std::string& words, ops::Flags& flags) {
  const auto has = [&](const char* word) { return words.find(word) != std::string::npos; };
  flags["bias"] = {has("bias") ? "true" : "false"};
  flags["add-c"] = {has("add") ? "true" : "false"};
  flags["activation"] = {has("gelu") ? "gelu_tanh" : has("relu") ? "relu" : has("silu") ? "silu" : "none"};
}

/// A line of --list as flags; none where it is no product's.
ops::Flags flags_of(const std::string& line) {
  static const std::regex form(
      R"(^\s*\d+\s+(f16|bf16|e4m3)(, (\w+) scales,)?( to (\w+))? (\d+) x (\d+) x (\d+)( aT)?( bT)?([^(]*)\(.*$)");
  std::smatch found;
  if (!std::regex_match(line, found, form)) return {};
  ops::Flags flags;
  flags["dtype"] = {found[1]};
  flags["out"] = {found[5].matched ? found[5].str() : found[1].str()};
  if (found[3].matched) flags["scales"] = {found[3]};
  flags["sizes"] = {support::cat(found[6].str(), "x", found[7].str(), "x", found[8].str())};
  flags["a-major"] = {found[9].matched ? "m" : "k"};
  flags["b-major"] = {found[10].matched ? "n" : "k"};
  add_epilogue(found[11], flags);
  return flags;
}

/// How a choice cuts a product's tiles or gives them to blocks: one of a choice's words, none of others.
std::string way_of(const ops::GemmChoice& choice) {
  const ops::GemmTile& tile = ops::gemm_tiles()[static_cast<std::size_t>(choice.tile)];
  if (choice.walk == ops::WalkChoice::dynamic) return "dynamic";
  if (choice.walk == ops::WalkChoice::split) return "split";
  if (choice.parts > 1) return "parts of K";
  if (tile.shares_slices()) return "sliced, copies shared";
  return tile.sliced() ? "sliced" : "whole tiles";
}

void print_each(const std::string& title, const std::vector<ops::Variant>& list, double clock_ghz, std::size_t others) {
  std::printf("%-46s", title.c_str());
  for (std::size_t i = 0; i <= others && i < list.size(); ++i)
    std::printf("  %s %.1f", list[i].name.c_str(), list[i].predicted_cycles / clock_ghz * 1e-3);
  std::printf("\n");
}

struct Wish {
  std::string file, arch = "sm_90a";
  std::vector<std::string> sets;
  int each = -1;
};

Wish wish_of(int count, char** words) {
  Wish wish;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word.substr(0, 2) != "--") {
      wish.file = word;
      continue;
    }
    if (++i == count) throw std::invalid_argument(word + " needs a value");
    if (word == "--arch")
      wish.arch = words[i];
    else if (word == "--set")
      wish.sets.push_back(words[i]);
    else if (word == "--each")
      wish.each = std::stoi(words[i]);
    else
      throw std::invalid_argument(word + ": allowed are --arch, --set and --each");
  }
  if (wish.file.empty()) throw std::invalid_argument("no file with lines of compare.py --list is named");
  return wish;
}

int run(const Wish& wish) {
  const arch::Arch* known = arch::find(wish.arch);
  if (known == nullptr) throw std::invalid_argument("--arch " + wish.arch + ": there is no such arch");
  arch::Arch changed = *known;
  for (const std::string& set : wish.sets)
    changed.facts.at(set.substr(0, set.find('='))).value = std::stod(set.substr(set.find('=') + 1));
  const arch::Arch* arch = wish.sets.empty() ? known : &changed;
  std::ifstream in(wish.file);
  if (!in) throw std::invalid_argument(wish.file + ": cannot be read");
  const ops::Tunable& tunable = ops::gemm_tunable();
  std::map<std::string, int> ways;  // of a type, as they are printed
  std::map<std::string, int> of_type;
  for (std::string line; std::getline(in, line);) {
    const ops::Flags flags = flags_of(line);
    if (flags.empty()) continue;
    const ops::Problem problem = tunable.problems(flags).at(0);
    const std::string& dtype = flags.at("dtype")[0];
    const ops::ProblemKey key = tunable.key_of(problem);
    ++of_type[dtype];
    ++ways[dtype + ": " + way_of(ops::GemmChoice::of(ops::choose_gemm(key, *arch).choice))];
    if (wish.each >= 0)
      print_each(problem.name, tunable.variants(problem, *arch), arch->clock_ghz, static_cast<std::size_t>(wish.each));
  }
  if (of_type.empty()) throw std::invalid_argument(wish.file + ": has no line of compare.py --op gemm --list");
  for (const auto& [way, count] : ways)
    std::printf("%-30s %5d of %d\n", way.c_str(), count, of_type.at(way.substr(0, way.find(':'))));
  return 0;
}

}  // namespace

int main(int count, char** words) try { return run(wish_of(count, words)); } catch (const std::exception& error) {
  std::fprintf(stderr, "choices_bench: %s\n", error.what());
  return 2;
}
