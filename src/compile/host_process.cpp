// See host_process.hpp.
#include "compile/host_process.hpp"

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "compile/program_search.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/process_end.hpp"

namespace tj::compile {
namespace {

using support::cat;
using support::fail;

// Variables that compilers and their linkers look at. Everything else (CPATH, CXXFLAGS of wrappers) would change the
// result of equal jobs.
std::vector<std::string> child_environment(const std::string& directory, const std::string& first_on_path) {
  std::vector<std::string> variables = {"LC_ALL=C", "TMPDIR=" + directory};
  for (const char* name : {"HOME", "LD_LIBRARY_PATH"})
    if (const auto value = support::environment_variable(name)) variables.push_back(cat(name, "=", *value));
  variables.push_back(cat("PATH=", first_on_path, first_on_path.empty() ? "" : ":", program_path()));
  return variables;
}

}  // namespace

std::string ProcessResult::how(const std::string& otherwise) const {
  return status < 0 && status != support::kUnknownStatus ? cat("was ended by signal ", -status) : otherwise;
}

ProcessResult run_process(const std::vector<std::string>& argv, const support::PrivateDirectory& directory,
                          double limit_s, const std::string& first_on_path) {
  support::ProgramOutput output;
  const auto refuse = [&argv](int error) {
    fail(Stage::compile, Code::io,
         cat("cannot start ", argv.front(), ": ", support::start_failure(error, "check that it can be executed")));
  };
  if (output.error() != 0) refuse(output.error());
  pid_t child = -1;
  if (const int error = support::start_process(argv, child_environment(directory.path(), first_on_path), output.into(),
                                               child, support::ProcessGroup::own);
      error != 0)
    refuse(error);
  ProcessResult result;
  bool over = false;
  result.status = support::wait_for_process(child, limit_s, over, &output);
  result.output = output.text();
  if (!over && result.status == -SIGKILL && support::process_is_ending())  // with the process
    fail(Stage::compile, Code::io, std::string(support::kProcessIsEnding));
  if (over)
    fail(Stage::compile, Code::compile_failed,
         cat(argv.front(), " was ended, as it had not finished after ", limit_s,
             " s; if it needs longer here, raise Options::compile_limit_s or TJ_COMPILE_LIMIT (0: no limit)"),
         result.output);
  return result;
}

bool read_file(const std::string& path, std::string& bytes) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 28;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) || std::filesystem::file_size(path, error) > kMostBytes || error)
    return false;  // a pipe or a device has no end
  std::ifstream in(path, std::ios::binary);
  if (!in) return false;
  try {
    bytes.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  } catch (const std::ios_base::failure&) {  // a folder opens, and says only then that it is none
    return false;
  }
  return !in.bad();
}

}  // namespace tj::compile
