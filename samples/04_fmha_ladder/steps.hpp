// The steps of the sample: their names, what is said of each, and what a command line may name.
//
// Decides texts and numbers. Runs nothing. Invariant: numbers in reports are those of the tutorial that the sample
// follows: 0 is PyTorch's attention, 2 to 7 are the rungs 1 to 6 (it has no 1), 99 a kernel to compare with. 97 and 98
// are the sample's own.
#pragma once

#include <tilejit/error.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace sample::fmha_ladder {

/// Iterations that the step asks copies to be issued before their use.
struct Hints {
  int k = 0, v = 0;
};

struct Step {
  const char* word;  ///< on the command line and in tables: "1", "own", "sdpa"
  int rung;          ///< of the library's ladder; kNotOurs: PyTorch runs it
  int number;        ///< the tutorial's, in JSON and Markdown
  const char *name, *description;
  std::vector<std::string> changes;
  Hints hints = {};
};

inline constexpr int kNotOurs = -1, kOwn = 0, kBaseline = 1, kRungs = 6;

/// In the order in which they run: PyTorch's, the rungs, the library's own kernel.
inline const std::vector<Step>& all_steps() {
  static const std::vector<Step> steps = {
      {"sdpa",
       kNotOurs,
       0,
       "PyTorch SDPA",
       "torch.nn.functional.scaled_dot_product_attention, as PyTorch chooses its backend.",
       {"the baseline where it runs"}},
      {"cudnn", kNotOurs, 97, "SDPA by cuDNN", "The same call held to cuDNN.", {"a kernel to compare with"}},
      {"flash",
       kNotOurs,
       98,
       "SDPA by FlashAttention",
       "The same call held to the FlashAttention-2 that PyTorch has.",
       {"a kernel to compare with"}},
      {"1",
       1,
       2,
       "basic",
       "Matrix instructions on tiles of 64 queries by 64 keys, with an online softmax; one thing after the other.",
       {"e^x: a multiplication and a 2^x that keeps results below 2^-126",
        "keys are transposed through shared memory before the product",
        "one slot for keys and one for values, no iterations overlap", "nothing is kept free for a second block",
        "each output is divided by its row's sum"}},
      {"2",
       2,
       3,
       "exp2",
       "A cheaper exponential.",
       {"2^x in the place of e^x, log2(e) folded into the scale: one multiply-add a score",
        "results below 2^-126 become 0, which saves two multiplications"}},
      {"3",
       3,
       4,
       "transposed_k",
       "Keys are read as they lie.",
       {"the loads of matrices hand the product what it needs: no transpose, no second place in shared memory, no "
        "barrier for it"}},
      {"4",
       4,
       5,
       "latency",
       "Latencies tell the scheduler how long copies are under way.",
       {"copies of keys are to be issued 2 iterations before their use, of values 4, as far as rings of them fit the "
        "shared memory of a block"},
       {2, 4}},
      {"5",
       5,
       6,
       "occupancy",
       "Two blocks side by side on an SM.",
       {"each has half of the registers and of the shared memory; one computes while the other waits"},
       {2, 4}},
      {"6",
       6,
       7,
       "division",
       "An approximate division at the end.",
       {"outputs are multiplied by an approximated reciprocal of their row's sum"},
       {2, 4}},
      {"own",
       kOwn,
       99,
       "library",
       "The kernel that the library chooses by itself, to compare with.",
       {"tile shapes and their schedule as predicted best, held to nothing"}},
  };
  return steps;
}

inline std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The steps that a list names by their words or names; the first rung is always among them.
inline std::vector<Step> named_steps(const std::string& text) {
  const std::vector<std::string> words = split(text);
  std::vector<Step> chosen;
  for (const std::string& word : words) {
    const auto& all = all_steps();
    if (word != "all" &&
        std::none_of(all.begin(), all.end(), [&](const Step& s) { return word == s.word || word == s.name; }))
      throw tj::Error(tj::Stage::argument, tj::Code::invalid_argument,
                      "--steps has '" + word +
                          "'; allowed: all, or some of sdpa, cudnn, flash, 1 to 6 and own, separated by commas");
  }
  for (const Step& step : all_steps())
    if (step.rung == kBaseline || std::any_of(words.begin(), words.end(), [&](const std::string& word) {
          return word == "all" || word == step.word || word == step.name;
        }))
      chosen.push_back(step);
  return chosen;
}

}  // namespace sample::fmha_ladder
