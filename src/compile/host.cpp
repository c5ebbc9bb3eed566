// The host's C++ compiler behind the compiler interface: a generated unit to a shared object for the CPU model.
//
// Decides which compiler is taken, its options, and how its answer becomes Binary or tj::Error. Knows neither the
// model's primitives nor how the object is run. Invariant: no shell, no file outside a private directory, nothing left
// behind.
#include <chrono>
#include <vector>

#include "compile/backends.hpp"
#include "compile/compile_log.hpp"
#include "compile/host_process.hpp"
#include "compile/includes.hpp"
#include "compile/library_search.hpp"
#include "compile/phases.hpp"
#include "compile/program_search.hpp"
#include "support/elf.hpp"
#include "support/fail.hpp"

namespace tj::compile {
namespace {

using support::cat;
using support::fail;

constexpr const char* kNames[] = {"c++", "g++", "clang++"};

/// The first name that any folder has. It is run by this name. The file behind the links may serve several names
/// (ccache, clang) and go by the name that it was called by.
std::string find_compiler() {
  for (const char* name : kNames)
    if (std::string path = find_program(name); !path.empty()) return path;
  return {};
}

std::string require_compiler() {
  std::string path = find_compiler();
  if (!path.empty()) return path;
  fail(Stage::compile, Code::not_found,
       cat("the CPU model needs a C++ compiler, and none of c++, g++, clang++ is in PATH (", path_text(),
           "); install one (Debian: apt-get install g++)"));
}

class HostCompiler final : public Compiler {
 public:
  explicit HostCompiler(double limit_s) : limit_s_(limit_s) {}

  Identity identity() const override { return identify("host", behind_links(find_compiler())); }

  std::vector<std::string> base_options(std::string_view) const override {
    // -Og and no vectoriser: a unit runs for milliseconds, and the library does its matrix work. g++ 12 took 603 ms
    // with -O1 and 451 with -Og for a unit of attention, and fmha/model_test 53 and 42 s (2026-11-28).
    return {"-std=c++20",
            "-Og",
            "-march=x86-64-v3",
            "-mtune=generic",
            "-fPIC",
            "-shared",
            "-fno-exceptions",
            "-fno-rtti",
            "-fno-math-errno",
            "-ffp-contract=off",
            "-fvisibility=hidden",
            "-fno-stack-protector",
            "-Wno-unknown-pragmas",
            "-Wl,--as-needed"};
  }

  std::vector<std::string> quick_options() const override { return {"-O0"}; }

  std::string version() override {
    const std::string path = require_compiler();
    const support::PrivateDirectory directory;
    const ProcessResult result = run_process({path, "--version"}, directory, limit_s_);
    return result.output.substr(0, result.output.find('\n'));
  }

  Binary compile(const Job& job) override {
    const auto start = std::chrono::steady_clock::now();
    const std::string path = require_compiler();
    const support::PrivateDirectory directory;
    for (const Header& header : included_by(job.text, job.headers))
      directory.write("include/" + header.name, header.text);
    const std::string unit = directory.write("unit/" + job.name, job.text), object = directory.path() + "/unit.so";

    std::vector<std::string> argv = {path};
    for (std::string& option : base_options(job.arch)) argv.push_back(std::move(option));
    argv.insert(argv.end(), job.options.begin(), job.options.end());
    argv.insert(argv.end(), {"-I", directory.path() + "/include", "-x", "c++", unit});
    std::vector<std::string> whole = argv;
    whole.insert(whole.end(), {"-o", object});
    const ProcessResult result = run_process(whole, directory, limit_s_);

    Binary binary;
    binary.log = result.output;
    if (!result.ended_well() || !read_file(object, binary.bytes) || !support::elf_problem(binary.bytes).empty())
      refuse(path, job, result);
    binary.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (job.time_phases)
      binary.phases =
          phases_by_shorter_runs(argv,
                                 {{kFrontEnd, {"-fsyntax-only"}},
                                  {"optimiser and code generation", {"-S", "-o", directory.path() + "/unit.s"}}},
                                 directory, {}, binary.milliseconds, "assembler and linker");
    return binary;
  }

 private:
  [[noreturn]] static void refuse(const std::string& path, const Job& job, const ProcessResult& result) {
    const std::string first = first_error(result.output);
    const bool silent = first.empty() && result.status > 0;
    const std::string how = result.how(result.ended_well() ? cat("ended well and wrote no whole object for ", job.name)
                                                           : cat("refused ", job.name));
    fail(Stage::compile, Code::compile_failed,
         cat(path, " ", how, silent ? cat(" with status ", result.status, ", and named no error") : std::string(),
             first.empty() ? "; check that it is a C++ compiler that works here" : ": " + first),
         result.output);
  }

  double limit_s_;
};

}  // namespace

std::unique_ptr<Compiler> make_host(const Settings& settings) {
  return std::make_unique<HostCompiler>(settings.limit_s);
}

}  // namespace tj::compile
