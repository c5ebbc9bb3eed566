// A hiprtc that compiles nothing: libhiprtc.so.6, of release 6.4, for tests of what happens around a compile.
//
// Exports the calls that tilejit uses. A program becomes a code object without code for the processor of its options,
// whose one kernel has the name and the threads that TJ_KERNEL in the text says; the text is appended, so that
// different sources give different binaries. Steered through fake_hiprtc_control.h; FakeHiprtc in fake_hiprtc.hpp puts
// it where the library finds it.
#include "fake_hiprtc_control.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "../support/made_code_object.cpp"  // a fake links nothing of the tests

namespace {

struct State {
  std::mutex mutex;
  int compiles = 0, param_bytes = 0, result = 6;
  bool refuse = false;
  std::string refusal, options;
};
State& state() {
  static auto* const instance = new State;  // outlives every static destructor of the tests
  return *instance;
}

struct Program {
  std::string text, log, code;
};

int copy(const std::string& from, char* to) {
  std::memcpy(to, from.data(), from.size());
  return 0;
}

/// Text behind "TJ_KERNEL(" or "TJ_KERNEL_BESIDE(": the symbol, then the threads.
std::string code_of(const std::string& text, const std::string& processor) {
  const std::size_t macro = text.find("TJ_KERNEL"), open = text.find('(', macro), comma = text.find(", ", open);
  std::string code;
  if (macro != std::string::npos && comma != std::string::npos)
    code = tj::testing::made_code_object(processor, text.substr(open + 1, comma - open - 1), state().param_bytes,
                                         std::atoi(text.c_str() + comma + 2));
  return code + text;
}

}  // namespace

extern "C" {

void fake_hiprtc_reset(void) {
  const std::lock_guard lock(state().mutex);
  state().compiles = state().param_bytes = 0;
  state().refuse = false;
  state().result = 6;
  state().options.clear();
}
int fake_hiprtc_compiles(void) {
  const std::lock_guard lock(state().mutex);
  return state().compiles;
}
void fake_hiprtc_refuse(const char* log) {
  const std::lock_guard lock(state().mutex);
  state().refuse = log != nullptr;
  state().refusal = log != nullptr ? log : "";
}
void fake_hiprtc_set_refusal(int result) {
  const std::lock_guard lock(state().mutex);
  state().result = result;
}
void fake_hiprtc_set_param_bytes(int bytes) {
  const std::lock_guard lock(state().mutex);
  state().param_bytes = bytes;
}
const char* fake_hiprtc_options(void) {
  static thread_local std::string text;
  const std::lock_guard lock(state().mutex);
  text = state().options;
  return text.c_str();
}

const char* hiprtcGetErrorString(int result) { return result == 0 ? "HIPRTC_SUCCESS" : "HIPRTC_ERROR_OF_THE_FAKE"; }
int hiprtcVersion(int* major, int* minor) {
  *major = 6;
  *minor = 4;
  return 0;
}
int hiprtcCreateProgram(void** program, const char* text, const char*, int headers, const char* const* texts,
                        const char* const*) {
  for (int i = 0; i < headers; ++i)
    if (texts[i][0] == '\0') return 3;  // as the real one
  *program = new Program{text, {}, {}};
  return 0;
}
int hiprtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return 0;
}
int hiprtcCompileProgram(void* handle, int count, const char* const* options) {
  auto& program = *static_cast<Program*>(handle);
  const std::lock_guard lock(state().mutex);
  ++state().compiles;
  std::string processor;
  state().options.clear();
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i], key = "--offload-arch=";
    state().options += option + "\n";
    if (option.compare(0, key.size(), key) == 0) processor = option.substr(key.size());
  }
  if (processor.empty()) std::abort();  // the real one would ask a device
  if (state().refuse) {
    program.log = state().refusal;
    return state().result;
  }
  program.code = code_of(program.text, processor);
  return 0;
}
int hiprtcGetCodeSize(void* program, size_t* size) {
  *size = static_cast<Program*>(program)->code.size();
  return 0;
}
int hiprtcGetCode(void* program, char* code) { return copy(static_cast<Program*>(program)->code, code); }
int hiprtcGetProgramLogSize(void* program, size_t* size) {
  *size = static_cast<Program*>(program)->log.size();
  return 0;
}
int hiprtcGetProgramLog(void* program, char* log) { return copy(static_cast<Program*>(program)->log, log); }

}  // extern "C"
