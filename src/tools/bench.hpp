// tj-bench: times calls, what lies beneath them, and how kernels are made.
//
// Decides the command line, which way of working it asks for and what the ways share. Each way decides what it times,
// and how: bench_calls.cpp, bench_dispatch.cpp, bench_compile.cpp, bench_start.cpp. Knows no other library: a
// comparison of several reads what this prints. Invariant: a number is measured here and now or is not there; what
// cannot be timed is named.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include <tilejit/runtime.hpp>

#include "ops/common/op_flags.hpp"
#include "support/json.hpp"
#include "support/log.hpp"

namespace tj::tools {

/// A command line, read.
struct BenchArguments {
  std::vector<std::string> ops;      ///< names; empty: the way's own choice
  ops::Flags op_flags;               ///< those that belong to the op
  std::vector<std::string> targets;  ///< names, or "all"; empty: TJ_TARGET, else the device at hand
  std::string cache_dir;             ///< empty: TJ_CACHE_DIR or the usual one
  std::string facts;                 ///< a file of them; empty: TJ_FACTS, else none
  std::string driver;      ///< libcuda.so.1, or its folder, that is opened in place of the system's; empty: that
  std::string json;        ///< a file to write; empty: none
  int rounds = 0;          ///< 0: the way's own number
  int threads = 1;         ///< that get kernels ready under --start
  std::uint64_t seed = 1;  ///< of the values that operands hold
  bool cycles = false;     ///< calls also tell the clock beside each way, and their kernels' intervals
  std::string overlap;     ///< "true", "false": whether launches begin beside those before them; empty: as the op says
  std::vector<std::string> own_flags;          ///< that tj-bench has itself
  std::function<std::uint64_t()> allocations;  ///< how often this thread has allocated so far; empty: nobody counts
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
};

/// Runs all of tj-bench but the process. words: without the program's name. Returns an exit code; throws nothing.
int bench(const std::vector<std::string>& words, std::ostream& out, std::ostream& err,
          std::function<std::uint64_t()> allocations = {});

// ---- ways of working: each prints to arguments.out, writes arguments.json, and returns an exit code or throws
// tj::Error --------------------
/// Calls on a device; what is taken where no flag names a way.
int run_calls(const BenchArguments& arguments);
/// The host's share of hot calls.
int run_dispatch(const BenchArguments& arguments);
/// Getting kernels ready that the cache has, in a process that has just begun.
int run_start(const BenchArguments& arguments);
/// Compiling: schedule, source, the compiler's phases, load.
int run_compile(const BenchArguments& arguments);

// ---- what they share ------------------------------------------------------------------------------------------------
/// Options of a runtime with the arguments' cache and first target; its log goes to arguments.err.
Options bench_options(const BenchArguments& arguments);
/// The log of such a runtime, for parts of the library that are used without one.
support::Log bench_log(const BenchArguments& arguments);
/// Writes the document to arguments.json, if that is asked for. Throws tj::Error(argument) where it cannot be written.
void write_json(const BenchArguments& arguments, const support::Json& document);

}  // namespace tj::tools
