// An NVRTC that compiles nothing: libnvrtc.so.1 for tests of what happens around a compile.
//
// Exports the calls that tilejit uses, under the names and types of nvrtc.h. A program becomes an ELF magic, zeros and
// its own text, or PTX with that text, so that equal sources give equal binaries and different ones differ.
// Knows 9.0, 10.0 and 10.3 with their variants only. Steered through fake_nvrtc_control.h; FakeNvrtc in fake_nvrtc.hpp
// puts it where the library finds it.
#include <nvrtc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "fake_nvrtc_control.h"

namespace {

struct State {
  std::mutex mutex;
  int under_way = 0;
  int compiles = 0;
  int quick = 0;
  bool compiled = false;  ///< ever, in this process
  bool refuse = false, knows_times = true, hold = std::getenv("FAKE_NVRTC_HOLD") != nullptr;
  std::optional<bool> refused_quick;  ///< of compiles of this kind alone
  std::string refusal;
};
State& state() {
  static auto* const instance = new State;  // outlives every static destructor of the tests
  return *instance;
}

nvrtcResult copy(const std::string& from, char* to) {
  std::memcpy(to, from.data(), from.size());
  return NVRTC_SUCCESS;
}

/// A compile: what an exit handler destroys would be missing in it.
class UnderWay {
 public:
  UnderWay() {
    const std::lock_guard lock(state().mutex);
    ++state().under_way;
  }
  ~UnderWay() {
    const std::lock_guard lock(state().mutex);
    --state().under_way;
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
};

/// Held during a compile that is held up, as a lock of the library's own. A static object locks it when it ends, whose
/// handler the library's constructors register.
std::mutex working;
struct Ends {
  ~Ends() { const std::lock_guard lock(working); }
} ends;

void at_exit() {
  const std::lock_guard lock(state().mutex);
  if (state().under_way > 0) ::_exit(6);
}

/// The class sets signal handlers as the first front end of a process does. A signal would end the process by exit().
/// The handlers that were there come back at its end.
class FrontEnd {
 public:
  FrontEnd() {
    if (interrupt_ != SIG_IGN) std::signal(SIGINT, &end);
    terminate_ = std::signal(SIGTERM, &end);
    file_size_ = std::signal(SIGXFSZ, SIG_IGN);
    struct sigaction action{};
    action.sa_handler = &end;
    ::sigaction(SIGHUP, &action, &hangup_);
  }
  ~FrontEnd() {
    std::signal(SIGINT, interrupt_);
    std::signal(SIGTERM, terminate_);
    std::signal(SIGXFSZ, file_size_);
    ::sigaction(SIGHUP, &hangup_, nullptr);
  }
  FrontEnd(const FrontEnd&) = delete;
  FrontEnd& operator=(const FrontEnd&) = delete;

 private:
  using Handler = void (*)(int);
  static void end(int) { std::exit(4); }
  Handler interrupt_ = std::signal(SIGINT, SIG_IGN), terminate_ = nullptr, file_size_ = nullptr;
  struct sigaction hangup_{};
};

constexpr const char* kQuick = "--Ofast-compile=";
constexpr auto kCancelled = static_cast<nvrtcResult>(16);
constexpr int kArchs[] = {90, 100, 103};

bool knows(const std::string& arch) {
  for (const int each : kArchs)
    if (arch == "compute_" + std::to_string(each) || arch == "sm_" + std::to_string(each) ||
        arch == "sm_" + std::to_string(each) + "a")
      return true;
  return false;
}

}  // namespace

struct _nvrtcProgram {
  std::string text, log, code, ptx;
  int (*is_cancelled)(void*, void*) = nullptr;
  void* payload = nullptr;
};

extern "C" {

void fake_nvrtc_reset(void) {
  const std::lock_guard lock(state().mutex);
  state().compiles = state().quick = 0;
  state().refuse = state().hold = false;
  state().refused_quick.reset();
  state().knows_times = true;
}
int fake_nvrtc_compiles(void) {
  const std::lock_guard lock(state().mutex);
  return state().compiles;
}
int fake_nvrtc_quick_compiles(void) {
  const std::lock_guard lock(state().mutex);
  return state().quick;
}
void fake_nvrtc_hold(int hold) {
  const std::lock_guard lock(state().mutex);
  state().hold = hold != 0;
}
void fake_nvrtc_know_times(int known) {
  const std::lock_guard lock(state().mutex);
  state().knows_times = known != 0;
}
void fake_nvrtc_refuse(const char* log) {
  const std::lock_guard lock(state().mutex);
  state().refuse = log != nullptr;
  state().refused_quick.reset();
  state().refusal = log != nullptr ? log : "";
}
void fake_nvrtc_refuse_only(int quick, const char* log) {
  fake_nvrtc_refuse(log);
  const std::lock_guard lock(state().mutex);
  state().refused_quick = quick != 0;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  if (result == NVRTC_SUCCESS) return "NVRTC_SUCCESS";
  const std::lock_guard lock(state().mutex);
  return static_cast<int>(result) == 12 && state().knows_times ? "NVRTC_ERROR_TIME_FILE_WRITE_FAILED"
                                                               : "NVRTC_ERROR_OF_THE_FAKE";
}

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(std::size(kArchs));
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* archs) {
  std::copy(std::begin(kArchs), std::end(kArchs), archs);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text, const char*, int, const char* const*,
                               const char* const*) {
  *program = new _nvrtcProgram{text, {}, {}, {}, nullptr, nullptr};
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcSetFlowCallback(nvrtcProgram program, int (*callback)(void*, void*), void* payload) {
  program->is_cancelled = callback;
  program->payload = payload;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  const UnderWay whole;
  std::unique_lock lock(state().mutex);
  std::optional<FrontEnd> front_end;
  if (!state().compiled) {
    front_end.emplace();
    std::atexit(&at_exit);
  }
  state().compiled = true;
  ++state().compiles;
  bool timed = false, quick = false;
  std::string virtual_arch;
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i], key = "--gpu-architecture=";
    timed = timed || option == "--time=-";
    quick = quick || option.rfind(kQuick, 0) == 0;
    if (option == "--time=-" && !state().knows_times) return NVRTC_ERROR_INVALID_OPTION;
    if (option.compare(0, key.size(), key) == 0 && !knows(option.substr(key.size()))) {
      program->log = "nvrtc: error: invalid value for " + option + "\n";
      return NVRTC_ERROR_INVALID_OPTION;
    }
    if (option.rfind(key + "compute_", 0) == 0) virtual_arch = option.substr(key.size() + 8);
  }
  if (quick) ++state().quick;
  std::unique_lock held(working, std::defer_lock);
  if (state().hold && !quick) static_cast<void>(held.try_lock());
  while (state().hold && !quick) {  // asked again and again, so that a forked child needs nobody's word
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const bool cancelled = program->is_cancelled != nullptr && program->is_cancelled(program->payload, nullptr) == 1;
    lock.lock();
    if (const char* told = cancelled ? std::getenv("FAKE_NVRTC_HOLD") : nullptr) std::fclose(std::fopen(told, "w"));
    if (cancelled) return kCancelled;
  }
  if (state().refuse && state().refused_quick.value_or(quick) == quick) {
    program->log = state().refusal;
    return NVRTC_ERROR_COMPILATION;
  }
  program->log = "ptxas info    : Used 168 registers, used 9 barriers\n";
  if (timed)
    program->log += std::string(1, '\0') +
                    "File name, phase name, metric, unit\nunit.cu, CUDA C++ Frontend, 5, ms\nunit.cu, NVVM Optimizer, "
                    "14, ms\nunit.cu, PTX Translation, 3, ms\n";
  const std::string code = program->text + (quick ? "quick" : "");
  if (virtual_arch.empty())
    program->code = "\177ELF" + std::string(60, '\0') + code;
  else
    program->ptx = "//\n.version 9.0\n.target sm_" + virtual_arch + "\n" + code + '\0';
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* size) {
  *size = program->ptx.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) { return copy(program->ptx, ptx); }

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  *size = program->code.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) { return copy(program->code, code); }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  *size = program->log.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) { return copy(program->log, log); }

}  // extern "C"
