// Kernels with one thing wrong: each must be reported, else the checker has a hole.
//
// Decides which mutants a kernel has, and when one counts as caught. Invariant: a mutant that is caught names a seed
// that reports it; a mutant whose results differ is never excused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "check/equivalents.hpp"
#include "check/run.hpp"
#include "check/seeds.hpp"

namespace tj::check {

struct Mutant {
  const Kernel* kernel = nullptr;
  std::string what;                ///< "site 12 off: role load, steady: wait ring k empty"
  int disabled = 0, weakened = 0;  ///< a site, or 0
  std::string text;                ///< text of the unit, where it is compiled again
};

/// Sites off, sites weakened where their kind can be, ring depths.
std::vector<Mutant> mutants_of(const Subject& subject, Kernels& kernels);

/// "site 12 off: role load, steady: wait ring k empty", or "weakened".
std::string mutant_text(const Site& site, bool weakened);

enum class Verdict { caught, equivalent, survived };
const char* to_string(Verdict verdict);

struct Judged {
  Mutant mutant;  ///< without its text
  Verdict verdict = Verdict::survived;
  std::uint64_t seed = 0;                  ///< the seed that caught it
  std::string message;                     ///< text of the report
  const Equivalent* equivalent = nullptr;  ///< the reason, for an equivalent mutant
  bool results_differ = false;             ///< results differ at a seed that reported nothing: it is no equivalent
};

/// Verdicts in the order of the mutants. A mutant is tried at one seed after the other, until it is caught. Each seed
/// is tried in every problem of its kernels. Throws tj::Error where the kernel itself is not clean at the first seed.
std::vector<Judged> judge(const std::vector<const Subject*>& subjects, Kernels& kernels, std::vector<Mutant> mutants,
                          const Seeds& seeds, const std::function<void()>& done = {});

}  // namespace tj::check
