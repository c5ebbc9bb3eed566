// Dependence graphs: build one in code or read it from JSON, schedule it, look at what came out.
//
//     tj::Graph graph{.name = "product", .machine = {.name = "hopper"}};
//     graph.instructions = {{.name = "load", .cycles = 1, .fu = "TMA", .variable_latency = true},
//                           {.name = "mma", .cycles = 2, .fu = "TC"}};
//     graph.edges = {{.src = "load", .dst = "mma", .delay = 1}, {.src = "mma", .dst = "mma", .delay = 2, .delta = 1}};
//     const tj::Schedule schedule = tj::schedule(graph);       // II 2, proven
//     std::puts(schedule.text().c_str());
//
// Decides what a user's graph can say, and what can be read of a schedule. A user's graph can say all that the graphs
// of the shipped ops say. Members have the names and the meaning of the keys of the JSON form: src/graph/README.md
// explains each. tj::custom (custom.hpp) makes a kernel from a graph that has `code`: Description::graph is
// graph.json(). Examples: samples/06_graphs.
//
// Units: times are cycles of the graph's own, sizes are bytes. Thread safety: schedule(), parse() and all const members
// may be called from any thread at any time. A Graph that one thread changes belongs to that thread, as a std::string
// does. None of this needs a runtime, a compiler or a device. Results are the same on every machine and in every run,
// but for the time of the search that text() and json() name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <tilejit/export.hpp>
#include <tilejit/graph_trial.hpp>

namespace tj {

/// The options of a schedule. Members have the names of the keys of the JSON form.
struct TJ_API ScheduleOptions {
  int max_stages = 0;  ///< most iterations in flight; 1: they do not overlap; 0: any
  int min_ii = 0;      ///< no smaller interval is tried, in cycles; at most 2^22
  int max_slots = 0;   ///< most slots of a ring; 0: what values and memory allow
  int max_roles = 0;   ///< most roles; 0: as many as pay
  /// Nodes that the exact search may visit before it settles for less, unproven; at most 2^40. None: by the size of the
  /// graph, some quarter of a second.
  std::optional<std::uint64_t> node_budget{};
  bool streaming_latency_zero = false;  ///< streaming loads count with latency 0
  bool turns = true;                    ///< roles that alternate on a unit are held to their turns
  bool joint = true;  ///< roles and cycles in one search; false: roles first, of loads and of each copy of the rest
  bool mixed_roles = false;   ///< any instruction may share a role with any other; needs `joint`
  bool copies_apart = false;  ///< instructions that compute for different copies have different roles
  bool operator==(const ScheduleOptions&) const = default;

  /// {"max_stages": 2, "turns": false}; keys that are left out have what `usual` has, else their defaults; an empty
  /// text has no keys. Throws tj::Error(schedule, invalid_argument) that names key, value and what is allowed.
  static ScheduleOptions parse(std::string_view json, const ScheduleOptions& usual);
  static ScheduleOptions parse(std::string_view json);
};

/// A loop and the machine that it is for. Plain data: nothing is checked before it is used.
struct TJ_API Graph {
  /// The part of a tile in which an instruction runs, or a value is filled: once before the loop, in the loop, once
  /// after it.
  enum class Scope { tile_begin, iteration, tile_end };
  /// The way in which others see the end of an instruction: "async" in the JSON form.
  enum class Async {
    none,     ///< the call returns
    copy,     ///< all bytes of the ring's slot have come
    matrix,   ///< its role waits for its group of products
    store,    ///< bulk stores: the slots that it reads are free after a wait for its group
    threads,  ///< each thread's copies, once they are done, arrive at the barrier of the ring that they fill
    unit      ///< the matrix unit, asked by one thread, arrives at the barriers of the rings that it fills and reads
  };
  /// A hint on the lines that a bulk copy reads. By it, L2 lets go of them first, or last.
  enum class CacheHint { none, evict_first, evict_last };
  /// The memory of a value's slots.
  enum class Space { shared, tensor };
  /// Grids that follow each other in a stream, on machines with `overlapped_launch`.
  enum class Grids {
    ordered,  ///< waits for those before it; the next one may take places of blocks that are done
    opens,    ///< likewise, but the next one begins only when those before this one are done: it may be one that joins
    joins     ///< works beside the one before it, which opens, and waits for it at its end alone. It reads nothing that
              ///< that one writes, and writes nothing that that one touches; no check of the library sees this
  };
  /// How a role runs instructions with a variant. Both ways run the same variant in each iteration.
  enum class Ranges {
    peeled,  ///< a loop for each variant
    guarded  ///< one loop, in which the calls of such instructions alone stand twice
  };
  /// How tiles come to the blocks of a launch.
  enum class Walk {
    one_tile,    ///< one tile a block: the launch has as many blocks
    persistent,  ///< a block does the tile at its own place in the grid, then those a whole grid further on
    dynamic,     ///< then the next one that no block has begun, by a counter in global memory
    split,  ///< equal shares of all iterations: blocks may each do a piece of a tile, and the one that does the last
            ///< piece adds what the others have summed
    sliced  ///< blocks of a cluster do a tile together: each does a slice of the iterations, and the last one adds what
            ///< the others have summed and sent into its shared memory
  };

  /// A unit that instructions hold, such as a matrix unit.
  struct Unit {
    std::string name{};
    int capacity = 1;  ///< instances, 1 to 4096
    bool operator==(const Unit&) const = default;
  };

  /// Members with an expression in the place of their number, by name; "memory.SMEM" for a space. An expression has
  /// numbers, + - * /, parentheses, min, max, ceil, floor, facts of the target (src/arch/README.md) and parameters. A
  /// whole number is rounded up. The member itself is not looked at then.
  using Expressions = std::map<std::string, std::string>;

  using Parameter = GraphParameter;  ///< a name that expressions may use

  /// A form of the graph: parameters with other values. The form that does most in a second is taken.
  struct Candidate {
    std::string name{};                               ///< unique, 1 to 64 letters, digits, '_', '-' and '.'
    std::map<std::string, std::string> parameters{};  ///< by name: numbers or expressions
    bool operator==(const Candidate&) const = default;
  };

  /// Either a name and nothing else, or a description without a name.
  struct TJ_API Machine {
    std::string name{};  ///< "hopper", "blackwell": normalised; "sm_90a" or another target, options included
    std::vector<Unit> functional_units{};  ///< they keep this order
    /// Bytes of each space, such as "SMEM"; empty: spaces are not bounded.
    std::map<std::string, std::int64_t> memory{};
    int warps_per_group = 4;  ///< warps that share one number of registers
    int warp_size = 32;       ///< threads
    int registers = 65536;    ///< of a block
    int max_registers_per_thread = 255;
    int register_step = 8;          ///< a thread's registers are a multiple of it
    bool register_roles = false;    ///< roles may have different numbers of registers
    bool shared_barriers = true;    ///< false: all threads of a block meet, and its loop is one role
    bool overlapped_launch = true;  ///< a grid may begin before those before it in its stream are done
    int max_cluster = 1;            ///< most blocks of a cluster, 1 to 16
    bool operator==(const Machine&) const = default;

    /// The description of a machine that has a name, to be read or changed. Throws tj::Error(graph) that lists the
    /// names.
    static Machine described(std::string_view name);
  };

  /// A row of a reservation table: the instances of a unit that are held in each cycle from the issue on.
  struct Row {
    std::string unit{};
    std::vector<int> held{};
    bool operator==(const Row&) const = default;
  };

  /// A node of the graph, which runs once an iteration, or once a tile (`scope`).
  struct Instruction {
    std::string name{};            ///< unique, 1 to 128 bytes
    int cycles = 1;                ///< one instance of `fu` is held so long; 0 is legal. Ignored with `rrt`
    std::string fu{};              ///< a unit of the machine; empty: none
    std::vector<Row> rrt{};        ///< in the place of cycles and fu, when it holds several units or instances
    std::optional<int> latency{};  ///< cycles until the result may be used; none: as long as it holds units
    /// Cycles that its warps take to issue it; none: as long as it holds units. During these cycles no instruction of
    /// the same role begins that has a blocking edge into it (Edge::blocking).
    std::optional<int> issue_cycles{};
    bool variable_latency = false;  ///< the time of its end is not known; only others like it share its role
    bool streaming = false;         ///< depends on no other instruction, so the scheduler may add slots to its ring
    std::map<std::string, std::int64_t> memory{};  ///< bytes of each space that its result takes
    int registers = 0;                             ///< a thread, that its result takes in the role that runs it
    /// Cycles from its issue on for which it keeps its warps to itself. Such spans never overlap in one role. 0: it has
    /// no span, and may also begin inside that of another instruction.
    int warp_cycles = 0;
    Scope scope = Scope::iteration;
    std::optional<Async> async{};  ///< none: copy with variable_latency, else Async::none
    bool drains = false;           ///< it only brings its inputs out of shared memory: a role of its own does it
    std::optional<int> warps{};    ///< of its role, 1 to 32; none: 1 where one thread starts it, else 4
    // For code:
    std::string body{};     ///< the device function; empty: the name
    std::string context{};  ///< the class template that it works on
    int copy = 0;           ///< which copy of that context, 0 to 63
    bool merges = false;    ///< it leaves or adds the sums of a tile's pieces: see Walk::split and Walk::sliced
    /// The tag of a cheaper body, which is right in a range of iterations: "Fast" is dev::Fast, any other name a type
    /// of `code.namespace_name`. Empty: the body takes no tag. The general body is right in all iterations.
    std::string variant{};
    std::string variant_begin{};             ///< the device function that says the range's first iteration; empty: 0
    std::string variant_end{};               ///< likewise the iteration behind the last one; empty: the tile's end
    std::optional<int> max_variant_begin{};  ///< no tile's range begins later; none: any iteration
    CacheHint cache_hint = CacheHint::none;  ///< of bulk copies alone
    Expressions expressions{};               ///< such as {"cycles", "16384 / matrix_flops_per_cycle"}
    bool operator==(const Instruction&) const = default;
  };

  /// A dependence: t_dst + delta * II >= t_src + delay, for the cycles of issue t and the interval II.
  struct Edge {
    std::string src{}, dst{};         ///< names of instructions
    int delay = 0;                    ///< cycles; may be negative
    int delta = 0;                    ///< distance in iterations, 0 to 1024
    bool blocking = false;            ///< dst waits for the completion of src
    std::string value{};              ///< the entry of `values` that flows along it; empty: none
    int spill_cycles = 0;             ///< added to the delay where the edge crosses roles
    std::optional<bool> same_role{};  ///< both ends share a role; absent: where the graph has `code` and no value flows
    bool updates = false;             ///< dst writes into the value's slot in tensor memory
    Expressions expressions{};
    bool operator==(const Edge&) const = default;
  };

  /// A value that roles exchange through memory. It becomes a ring of slots.
  struct Value {
    std::string name{};             ///< unique, 1 to 128 bytes
    std::int64_t slot_bytes = 0;    ///< a multiple of `alignment`; in tensor memory of 512
    std::int64_t copied_bytes = 0;  ///< bytes that bulk copies bring into a slot; 0: all of it
    int alignment = 1024;           ///< bytes, a power of two up to 4096
    /// That of the instruction which fills it. A sum has tile_end: the loop fills it for readers at the tile's end.
    Scope scope = Scope::iteration;
    int min_slots = 1;
    std::optional<int> max_slots{};  ///< none: 8, or min_slots where that is more
    int shared_by = 1;               ///< blocks of a cluster that fill a slot together
    int shared_stride = 1;           ///< how far the ranks of those blocks are apart
    bool within_warp = false;        ///< each warp reads only what the same warp has written
    Space space = Space::shared;
    /// The name of another value, in whose place in shared memory this one lies; "": it has a place of its own. Their
    /// lifetimes must not meet, or take turns in the loop. The schedule orders them, and barriers keep the order.
    std::string lies_in{};
    Expressions expressions{};
    bool operator==(const Value&) const = default;
  };

  /// A constant of the unit: a flag, a number, or the name of a type. A text that begins with '=' is an expression.
  struct Constant {
    std::string name{};
    std::variant<bool, int, std::string> value{};
    bool operator==(const Constant&) const = default;
  };

  /// The texts of a kernel's unit.
  struct Code {
    std::string namespace_name;              ///< of bodies, contexts and tiles: "user::gemm"; JSON: "namespace"
    std::vector<std::string> includes;       ///< files of the folder or of the library, in this order
    std::string params_type;                 ///< type of the kernel's one parameter: "user::gemm::Params"
    std::vector<Constant> config;            ///< members of the unit's `Config`
    std::vector<std::string> definitions{};  ///< preprocessor names of the unit: "WIDE", "PARTS=4"
    bool operator==(const Code&) const = default;
  };

  std::string name = "graph";  ///< in titles and messages, 1 to 128 bytes
  Machine machine{};
  std::vector<Instruction> instructions{};  ///< 1 to 1024
  std::vector<Edge> edges{};                ///< at most 16384
  std::vector<Value> values{};              ///< empty: each result in SMEM is a value, unless `lists_values`
  bool lists_values = false;                ///< `values` are all there are, even where it is empty
  std::optional<Code> code{};
  int cluster = 1;        ///< blocks that run together, at most Machine::max_cluster
  bool pairs = false;     ///< blocks of ranks 2n and 2n + 1 multiply as one
  int blocks_per_sm = 1;  ///< blocks side by side on an SM, 1 to 32; a named machine's registers and memory are divided
  Walk walk = Walk::persistent;
  Grids grids = Grids::ordered;
  Ranges ranges = Ranges::peeled;  ///< of instructions with a variant
  /// For the sums of a block's piece: of global memory where the walk is split, of the last block's shared memory where
  /// it is sliced.
  std::int64_t piece_bytes = 0;
  int slices = 0;  ///< of a tile where the walk is sliced, a divisor of `cluster` from 2 on; 0: each block of a cluster
  int most_iterations = 0;             ///< of a tile, which the launch must keep to; 0: any number
  std::int64_t least_smem_bytes = 0;   ///< of shared memory that a block is launched with
  double flops_per_iteration = 0;      ///< of a block; for predictions
  double overhead_cycles = 0;          ///< of a tile beside its iterations; for predictions
  ScheduleOptions options{};           ///< how it is scheduled where a call says nothing else
  std::vector<std::string> targets{};  ///< further machines, by name, that the graph serves as it serves `machine`
  std::vector<Parameter> parameters{};
  std::vector<Candidate> candidates{};  ///< empty: one form, with the parameters as they stand
  std::vector<GraphTrial> trials{};
  double typical_iterations = 1;  ///< of a tile, by which candidates are compared
  double useful_flops = 0;  ///< of that tile; 0: flops_per_iteration times typical_iterations, or 1 where that is 0
  Expressions expressions{};
  bool operator==(const Graph&) const = default;

  /// The graph of a JSON text, which may say its name itself. Throws tj::Error(graph, invalid_argument) that names the
  /// place, its value and what is allowed: "instructions[3].fu names the unit 'XU'; machine 'sm_90a' has TC, ...".
  static Graph parse(std::string_view json, std::string_view name = "graph");

  /// The JSON text, without members that have their defaults: one line for each instruction, value and edge.
  /// parse(json()) has the same schedules; defaults of its values are written out. Throws as check() does.
  std::string json() const;

  /// Throws tj::Error(graph, invalid_argument) as parse() does when this is no legal graph, on any of its machines and
  /// in any form.
  void check() const;

  /// The graph for one machine (empty: `machine`) and in one form (empty: parameters as they stand), without
  /// expressions and parameters. Throws tj::Error(graph, invalid_argument) that names what is not known.
  Graph resolved(std::string_view target = "", std::string_view candidate = "") const;

  /// A listing to read: machine, instructions, edges, values. Throws as check() does.
  std::string text() const;
};

/// A schedule: the cycle, stage and role in which each instruction of a graph runs. It never changes, and its copies
/// share memory.
class TJ_API Schedule {
 public:
  /// The place of an instruction.
  struct Node {
    std::string name;
    int cycle = 0;  ///< of its issue, from the begin of its iteration; 0 for instructions outside the loop
    int stage = 0;  ///< cycle / II: so many iterations behind the newest it runs
    int role = 0;   ///< index into roles()
    Graph::Scope scope = Graph::Scope::iteration;
  };
  /// Warps that run the same instructions.
  struct Role {
    std::string name;  ///< "load", "compute0"
    int warps = 0;
    int registers = 0;       ///< a thread; 0: as compiled
    std::vector<int> nodes;  ///< indices into nodes(): of the loop in the order of their issue, then the others
  };
  /// The slots of a value. Each has a barrier that says it is full, and one that says it is empty.
  struct Ring {
    std::string value;
    int slots = 0;
    std::int64_t slot_bytes = 0;
    int shared_by = 1;           ///< blocks of a cluster that fill a slot together
    int producer = 0;            ///< index into roles()
    std::vector<int> consumers;  ///< indices into roles()
    std::string lies_in{};       ///< the value in whose place it lies; "": it has its own
  };
  /// Roles that alternate on a unit. Each role waits before its nodes for the role before it, and the first for the
  /// last.
  struct Turns {
    struct Turn {
      int role = 0;            ///< index into roles()
      std::vector<int> nodes;  ///< indices into nodes()
    };
    std::string unit;
    std::vector<Turn> turns;  ///< in the order of the roles' turns
  };
  /// The use of a unit.
  struct Unit {
    std::string name;
    int capacity = 0;
    std::int64_t cycles = 0;  ///< that an iteration holds it, summed over instances
  };

  // std::move copies, so a Schedule that was moved from stays whole.
  Schedule(const Schedule&) = default;
  Schedule& operator=(const Schedule&) = default;
  ~Schedule() = default;

  int ii() const;                          ///< cycles from the begin of an iteration to that of the next
  int length() const;                      ///< cycles of one iteration, to the end of its last result
  int stages() const;                      ///< iterations in flight
  const std::string& candidate() const;    ///< the form that was taken; empty where the graph has no candidates
  int resource_bound() const;              ///< no smaller II serves the units (ResMII)
  int recurrence_bound() const;            ///< no smaller II serves the cycles of edges (RecMII)
  bool proven_ii() const;                  ///< no smaller II is possible under these options
  bool proven_length() const;              ///< no shorter iteration is possible at this II
  const std::string& certificate() const;  ///< why no smaller II is possible, or that the budget was gone
  std::uint64_t search_nodes() const;      ///< nodes that the search visited
  bool joint() const;                      ///< roles and cycles are from one search

  const std::vector<Node>& nodes() const;  ///< in the graph's order
  /// Throws tj::Error(schedule, invalid_argument) where no instruction has this name.
  const Node& node(std::string_view name) const;
  const std::vector<Role>& roles() const;
  const std::vector<Ring>& rings() const;
  const std::vector<Turns>& turns() const;
  const std::vector<Unit>& units() const;

  /// Checks the schedule from the graph alone, by code that shares nothing with the search. Gives a line for each
  /// violation; nothing when the schedule is right. Plays some tiles, too, where their least period is known.
  std::vector<std::string> verify() const;

  /// TFLOP/s of a device whose blocks do tiles of so many iterations, from Graph::flops_per_iteration and
  /// Graph::overhead_cycles; 0 where no flops are given. Throws tj::Error(schedule, invalid_argument) when sm_count or
  /// iterations is below 1, or clock_ghz is not above 0.
  double predicted_tflops(int sm_count, double clock_ghz, double iterations) const;

  // The forms that tj-schedule writes. svg() and trace() throw tj::Error(schedule, unsupported) where they would draw
  // more than 2^15 instructions, counted in each iteration in flight.
  std::string text() const;   ///< bounds, roles with their nodes, rings, turns
  std::string json() const;   ///< the keys stand in src/sched/README.md
  std::string svg() const;    ///< a picture: units in the steady state, roles over the first iterations
  std::string trace() const;  ///< for Perfetto or chrome://tracing, one microsecond a cycle

 private:
  struct State;
  explicit Schedule(std::shared_ptr<const State> state);
  friend TJ_API Schedule schedule(const Graph& graph, const ScheduleOptions& options);
  friend TJ_API Schedule schedule(const Graph& graph);
  std::shared_ptr<const State> state_;
};

/// The schedule of a graph with the shortest interval, then the shortest iteration, then the fewest roles. Throws
/// tj::Error. Stage graph: the graph is not legal. Stage schedule, invalid_argument: an option is wrong; the message
/// names it, its value and what is allowed. Stage schedule, unsupported: no schedule fits; the message names what is
/// lacking. A graph with candidates is scheduled in the form that does most useful flops in a cycle.
TJ_API Schedule schedule(const Graph& graph, const ScheduleOptions& options);
/// The same with Graph::options.
TJ_API Schedule schedule(const Graph& graph);

}  // namespace tj
