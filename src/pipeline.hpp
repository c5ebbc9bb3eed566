// Request -> kernel: the steps of the pipeline, each a function, in order.
//
// Decides what is done on a miss. Decides neither when (runtime.cpp) nor what an entry carries (artifact.hpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arch/arch.hpp"
#include "artifact.hpp"
#include "cache/cache.hpp"
#include "codegen/emit.hpp"
#include "compile/compiler.hpp"
#include "ops/op.hpp"
#include "sched/schedule.hpp"
#include "support/environment.hpp"
#include "support/log.hpp"

namespace tj {

/// The candidate with the best predicted throughput and its schedule.
struct Choice {
  ops::Candidate candidate;
  sched::Schedule schedule;
};

/// Files that a unit for this target may include: the embedded templates, the model's in the place of files of the same
/// name, and the maker's own.
std::vector<compile::Header> headers_for(const arch::Target& target, const ops::Maker* maker = nullptr);
/// Is there a file of this name among them?
bool has_header(const std::vector<compile::Header>& headers, std::string_view name);

/// The compiler that is there, as a key names it; none where there is none.
cache::Fields compiler_fields(const compile::Compiler& compiler);

/// The key of a request, by which its alias is looked up. Also covers the library's build.
cache::Key key_of(const ops::Request& request, const arch::Target& target, const compile::Compiler& compiler);

/// The options by which a candidate is scheduled: those given, and what it asks for itself.
sched::Options options_for(const ops::Candidate& candidate, const sched::Options& options = {});

/// Throws tj::Error(schedule) when no candidate can be scheduled. below_flops: of candidates whose iterations have
/// fewer flops alone; 0: of all.
Choice choose(const ops::Maker& op, const ops::Request& request, const arch::Arch& arch,
              const sched::Options& options = {}, double below_flops = 0);

/// A text that is ready to be compiled, and what it was made from.
struct Source {
  ops::Request named;    ///< its name is the kernel's
  ops::Request request;  ///< chose it
  codegen::EmitOptions how;
  arch::Target target;
  Choice choice;
  codegen::Unit unit;
  ops::Geometry geometry;
  KernelReport report;  ///< without what a compiler adds
};
/// Schedule, emit. Throws tj::Error.
Source make_source(const ops::Maker& op, const ops::Request& request, const arch::Target& target);
/// The key of the binary: it covers every byte that the compiler reads, its options, and what the launch knows of the
/// kernel. Has nothing of the request besides its name, nor of the library's build.
cache::Key text_key_of(const ops::Maker& op, const Source& source, const compile::Compiler& compiler);
/// quick: with the compiler's quick options. Throws tj::Error.
Artifact compile_source(const ops::Maker& op, const Source& source, compile::Compiler& compiler,
                        const support::Settings& settings, const support::Log& log, bool quick = false);
/// Schedule, emit, compile. Throws tj::Error.
Artifact make(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
              compile::Compiler& compiler, const support::Settings& settings, const support::Log& log);

/// A kernel that records when its roles come where (codegen/record.hpp), and what it was made from.
struct Recording {
  Artifact artifact;
  Choice choice;
  codegen::Unit unit;
};
/// The request of a recording build: never the request itself, so that it has a key and dumped files of its own.
ops::Request recording_request(ops::Request request);
/// Makes the recording kernel of the choice that make() takes. Throws tj::Error.
Recording make_recording(const ops::Maker& op, const ops::Request& request, const arch::Target& target,
                         compile::Compiler& compiler, const support::Settings& settings, const support::Log& log);

}  // namespace tj
