// Failures at the C boundary: a status, and the texts of the thread's last error.
//
// Decides which status an exception becomes, and how long its texts live. Does not decide what is wrong with an
// argument (c_structs, and the C++ calls). Invariant: nothing is thrown into C; the end of a
// thread (pthread_exit() in a callback) passes.
#pragma once

#include <cxxabi.h>
#include <tilejit/tilejit.h>

#include <string>

#include "support/process_end.hpp"
#include "support/uncancelled.hpp"

namespace tj::c_api {

/// The error of this thread's last guarded() call; all empty after a success.
struct LastError {
  const char* stage = "";
  std::string message, log, source_path;
};
LastError& last_error();

/// Empties the texts. Throws std::bad_alloc when this thread has none yet and there is no memory for them.
void forget_last_error();
/// Keeps the exception that is being handled as the thread's last error; returns its status.
tj_status record_exception() noexcept;

/// Every function of the C interface that returns a status is one call of this. A hot call bears the 12 ns that
/// Uncancelled takes: the driver it calls has cancellation points, and holds locks of its own there.
template <class Work>
tj_status guarded(Work&& work) {
  const support::Uncancelled whole;
  try {
    support::may_end_here();
    forget_last_error();
    work();
    return TJ_OK;
  } catch (abi::__forced_unwind&) {  // the thread ends in a function of the caller's, such as a log sink
    throw;
  } catch (...) {
    return record_exception();
  }
}

/// Throws tj::Error(argument) when a place for a result is missing.
void need(const void* out, const char* name);

}  // namespace tj::c_api
