// See host_process.hpp.
#include "compile/host_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "support/atomic_file.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"

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

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The child's standard streams: nothing in, one file out.
class Redirection {
 public:
  explicit Redirection(const std::string& log) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    ::posix_spawn_file_actions_adddup2(&actions_, 1, 2);
  }
  ~Redirection() { ::posix_spawn_file_actions_destroy(&actions_); }
  Redirection(const Redirection&) = delete;
  Redirection& operator=(const Redirection&) = delete;
  const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// A program that blocks signals or ignores them must not pass that on to a compiler.
class Attributes {
 public:
  Attributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, defaults;
    ::sigemptyset(&none);
    ::sigemptyset(&defaults);
    for (int signal : {SIGPIPE, SIGCHLD, SIGINT, SIGTERM}) ::sigaddset(&defaults, signal);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const noexcept { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return ProcessResult::kUnknown;  // SIGCHLD ignored: the child has ended, but nobody knows how
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
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

ProcessResult run_process(const std::vector<std::string>& argv, const PrivateDirectory& directory, const std::string& first_on_path) {
  std::vector<std::string> arguments = argv, variables = child_environment(directory.path(), first_on_path);
  const std::string log = directory.path() + "/output.log";
  const Redirection redirection(log);
  const Attributes attributes;
  pid_t child = -1;
  const int error = ::posix_spawn(&child, arguments.front().c_str(), redirection.get(), attributes.get(), pointers_to(arguments).data(),
                                  pointers_to(variables).data());
  if (error != 0)
    fail(Stage::compile, Code::io, cat("cannot start ", arguments.front(), ": ", support::errno_text(error), "; check that it can be executed"));
  ProcessResult result;
  result.status = wait_for(child);
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
