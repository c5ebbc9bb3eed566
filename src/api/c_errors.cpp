// See c_errors.hpp.
#include "api/c_errors.hpp"

#include <exception>
#include <new>

#include <tilejit/error.hpp>

#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::c_api {
namespace {

void record(const char* stage, const char* message, const char* log, const char* source_path) noexcept {
  LastError& error = last_error();
  error.stage = stage;
  try {
    error.message = message;
    error.log = log;
    error.source_path = source_path;
  } catch (...) {  // no memory for the texts: the status still says what happened
  }
}

}  // namespace

LastError& last_error() {
  thread_local constinit support::PerThread<LastError> error;
  return error.get();
}

void forget_last_error() {
  LastError& error = last_error();
  error.stage = "";
  error.message.clear();
  error.log.clear();
  error.source_path.clear();
}

tj_status record_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    record(to_string(error.stage), error.message.c_str(), error.log.c_str(), error.source_path.c_str());
    return static_cast<tj_status>(error.code);
  } catch (const std::bad_alloc&) {
    record("memory", "out of host memory; ask for less at a time, or free some", "", "");
    return TJ_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    record("", error.what(), "", "");
    return TJ_INTERNAL;
  } catch (...) {
    record("", "an exception of unknown type", "", "");
    return TJ_INTERNAL;
  }
}

void need(const void* out, const char* name) {
  if (out == nullptr)
    support::fail(Stage::argument, Code::invalid_argument,
                  support::cat(name, " is null; allowed: the address of a place for the result"));
}

}  // namespace tj::c_api
