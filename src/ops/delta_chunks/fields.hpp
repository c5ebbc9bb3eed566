// The fields that decide a delta_chunks kernel: a row for each. The order of the rows is that of requests.
#pragma once

#include <array>

#include "ops/delta_chunks/delta_chunks.hpp"
#include "ops/gated_delta_rule/rule_fields.hpp"

namespace tj::ops::delta_chunks {

inline constexpr const char* kSteps[] = {"solve", "state", "wide-state", "solve-beside", "map", "carry"};

/// The other steps read no caller's states: their kernels have the first type and order of them.
inline bool has_states(const DeltaChunksKernel& kernel) {
  return !solves(kernel.step) && kernel.step != DeltaStep::carry;
}

inline constexpr std::array<Field<DeltaChunksKernel>, 8> kFields = {
    {{.name = "step",
      .get = [](const DeltaChunksKernel& kernel) { return static_cast<unsigned>(kernel.step); },
      .set = [](DeltaChunksKernel& kernel, unsigned value) { kernel.step = static_cast<DeltaStep>(value); },
      .words = words<kSteps>,
      .bits = 3,
      .flags = {"solve", "state", "wide-state", "solve-beside", "map", "carry"},
      .defaults = 6,
      .tag = "_%"},
     gated_delta_rule::dtype_field<DeltaChunksKernel>(),
     [] {
       auto states = gated_delta_rule::scaled_state_field<DeltaChunksKernel>();
       states.tagged = has_states;
       return states;
     }(),
     gated_delta_rule::head_dim_field<DeltaChunksKernel>(),
     gated_delta_rule::state_transposed_field<DeltaChunksKernel>(),
     {.name = "keeps",
      .get = [](const DeltaChunksKernel& kernel) { return static_cast<unsigned>(kernel.keeps); },
      .set = [](DeltaChunksKernel& kernel, unsigned value) { kernel.keeps = value != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"false", "true", "both"},
      .tag = "_keeps",
      .tagged = [](const DeltaChunksKernel& kernel) { return kernel.keeps; },
      .optional = true},
     gated_delta_rule::channel_gate_field<DeltaChunksKernel>(),
     {.name = "delta",
      .get = [](const DeltaChunksKernel& kernel) { return static_cast<unsigned>(kernel.delta); },
      .set = [](DeltaChunksKernel& kernel, unsigned value) { kernel.delta = value != 0; },
      .words = words<kTruth>,
      .bits = 1,
      .flags = {"true", "false", "both"},
      .tag = "_no_delta",
      .tagged = [](const DeltaChunksKernel& kernel) { return !kernel.delta; },
      .optional = true,
      .constant = "kDelta",
      .kind = Constant::boolean}}};

}  // namespace tj::ops::delta_chunks
