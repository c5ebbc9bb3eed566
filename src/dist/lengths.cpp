// See lengths.hpp.
#include "dist/lengths.hpp"

#include <tilejit/error.hpp>

#include "support/fail.hpp"

namespace tj::dist {

std::vector<std::int64_t> checked_lengths(const char* op, const std::vector<std::int64_t>& given, std::int64_t own,
                                          const char* name, int rank, int size) {
  using support::cat;
  const auto refuse = [&](const std::string& what) {
    support::fail(Stage::argument, Code::invalid_argument, cat(op, ": ", what));
  };
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  std::vector<std::int64_t> lengths = given;
  if (lengths.empty()) lengths.assign(static_cast<std::size_t>(size), own);
  if (std::ssize(lengths) != size)
    refuse(cat("lengths has ", lengths.size(), " numbers; allowed: one a rank, ", size, ", or none"));
  const std::int64_t told = lengths[static_cast<std::size_t>(rank)];
  if (told != own) refuse(cat("lengths[", rank, "] is ", told, "; allowed: ", name, " of this rank, ", own));
  for (std::size_t r = 0; r < lengths.size(); ++r)
    if (lengths[r] < 0 || lengths[r] > kMost)
      refuse(cat("lengths[", r, "] is ", lengths[r], "; allowed: 0 to ", kMost));
  return lengths;
}

}  // namespace tj::dist
