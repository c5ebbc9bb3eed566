// All resident blocks of a grid, side by side on one OS thread.
//
// Decides which cluster's turn it is, and where the next one begins: in the place of one that has ended. Cluster and
// Block run the threads, GlobalMemory says what reaches from one cluster into another. Invariant: equal seeds and equal
// kernels give equal runs; a grid leaves nothing under way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/cluster.hpp"
#include "model/global_memory.hpp"

namespace tj::model {

class Grid {
 public:
  /// resident: how many clusters run at a time.
  Grid(const Launch& launch, StackPool& pool, unsigned resident);
  /// Throws tj::Error(model, model_fault or deadlock) with the state of all threads as log.
  void run();

 private:
  struct Place {
    std::unique_ptr<Cluster> cluster;
    bool alive = false, stuck = false;
  };
  void draw_manner();
  Place* next();
  void begin(Place& place);
  void run_all();
  [[noreturn]] void deadlock() const;
  std::string report() const;

  const Launch& launch_;
  GlobalMemory memory_;
  std::vector<Place> places_;
  unsigned next_block_ = 0;
  std::uint64_t state_ = 0;  ///< state of the random numbers that choose among clusters
  std::uint64_t stretch_ = 1;
  Place *current_ = nullptr, *first_ = nullptr,
        *last_ = nullptr;  ///< first: moves when it can; last: when no other can
};

}  // namespace tj::model
