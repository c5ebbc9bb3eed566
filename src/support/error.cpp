// tj::Error and the names of stages and codes.
//
// Decides the wording of what(), and that a message is one line. Invariant: every enumerator has a name, and a value
// outside the enum does not crash.
#include <tilejit/error.hpp>

#include <utility>

#include "support/text.hpp"

namespace tj {
namespace {

std::string compose(Stage stage, const std::string& message, const std::string& source_path) {
  std::string text = std::string(to_string(stage)) + ": " + message;
  if (!source_path.empty()) text += " (source and log: " + source_path + ")";
  return text;
}

}  // namespace

Error::Error(Stage stage_of, Code code_of, std::string message_of, std::string log_of, std::string source_path_of)
    : stage(stage_of),
      code(code_of),
      message(support::one_line(message_of)),
      log(std::move(log_of)),
      source_path(std::move(source_path_of)),
      what_(compose(stage, message, source_path)) {}

Error::~Error() = default;
Error::Error(const Error&) = default;
Error& Error::operator=(const Error&) = default;

const char* Error::what() const noexcept { return what_.c_str(); }

const char* to_string(Stage stage) noexcept {
  switch (stage) {
    case Stage::argument:
      return "argument";
    case Stage::target:
      return "target";
    case Stage::graph:
      return "graph";
    case Stage::schedule:
      return "schedule";
    case Stage::codegen:
      return "codegen";
    case Stage::compile:
      return "compile";
    case Stage::cache:
      return "cache";
    case Stage::load:
      return "load";
    case Stage::launch:
      return "launch";
    case Stage::model:
      return "model";
  }
  return "unknown";
}

const char* to_string(Code code) noexcept {
  switch (code) {
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::unsupported:
      return "unsupported";
    case Code::not_found:
      return "not_found";
    case Code::out_of_memory:
      return "out_of_memory";
    case Code::compile_failed:
      return "compile_failed";
    case Code::driver_error:
      return "driver_error";
    case Code::deadlock:
      return "deadlock";
    case Code::cold_in_capture:
      return "cold_in_capture";
    case Code::io:
      return "io";
    case Code::model_fault:
      return "model_fault";
    case Code::internal:
      return "internal";
    case Code::not_in_cache:
      return "not_in_cache";
  }
  return "unknown";
}

}  // namespace tj
