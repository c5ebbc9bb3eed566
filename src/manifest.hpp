// The kernels and measured choices that a run asks for, as lines of text: to be made, or looked for, elsewhere.
//
// Decides the text of a line (cache/README.md) and what is believed of one. Does not decide when a line is written.
// Invariant: equal requests give equal lines, whichever version writes them, and a line that is read is what it was
// written from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "ops/common/tunable.hpp"
#include "ops/op.hpp"
#include "support/record_file.hpp"
#include "tuning/tunings.hpp"

namespace tj {

std::string manifest_line(const ops::Request& request, const arch::Target& target);
std::string manifest_line(const TunedMachine& machine, const ops::Op& op, const ops::Problem& problem,
                          const std::string& choice);

/// Adds measured choices to the record; empty where nothing is recorded. record outlives it.
Tunings::Asked recording(support::RecordFile& record);

struct WantedKernel {
  std::size_t line = 0;
  const ops::Op* op = nullptr;  ///< null: a user's own, which nobody can make from its line
  ops::Request request;
  arch::Target target;
};
struct WantedTuning {
  std::size_t line = 0;
  const ops::Op* op = nullptr;
  ops::Problem problem;
  TunedMachine machine;
  std::string choice;
};

/// A manifest as it was read: what is wanted, each once, under the first of its lines.
struct Manifest {
  std::vector<WantedKernel> kernels;
  std::vector<WantedTuning> tunings;
  std::vector<std::pair<std::size_t, std::string>> bad;  ///< lines, and what is wrong with them
};

/// Reads all lines, also behind bad ones. Empty lines, and those that begin with '#', say nothing.
Manifest read_manifest(std::string_view text);

}  // namespace tj
