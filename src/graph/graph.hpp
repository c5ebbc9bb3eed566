// The dependence graph of one kernel: nodes, edges, values, machine.
//
// Decides what a node is and what binds two nodes. Does not decide when or where a node runs (sched), nor its text
// (codegen). Invariant of a checked graph: names are unique, edges point at nodes, no cycle of distance 0 has a
// positive delay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tj::graph {

// Limits of a legal graph; the scheduler's 32-bit arithmetic is exact within them.
inline constexpr std::size_t kMaxNodes = 1024;
inline constexpr std::size_t kMaxEdges = 16384;
/// Sum of all delays, latencies and reservations: every time that a search forms stays far below 2^28.
inline constexpr std::int64_t kMaxTotalCycles = std::int64_t{1} << 22;
inline constexpr int kMaxDistance = 1024;
inline constexpr std::int64_t kMaxPieceBytes = std::int64_t{1} << 24, kPieceAlignment = 256;

struct Unit {
  std::string name;
  int capacity = 1;
};

struct Machine {
  std::string name;
  std::vector<Unit> units;
  std::map<std::string, std::int64_t> memory_bytes;  ///< capacity per space: "SMEM", "TMEM", "REG"
  std::int64_t smem_per_sm_bytes = 0;                ///< shared memory of all blocks side by side on an SM; 0: no more
                                                     ///< than SMEM
  std::int64_t smem_reserved_bytes = 0;              ///< bytes of it that each block takes beyond its own
  int warps_per_group = 4;
  int warp_size = 32;
  std::int64_t registers = 65536;
  int max_registers_per_thread = 255;
  int register_step = 8;
  bool register_roles = false;
  bool overlapped_launch =
      true;  ///< a grid may begin before the grids before it in its stream are done, and waits for them itself
  bool shared_barriers = true;  ///< barriers in a block's shared memory; without, only all of its threads can meet, and
                                ///< its loop is one role
  int max_cluster = 1;          ///< most blocks that run together and reach each other's shared memory
  int unit_index(std::string_view unit) const;  ///< -1 when unknown
};

inline constexpr int kMaxBlocksPerSm = 32;

/// The share of the machine that each of so many blocks has when they run side by side on an SM. It has registers and
/// shared memory: all that is left of an SM's, at most a block's own limit. Units stay whole: reservations say how
/// blocks share them.
Machine share_of(const Machine& machine, int blocks_per_sm);

/// `count` instances of a unit from cycle `start` for `cycles` cycles after issue: one row of the reservation table.
struct Reservation {
  int unit = 0;
  int start = 0;
  int cycles = 0;
  int count = 1;
};

enum class Scope { tile_begin, iteration, tile_end };

/// How a node's completion is observed by another node.
enum class Async {
  none,     ///< done when the call returns
  copy,     ///< through the full barrier of the ring that it fills (transaction bytes)
  matrix,   ///< through a wait on the issuing role's groups
  store,    ///< a bulk copy out of shared memory: its sources are free after a wait on the issuing thread's groups
  threads,  ///< through the full barrier of the ring that it fills: each thread of the role has copies of its own,
            ///< which arrive for it
  unit  ///< the matrix unit, asked by one thread. Once done it arrives by itself: at the full barrier of the ring that
        ///< it fills, and at the empty barriers of the rings that it has read
};

/// Does one thread start it, and hardware do the rest?
constexpr bool issued_by_one(Async async) {
  return async == Async::copy || async == Async::store || async == Async::unit;
}
/// Does hardware read its operands in shared memory, by the proxy of the copy engine and the matrix unit?
constexpr bool reads_by_itself(Async async) {
  return async == Async::matrix || async == Async::store || async == Async::unit;
}

/// A hint on the lines that a copy reads. By it, L2 lets go of them first, or last.
enum class CacheHint { none, evict_first, evict_last };

/// The memory of a value's slots.
enum class Space {
  shared,  ///< a block's shared memory
  tensor   ///< its tensor memory, in columns of kTensorLanes words: products leave their sums there, warps load and
           ///< store them
};
inline constexpr int kTensorLanes = 128, kTensorColumnBytes = 4 * kTensorLanes, kLeastTensorColumns = 32;

/// How tiles come to the blocks of a launch.
enum class Walk {
  one_tile,    ///< one tile a block: the launch has as many blocks
  persistent,  ///< a block does the tile at its own place in the grid, then those a whole grid further on
  dynamic,     ///< then the next one that no block has begun, by a counter in global memory
  split,       ///< equal shares of all iterations: blocks may each do a piece of a tile, and the one that does the last
               ///< piece adds what the others have summed
  sliced       ///< blocks of a cluster do a tile together: each does a slice of the iterations, and the last one adds
               ///< what the others have summed and sent into its shared memory
};
/// Grids that follow each other in a stream, on machines where they overlap.
enum class Grids {
  ordered,  ///< waits for those before it; the next one may take places of blocks that are done
  opens,    ///< likewise, but the next one begins only when those before this one are done: it may be one that joins
  joins  ///< works beside the one before it, which opens, and waits for it at its end alone. It reads nothing that that
         ///< one writes, and writes nothing that that one touches
};
/// Slots of the ring by which a walk hands on what is drawn, and the bytes of each. In a dynamic walk, a role that has
/// drawn a tile goes on with it while others still do the one before. In a split one, a block draws once.
inline constexpr int kPlaceSlots = 2, kPlaceBytes = 4;
/// In a split walk, a tile is not cut with fewer iterations than this on a side.
inline constexpr int kLeastPiece = 4;

/// How a role runs nodes whose bodies have variants: both ways run the same variant in each iteration.
enum class Ranges {
  peeled,  ///< a loop for each variant
  guarded  ///< one loop, in which the calls of such nodes alone stand twice
};
/// "one_tile", "persistent", "dynamic", "split", "sliced".
const char* name_of(Walk walk);
const char* name_of(Grids grids);
const char* name_of(Ranges ranges);

/// The tag of the body that is right in all iterations, and that of a cheaper one (kernel_templates/pipeline.cuh).
inline constexpr const char *kGeneralVariant = "General", *kFastVariant = "Fast";
/// The usual function of a range's begin.
inline constexpr const char* kFastBegin = "fast_begin";

/// Iterations of a tile in which a variant of a node's body is right. The general body is right in all of them.
struct Range {
  std::string variant;      ///< the body's tag: kFastVariant, or a type of the graph's namespace; empty: no range
  std::string begin;        ///< the device function of context and tile that says the first iteration; empty: 0
  std::string end;          ///< likewise the iteration behind the last one; empty: the tile's end
  int max_begin = 1 << 30;  ///< no tile's range begins later
  explicit operator bool() const { return !variant.empty(); }
  bool operator==(const Range&) const = default;
};

struct Node {
  std::string name;     ///< unique: "qk.0"
  std::string body;     ///< device function: "qk"
  std::string context;  ///< type of the device object the body works on: "Consumer"
  int copy = 0;         ///< number of the copy of that object
  Scope scope = Scope::iteration;
  Async async = Async::none;
  std::vector<Reservation> reservations;
  int cycles = 1;   ///< cycles of the issuing warps (synchronous nodes: their run time)
  int latency = 1;  ///< cycles until the result may be used
  int warp_cycles =
      0;  ///< for so long the warps of the node's role can issue no other node that has this; 0: they always can
  bool variable_latency = false;
  bool streaming = false;
  bool drains =
      false;  ///< it only brings its inputs out of shared memory by ordinary accesses: a role of its own does it
  bool merges =
      false;    ///< where blocks share a tile: it leaves its block's sums in memory, or adds the others' to them
  Range range;  ///< of a variant of its body
  CacheHint cache_hint = CacheHint::none;  ///< of a bulk copy; its body is told it, and passes it on
  int warps = 4;                           ///< warps of the role that runs it
  int registers = 0;  ///< registers a thread that its value takes from issue until its last reader is done
  std::map<std::string, std::int64_t> memory_bytes;  ///< footprint per space (user graphs)
};

/// t_dst + distance * II >= t_src + delay.
struct Edge {
  int src = 0, dst = 0;
  int delay = 0;
  int distance = 0;
  bool blocking = false;   ///< dst waits for src's completion
  int value = -1;          ///< the shared-memory value that flows along it, or -1 (registers, or order only)
  int spill_cycles = 0;    ///< cost when src and dst are in different roles
  bool same_role = false;  ///< the value lives in registers of one context
  bool updates = false;    ///< dst writes into the value's slot, where the next node that it is handed to finds it
};

/// A function of struct Config whose body a user wrote. Compilers name its lines by `name`, from 1 on.
struct Function {
  std::string name;         ///< "mask_mod": the argument that has the body
  std::string declaration;  ///< "static TJ_DEVICE bool mask_mod(int q, int k)"
  std::string body;         ///< without its braces
};

/// A value on chip that nodes of different roles exchange: it becomes a ring. Filled in every iteration, it may be read
/// in a later one (Edge::distance); a reader at the tile's end has what the last iteration left. A value that a node of
/// the loop fills once a tile is a sum. Its slot is asked for before the loop and handed on after it.
struct Value {
  std::string name;
  std::int64_t slot_bytes = 0;  ///< in tensor memory a multiple of kTensorColumnBytes
  int alignment = 1024;
  Scope scope = Scope::iteration;  ///< scope of the filling: tile_begin: filled once a tile
  int min_slots = 1;
  int max_slots = 8;
  std::int64_t copied_bytes = 0;  ///< bytes that bulk copies bring into a slot; 0: all of it
  /// Blocks of a cluster that fill a slot together: each copies its part to all of them. Their ranks differ by
  /// multiples of `shared_stride`, and there are so many of them.
  int shared_by = 1, shared_stride = 1;
  bool within_warp = false;  ///< each warp reads only what the same warp has written
  Space space = Space::shared;
  int lies_in =
      -1;  ///< another value, in whose place in shared memory this one lies; -1: it has its own (lifetimes.hpp)
};

struct Graph {
  std::string name;
  Machine machine;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<Value> values;
  /// Bytes of shared memory that a block is launched with, whatever it uses: they keep other blocks off its SM. May be
  /// more than the machine has, where that is a share or has a cap.
  std::int64_t least_smem_bytes = 0;
  Walk walk = Walk::persistent;
  std::int64_t piece_bytes = 0;  ///< for the sums that a block leaves: of global memory where the walk is split, of the
                                 ///< last block's shared memory where it is sliced
  int slices = 0;  ///< of a tile where the walk is sliced; a cluster does cluster / slices tiles. 0: one tile, each
                   ///< block a slice
  int most_iterations = 0;  ///< most iterations of a tile, which the launch must keep to; 0: any number
  int blocks_per_sm = 1;    ///< blocks that are to run side by side on an SM; the machine is the share of one of them
  int cluster =
      1;  ///< blocks that run together; they do the same number of tiles, and but for slices of iterations in each
  /// Blocks of ranks 2n and 2n + 1 multiply as one: the lower one's thread asks the matrix units of both. Each block
  /// has its own rows of left operand and sums, and has copied half of the right operand.
  bool pairs = false;
  Grids grids = Grids::ordered;
  Ranges ranges = Ranges::peeled;

  // Text that codegen writes into the unit, and the launch reads back; filled by the op.
  std::string namespace_name;  ///< device namespace of bodies and contexts
  std::vector<std::string> includes;
  std::string params_type;                                  ///< type of the kernel's one parameter
  std::vector<std::pair<std::string, std::string>> config;  ///< members of struct Config: ("int kBlockM", "128")
  std::vector<Function> functions;                          ///< of struct Config, whose bodies are a user's

  double flops_per_iteration = 0;  ///< flops of one CTA, for predictions
  double overhead_cycles = 0;      ///< cycles per tile: launch, prologue fill, epilogue; for predictions

  int node_index(std::string_view name) const;  ///< -1 when unknown
  /// Do blocks do tile after tile?
  bool walks() const { return walk != Walk::one_tile && walk != Walk::sliced; }
  /// Do blocks do pieces of tiles?
  bool cuts() const { return walk == Walk::split || walk == Walk::sliced; }
  /// Blocks that do a tile together, where the walk is sliced. Their ranks are cluster / slice_count() apart.
  int slice_count() const { return slices > 0 ? slices : cluster; }
  /// Does a counter in global memory say what a block does?
  bool draws() const { return walk == Walk::dynamic || walk == Walk::split; }
};

/// Bytes of shared memory that the walk takes beside all values, barriers included; a multiple of 8.
std::int64_t walk_bytes(const Graph& graph);

/// Throws tj::Error(graph, invalid_argument) naming the first place that breaks the invariant.
void check(const Graph& graph);

/// Does a node's body have a variant?
bool has_ranges(const Graph& graph);
/// "Fast from fast_begin until fast_end".
std::string to_text(const Range& range);

/// A readable listing, one node and one edge a line.
std::string to_text(const Graph& graph);

}  // namespace tj::graph
