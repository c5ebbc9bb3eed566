// The list; see equivalents.hpp.
#include "check/equivalents.hpp"

namespace tj::check {
namespace {

constexpr Equivalent kEquivalents[] = {
    {"", "registers of", "a register count binds no memory access to another: it changes what fits beside a block, not what happens in it"},
};

}  // namespace

std::span<const Equivalent> equivalents() { return kEquivalents; }

const Equivalent* equivalent_of(std::string_view kernel, std::string_view mutant) {
  for (const Equivalent& each : kEquivalents)
    if (kernel.starts_with(each.kernels) && mutant.find(each.mutant) != std::string_view::npos) return &each;
  return nullptr;
}

}  // namespace tj::check
