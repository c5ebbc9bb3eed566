// Types that device code and the host that launches it share. No standard headers: device code compiles in
// milliseconds.
//
// Decides the layout of parameters that travel by value in a launch. Invariant: plain data, same layout for every
// compiler.
#pragma once

// <tilejit/custom.hpp> declares the same for host programs, under the same guard.
#ifndef TJ_TENSOR_MAP
#define TJ_TENSOR_MAP
namespace tj {

/// Input of the copy engine: opaque, encoded by the launching backend, passed as a __grid_constant__ parameter.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

}  // namespace tj
#endif
