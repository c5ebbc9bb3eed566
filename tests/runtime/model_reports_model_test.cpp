// Protects a log sink that is told of a report which could not be written: it may call the runtime, and end the
// process.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "support/expect.hpp"
#include "support/model_runtime.hpp"
#include "support/scratch.hpp"

namespace {

using namespace tj;

/// The model's report of a product: "" where nothing is switched off.
std::string said_of_product(Runtime& runtime) {
  constexpr Device kCpu{DeviceKind::cpu, 0};
  std::vector<std::uint16_t> a(64 * 256), b(64 * 256), d(64 * 64);
  GemmArgs args;
  args.a = Tensor::contiguous(a.data(), kCpu, DType::f16, {64, 256});
  args.b = Tensor::contiguous(b.data(), kCpu, DType::f16, {64, 256});
  args.d = Tensor::contiguous(d.data(), kCpu, DType::f16, {64, 64});
  return testing::said_by([&] { runtime.run(args); });
}

/// The number of the product's wait for the ring of a and b, from a report of its kernel.
std::string wait_site() {
  const testing::Scratch folder;
  Options options;
  options.target = "model:sm_80";
  options.model_report = folder / "report";
  Runtime runtime(options);
  CHECK(said_of_product(runtime).empty());
  std::istringstream lines(testing::read_bytes(folder / "report"));
  for (std::string line; std::getline(lines, line);) {
    const auto report = nlohmann::json::parse(line);
    for (const auto& site : report.value("sites", nlohmann::json::array())) {
      if (testing::has(site.at("text").get<std::string>(), "wait ring ab full"))
        return std::to_string(site.at("id").get<int>());
    }
  }
  FAIL("the kernel has no wait for the ring of a");
  return {};
}

/// A child in which a report cannot be written. Its log sink does this when it is told so. Its exit status.
int when_told(const std::string& site, void (*does)(Runtime&)) {
  return testing::wait_for(testing::start_child([&site, does] {
    ::alarm(100);
    static Runtime* runtime = nullptr;
    static bool told = false;
    Options options;
    options.target = "model:sm_80";
    options.model_disable = site;
    options.model_report = "/dev/full";
    options.log_sink = [does](LogLevel, std::string_view text) {
      if (testing::has(std::string(text), "TJ_MODEL_REPORT") && !std::exchange(told, true)) does(*runtime);
    };
    runtime = new Runtime(options);
    said_of_product(*runtime);  // says itself that its kernel could not be reported
    const std::string said = said_of_product(*runtime);
    return told && testing::has(said, "which nobody has written") ? 0 : 3;
  }));
}

TEST_CASE("a log sink that is told of a report which cannot be written may call and end the process") {
  const std::string site = wait_site();
  static_cast<void>(testing::model_runtime("model:sm_80").prepare(GemmConfig{}, {DeviceKind::cpu, 0}));
  CHECK(when_told(site, [](Runtime& runtime) {
          if (said_of_product(runtime).empty()) ::_exit(7);
        }) == 0);
  CHECK(when_told(site, [](Runtime& runtime) {
          static Runtime* of = nullptr;
          of = &runtime;
          std::atexit([] { ::_exit(said_of_product(*of).empty() ? 7 : 4); });
          std::exit(2);
        }) == 4);
}

}  // namespace
