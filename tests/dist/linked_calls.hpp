// Calls of a group whose ranks' work waits in queues of the CPU model with links.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tilejit/dist.hpp>

#include "model/linked.hpp"

namespace tj::test {

/// The calls that there are: attention by keys in each order and split, by heads, over a split cache; products. Rank 0
/// of contiguous rows waits for no bytes.
inline constexpr const char* kLinkedCalls[] = {"whole", "own_first", "contiguous", "striped",
                                               "heads", "decode",    "gather",     "scatter"};

/// Ranks of one process that make a call several times, from three streams by turns. The caller's next work in a stream
/// overwrites what the call has read. One at a time; it uses the environment.
class LinkedCalls {
 public:
  LinkedCalls(std::string call, int ranks);
  ~LinkedCalls();
  LinkedCalls(const LinkedCalls&) = delete;
  LinkedCalls& operator=(const LinkedCalls&) = delete;

  /// Enqueues so many calls on each rank, and does them. "", or what was reported.
  std::string run(int calls, std::uint64_t seed, std::optional<model::LinkMutant> mutant = {});
  /// Works of the last run's third call, whose slot the first one has used and the fifth one uses again.
  std::vector<model::LinkWork> of_third_call() const;
  bool mutant_was_there() const;
  /// All outputs of the last run, as bytes.
  std::string results() const;
  /// The same by the model without links.
  std::string expected();

 private:
  struct Rank;
  const std::string call_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace tj::test
