// Small graphs with known answers, on machines whose costs are normalised to small integers.
//
// Decides nothing about real hardware: one cycle here is "one tile operation". They anchor the scheduler's tests and
// serve users (tj::example_graph, `tj-schedule --graph-example`). Invariant: with default parameters their II and
// length are fixed (src/sched/README.md).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.hpp"

namespace tj::graph {

/// Units TC, EXP, TMA, one instance each; 227 KiB of SMEM; registers move between roles.
Machine normalised_hopper();
/// Units TC, EXP, TMA, TMEM, one instance each; 227 KiB of SMEM, 256 KiB of TMEM.
Machine normalised_blackwell();

/// S = gemm, P = exp(S), O += gemm(P). All parameters in cycles, at least 0. The machine needs units TC and EXP, else
/// tj::Error(graph).
Graph simplified_fa(int gemm_cycles = 1, int exp_cycles = 1, const Machine& machine = normalised_hopper(),
                    int sub_tiles = 1);
/// simplified_fa with loads of K and V, which all sub-tiles share.
Graph fa_hopper(int tma_cycles = 1, int gemm_cycles = 2, int exp_cycles = 2,
                const Machine& machine = normalised_hopper(), int sub_tiles = 1);
/// fa_hopper with transfers between tensor memory and registers around the exponential.
Graph fa_blackwell(int tma_cycles = 1, int gemm_cycles = 1, int exp_cycles = 2, int tmem_cycles = 1,
                   const Machine& machine = normalised_blackwell(), int sub_tiles = 1);
/// C += gemm(A, B) with both operands loaded; sub-tiles have an A each and share B. The machine needs units TC and TMA,
/// else tj::Error(graph).
Graph simple_gemm(int load_cycles = 1, int compute_cycles = 2, const Machine& machine = normalised_hopper(),
                  int sub_tiles = 1);

/// Costs of attention_with_tensor_memory(): cycles, bytes and registers, for one sub-tile of query rows.
struct TensorMemoryAttention {
  int sub_tiles = 2;
  int load_cycles = 1, load_latency = 1;                    ///< cycles of the copy engine, for one block of keys or
                                                            ///< values
  std::int64_t load_bytes = 0;                              ///< bytes of that block in shared memory
  int matrix_cycles = 1, matrix_latency = 1;                ///< cycles of one product, either of the two
  int matrix_issue = 1;                                     ///< for so long issuing it keeps a warp
  int score_read = 1, weight_write = 1;                     ///< scores from tensor memory to registers, weights back
  int maximum = 1;                                          ///< cycles of arithmetic
  int exponential = 1, arithmetic = 1;                      ///< cycles of special functions; of arithmetic beside them
  int output_read = 1, output_scale = 1, output_write = 1;  ///< correction of the output where a maximum moved
  std::int64_t score_bytes = 0, weight_bytes = 0, output_bytes = 0;    ///< bytes in tensor memory
  int score_registers = 0, state_registers = 0, output_registers = 0;  ///< registers a thread
  int signal = 0;                                                      ///< cycles from role to role through a barrier
  int score_exchange = 0,
      factor_exchange = 0;  ///< scores, or one factor a row, from the registers of one role to those of another
};

/// One iteration of attention whose products read and write tensor memory. The order is S = Q K^T, read, maximum,
/// exponentials, weights written back, O corrected, O += P V. Each sub-tile has these nodes; loads are shared by all.
/// No node is bound to a role: only costs, memory and registers speak for one. Units TC, EXP, ALU, TMA, TMEM and spaces
/// SMEM, TMEM; else tj::Error(graph).
Graph attention_with_tensor_memory(const TensorMemoryAttention& costs, const Machine& machine);

inline constexpr int kMaxSubTiles = 3;  ///< the registers of a block hold no more of these tiles
inline constexpr int kMaxExampleCost = 65536;

/// The parameters of an example.
struct ExampleParameters {
  std::map<std::string, int> costs{};  ///< cycles by the names of Example::costs; those left out have their defaults
  int sub_tiles = 1;
  std::optional<Machine> machine{};  ///< none: the example's own
};

/// A graph that has a name.
struct Example {
  std::string name;
  std::string machine;                             ///< "hopper" or "blackwell"
  std::vector<std::pair<std::string, int>> costs;  ///< names and defaults: {"gemm", 2}
};

/// All that example() knows, in a fixed order.
const std::vector<Example>& examples();
/// Their names.
std::vector<std::string> example_names();
/// Throws tj::Error(graph, invalid_argument) listing the names.
const Example& find_example(std::string_view name);
/// The named graph. Throws tj::Error(graph, invalid_argument) that names the parameter, its value and what is allowed.
Graph example(std::string_view name, const ExampleParameters& parameters = {});

}  // namespace tj::graph
