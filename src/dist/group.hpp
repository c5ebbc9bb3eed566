// The calls of a group, for its members.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include <tilejit/dist.hpp>

#include "dist/transport.hpp"

namespace tj::dist {

/// What a call works with.
struct Member {
  Runtime& runtime;
  Transport& transport;
  Device device;
  /// Memory for work on the stream, until its owner lets go.
  std::function<std::shared_ptr<void>(std::size_t bytes, Stream stream)> workspace;
};

/// Gets the kernels of a call ready.
void prepare_context_fmha(const Member& member, const ContextFmhaArgs& args);
/// Checks the call, brings keys and values together, and attends.
void run_context_fmha(const Member& member, const ContextFmhaArgs& args, Stream stream);

}  // namespace tj::dist
