// clang behind the compiler interface: HIP C++ to a code object for one architecture, in a process of its own.
//
// Decides the options of clang beyond those of every compiler of HIP (hip_options.hpp), and how its answer becomes
// Binary or tj::Error. Knows no HIP header and no device library: a unit brings all it needs. Invariant: no shell, no
// file outside a private directory, nothing left behind; identity() names the linker that is run.
#include <chrono>
#include <filesystem>
#include <system_error>
#include <vector>

#include "compile/backends.hpp"
#include "compile/clang_search.hpp"
#include "compile/compile_log.hpp"
#include "compile/hip_options.hpp"
#include "compile/hip_version.hpp"
#include "compile/host_process.hpp"
#include "compile/includes.hpp"
#include "compile/library_search.hpp"
#include "compile/phases.hpp"
#include "support/fail.hpp"

namespace tj::compile {
namespace {

using support::cat;
using support::fail;

/// The version that runtimes of ROCm 6 and 7 load alike. Newer clangs make objects of version 6 unless told; early
/// runtimes of ROCm 6 do not know those.
constexpr const char* kObjectVersion = "-mcode-object-version=5";

/// The message of clang about an architecture that it does not know, in any of its versions.
bool says_unknown_arch(const std::string& output) {
  for (const char* words : {"invalid target ID", "unsupported HIP gpu architecture", "unknown target CPU",
                            "No available targets are compatible"})
    if (output.find(words) != std::string::npos) return true;
  return false;
}

/// A folder with the linker under the one name that clang looks for.
std::string tool_folder(const support::PrivateDirectory& directory, const std::string& lld) {
  const std::string folder = directory.path() + "/tools";
  std::error_code failed;
  std::filesystem::create_directory(folder, failed);
  std::filesystem::create_symlink(lld, folder + "/ld.lld", failed);
  if (failed)
    fail(Stage::compile, Code::io,
         cat("cannot make ", folder, "/ld.lld: ", failed.message(), "; set TMPDIR to a directory that can hold links"));
  return folder;
}

/// Up to the types, up to the optimised bitcode. The linker makes machine code of that: it links bitcode.
std::vector<ShorterRun> shorter_runs(const support::PrivateDirectory& directory) {
  return {{kFrontEnd, {"-fsyntax-only"}}, {kOptimiser, {"-emit-llvm", "-c", "-o", directory.path() + "/unit.bc"}}};
}

class Clang final : public Compiler {
 public:
  explicit Clang(const Settings& settings) : arch_(settings.arch), limit_s_(settings.limit_s) {}

  Identity identity() const override {
    const HipClang found = find_hip_clang(arch_);
    Identity identity = identify("clang", found.present() ? behind_links(found.clang) : std::string());
    if (identity.present()) identity.helpers.push_back(stamp(behind_links(found.lld)));
    return identity;
  }

  std::vector<std::string> base_options(std::string_view arch) const override { return hip_options(arch); }
  std::vector<std::string> quick_options() const override { return {kHipQuickOption}; }

  std::string version() override {
    const HipClang found = require();
    const support::PrivateDirectory directory;
    const ProcessResult result = run_process({found.clang, "--version"}, directory, limit_s_);
    return result.output.substr(0, result.output.find('\n'));
  }

  Binary compile(const Job& job) override {
    const auto start = std::chrono::steady_clock::now();
    const HipClang found = require();
    const support::PrivateDirectory directory;
    for (const Header& header : included_by(job.text, job.headers))
      directory.write("include/" + header.name, header.text);
    const std::string unit = directory.write("unit/" + job.name, job.text), object = directory.path() + "/unit.co";
    const std::string tools = tool_folder(directory, found.lld);

    std::vector<std::string> argv = {
        found.clang,    "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc",
        kObjectVersion, "-B", tools};
    for (std::string& option : hip_options(job.arch)) argv.push_back(std::move(option));
    argv.insert(argv.end(), job.options.begin(), job.options.end());
    argv.insert(argv.end(), {"-I", directory.path() + "/include", unit});
    std::vector<std::string> whole = argv;
    whole.insert(whole.end(), {"-o", object});
    const ProcessResult result = run_process(whole, directory, limit_s_, tools);

    Binary binary;
    binary.log = result.output;
    if (!result.ended_well() || !read_file(object, binary.bytes)) refuse(found, job, result);
    read_code_object_use(binary);
    binary.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (job.time_phases)
      binary.phases = phases_by_shorter_runs(argv, shorter_runs(directory), directory, tools, binary.milliseconds,
                                             "code generation and linker");
    return binary;
  }

 private:
  HipClang require() const {
    std::vector<std::string> rejected;
    HipClang found = find_hip_clang(arch_, &rejected);
    if (found.present()) return found;
    std::string why;
    for (const std::string& reason : rejected) why += "; " + reason;
    fail(Stage::compile, Code::not_found,
         cat("no clang for ", arch_.empty() ? "AMD GPUs" : arch_, " was found; searched ", describe_clang_search(), why,
             "; install ", clang_advice(arch_), ", or a ROCm with hiprtc"));
  }

  [[noreturn]] static void refuse(const HipClang& found, const Job& job, const ProcessResult& result) {
    const std::string first = first_error(result.output);
    if (says_unknown_arch(result.output)) {
      fail(Stage::compile, Code::unsupported,
           cat("target \"", job.arch, "\" is not one that ", found.clang, " compiles for: ", first, "; install ",
               first_clang(job.arch) > 0 ? clang_advice(job.arch) : "a newer clang with its lld",
               ", or choose another target"),
           result.output);
    }
    const std::string how = result.how(cat("refused ", job.name, " for ", job.arch));
    fail(Stage::compile, Code::compile_failed,
         cat(found.clang, " ", how, first.empty() ? "" : ": " + first, "; the whole log is in Error::log"),
         result.output);
  }

  std::string arch_;
  double limit_s_;
};

}  // namespace

std::unique_ptr<Compiler> make_clang(const Settings& settings) { return std::make_unique<Clang>(settings); }

}  // namespace tj::compile
