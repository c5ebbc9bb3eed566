// Addresses for tensors that have none yet, so that a call can be checked.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include <tilejit/fmha.hpp>
#include <tilejit/tensor.hpp>

namespace tj::dist {

/// Gives those whose address is null one that nobody reads, far apart from each other's.
inline void place_nulls(std::initializer_list<Tensor*> tensors) {
  std::uintptr_t next = std::uintptr_t{1} << 44;
  for (Tensor* const tensor : tensors) {
    if (tensor != nullptr && tensor->data == nullptr) tensor->data = reinterpret_cast<void*>(next);
    next += std::uintptr_t{1} << 42;
  }
}

/// All tensors of a call of attention.
inline void place_tensors(FmhaArgs& call) {
  const auto given = [](std::optional<Tensor>& t) { return t ? &*t : nullptr; };
  place_nulls({&call.q, &call.k, &call.v, &call.o, given(call.lse), given(call.alibi_slopes), given(call.sinks),
               given(call.cu_seqlens_q), given(call.cu_seqlens_k), given(call.seqused_k), given(call.block_table),
               given(call.mod_params), given(call.bias)});
}

}  // namespace tj::dist
