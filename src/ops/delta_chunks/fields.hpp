// The fields that decide a delta_chunks kernel: a row for each. The order of the rows is that of requests.
#pragma once

#include <array>

#include "ops/common/fields.hpp"
#include "ops/delta_chunks/delta_chunks.hpp"

namespace tj::ops::delta_chunks {

inline constexpr const char* kTypes[] = {"f16", "bf16"};
inline constexpr const char* kStateTypes[] = {"f16", "bf16", "f32"};
inline constexpr const char* kWidths[] = {"64", "128"};
inline constexpr int kWidthValues[] = {64, 128};
inline constexpr const char* kSteps[] = {"solve", "state", "wide-state"};

/// The solving step reads no state: its kernels have the first type and order of states.
inline bool has_states(const DeltaChunksKernel& kernel) { return kernel.step != DeltaStep::solve; }

inline constexpr std::array<Field<DeltaChunksKernel>, 5> kFields = {
    {{.name = "step",
      .get = [](const DeltaChunksKernel& kernel) { return static_cast<unsigned>(kernel.step); },
      .set = [](DeltaChunksKernel& kernel, unsigned value) { kernel.step = static_cast<DeltaStep>(value); },
      .words = words<kSteps>,
      .bits = 2,
      .flags = {"solve", "state", "wide-state"},
      .defaults = 3,
      .tag = "_%"},
     {.name = "dtype",
      .get = [](const DeltaChunksKernel& kernel) { return static_cast<unsigned>(kernel.dtype); },
      .set = [](DeltaChunksKernel& kernel, unsigned value) { kernel.dtype = static_cast<DType>(value); },
      .words = words<kTypes>,
      .bits = 1,
      .flags = {"bf16", "f16"},
      .defaults = 2,
      .tag = "_%",
      .constant = "Element",
      .kind = Constant::element},
     {.name = "state",
      .get = [](const DeltaChunksKernel& kernel) { return static_cast<unsigned>(kernel.state); },
      .set = [](DeltaChunksKernel& kernel, unsigned value) { kernel.state = static_cast<DType>(value); },
      .words = words<kStateTypes>,
      .bits = 2,
      .flags = {"f32", "bf16", "f16"},
      .tag = "_state_%",
      .tagged = has_states,
      .constant = "StateElement",
      .kind = Constant::element},
     {.name = "head-dim",
      .get = [](const DeltaChunksKernel& kernel) { return place_among<kWidthValues>(kernel.head_dim); },
      .set = [](DeltaChunksKernel& kernel, unsigned place) { kernel.head_dim = kWidthValues[place]; },
      .words = words<kWidths>,
      .bits = 1,
      .flags = {"128", "64"},
      .tag = "_d%",
      .constant = "kHeadDim",
      .kind = Constant::integer},
     {.name = "state-transposed",
      .get = [](const DeltaChunksKernel& kernel) { return static_cast<unsigned>(kernel.state_transposed); },
      .set = [](DeltaChunksKernel& kernel, unsigned value) { kernel.state_transposed = value != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"false", "true", "both"},
      .tag = "_kv",
      .tagged = [](const DeltaChunksKernel& kernel) { return kernel.state_transposed; },
      .constant = "kTransposed",
      .kind = Constant::boolean}}};

}  // namespace tj::ops::delta_chunks
