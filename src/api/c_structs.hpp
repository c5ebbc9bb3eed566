// The structures of tilejit.h as the C++ types that they stand for.
//
// Decides how a structure of another version is read. Values that C++ could not even hold (an unknown enum number, a
// rank above the maximum) are refused here, all else by the C++ call. Invariant: nothing of the caller's is kept.
#pragma once

#include <tilejit/tilejit.h>

#include <string>
#include <variant>

#include <tilejit/tilejit.hpp>

namespace tj::c_api {

/// Throws tj::Error(argument).
[[noreturn]] void refuse(const std::string& message, Code code = Code::invalid_argument);
void check_size(std::uint64_t size, const char* name, std::size_t known);

Device to_device(const tj_device& device, const char* name, const char* member = "");
FmhaArgs to_args(const tj_fmha_args* given);
GemmArgs to_args(const tj_gemm_args* given);
ChunkIndicesArgs to_args(const tj_chunk_indices_args* given);
ChunkOArgs to_args(const tj_chunk_o_args* given);
/// In the type of its op.
std::variant<FmhaConfig, GemmConfig, ChunkIndicesConfig, ChunkOConfig> to_config(const tj_kernel_config* given);
Options to_options(const tj_options* given);

}  // namespace tj::c_api
