// NVRTC behind the compiler interface: CUDA C++ to a cubin for one real architecture, or to PTX for a virtual one.
//
// Decides NVRTC's options and how its answers become Binary or tj::Error. The library is opened at the first compile or
// version(), never by identity(). Invariant: identity() names the file that compiles. A file there that does not open
// is an error, not a reason to take another.
#include <nvrtc.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>

#include "compile/backends.hpp"
#include "compile/compile_log.hpp"
#include "compile/found_library.hpp"
#include "compile/library_search.hpp"
#include "compile/phases.hpp"
#include "compile/program_signals.hpp"
#include "compile/rtc_program.hpp"
#include "compile/runtime_library.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"

namespace tj::compile {
namespace {

using support::cat;
using support::fail;

/// The calls that are used; their types come from the header, their addresses from the library.
struct Api {
  using Handle = nvrtcProgram;
  std::string path;
  int major = 0, minor = 0;
  std::vector<int> archs;
  decltype(&nvrtcVersion) version = nullptr;
  decltype(&nvrtcGetErrorString) error_string = nullptr;
  decltype(&nvrtcGetNumSupportedArchs) arch_count = nullptr;
  decltype(&nvrtcGetSupportedArchs) supported_archs = nullptr;
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcGetCUBINSize) code_size = nullptr;
  decltype(&nvrtcGetCUBIN) code = nullptr;
  decltype(&nvrtcGetPTXSize) ptx_size = nullptr;
  decltype(&nvrtcGetPTX) ptx = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  nvrtcResult (*set_callback)(nvrtcProgram, int (*)(void*, void*), void*) = nullptr;  // since 12.8

  std::string name() const { return cat("NVRTC ", major, ".", minor); }
  /// Does it take --time? A release that does has an error for a time file that cannot be written; early releases of 12
  /// do not know the option.
  bool times_phases() const {
    constexpr auto kTimeFileWriteFailed = static_cast<nvrtcResult>(12);
    return std::string_view(error_string(kTimeFileWriteFailed)).find("TIME_FILE") != std::string_view::npos;
  }

  void check(nvrtcResult result, const char* call) const {
    if (result == NVRTC_SUCCESS) return;
    const Code kind = result == NVRTC_ERROR_OUT_OF_MEMORY ? Code::out_of_memory : Code::internal;
    fail(Stage::compile, kind,
         cat("nvrtc", call, " failed: ", error_string(result), " (", static_cast<int>(result), "), from ", path,
             "; free host memory, or try another NVRTC by putting its folder first on LD_LIBRARY_PATH"));
  }
};

/// NVRTC opens its builtins by bare name. That fails where they lie beside it but off the loader's path. Opening them
/// first by their full path makes the bare name resolve.
void open_builtins(const std::string& library_path) {
  const std::size_t slash = library_path.rfind('/');
  const std::string version = library_path.substr(library_path.rfind(".so.") + 4);
  open_beside(library_path.substr(0, slash), "libnvrtc-builtins.so." + version + ".*");
}

Api open_api(const LibrarySearch& search) {
  const RuntimeLibrary library = open_found(search,
                                            "install the CUDA toolkit 12 or 13, or the wheel nvidia-cuda-nvrtc, "
                                            "or put the folder of libnvrtc.so on LD_LIBRARY_PATH",
                                            open_builtins);
  Api api;
  api.path = library.path;
  library.get(api.version, "nvrtcVersion");
  library.get(api.error_string, "nvrtcGetErrorString");
  library.get(api.arch_count, "nvrtcGetNumSupportedArchs");
  library.get(api.supported_archs, "nvrtcGetSupportedArchs");
  library.get(api.create, "nvrtcCreateProgram");
  library.get(api.destroy, "nvrtcDestroyProgram");
  library.get(api.compile, "nvrtcCompileProgram");
  library.get(api.code_size, "nvrtcGetCUBINSize");
  library.get(api.code, "nvrtcGetCUBIN");
  library.get(api.ptx_size, "nvrtcGetPTXSize");
  library.get(api.ptx, "nvrtcGetPTX");
  library.get(api.log_size, "nvrtcGetProgramLogSize");
  library.get(api.log, "nvrtcGetProgramLog");
  library.find(api.set_callback, "nvrtcSetFlowCallback");
  support::end_first_in(reinterpret_cast<const void*>(api.compile));
  keep_programs_signals(reinterpret_cast<const void*>(api.compile));
  let_children_end(reinterpret_cast<const void*>(api.compile));
  api.check(api.version(&api.major, &api.minor), "Version");
  int count = 0;
  api.check(api.arch_count(&count), "GetNumSupportedArchs");
  api.archs.resize(static_cast<std::size_t>(count));
  api.check(api.supported_archs(api.archs.data()), "GetSupportedArchs");
  return api;
}

constexpr std::string_view kReal = "sm_", kVirtual = "compute_";

/// 90 of "sm_90a" or "compute_90"; -1 when the name has another form.
int arch_number(std::string_view arch) {
  const std::string_view prefix = arch.starts_with(kVirtual) ? kVirtual : kReal;
  if (!arch.starts_with(prefix)) return -1;
  int number = -1;
  for (const char c : arch.substr(prefix.size())) {
    if (!support::is_digit(c)) break;
    number = std::max(number, 0) * 10 + (c - '0');
    if (number > 9999) return -1;
  }
  return number;
}

/// The arch that is compiled for: the one that is wanted. For PTX of one that this NVRTC does not know, the newest one
/// that it knows before that: the device runs that PTX, too.
std::string known_arch(const Api& api, std::string_view arch) {
  const int number = arch_number(arch);
  int before = -1;
  std::string known;
  for (const int candidate : api.archs) {
    if (candidate == number) return std::string(arch);
    if (candidate < number) before = std::max(before, candidate);
    known += cat(known.empty() ? "sm_" : ", sm_", candidate);
  }
  if (arch.starts_with(kVirtual) && before >= 0) return cat(kVirtual, before);
  fail(Stage::compile, Code::unsupported,
       cat("target \"", arch, "\" is not one that ", api.name(), " (", api.path, ") compiles for; it knows ", known,
           " and their variants; install a newer CUDA toolkit or choose another target"));
}

class Nvrtc final : public Compiler {
 public:
  explicit Nvrtc(std::shared_ptr<FoundLibrary> found) : found_(std::move(found)) {}

  Identity identity() const override { return found_->identity("nvrtc"); }

  bool is_library() const override { return true; }

  std::vector<std::string> base_options(std::string_view arch) const override {
    // -default-device: functions without an attribute are device functions. The verbose assembler reports registers.
    return {cat("--gpu-architecture=", arch), "--std=c++17", "--device-as-default-execution-space",
            "--ptxas-options=-v"};
  }

  /// An NVRTC that does not know it refuses at once. With 13.0 attention takes 0.2 (sm_80) to 0.4 (sm_90a) of the time,
  /// products 0.3 on sm_80 and no less on sm_90a. Lower levels of ptxas alone save a tenth.
  std::vector<std::string> quick_options() const override { return {"--Ofast-compile=max"}; }

  std::string version() override {
    const LibraryCall call(CompilerLibrary::nvrtc);
    const Api& api = opened();
    return cat(api.major, ".", api.minor);
  }

  Binary compile(const Job& job) override {
    const LibraryCall call(CompilerLibrary::nvrtc);
    const Api& api = opened();
    const std::string arch = known_arch(api, job.arch);
    const bool ptx = arch.starts_with(kVirtual);
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::string> options = base_options(arch);
    // Since 12.9 NVRTC keeps a disk cache of its own. It would make cold timings untrue and keep a second copy of what
    // tilejit's cache holds. The option does not change the output, so it is no part of the base options.
    if (std::pair(api.major, api.minor) >= std::pair(12, 9)) options.emplace_back("--no-cache");
    if (job.time_phases && api.times_phases()) options.emplace_back("--time=-");  // into the log
    options.insert(options.end(), job.options.begin(), job.options.end());
    RtcProgram<Api> program(api, job);
    if (api.set_callback != nullptr)
      api.check(api.set_callback(program.handle(), &is_to_end, nullptr), "SetFlowCallback");
    const nvrtcResult result = program.compile(options);
    Binary binary;
    binary.log = program.log();
    take_nvrtc_times(binary);
    if (result != NVRTC_SUCCESS) refuse(api, job, result, binary.log);
    binary.bytes = ptx ? program.ptx() : program.code();
    if (binary.bytes.empty())
      fail(Stage::compile, Code::internal,
           cat(api.name(), " gave no ", ptx ? "PTX" : "cubin", " for ", job.name, " and target ", arch,
               "; try another NVRTC by putting its folder first on LD_LIBRARY_PATH"),
           binary.log);
    read_ptxas_log(binary);
    binary.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return binary;
  }

 private:
  static int is_to_end(void*, void*) { return support::process_end_is_late() ? 1 : 0; }

  [[noreturn]] static void refuse(const Api& api, const Job& job, nvrtcResult result, const std::string& log) {
    if (result == NVRTC_ERROR_OUT_OF_MEMORY) api.check(result, "CompileProgram");
    if (support::process_end_is_late()) LibraryCall::fail_ending();
    const bool option = result == NVRTC_ERROR_INVALID_OPTION;
    fail(
        Stage::compile, Code::compile_failed,
        cat(api.name(), " refused ", job.name, " for ", job.arch, " (", api.error_string(result),
            "): ", first_error(log),
            option ? "; take the option out of the request, or use a newer NVRTC" : "; the whole log is in Error::log"),
        log);
  }

  const Api& opened() {
    const std::lock_guard lock(mutex_);
    if (api_) return *api_;
    try {
      api_ = std::make_unique<Api>(open_api(found_->search()));
    } catch (const Error&) {
      found_->forget();  // another one may be put beside it
      throw;
    }
    return *api_;
  }

  const std::shared_ptr<FoundLibrary> found_;
  support::Mutex mutex_;
  std::unique_ptr<Api> api_;
};

}  // namespace

/// One for the process, so that all of it names one file, and runtimes that are made later stay with it.
std::unique_ptr<Compiler> make_nvrtc() {
  static constinit support::Lasting<const std::shared_ptr<FoundLibrary>> found;
  return std::make_unique<Nvrtc>(
      found.get([] { return std::make_shared<FoundLibrary>(nvrtc_search, nvrtc_search_inputs); }));
}

std::unique_ptr<Compiler> make_nvrtc(const LibrarySearch& search) {
  return std::make_unique<Nvrtc>(std::make_shared<FoundLibrary>([search] { return search; }));
}

}  // namespace tj::compile
