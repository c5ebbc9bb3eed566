// The fields that decide a kernel of chunk outputs, a row for each; see ops/common/fields.hpp.
//
// Decides how a field is asked for, written in a name and told to the unit. Does not decide which values go together
// (kernel.cpp). Invariant: what ChunkOKernel holds is in a row, so that kernels that differ have keys and names that
// differ.
#pragma once

#include <array>

#include "ops/chunk_o/chunk_o.hpp"
#include "ops/common/fields.hpp"

namespace tj::ops {

inline constexpr int kChunkODivisors[] = {1, 2, 3, 6};
inline constexpr const char* kChunkODivisorWords[] = {"1", "2", "3", "6"};
inline constexpr const char* kChunkOItemWords[] = {"auto", "1", "2", "3"};

inline constexpr const char* kChunkOStageWords[] = {"auto", "1", "2", "3", "4"};
inline constexpr int kMostChunkOStages = 4;

inline constexpr std::array<Field<ChunkOKernel>, 7> kChunkOFields = {
    {{.name = "head-ratio",
      .get = [](const ChunkOKernel& kernel) { return place_among<kChunkODivisors>(kernel.divisor); },
      .set = [](ChunkOKernel& kernel, unsigned place) { kernel.divisor = kChunkODivisors[place]; },
      .words = words<kChunkODivisorWords>,
      .bits = 4,
      .flags = {"2", "1", "3", "6"},
      .defaults = 3,
      .tag = "_r%"},
     {.name = "gated",
      .get = [](const ChunkOKernel& kernel) { return unsigned{kernel.gated}; },
      .set = [](ChunkOKernel& kernel, unsigned place) { kernel.gated = place != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"true", "false", "both"},
      .tag = "_ungated",
      .tagged = [](const ChunkOKernel& kernel) { return !kernel.gated; },
      .constant = "kGates",
      .kind = Constant::boolean},
     {.name = "variable",
      .get = [](const ChunkOKernel& kernel) { return unsigned{kernel.variable}; },
      .set = [](ChunkOKernel& kernel, unsigned place) { kernel.variable = place != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"true", "false", "both"},
      .tag = "_equal",
      .tagged = [](const ChunkOKernel& kernel) { return !kernel.variable; },
      .constant = "kVariable",
      .kind = Constant::boolean},
     {.name = "h-transposed",
      .get = [](const ChunkOKernel& kernel) { return unsigned{kernel.h_transposed}; },
      .set = [](ChunkOKernel& kernel, unsigned place) { kernel.h_transposed = place != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"false", "true", "both"},
      .tag = "_kv",
      .tagged = [](const ChunkOKernel& kernel) { return kernel.h_transposed; },
      .constant = "kStateMn",
      .kind = Constant::boolean},
     {.name = "item-heads",
      .get = [](const ChunkOKernel& kernel) { return static_cast<unsigned>(kernel.heads); },
      .set = [](ChunkOKernel& kernel, unsigned place) { kernel.heads = static_cast<int>(place); },
      .words = words<kChunkOItemWords>,
      .bits = 4,
      .flags = {"auto", "1", "2", "3"},
      .tag = "_h%",
      .tagged = [](const ChunkOKernel& kernel) { return kernel.heads != 0; }},
     {.name = "num-stages",
      .get = [](const ChunkOKernel& kernel) { return static_cast<unsigned>(kernel.stages); },
      .set = [](ChunkOKernel& kernel, unsigned place) { kernel.stages = static_cast<int>(place); },
      .words = words<kChunkOStageWords>,
      .bits = 3,
      .flags = {"auto", "1", "2", "3", "4"},
      .tag = "_s%",
      .tagged = [](const ChunkOKernel& kernel) { return kernel.stages != 0; },
      .optional = true},
     {.name = "evict-first",
      .get = [](const ChunkOKernel& kernel) { return unsigned{kernel.evict_first}; },
      .set = [](ChunkOKernel& kernel, unsigned place) { kernel.evict_first = place != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"false", "true", "both"},
      .tag = "_ef",
      .tagged = [](const ChunkOKernel& kernel) { return kernel.evict_first; },
      .optional = true}}};

}  // namespace tj::ops
