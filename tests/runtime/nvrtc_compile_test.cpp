// Protects the whole way from arguments to a launch with the real NVRTC. Its kernel is loaded and kept, another process
// finds it on disk, and that process never opens NVRTC. The driver is the fake one, so no GPU is needed.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include "compile/backends.hpp"
#include "ops/fmha/params.cuh"
#include "runtime/runtime_fixture.hpp"
#include "support/environment.hpp"
#include "support/process.hpp"
#include "support/skip.hpp"

namespace {

namespace fs = std::filesystem;
using namespace tj::test;
using tj::KernelOrigin;
using tj::Runtime;
using tj::testing::read_bytes;
using tj::testing::Scratch;

/// NVRTC in a folder of its own, first on the loader's path of this process and its children.
class OwnNvrtc {
 public:
  explicit OwnNvrtc(const fs::path& found) {
    path_ = folder_ / found.filename().string();
    fs::copy_file(fs::canonical(found), path_);
    for (const auto& file : fs::directory_iterator(found.parent_path()))
      if (file.path().filename().string().starts_with("libnvrtc-builtins"))
        fs::create_symlink(fs::canonical(file), folder_ / file.path().filename().string());
    const char* before = std::getenv("LD_LIBRARY_PATH");
    ::setenv("LD_LIBRARY_PATH", (folder_.path() + ":" + (before != nullptr ? before : "")).c_str(), 1);
  }
  const std::string& path() const { return path_; }

  /// Same place, size and time; no library any more.
  void spoil() const {
    struct stat info{};
    REQUIRE(::stat(path_.c_str(), &info) == 0);
    const int file = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    const std::string garbage(65536, 'x');
    REQUIRE(::write(file, garbage.data(), garbage.size()) == static_cast<ssize_t>(garbage.size()));
    const timespec times[2] = {info.st_atim, info.st_mtim};
    REQUIRE(::futimens(file, times) == 0);
    ::close(file);
  }

 private:
  Scratch folder_;
  std::string path_;
};

/// A process of its own; what it says through `fail` is shown. Empty: all was as it should be.
std::string in_child(const Scratch& scratch, const std::function<void(FakeCuda&, const tj::Options&)>& work) {
  const std::string report = scratch / "report";
  const int status = tj::testing::wait_for(tj::testing::start_child([&] {
    std::string said;
    try {
      FakeCuda cuda;
      tj::Options options;
      options.cache_dir = scratch / "cache";
      options.target = "";
      options.dump_dir = "";
      options.log_sink = [&said](tj::LogLevel, std::string_view text) { said += std::string(text) + "\n"; };
      work(cuda, options);
    } catch (const std::exception& error) {
      said += error.what();
    }
    tj::testing::write_bytes(report, said);
    return 0;
  }));
  return status == 0 ? read_bytes(report) : "the process ended with " + std::to_string(status);
}

void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string("does not hold: ") + what);
}
#define TJ_EXPECT(...) expect((__VA_ARGS__), #__VA_ARGS__)

bool mapped(const std::string& words) { return has(read_bytes("/proc/self/maps"), words); }

#define TJ_PROCESS_OF_ITS_OWN "in a process that has opened no library yet"

TEST_CASE(TJ_PROCESS_OF_ITS_OWN* doctest::skip()) {
  const std::string found = tj::compile::make_nvrtc()->identity().path;
  const OwnNvrtc nvrtc(found);
  const Scratch scratch;
  CHECK(in_child(scratch, [&](FakeCuda& cuda, const tj::Options& options) {
          cuda.set_param_bytes(sizeof(tj::ops::fmha::Params));
          Runtime runtime(options);
          const tj::KernelReport report = runtime.prepare(attention());
          TJ_EXPECT(report.origin == KernelOrigin::compiled);
          TJ_EXPECT(report.registers > 0 && report.registers <= 255);
          TJ_EXPECT(report.compile_ms > 0 && report.schedule_ms > 0);
          TJ_EXPECT(runtime.prepare(config_of()).origin == KernelOrigin::memory);
          runtime.run(attention());
          TJ_EXPECT(count_calls(cuda, "cuLaunchKernelEx") == 1);
          TJ_EXPECT(Runtime(options).prepare(config_of()).origin == KernelOrigin::disk);
          TJ_EXPECT(mapped(nvrtc.path()));
        }) == "");
  nvrtc.spoil();
  CHECK(in_child(scratch, [&](FakeCuda& cuda, const tj::Options& options) {
          cuda.set_param_bytes(sizeof(tj::ops::fmha::Params));
          Runtime runtime(options);
          runtime.run(attention());
          TJ_EXPECT(count_calls(cuda, "cuLaunchKernelEx") == 1);
          TJ_EXPECT(Runtime(options).prepare(attention()).origin == KernelOrigin::disk);
          TJ_EXPECT(!mapped("libnvrtc"));
        }) == "");
  // The proof that it could not have been opened unseen: who needs it is told so.
  const std::string said =
      in_child(scratch, [&](FakeCuda&, const tj::Options& options) { Runtime(options).prepare(config_of(false, 64)); });
  CHECK_MESSAGE(has(said, nvrtc.path() + " but does not open"), said);
}

// Another test of this executable may have opened NVRTC before, and its forks would all have it.
TEST_CASE("a process compiles and launches; another hits the disk and never opens NVRTC") {
  if (!tj::compile::make_nvrtc()->identity().present())
    tj::testing::skip("no NVRTC on this machine; install the CUDA toolkit or its wheel");
  pid_t child = 0;
  REQUIRE(tj::support::start_process(
              {fs::read_symlink("/proc/self/exe"), "--no-skip", "--source-file=*runtime/nvrtc_compile_test.cpp",
               "--test-case=" TJ_PROCESS_OF_ITS_OWN},
              tj::support::environment_with({}), STDOUT_FILENO, child) == 0);
  CHECK(tj::support::wait_for_process(child) == 0);
}

}  // namespace
