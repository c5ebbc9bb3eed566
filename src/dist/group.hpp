// The calls of a group, for its members.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include <tilejit/dist.hpp>

#include "dist/transport.hpp"
#include "launch/driver.hpp"
#include "ops/op.hpp"

namespace tj::dist {

/// What a call works with.
struct Member {
  Runtime& runtime;
  Transport& transport;
  Device device;
  /// Memory for work on the stream, until its owner lets go.
  std::function<std::shared_ptr<void>(std::size_t bytes, Stream stream)> workspace;
  /// Gets the kernels of a call of an op ready that only other ops have.
  std::function<void(const ops::Op& op, const void* args)> load;
  launch::SideStream& side;  ///< bytes travel in it while the caller's stream has products
  /// That of `side` where it has one, else the caller's.
  Stream side_stream(Stream caller) const { return side.get().handle != nullptr ? side.get() : caller; }
};

/// Gets the kernels of a call ready.
void prepare_context_fmha(const Member& member, const ContextFmhaArgs& args);
/// Checks the call, brings keys and values together, and attends.
void run_context_fmha(const Member& member, const ContextFmhaArgs& args, Stream stream);
void prepare_all_gather_gemm(const Member& member, const AllGatherGemmArgs& args);
void run_all_gather_gemm(const Member& member, const AllGatherGemmArgs& args, Stream stream);
void prepare_gemm_reduce_scatter(const Member& member, const GemmReduceScatterArgs& args);
void run_gemm_reduce_scatter(const Member& member, const GemmReduceScatterArgs& args, Stream stream);

}  // namespace tj::dist
