// Products of groups of rows as an op: arguments, lists, launch. Its kernels are gemm's, with GemmKernel::groups.
//
// Decides what a call and a configuration stand for. Tiles, graphs and costs are gemm's (ops/gemm/gemm.hpp). The
// device's part is kernel_templates/ops/gemm/groups.cuh.
#pragma once

#include <tilejit/grouped_gemm.hpp>

#include "ops/gemm/gemm.hpp"
#include "ops/op.hpp"

namespace tj::ops {

const Op& grouped_gemm_op();

/// The descriptor that a tj_grouped_gemm_args stands for.
GroupedGemmArgs grouped_gemm_from_c(const void* structure);

/// Throws tj::Error(argument, invalid_argument | unsupported) naming the argument, its value and what is allowed.
/// Passing allocates nothing. Reads no tensor memory. Thread safe.
void validate(const GroupedGemmArgs& args, bool on_model);
void validate(const GroupedGemmConfig& config);

/// Throws tj::Error(argument, invalid_argument) naming the first bad entry of the list of validated args.
void check_groups(const GroupedGemmArgs& args, const ReadList& read);

/// The product that a call's tensors make together: b has a batch, a and d have one with counts.
GemmArgs product_of(const GroupedGemmArgs& args);
/// The sizes that decide the tile: expected rows of a group, N, K and the groups.
GemmSizes grouped_gemm_sizes(const GroupedGemmArgs& args);
GemmSizes grouped_gemm_sizes(const GroupedGemmConfig& config);
GemmKernel grouped_gemm_kind(const GroupedGemmArgs& args);
GemmKernel grouped_gemm_kind(const GroupedGemmConfig& config);

/// Tiles of so many rows that lists may ask for: each group begins with one of its own. counts: groups have all.m rows
/// at most, else all groups together.
std::int64_t grouped_gemm_row_tiles(const GemmSizes& all, std::int64_t groups, bool counts, int rows);

/// Plans one launch. The grid depends on no list.
void grouped_gemm_plan(const GroupedGemmArgs& args, const GemmChoice& choice, const GemmLaunch& launch,
                       LaunchPlan& plan);

/// Op::trials: lists with empty groups, groups of one row, and groups of several tiles.
std::vector<Trial> grouped_gemm_trials(const Flags& flags, const arch::Arch& arch);

}  // namespace tj::ops
