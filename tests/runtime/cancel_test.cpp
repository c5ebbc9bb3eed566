// Protects threads that are cancelled while they are inside a call: the call comes back, and the thread ends then. A
// cancellation unwinds like an exception, which a catch-all must not end: the C library would abort.
#include <doctest/doctest.h>
#include <tilejit/tilejit.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <tilejit/tilejit.hpp>

#include "custom/sample_kernel.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/cancelled.hpp"
#include "support/log.hpp"

namespace {

using tj::testing::end_of_cancelled;

/// A log into standard error, which a line of the library is written to.
tj::Options noisy() {
  tj::Options options;
  options.cache_dir = "";
  options.log_level = tj::LogLevel::trace;
  return options;
}

TEST_CASE("a thread that is cancelled inside a call in C ends behind it") {
  const tj::test::SampleKernel sample;
  tj_runtime* runtime = nullptr;
  const auto instance = [&] { tj_runtime_instance(&runtime); };
  tj_custom_description own{};
  own.size = sizeof own;
  own.name = sample.description.name.c_str();
  own.graph = sample.description.graph.c_str();
  own.folder = sample.description.folder.c_str();
  const auto with_remarks = [] {
    ::setenv("TJ_NO_SUCH_VARIABLE", "1", 1);
    ::setenv("TJ_LOG_LEVEL", "trace", 1);
  };
  CHECK(end_of_cancelled([&] { tj_runtime_create(nullptr, &runtime); }, with_remarks) == 0);
  CHECK(end_of_cancelled([] {
          const char* text = nullptr;
          tj_describe(&text);
        }) == 0);
  CHECK(end_of_cancelled(
            [&] {
              tj_custom* kernel = nullptr;
              tj_custom_create(runtime, &own, &kernel);
              tj_custom_destroy(kernel);
            },
            instance) == 0);
  CHECK(end_of_cancelled(
            [&] {
              tj_device device{};
              tj_default_device(runtime, &device);
            },
            [&] { with_remarks(), instance(); }) == 0);
  CHECK(end_of_cancelled([&] { tj_runtime_destroy(runtime); }, [&] { tj_runtime_create(nullptr, &runtime); }) == 0);
}

TEST_CASE("a thread that is cancelled inside a call in C++ ends behind it") {
  const tj::test::SampleKernel sample;
  std::optional<tj::Runtime> runtime;
  const auto make = [&] { runtime.emplace(noisy()); };
  CHECK(end_of_cancelled([&] { make(); }, [] { ::setenv("TJ_NO_SUCH_VARIABLE", "1", 1); }) == 0);
  CHECK(end_of_cancelled([&] { runtime->default_device(); }, make) == 0);
  CHECK(end_of_cancelled([&] { const tj::custom::Kernel kernel(*runtime, sample.description); }, make) == 0);
}

TEST_CASE("a thread that is cancelled while it logs ends behind the line, whoever writes that") {
  CHECK(end_of_cancelled([] { tj::support::Log(tj::LogLevel::info, {})(tj::LogLevel::warn, "a line"); }) == 0);
  const auto sink = [](tj::LogLevel, std::string_view) { ::usleep(1); };
  CHECK(end_of_cancelled([&] { tj::support::Log(tj::LogLevel::info, sink)(tj::LogLevel::warn, "a line"); }) == 0);
}

}  // namespace
