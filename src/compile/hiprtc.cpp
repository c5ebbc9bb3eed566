// hiprtc behind the compiler interface: HIP C++ to a code object for one architecture.
//
// Decides how hiprtc is opened and asked. hip_options.hpp decides its options, hip_version.hpp what an old hiprtc must
// not be asked for. Its declarations are written out here, so that no ROCm header is needed to build. Invariant: as for
// NVRTC, the compiler that identity() names is the one that compiles.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <utility>

#include "compile/backends.hpp"
#include "compile/clang_search.hpp"
#include "compile/compile_log.hpp"
#include "compile/hip_options.hpp"
#include "compile/hip_version.hpp"
#include "compile/rtc_program.hpp"
#include "compile/runtime_library.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/process_end.hpp"

namespace tj::compile {
namespace {

using support::cat;
using support::fail;

constexpr int kSuccess = 0;
constexpr int kOutOfMemory = 1;

struct Api {
  using Handle = void*;
  std::string path;
  HipVersion version;
  int (*get_version)(int* major, int* minor) = nullptr;
  int (*runtime_version)(int* version) = nullptr;
  const char* (*error_string)(int result) = nullptr;
  int (*create)(Handle*, const char* text, const char* name, int headers, const char* const* texts,
                const char* const* names) = nullptr;
  int (*destroy)(Handle*) = nullptr;
  int (*compile)(Handle, int count, const char* const* options) = nullptr;
  int (*code_size)(Handle, std::size_t*) = nullptr;
  int (*code)(Handle, char*) = nullptr;
  int (*log_size)(Handle, std::size_t*) = nullptr;
  int (*log)(Handle, char*) = nullptr;

  void check(int result, const char* call) const {
    if (result == kSuccess) return;
    fail(Stage::compile, result == kOutOfMemory ? Code::out_of_memory : Code::internal,
         cat("hiprtc", call, " failed: ", error_string(result), " (", result, "), from ", path,
             "; free host memory, or try another ROCm by putting its folder first on LD_LIBRARY_PATH"));
  }
};

/// The compiler's own version call answered 9.0 in early releases, whatever the release was. The runtime in the same
/// file says better. The file's name bounds the version where that cannot be had.
HipVersion read_version(const Api& api) {
  int packed = 0;
  if (api.runtime_version != nullptr && api.runtime_version(&packed) == kSuccess && packed > 0)
    return {packed / 10'000'000, packed / 100'000 % 100};
  HipVersion version;
  api.check(api.get_version(&version.major, &version.minor), "Version");
  return bounded_by_file_name(version, api.path);
}

/// Advice for a machine without hiprtc. It mentions a choice of the user's that has none, and a clang that is there.
std::string advice(std::string_view arch) {
  const HipClang clang = find_hip_clang(arch);
  return cat(
      "install ROCm 6 or newer and set ROCM_PATH to its folder, or put the folder of libhiprtc.so on LD_LIBRARY_PATH",
      clang.present() ? cat(", or set TJ_HIP_COMPILER=auto, which takes ", clang.clang) : std::string(),
      unused_rocm_remark());
}

Api open_api(const LibrarySearch& search, std::string_view arch) {
  const RuntimeLibrary library = open_found(search, advice(arch));
  Api api;
  api.path = library.path;
  library.get(api.get_version, "hiprtcVersion");
  library.find(api.runtime_version, "hipRuntimeGetVersion");
  library.get(api.error_string, "hiprtcGetErrorString");
  library.get(api.create, "hiprtcCreateProgram");
  library.get(api.destroy, "hiprtcDestroyProgram");
  library.get(api.compile, "hiprtcCompileProgram");
  library.get(api.code_size, "hiprtcGetCodeSize");
  library.get(api.code, "hiprtcGetCode");
  library.get(api.log_size, "hiprtcGetProgramLogSize");
  library.get(api.log, "hiprtcGetProgramLog");
  let_children_end(reinterpret_cast<const void*>(api.compile));
  api.version = read_version(api);
  return api;
}

/// One lock for the process, whatever runtime asks. Two programs compiled at once end the process or hang in Debian
/// 12's 5.2.3. No other release documents what threads may do.
support::Turn& one_at_a_time() {
  static constinit support::Turn turn;
  return turn;
}

class Hiprtc final : public Compiler {
 public:
  Hiprtc(LibrarySearch search, std::string arch) : search_(std::move(search)), arch_(std::move(arch)) {}

  bool is_library() const override { return true; }

  /// hiprtc adds options of its own accord that the environment names.
  Identity identity() const override {
    const std::string added = support::environment_variable("HIPRTC_COMPILE_OPTIONS_APPEND").value_or("");
    return identify(added.empty() ? "hiprtc" : cat("hiprtc HIPRTC_COMPILE_OPTIONS_APPEND=", added),
                    find_library(search_));
  }

  std::vector<std::string> base_options(std::string_view arch) const override { return hip_options(arch); }
  std::vector<std::string> quick_options() const override { return {kHipQuickOption}; }

  std::string version() override {
    const LibraryCall call(CompilerLibrary::hiprtc);
    const Api& api = opened();
    return cat(api.version.major, ".", api.version.minor);
  }

  Binary compile(const Job& job) override {
    const support::HeldTurn turn(one_at_a_time());
    const LibraryCall call(CompilerLibrary::hiprtc);
    const Api& api = opened();
    refuse_aborting_arch(api.version, job.arch, api.path);
    std::vector<std::string> options = base_options(job.arch);
    options.insert(options.end(), job.options.begin(), job.options.end());
    const auto start = std::chrono::steady_clock::now();
    RtcProgram<Api> program(api, job);
    const int result = program.compile(options);
    Binary binary;
    binary.log = program.log();
    if (result == kOutOfMemory) api.check(result, "CompileProgram");
    if (result != kSuccess)
      fail(Stage::compile, Code::compile_failed,
           cat("hiprtc ", api.version.major, ".", api.version.minor, " refused ", job.name, " for ", job.arch, " (",
               api.error_string(result), "): ", first_error(binary.log), "; the whole log is in Error::log"),
           binary.log);
    binary.bytes = program.code();
    read_code_object_use(binary);
    binary.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return binary;
  }

 private:
  const Api& opened() {
    const std::lock_guard lock(mutex_);
    if (!api_) api_ = std::make_unique<Api>(open_api(search_, arch_));
    return *api_;
  }

  LibrarySearch search_;
  std::string arch_;
  support::Mutex mutex_;
  std::unique_ptr<Api> api_;
};

}  // namespace

std::unique_ptr<Compiler> make_hiprtc(const LibrarySearch& search, std::string arch) {
  return std::make_unique<Hiprtc>(search, std::move(arch));
}

}  // namespace tj::compile
