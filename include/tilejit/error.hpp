// Errors: a failure as a value with a stage, a cause and a next step.
//
// Decides the shape of every failure that crosses the public API. Does not decide what is logged.
// Invariant: the library throws nothing else on purpose (std::bad_alloc may pass through).
#pragma once

#include <exception>
#include <string>

#include <tilejit/export.hpp>

namespace tj {

/// The step of the pipeline that failed.
enum class Stage { argument, target, graph, schedule, codegen, compile, cache, load, launch, model };

/// The kind of failure; the numeric values are part of the C ABI (tj_status).
enum class Code {
  invalid_argument = 1,  ///< an argument is outside what is allowed; the message names it, its value and the rule
  unsupported = 2,       ///< legal, but this version, target or device cannot do it
  not_found = 3,         ///< a library, compiler, file or symbol is missing; the message lists what was searched
  out_of_memory = 4,     ///< device or host memory
  compile_failed = 5,    ///< the compiler refused the generated source; see log and source_path
  driver_error = 6,      ///< the GPU driver returned an error
  deadlock = 7,          ///< the CPU model found threads that wait for ever
  cold_in_capture = 8,   ///< a kernel that is not prepared was needed inside a graph capture
  io = 9,                ///< a file could not be read or written
  model_fault = 10,      ///< the CPU model found an access or a barrier misuse
  internal = 11,         ///< a defect of tilejit itself
  not_in_cache = 12      ///< Options::on_miss is error, and the kernel of a call is not in the cache
};

/// Thrown by every public call that fails. Copyable; owns its texts. Thread safety is that of std::string.
class TJ_API Error : public std::exception {
 public:
  Error(Stage stage, Code code, std::string message, std::string log = {}, std::string source_path = {});
  ~Error() override;
  Error(const Error&);
  Error& operator=(const Error&);

  /// "stage: message", and behind it the source's path where there is one.
  const char* what() const noexcept override;

  Stage stage;
  Code code;
  std::string message;      ///< cause and next step, one line
  std::string log;          ///< compiler log or model report; may be empty
  std::string source_path;  ///< the file that the generated source was written to; empty when there is none
 private:
  std::string what_;
};

/// Lower-case names, as in the enums above.
TJ_API const char* to_string(Stage stage) noexcept;
TJ_API const char* to_string(Code code) noexcept;

}  // namespace tj
