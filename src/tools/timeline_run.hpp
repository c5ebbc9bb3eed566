// One launch of a kernel that records, on a device or on the CPU model.
//
// Decides which problem is run, where its records go, and what else is timed. Does not decide what records mean
// (timeline_records). Invariant: the kernel is the one that the request would get, with marks; nothing of it gets into
// the cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/record.hpp"
#include "graph_op.hpp"
#include "ops/common/op_flags.hpp"
#include "pipeline.hpp"
#include "support/log.hpp"

namespace tj::tools {

struct TimelineProblem {
  std::string op, target, facts;         ///< target empty: as the environment or the device says
  ops::Flags flags;                      ///< the op's: kernel and sizes
  unsigned first_block = 0, blocks = 4;  ///< which of the grid's record
  std::uint32_t warp_records = 8192;     ///< for each role of a block; a power of two
  int launches = 10;       ///< timed, with and without marks, before the one that is looked at; on a device only
  std::uint64_t seed = 1;  ///< of the tensors' values, and of the model's order
  const GraphOp* graph = nullptr;  ///< in the place of `op`; outlives the run
  bool needs_device = false;       ///< the model is not taken where there is no GPU
};

struct RecordedRun {
  Recording made;
  std::string kernel, problem, target, device;
  std::string candidate, form;  ///< of a user's graph: the one that ran, and the document of it alone
  bool on_model = false;        ///< its clock counts steps, no cycles
  unsigned grid = 0, first_block = 0, blocks = 0;
  std::size_t warps = 0, warp_records = 0;
  std::vector<codegen::Record> records;  ///< of each block, of each of its warps
  int registers = 0,
      recording_registers = 0;  ///< a thread, at entry, without marks and with them; 0 where the compiler does not say
  double ms = 0, recording_ms = 0;  ///< a launch without marks and with them; 0 on the model

  std::span<const codegen::Record> of_block(unsigned index) const {
    return {records.data() + std::size_t{index} * warps * warp_records, warps * warp_records};
  }
};

/// Throws tj::Error: argument for flags, any other stage as the pipeline does.
RecordedRun run_recorded(const TimelineProblem& problem, const support::Log& log);

}  // namespace tj::tools
