// See grid.hpp.
#include "model/grid.hpp"

#include <algorithm>
#include <iterator>

#include "support/fail.hpp"

namespace tj::model {

using support::cat;
using support::fail;

Grid::Grid(const Launch& launch, StackPool& pool, unsigned resident) : launch_(launch), memory_(launch) {
  places_.resize(std::min(resident, launch.grid_blocks / launch.cluster));
  for (Place& place : places_) place.cluster = std::make_unique<Cluster>(launch, pool, &memory_);
}

void Grid::run() {
  state_ = launch_.options.seed * 0xd1342543de82ef95ull + 0x9e3779b97f4a7c15ull;
  draw_manner();
  for (Place& place : places_) begin(place);
  try {
    run_all();
    memory_.finish();
  } catch (const Error& e) {
    if (!e.log.empty()) throw;
    fail(e.stage, e.code, e.message, report());
  }
}

void Grid::begin(Place& place) {
  place.alive = next_block_ < launch_.grid_blocks;
  if (!place.alive) return;
  place.cluster->begin(next_block_);
  next_block_ += launch_.cluster;
}

void Grid::run_all() {
  while (Place* place = next()) {
    const bool moved = place->cluster->step();
    current_ = moved ? place : nullptr;
    if (!moved) {
      place->stuck = true;
      continue;
    }
    for (Place& each : places_) each.stuck = false;
    if (place->cluster->ended()) begin(*place);
  }
  if (std::any_of(places_.begin(), places_.end(), [](const Place& place) { return place.alive; })) deadlock();
}

// Clusters in turns of some length; one far ahead of the others, or one far behind them.
void Grid::draw_manner() {
  static constexpr std::uint64_t kStretch[] = {1, 16, 256, 4096};
  stretch_ = kStretch[split_mix(state_) % std::size(kStretch)];
  const std::uint64_t manner = split_mix(state_) % 4;
  Place* const chosen = &places_[split_mix(state_) % places_.size()];
  first_ = manner == 0 ? chosen : nullptr;
  last_ = manner == 1 ? chosen : nullptr;
}

Grid::Place* Grid::next() {
  const auto can_move = [](const Place* place) { return place != nullptr && place->alive && !place->stuck; };
  if (can_move(first_)) return first_;
  if (can_move(current_) && current_ != last_ && split_mix(state_) % stretch_ != 0) return current_;
  std::vector<Place*> able;
  for (Place& place : places_)
    if (can_move(&place) && &place != last_) able.push_back(&place);
  if (able.empty()) return can_move(last_) ? last_ : nullptr;
  return able[split_mix(state_) % able.size()];
}

void Grid::deadlock() const {
  std::string others;
  if (next_block_ < launch_.grid_blocks)
    others = cat("; blocks ", next_block_, " to ", launch_.grid_blocks - 1,
                 " have not begun, and a block may wait only for work that was begun before its own");
  fail(Stage::model, Code::deadlock,
       cat("deadlock in the grid: no thread of its resident blocks can run and nothing is under way", others,
           "; the log says who waits for what"),
       report());
}

std::string Grid::report() const {
  std::string text;
  for (const Place& place : places_)
    if (place.alive) text += place.cluster->report();
  return text;
}

}  // namespace tj::model
