// Mutants that no checker can find, as the kernel stays right without the barrier: each with the reason, in terms of
// what happens before what.
//
// Decides which mutants are excused. Invariant: an entry has one reason, and matches by kernel and words of the mutant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tj::check {

struct Equivalent {
  const char* kernels;   ///< beginning of the kernel's name; "" for all; "gemm_*_v4": behind the '*' its end
  const char* mutant;    ///< end of the mutant's text, behind the number of its site
  const char* argument;  ///< why no execution differs
};

std::span<const Equivalent> equivalents();

/// Null when the list does not have the mutant.
const Equivalent* equivalent_of(std::string_view kernel, std::string_view mutant);

}  // namespace tj::check
