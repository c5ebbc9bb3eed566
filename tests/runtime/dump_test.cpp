// Protects what helps people when a compile fails or is looked at: the dumped source and log, and the errors that name
// them.
#include <doctest/doctest.h>

#include <filesystem>

#include "compile/backends.hpp"
#include "ops/fmha/fmha.hpp"
#include "pipeline.hpp"
#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;
using tj::KernelReport;
using tj::Runtime;
using tj::testing::read_bytes;
using tj::testing::write_bytes;

constexpr const char* kRefusal = "fmha_f16_d128.cu(7): error: the fake does not like it\n1 error detected\n";

TEST_CASE("the source that was compiled and the compiler's log are dumped") {
  Machine machine;
  tj::Options options = machine.options();
  options.dump_dir = machine.scratch / "a/new/folder";
  Runtime runtime(options);
  const KernelReport report = runtime.prepare(attention());
  CHECK(report.source_path == *options.dump_dir + "/fmha_f16_d128-sm_90a.cu");
  const std::string source = read_bytes(report.source_path);
  CHECK(has(source, "struct Config"));
  CHECK(has(read_bytes(report.source_path + ".log"), "Used 168 registers"));
  CHECK(runtime.prepare(attention()).source_path == report.source_path);
  // The fake's binaries end with the text that it was given.
  for (const std::string& name : tj::testing::names_in(machine.cache_dir()))
    if (name.ends_with(".tjk") && !name.ends_with("-alias.tjk"))
      CHECK(has(read_bytes(machine.cache_dir() + "/" + name), source));
  // Nothing is generated on a hit, so nothing is dumped.
  std::filesystem::remove_all(*options.dump_dir);
  CHECK(Runtime(options).prepare(attention()).source_path == "");
  CHECK(machine.warnings.empty());
}

TEST_CASE("a refused source is named in the error, with the compiler's log; the next call works") {
  Machine machine;
  tj::Options options = machine.options();
  options.dump_dir = machine.scratch / "dump";
  Runtime runtime(options);
  machine.nvrtc.refuse(kRefusal);
  const tj::Error error = error_of([&] { runtime.run(attention()); });
  CHECK(error.stage == tj::Stage::compile);
  CHECK(error.code == tj::Code::compile_failed);
  CHECK(error.log == kRefusal);
  CHECK(error.source_path == *options.dump_dir + "/fmha_f16_d128-sm_90a.cu");
  CHECK(has(read_bytes(error.source_path), "struct Config"));
  CHECK_MESSAGE(has(error.message, "the fake does not like it"), error.message);
  CHECK(has(error.message, error.source_path));
  CHECK(error.message.find('\n') == std::string::npos);
  CHECK(count_calls(machine.cuda, "cuModuleLoadData") == 0);
  machine.nvrtc.refuse(nullptr);
  runtime.run(attention());
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
  CHECK(machine.nvrtc.compiles() == 2);
}

TEST_CASE("without a dump folder the error says how to get one") {
  Machine machine;
  Runtime runtime(machine.options());
  machine.nvrtc.refuse(kRefusal);
  const tj::Error error = error_of([&] { runtime.prepare(attention()); });
  CHECK(error.source_path == "");
  CHECK_MESSAGE(has(error.message, "TJ_DUMP_DIR"), error.message);
}

TEST_CASE("a dump folder that cannot be used costs a warning, not the kernel") {
  Machine machine;
  write_bytes(machine.scratch / "file", "in the way");
  tj::Options options = machine.options();
  options.dump_dir = machine.scratch / "file/dump";
  Runtime runtime(options);
  CHECK(runtime.prepare(attention()).source_path == "");
  runtime.run(attention());
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
  REQUIRE(!machine.warnings.empty());
  CHECK_MESSAGE(has(machine.warnings[0], "file/dump"), machine.warnings[0]);
}

TEST_CASE("a missing NVRTC is an error that lists what was searched, and does not blame the source") {
  Machine machine;
  const auto compiler = tj::compile::make_nvrtc(
      {"libnvrtc", {"libnvrtc.so.99"}, {{machine.scratch / "here", machine.scratch / "there"}}});
  const tj::ops::Op& op = tj::ops::fmha_op();
  const tj::arch::Target target = tj::arch::parse_target("sm_90a");
  const tj::Error error = error_of([&] {
    tj::make(op, tj::ops::fmha_request(config_of()), target, *compiler, {}, tj::support::Log(tj::LogLevel::off, {}));
  });
  CHECK(error.stage == tj::Stage::compile);
  CHECK(error.code == tj::Code::not_found);
  CHECK_MESSAGE(
      has(error.message, "libnvrtc.so.99 in " + (machine.scratch / "here") + ", " + (machine.scratch / "there")),
      error.message);
  CHECK(has(error.message, "install"));
  CHECK_FALSE(has(error.message, "TJ_DUMP_DIR"));
}

TEST_CASE("an NVRTC that does not open is named, and what is on disk needs none") {
  Machine machine;
  Runtime(machine.options()).prepare(attention());
  tj::testing::Scratch broken;
  write_bytes(broken / "libnvrtc.so.13", "no library");
  const std::string path = std::getenv("LD_LIBRARY_PATH");
  ::setenv("LD_LIBRARY_PATH", (broken.path() + ":" + path).c_str(), 1);
  Runtime runtime(machine.options());
  const tj::Error error = error_of([&] { runtime.run(attention()); });
  CHECK(error.code == tj::Code::not_found);
  CHECK_MESSAGE(has(error.message, broken / "libnvrtc.so.13"), error.message);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 0);
  ::setenv("LD_LIBRARY_PATH", path.c_str(), 1);
  runtime.run(attention());  // the compiler that made the entry is found again
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
  CHECK(machine.nvrtc.compiles() == 1);
}

}  // namespace
