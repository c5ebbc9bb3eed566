// A runtime as C holds it, and what its calls share.
#pragma once

#include <tilejit/tilejit.h>

#include <memory>
#include <string>
#include <unordered_map>

#include <tilejit/runtime.hpp>

#include "support/fork_safe.hpp"

struct tj_runtime {
  std::unique_ptr<tj::Runtime> owned;  ///< empty for the process-wide one
  tj::Runtime* runtime = nullptr;
  tj::support::Mutex mutex;  ///< guards memory; never held while the runtime is called
  std::unordered_map<void*, std::shared_ptr<void>> memory;
};

namespace tj::c_api {

/// Throws tj::Error(argument) for null.
Runtime& runtime_of(tj_runtime* runtime);
/// Throws tj::Error(argument) for a text that is null; example: what it may be.
const char* text_of(const char* text, const char* name, const char* example);

/// A place for a report: its size must be set. Null is none.
void check_report(const tj_kernel_report* report);
/// Fills a report. Its texts live until this thread's next call that fills one.
void write_report(KernelReport&& report, tj_kernel_report* out);

}  // namespace tj::c_api
