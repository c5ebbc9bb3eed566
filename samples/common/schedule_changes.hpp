// Two schedules of one problem, in words: the changes from the first to the second.
//
// Decides what counts as a change and how it is said. Every word follows from the schedules; nothing is known of the
// kernels. Invariant: equal schedules give no words.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tj::samples {

/// Facts of KernelReport::schedule_json that are compared; a missing fact stays empty.
struct ScheduleFacts {
  struct Node {
    std::string name, role;
    int cycle = 0, stage = 0;
    bool loop = true;  ///< else once a tile
  };
  std::string graph;  ///< its name, with the tile
  int ii = 0, length = 0, stages = 0, cluster = 1, blocks_per_sm = 1;
  double overhead_cycles = 0;  ///< of a tile, beside its iterations
  int sm_count = 0;            ///< of the device that the arch is described with
  double clock_ghz = 0;        ///< of that
  bool pairs = false;
  std::string walk = "persistent";
  std::string certificate;
  std::vector<Node> nodes;
  std::vector<std::pair<std::string, double>> busy;  ///< per unit that the loop uses, its part of the time in percent
  std::vector<std::string> roles;
  std::vector<std::pair<std::string, int>> slots;    ///< per value that has a ring
  std::vector<std::pair<std::string, int>> sharers;  ///< per value, blocks that one copy serves

  /// "a 2, b 2"; "none".
  std::string slots_text() const;
};

/// Never throws for unexpected JSON.
ScheduleFacts schedule_facts(const std::string& schedule_json);

/// One sentence part a change, the most telling first: "II 1645 -> 823 cycles".
std::vector<std::string> schedule_changes(const ScheduleFacts& before, const ScheduleFacts& now);

}  // namespace tj::samples
