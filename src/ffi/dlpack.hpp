// Tensors of DLPack as those of tilejit.h.
#pragma once

#include <dlpack/dlpack.h>
#include <tilejit/tilejit.h>

#include <cstdint>

namespace tj::ffi {

/// Throws tj::Error(argument) that names op, argument and what is allowed. Strides that are left out are those of a
/// tensor without gaps.
tj_tensor from_dlpack(const DLTensor& tensor, const char* op, const char* name);
DLDataType to_dlpack(std::int32_t dtype);

}  // namespace tj::ffi
