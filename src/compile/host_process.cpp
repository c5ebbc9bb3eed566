// See host_process.hpp.
#include "compile/host_process.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "support/atomic_file.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/file_descriptor.hpp"

namespace tj::compile {
namespace {

using support::cat;
using support::fail;

// What compilers and their linkers look at; everything else (CPATH, CXXFLAGS of wrappers) would change the result of equal jobs.
std::vector<std::string> child_environment(const std::string& directory, const std::string& first_on_path) {
  std::vector<std::string> variables = {"LC_ALL=C", "TMPDIR=" + directory};
  for (const char* name : {"HOME", "LD_LIBRARY_PATH"})
    if (const auto value = support::environment_variable(name)) variables.push_back(cat(name, "=", *value));
  const std::string path = support::environment_variable("PATH").value_or("");
  if (!path.empty() || !first_on_path.empty()) variables.push_back(cat("PATH=", first_on_path, !path.empty() && !first_on_path.empty() ? ":" : "", path));
  return variables;
}

}  // namespace

PrivateDirectory::PrivateDirectory() {
  const std::string base = support::environment_variable("TMPDIR").value_or("/tmp");
  path_ = base + "/tilejit-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr)
    fail(Stage::compile, Code::io,
         cat("cannot make a directory in ", base, ": ", support::errno_text(errno), "; set TMPDIR to a writable directory"));
}

PrivateDirectory::~PrivateDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string PrivateDirectory::write(const std::string& name, std::string_view text) const {
  const std::filesystem::path path = std::filesystem::path(path_) / name;
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out) fail(Stage::compile, Code::io, cat("cannot write ", path.string(), "; is ", path_, " full or not writable?"));
  return path.string();
}

std::string ProcessResult::how(const std::string& otherwise) const {
  return status < 0 && status != support::kUnknownStatus ? cat("was ended by signal ", -status) : otherwise;
}

ProcessResult run_process(const std::vector<std::string>& argv, const PrivateDirectory& directory, const std::string& first_on_path) {
  const std::string log = directory.path() + "/output.log";
  const support::FileDescriptor output(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (!output) fail(Stage::compile, Code::io, cat("cannot write ", log, ": ", support::errno_text(errno)));
  pid_t child = -1;
  if (const int error = support::start_process(argv, child_environment(directory.path(), first_on_path), output.get(), child); error != 0)
    fail(Stage::compile, Code::io, cat("cannot start ", argv.front(), ": ", support::errno_text(error), "; check that it can be executed"));
  ProcessResult result;
  result.status = support::wait_for_process(child);
  read_file(log, result.output);
  return result;
}

bool read_file(const std::string& path, std::string& bytes) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return false;
  bytes.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  return !in.bad();
}

}  // namespace tj::compile
