// Protects choices by measurement. The fastest kernel is found, kept and taken by later calls of the same problem
// alone. A record that is damaged, foreign or makes no sense is said once and left out. Hot calls stay as they are.
// Also places where nothing can be measured.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include <tilejit/ladder.hpp>

#include "arch/arch.hpp"
#include "cache/cache.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/params.cuh"
#include "runtime/runtime_fixture.hpp"
#include "support/full.hpp"
#include "tuning/tune.hpp"

namespace {

using namespace tj::test;
using tj::Device;
using tj::DeviceKind;
using tj::GemmConfig;
using tj::Runtime;
using tj::TuneReport;

constexpr Device kGpu{DeviceKind::cuda, 0};

GemmConfig square(std::int64_t size, tj::DType dtype = tj::DType::f16) {
  GemmConfig config;
  config.m = config.n = config.k = size;
  config.dtype = config.out = dtype;
  return config;
}

tj::ops::Problem problem(const std::string& size, const std::string& dtype = "f16") {
  return tj::ops::gemm_tunable().problems({{"sizes", {size}}, {"dtype", {dtype}}}).front();
}

/// Fewer blocks are faster here: 1024^3 is best served by the largest tile, while the prediction fills the SMs.
struct TuneMachine : Machine {
  TuneMachine() {
    cuda.set_param_bytes(0);  // kernels of several kinds
    cuda.set_block_ms(0.001);
  }
};

/// Enough kernels for a choice that is not the predicted one. All of them where they are compared, and in a full run.
const int kSome = tj::testing::full_run() ? 0 : 10;

TuneReport tune(Runtime& runtime, const std::string& size = "1024", int limit = kSome) {
  tj::TuneOptions options;
  options.rounds = 2;
  options.limit = limit;
  return runtime.tune_op("gemm", problem(size), kGpu, options);
}

std::string kernel_of(Runtime& runtime, const GemmConfig& config) { return runtime.prepare(config, kGpu).name; }

/// The only record in the cache, as an entry that may be changed and put back.
struct Record {
  explicit Record(Machine& machine) : store(machine.cache_dir(), 0, {}) {
    for (const tj::cache::ListedEntry& listed : store.list()) {
      if (!listed.entry || listed.entry->find("choice") == nullptr) continue;
      path = listed.path;
      entry = *listed.entry;
    }
    REQUIRE(!path.empty());
    const std::string name = path.substr(path.rfind('/') + 1);
    const std::size_t dash = name.find('-');
    key = {name.substr(0, dash), name.substr(dash + 1, name.rfind('.') - dash - 1)};
  }
  std::string& value(const std::string& name) {
    for (auto& [key_name, text] : entry.metadata)
      if (key_name == name) return text;
    FAIL(name);
    std::abort();
  }
  tj::cache::Store store;
  std::string path;
  tj::cache::Entry entry;
  tj::cache::Key key;
};

TEST_CASE(
    "operands are filled to their end and no further, also where they are no multiple of the values that are drawn") {
  TuneMachine machine;
  Runtime runtime(machine.options());
  CHECK(tune(runtime, "1504", 1).variants.size() >= 1);
  constexpr long kBytes = 1504L * 1504 * 2, kPatternBytes = 2L << 21;
  long allocated = 0, copied = 0, most = 0;
  std::istringstream lines(machine.cuda.log());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string call;
    long bytes = 0;
    words >> call >> bytes;
    if (call == "cuMemAlloc") allocated += bytes;
    if (call == "cuMemcpyHtoD") copied += bytes, most = std::max(most, bytes);
  }
  CHECK(kBytes > kPatternBytes);
  CHECK(allocated == 3 * kBytes);  // a, b and d
  CHECK(copied == allocated);
  CHECK(most == kPatternBytes);
}

TEST_CASE("the fastest kernel is measured, kept, and taken by calls of that problem alone" *
          doctest::skip(tj::testing::left_out())) {
  TuneMachine machine;
  Runtime runtime(machine.options());
  const std::string predicted = kernel_of(runtime, square(1024)), other = kernel_of(runtime, square(2048)),
                    bf16 = kernel_of(runtime, square(1024, tj::DType::bf16));
  const TuneReport report = tune(runtime, "1024", 0);
  REQUIRE(report.chosen > 0);
  const auto& chosen = report.variants[static_cast<std::size_t>(report.chosen)];
  CHECK(report.kept);
  CHECK(report.problem == "gemm_f16_kk 1024x1024x1024");
  CHECK(report.device == "Fake H200");
  CHECK(has(predicted, report.variants.front().name));
  CHECK(has(chosen.name, "x256x64"));
  CHECK(chosen.measured_us > 0);
  for (const auto& variant : report.variants) {
    CHECK(variant.predicted_us > 0);
    CHECK((variant.measured_us >= chosen.measured_us && variant.times > 0));
  }
  const std::string tuned = "gemm_f16_kk_" + chosen.name;
  CHECK(kernel_of(runtime, square(1024)) == tuned);
  CHECK(runtime.prepare(square_product(1024)).name == tuned);
  CHECK(kernel_of(runtime, square(2048)) == other);
  CHECK(kernel_of(runtime, square(1024, tj::DType::bf16)) == bf16);

  Runtime later(machine.options());
  const int compiled = machine.nvrtc.compiles();
  later.run(square_product(1024));  // without a prepare()
  CHECK(later.prepare(square_product(1024)).name == tuned);
  CHECK(later.prepare(square_product(1024)).origin == tj::KernelOrigin::memory);
  CHECK(machine.nvrtc.compiles() == compiled);
  CHECK(machine.warnings.empty());
}

TEST_CASE("another runtime notices a new record at its next prepare, not in hot calls; so does a ladder") {
  TuneMachine machine;
  Runtime early(machine.options()), other(machine.options()), tuner(machine.options());
  tj::Ladder ladder(other);
  const std::string predicted = kernel_of(early, square(1024));
  CHECK(ladder.prepare(square(1024), 0, kGpu).name == predicted);
  const std::string last = ladder.prepare(square(1024), 10, kGpu).name;
  early.run(square_product(1024));
  const TuneReport report = tune(tuner);
  std::filesystem::last_write_time(machine.cache_dir(),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::seconds(5));
  const int loaded = count_calls(machine.cuda, "cuModuleLoadData");
  early.run(square_product(1024));
  CHECK(count_calls(machine.cuda, "cuModuleLoadData") == loaded);
  const std::string measured = "gemm_f16_kk_" + report.variants[static_cast<std::size_t>(report.chosen)].name;
  CHECK(kernel_of(early, square(1024)) == measured);
  CHECK(ladder.prepare(square(1024), 0, kGpu).name == measured);
  CHECK(last != measured);
  CHECK(ladder.prepare(square(1024), 10, kGpu).name == measured);  // its blocks have two consumers
}

TEST_CASE("records are left alone where the option or the setting says so, and where there is no cache") {
  TuneMachine machine;
  std::string predicted;
  {
    Runtime runtime(machine.options());
    predicted = kernel_of(runtime, square(1024));
    CHECK(tune(runtime).chosen > 0);
    CHECK(kernel_of(runtime, square(1024)) != predicted);
  }
  tj::Options options = machine.options();
  options.use_tuning = false;
  Runtime without(options);
  CHECK(kernel_of(without, square(1024)) == predicted);
  CHECK(without.prepare(square_product(1024)).name == predicted);

  options = machine.options();
  options.use_disk_cache = false;
  Runtime alone(options);
  CHECK(kernel_of(alone, square(1024)) == predicted);
  const TuneReport report = tune(alone);
  CHECK_FALSE(report.kept);
  CHECK(kernel_of(alone, square(1024)) != predicted);  // this runtime remembers
}

TEST_CASE("without a cache a runtime remembers each problem, and of one that is measured again the last choice") {
  TuneMachine machine;
  tj::Options options = machine.options();
  options.use_disk_cache = false;
  Runtime runtime(options);
  const auto choose = [&](const char* size, const char* tile) {
    tj::TuneOptions only;
    only.rounds = 1;
    only.only = {tile};
    CHECK_FALSE(runtime.tune_op("gemm", problem(size), kGpu, only).kept);
  };
  choose("1024", "64x64x128");
  choose("512", "128x192x64");
  CHECK(kernel_of(runtime, square(1024)) == "gemm_f16_kk_64x64x128");
  CHECK(kernel_of(runtime, square(512)) == "gemm_f16_kk_128x192x64");
  choose("512", "64x64x128");
  CHECK(kernel_of(runtime, square(512)) == "gemm_f16_kk_64x64x128");
  CHECK(kernel_of(runtime, square(1024)) == "gemm_f16_kk_64x64x128");
}

TEST_CASE("a record that is damaged, foreign or makes no sense is said once and left out") {
  TuneMachine machine;
  std::string predicted;
  {
    Runtime runtime(machine.options());
    predicted = kernel_of(runtime, square(1024));
    tune(runtime);
  }
  const auto check = [&](const std::function<void(Record&)>& change, const char* said) {
    CAPTURE(said);
    Record original(machine);
    Record changed(machine);
    change(changed);
    machine.warnings.clear();
    Runtime runtime(machine.options());
    CHECK(kernel_of(runtime, square(1024)) == predicted);
    CHECK(kernel_of(runtime, square(1024)) == predicted);
    runtime.run(square_product(1024));
    REQUIRE(machine.warnings.size() == 1);
    CHECK_MESSAGE(has(machine.warnings.front(), said), machine.warnings.front());
    REQUIRE(original.store.store(original.key, original.entry));
    CHECK(kernel_of(runtime, square(1024)) != predicted);
  };
  const auto with = [](const char* name, const char* value) {
    return [=](Record& record) {
      record.value(name) = value;
      REQUIRE(record.store.store(record.key, record.entry));
    };
  };
  check(
      [](Record& record) {
        std::string bytes = tj::testing::read_bytes(record.path);
        bytes[bytes.size() / 2] ^= 1;
        tj::testing::write_bytes(record.path, bytes);
      },
      "checksum");
  check([](Record& record) { tj::testing::write_bytes(record.path, ""); }, "too short");
  check(with("choice", "1x1x1"), "'1x1x1' does not serve gemm_f16_kk 1024x1024x1024");
  check(with("choice", "16x32x128"), "does not serve");  // a tile for few rows
  check(with("field.m", "2048"), "its fields are not those of its name");
  check(with("field.m", "many"), "its fields are not those of its name");
  check(with("field.dtype", "f8"), "its fields are not those of its name");
  check(with("driver", "CUDA 12.8"),
        "it was measured under the driver of 'CUDA 12.8', and this is that of 'CUDA 13.0'; tj-warm --tune replaces it");
  check(with("op", "copy_rows"), "'copy_rows', an op without a choice");
  check(with("op", "conv"), "'conv', an op without a choice");
}

TEST_CASE("another device's or library's record is not even looked at") {
  TuneMachine machine;
  std::string predicted;
  {
    Runtime runtime(machine.options());
    predicted = kernel_of(runtime, square(1024));
    tune(runtime);
  }
  Record record(machine);
  std::filesystem::remove(record.path);
  for (const char* other : {"device", "build"})
    REQUIRE(record.store.store(
        tj::cache::Key{record.key.request_hex, tj::cache::make_key({}, {{other, "x"}}).compiler_hex}, record.entry));
  Runtime runtime(machine.options());
  CHECK(kernel_of(runtime, square(1024)) == predicted);
  CHECK(machine.warnings.empty());
}

TEST_CASE("a limit keeps the best predicted ones; kernels that cannot be made are named") {
  TuneMachine machine;
  Runtime runtime(machine.options());
  CHECK(tune(runtime, "1024", 2).variants.size() == 2);
  CHECK(tune(runtime, "512", 9).variants.size() >= 8);
  tj::TuneOptions only;
  only.only = {"64x64x128", "128x192x64"};
  CHECK(runtime.tune_op("gemm", problem("512"), kGpu, only).variants.size() == 2);
  only.only = {"16x32x128"};
  CHECK(has(error_of([&] { runtime.tune_op("gemm", problem("512"), kGpu, only); }).message,
            "'16x32x128' does not serve gemm_f16_kk 512x512x512 on sm_90a; what does: "));
  machine.nvrtc.refuse("error: no");
  const std::string before = kernel_of(runtime, square(512));
  Runtime fresh(machine.options());
  CHECK(error_of([&] { fresh.tune_op("gemm", problem("333", "bf16"), kGpu, {}); }).code == tj::Code::compile_failed);
  CHECK(kernel_of(runtime, square(512)) == before);
}

TEST_CASE("a product whose blocks share tiles has counters of zeros and memory for sums, in calls and in plans") {
  TuneMachine machine;
  Runtime runtime(machine.options());
  tj::TuneOptions only;
  only.rounds = 1;
  only.only = {"192x128x64c1x2+split"};
  runtime.tune_op("gemm", problem("1504"), kGpu, only);
  REQUIRE(kernel_of(runtime, square(1504)) == "gemm_f16_kk_192x128x64c1x2_split");
  const int zeroed = count_calls(machine.cuda, "cuMemsetD8Async");
  runtime.run(square_product(1504));
  CHECK(count_calls(machine.cuda, "cuMemsetD8Async") == zeroed + 1);
  const tj::Plan plan = runtime.plan(square_product(1504));
  CHECK(plan.workspace_zeroed());
  // One counter and one for each of a block's 16 warps; sums of 192 x 128.
  const std::size_t blocks = 132, counters = (4 * (1 + blocks * 16) + 255) / 256 * 256;
  CHECK(plan.workspace_bytes() == counters + blocks * 192 * 128 * 4);
  const tj::GemmArgs args = square_product(1504);
  plan.run({args.a.data, args.b.data, args.d.data});
  CHECK(count_calls(machine.cuda, "cuMemsetD8Async") == zeroed + 2);
  plan.run({args.a.data, args.b.data, args.d.data}, {}, address(kFirstAddress + 9 * kAddressStep));
  CHECK(count_calls(machine.cuda, "cuMemsetD8Async") == zeroed + 2);  // the caller's own
}

TEST_CASE("nothing is measured without a GPU or for an op with one kernel a problem") {
  TuneMachine machine;
  Runtime runtime(machine.options());
  const tj::Error on_model = error_of([&] { runtime.tune_op("gemm", problem("64"), {DeviceKind::cpu, 0}, {}); });
  CHECK(on_model.stage == tj::Stage::target);
  CHECK(has(on_model.message, "tuning measures on a GPU, and the device is cpu"));
  CHECK(has(error_of([&] { runtime.tune_op("copy_rows", problem("64"), kGpu, {}); }).message,
            "'copy_rows' has one kernel for each problem"));
  machine.cuda.set_devices(0);
  Runtime none(machine.options());
  CHECK(has(error_of([&] { none.tune_op("gemm", problem("64"), kGpu, {}); }).message, "no device"));
}

TEST_CASE("what a call does beside its kernel is measured with it: operands that begin anywhere are copied first" *
          doctest::skip(tj::testing::left_out())) {
  TuneMachine machine;
  machine.cuda.set_param_bytes(0);  // two kinds of kernels
  Runtime runtime(machine.options());
  const TuneReport report = tune(runtime, "1001x1003x1007", 0);
  const auto& chosen = report.variants[static_cast<std::size_t>(report.chosen)];
  CHECK(report.chosen > 0);
  GemmConfig config;
  config.m = 1001;
  config.n = 1003;
  config.k = 1007;
  CHECK(has(kernel_of(runtime, config), chosen.name));
  CHECK(machine.warnings.empty());
}

TEST_CASE("whether K is cut is measured too, and calls do what was chosen") {
  TuneMachine machine;
  Runtime runtime(machine.options());
  const auto launches_of = [&](const tj::GemmArgs& args) {
    const int before = count_calls(machine.cuda, "cuLaunchKernelEx");
    runtime.run(args);
    return count_calls(machine.cuda, "cuLaunchKernelEx") - before;
  };
  tj::GemmArgs deep = square_product(128);
  deep.a = tj::Tensor::contiguous(deep.a.data, kGpu, tj::DType::f16, {128, 16384});
  deep.b = tj::Tensor::contiguous(deep.b.data, kGpu, tj::DType::f16, {128, 16384});
  CHECK(launches_of(square_product(512)) == 1);
  CHECK(launches_of(deep) == 2);
  const auto choose = [&](const std::string& size, bool cut) {
    tj::TuneOptions options;
    options.rounds = 1;
    for (const tj::ops::Variant& variant : tj::ops::gemm_tunable().variants(problem(size), *tj::arch::find("sm_90a")))
      if (options.only.empty() && has(variant.name, "k") == cut) options.only = {variant.name};
    CHECK(runtime.tune_op("gemm", problem(size), kGpu, options).kept);
  };
  choose("512", true);
  choose("128x128x16384", false);
  CHECK(launches_of(square_product(512)) == 2);
  CHECK(has(kernel_of(runtime, square(512)), "_parts"));
  CHECK(launches_of(deep) == 1);
  CHECK(launches_of(square_product(1024)) == 1);
  CHECK(machine.warnings.empty());
}

TEST_CASE("measuring leaves nothing on the device") {
  TuneMachine machine;
  {
    Runtime runtime(machine.options());
    tune(runtime, "100x200x72x3");
  }
  CHECK(std::string(machine.cuda.leaks()) == "");
}

}  // namespace
