// The kernels of a target, made by the ordinary pipeline and loaded on the CPU model.
//
// Decides that a kernel comes from the cache where it is there, and how a changed text of its unit is compiled. Runs
// nothing. Invariant: one kernel of a request, which lives as long as this.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "backends.hpp"
#include "cache/cache.hpp"
#include "check/notes.hpp"
#include "maker.hpp"
#include "model/model.hpp"
#include "ops/op.hpp"
#include "pipeline.hpp"
#include "support/environment.hpp"
#include "support/log.hpp"

namespace tj::check {

struct Kernel {
  std::string name;
  const ops::Op* op = nullptr;
  ops::Request request;
  std::unique_ptr<LoadedKernel> loaded;
  std::vector<Site> sites;
};

/// Thread safe.
class Kernels {
 public:
  /// target: of the model. Opens no driver and compiles nothing yet.
  Kernels(const support::Settings& settings, arch::Target target, support::Log log);

  const arch::Target& target() const { return target_; }
  /// Throws tj::Error of any stage of the pipeline.
  const Kernel& get(const ops::Op& op, const ops::Request& request);
  /// The text from which it was made.
  std::string text_of(const Kernel& kernel);
  /// Another text in its place: same entry point, same launch. Throws tj::Error.
  std::shared_ptr<launch::Kernel> compile(const Kernel& kernel, const std::string& text);

 private:
  const Choice& choice_of(const Kernel& kernel);

  const support::Settings settings_;
  const arch::Target target_;
  const support::Log log_;
  std::unique_ptr<cache::Store> store_;  ///< null: the disk is not wanted
  Backends backends_;                    ///< for its compiler
  KernelMaker maker_;
  std::shared_ptr<model::ModelDriver> driver_ = model::open_model_driver();
  std::mutex mutex_, choices_mutex_;
  std::map<std::string, Kernel> kernels_;                   ///< by name
  std::map<std::string, std::unique_ptr<Choice>> choices_;  ///< by name, once asked for
};

}  // namespace tj::check
