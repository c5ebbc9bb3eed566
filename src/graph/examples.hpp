// Small graphs with known answers, on machines whose costs are normalised to small integers.
//
// Decides nothing about real hardware: one cycle here is "one tile operation". They anchor the scheduler's tests and serve
// as `tj-schedule --graph-example`. Invariant: with default parameters their II and length are fixed (src/sched/README.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"

namespace tj::graph {

/// Units TC, EXP, TMA, one instance each; 227 KiB of SMEM.
Machine normalised_hopper();
/// Units TC, EXP, TMA, TMEM, one instance each; 227 KiB of SMEM, 256 KiB of TMEM.
Machine normalised_blackwell();

/// S = gemm, P = exp(S), O += gemm(P). All parameters in cycles, at least 0. The machine needs units TC and EXP, else
/// tj::Error(graph).
Graph simplified_fa(int gemm_cycles = 1, int exp_cycles = 1, const Machine& machine = normalised_hopper());
/// simplified_fa with loads of K and V.
Graph fa_hopper(int tma_cycles = 1, int gemm_cycles = 2, int exp_cycles = 2);
/// fa_hopper with transfers between tensor memory and registers around the exponential.
Graph fa_blackwell(int tma_cycles = 1, int gemm_cycles = 1, int exp_cycles = 2, int tmem_cycles = 1);
/// C += gemm(A, B) with both operands loaded. The machine needs units TC and TMA, else tj::Error(graph).
Graph simple_gemm(int load_cycles = 1, int compute_cycles = 2, const Machine& machine = normalised_hopper());

/// Names that example() knows, in a fixed order.
const std::vector<std::string>& example_names();
/// The named graph with default parameters; throws tj::Error(graph, invalid_argument) listing the names.
Graph example(std::string_view name);

}  // namespace tj::graph
