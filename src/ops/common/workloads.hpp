// Problems to time an op by, and what it says of them beforehand.
//
// Decides which ops say more than their trials do. Times nothing. Invariant: what a workload asks for is what a call of
// those sizes asks for, on any device that the arch is for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/common/op_flags.hpp"
#include "ops/common/trial.hpp"
#include "ops/op.hpp"

namespace tj::ops {

/// A trial whose tensors are as most calls have them; its choice is empty where none was asked for: what a call
/// takes.
struct Workload {
  Trial trial;
  double flops = 0;  ///< without what a mask leaves out; 0: not counted
};

/// Tiles of a launch that have the same number of iterations.
struct TileCount {
  std::int64_t tiles = 0, iterations = 0;
};

/// A workload for each kernel that flags name, of sizes that keep a device busy where flags name none. An op that says
/// nothing of its own has its trials. Throws tj::Error(argument) as Op::trials does.
std::vector<Workload> workloads(const Op& op, const Flags& flags, const arch::Arch& arch);
/// The tiles that one launch of the op for args, of so many blocks, walks; empty where nobody says.
std::vector<TileCount> tiles_of(const Op& op, const void* args, const Geometry& geometry, unsigned blocks);
/// Cycles of a call that is served so; 0 where nobody predicts it but its tiles and its schedule.
double predicted_cycles(const Op& op, const void* args, int choice, const arch::Arch& arch);
/// "128x256x64"; empty for an op without choices.
std::string choice_text(const Op& op, int choice);

// The ops that say more, each in a file of its own.
std::vector<Workload> fmha_workloads(const Flags& flags, const arch::Arch& arch);
std::vector<TileCount> fmha_tiles(const void* args, const Geometry& geometry, unsigned blocks);
/// Throws tj::Error(argument) for a tile that does not serve the sizes.
std::vector<Workload> gemm_workloads(const Flags& flags, const arch::Arch& arch);
double gemm_predicted_cycles(const void* args, int choice, const arch::Arch& arch);
std::string gemm_choice_text(int choice);
std::vector<Workload> chunk_o_workloads(const Flags& flags, const arch::Arch& arch);
std::vector<TileCount> chunk_o_tiles(const void* args, const Geometry& geometry, unsigned blocks);

}  // namespace tj::ops
