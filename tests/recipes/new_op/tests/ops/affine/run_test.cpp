// Protects the recipe "new op" at run time: the op is listed, scheduled, emitted, and right on the CPU model, on the
// GPU's compiler where there is one, and refused by name where it must be. Every one of its barriers is needed.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/tilejit.h>
#include <tilejit/affine.hpp>
#include <tilejit/tilejit.hpp>

#include "fakes/fake_cuda.hpp"
#include "fakes/fake_nvrtc.hpp"
#include "model/model.hpp"
#include "pipeline.hpp"
#include "support/scratch.hpp"

using namespace tj;

namespace {

constexpr float kPoison = -12345.5f;

struct Matrix {
  Matrix(std::int64_t rows, std::int64_t columns, std::int64_t pitch)
      : memory(static_cast<std::size_t>(rows * pitch + 4), kPoison) {
    float* begin = memory.data();
    while (reinterpret_cast<std::uintptr_t>(begin) % 16 != 0) ++begin;
    view = Tensor::strided(begin, {DeviceKind::cpu, 0}, DType::f32, {rows, columns}, {pitch, 1});
  }
  float& at(std::int64_t row, std::int64_t column) {
    return static_cast<float*>(view.data)[row * view.strides[0] + column];
  }
  std::vector<float> memory;
  Tensor view;
};

Options options(const testing::Scratch& scratch, const char* target) {
  Options o;
  o.cache_dir = scratch.path() + "/cache";
  o.target = target;
  return o;
}

Choice chosen(const sched::Options& how = {}) {
  const ops::Op& op = *ops::find("affine");
  return choose(op, op.request_of({}), *arch::find("sm_90a"), how);
}

std::string emitted(const Choice& choice) {
  return codegen::emit(choice.candidate.graph, choice.schedule, arch::find("sm_90a")->primitives).text;
}

}  // namespace

TEST_CASE("schedule: verified, deterministic, and the text follows it") {
  const Choice first = chosen(), again = chosen();
  CHECK(sched::verify(first.candidate.graph, first.schedule).empty());
  CHECK(emitted(first) == emitted(again));
  sched::Options one;
  one.max_slots = 1;
  const Choice narrow = chosen(one);
  CHECK(sched::verify(narrow.candidate.graph, narrow.schedule).empty());
  CHECK(emitted(first) != emitted(narrow));
  REQUIRE(first.schedule.roles.size() == 3);
  CHECK(first.schedule.rings.size() == 2);
}

TEST_CASE("model: right for whole and partial tiles, nothing written outside") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch, TJ_RECIPE_TARGET));
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const auto any = [&] { return static_cast<int>(random() % 300) + 1; };
  const std::vector<std::pair<int, int>> sizes = {{1, 1},    {32, 32},   {33, 31},      {31, 96},
                                                  {64, 200}, {500, 321}, {any(), any()}};
  for (const auto& size : sizes) {
    const int rows = size.first, columns = size.second;
    CAPTURE(rows);
    CAPTURE(columns);
    Matrix x(rows, columns, (columns + 3) / 4 * 4), y(rows, columns, (columns + 3) / 4 * 4 + 8);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) x.at(r, c) = normal(random);
    const AffineArgs args{x.view, y.view, normal(random), normal(random)};
    runtime.run(args);
    int wrong = 0;
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) wrong += y.at(r, c) != std::fma(args.a, x.at(r, c), args.b);
    CHECK(wrong == 0);
    int untouched = 0;
    for (float value : y.memory) untouched += value == kPoison;
    CHECK(untouched == static_cast<int>(y.memory.size()) - rows * columns);
  }
}

TEST_CASE("model: no wait, arrival or announcement of the unit can be left out unnoticed") {
  const ops::Op& op = *ops::find("affine");
  const auto compiler = compile::make_compiler("host", {});
  const Artifact artifact =
      make(op, op.request_of({}), arch::parse_target("model:sm_90a"), *compiler, {}, support::Log(LogLevel::off, {}));
  const Choice choice = chosen();
  const auto sites = codegen::emit(choice.candidate.graph, choice.schedule, "sm90").sites;
  const auto driver = model::open_model_driver();
  const auto kernel = driver->load(0, artifact.binary, artifact.shape.symbol, artifact.shape.smem_bytes);
  Matrix x(300, 321, 324), y(300, 321, 324);
  for (int r = 0; r < 300; ++r)
    for (int c = 0; c < 321; ++c) x.at(r, c) = static_cast<float>(r * 321 + c);
  const AffineArgs args{x.view, y.view, 2, 1};
  const auto right = [&](const std::vector<int>& disabled, std::uint64_t seed) {
    model::ModelOptions how;
    how.seed = seed;
    how.disabled_sites = disabled;
    driver->set_options(how);
    for (int r = 0; r < 300; ++r) std::fill_n(&y.at(r, 0), 321, kPoison);
    ops::LaunchPlan plan;
    plan.sm_count = 2;
    op.plan(&args, {}, artifact.geometry, plan);
    driver->encode_tensor_map(0, plan.maps[0].desc, plan.params.data() + plan.maps[0].offset);
    try {
      driver->launch(0, *kernel, {{plan.blocks, 1, 1}, artifact.shape, true}, plan.params.data(), plan.params_bytes,
                     {});
    } catch (const Error& e) {
      CHECK(e.stage == Stage::model);
      return false;
    }
    for (int r = 0; r < 300; ++r)
      for (int c = 0; c < 321; ++c)
        if (y.at(r, c) != 2 * x.at(r, c) + 1) return false;
    return true;
  };
  CHECK(right({}, 1));
  for (const codegen::Site& site : sites) {
    // The model has one kind of memory and no limit on registers, and its reads are done when they return.
    if (site.what.find("proxy fence") != std::string::npos || site.what.find("registers of") == 0 ||
        site.what.find("reads of ring") != std::string::npos)
      continue;
    CAPTURE(site.what);
    bool noticed = false;
    for (std::uint64_t seed = 1; seed <= 50 && !noticed; ++seed) noticed = !right({site.id}, seed);
    CHECK(noticed);
  }
}

TEST_CASE("model: a plan of it runs, also through the C interface") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch, TJ_RECIPE_TARGET));
  Matrix x(33, 31, 32), y(33, 31, 32), z(33, 31, 32);
  for (int r = 0; r < 33; ++r)
    for (int c = 0; c < 31; ++c) x.at(r, c) = static_cast<float>(r * 31 + c);
  const Plan plan = runtime.plan(AffineArgs{x.view, y.view, 2, 1});
  CHECK(plan.tensors() == std::vector<std::string>{"x", "y"});
  plan.run({x.view.data, z.view.data});
  CHECK(z.at(32, 30) == 2 * x.at(32, 30) + 1);
  CHECK(y.at(32, 30) == kPoison);

  const std::string cache = scratch.path() + "/cache";
  tj_options how;
  tj_options_init(&how);
  how.cache_dir = cache.c_str();
  how.target = TJ_RECIPE_TARGET;
  tj_runtime* handle = nullptr;
  REQUIRE(tj_runtime_create(&how, &handle) == TJ_OK);
  const auto view = [](const Matrix& of) {
    return tj_tensor{sizeof(tj_tensor), of.view.data, {TJ_CPU, 0}, TJ_F32, 2, {33, 31}, {32, 1}};
  };
  const tj_tensor from = view(x), to = view(y);
  const tj_affine_args args{sizeof args, &from, &to, 3, 0};
  CHECK(tj_prepare(handle, "affine", &args, nullptr) == TJ_OK);
  CHECK(tj_run(handle, "affine", &args, nullptr) == TJ_OK);
  CHECK(y.at(32, 30) == 3 * x.at(32, 30));
  CHECK(tj_warm_flags(handle, "affine", "", TJ_RECIPE_TARGET, nullptr, nullptr) == TJ_OK);
  tj_runtime_destroy(handle);
}

TEST_CASE("prepared through public calls, it runs inside a graph capture") {
  test::FakeCuda cuda;
  test::FakeNvrtc nvrtc;
  const testing::Scratch scratch;
  Runtime runtime(options(scratch, "sm_90a"));
  AffineArgs args;
  const Device gpu{DeviceKind::cuda, 0};
  args.x = Tensor::contiguous(reinterpret_cast<void*>(0x100000000000), gpu, DType::f32, {64, 64});
  args.y = Tensor::contiguous(reinterpret_cast<void*>(0x200000000000), gpu, DType::f32, {64, 64});
  cuda.set_capture(1);
  CHECK_THROWS_AS(runtime.run(args), Error);  // cold
  cuda.set_capture(0);
  CHECK(runtime.prepare(AffineConfig{}, gpu).name == "affine_f32");
  const Plan plan = runtime.plan(args);
  cuda.set_capture(1);
  runtime.run(args);
  plan.run({args.x.data, args.y.data});
  cuda.set_capture(0);
}

TEST_CASE("model: bad arguments are refused by name") {
  const testing::Scratch scratch;
  Runtime runtime(options(scratch, TJ_RECIPE_TARGET));
  Matrix x(4, 4, 4), y(4, 5, 8);
  const AffineArgs args{x.view, y.view};
  CHECK_THROWS_AS(runtime.run(args), Error);
  CHECK_THROWS_AS(runtime.run("afine", &args), Error);
}

TEST_CASE("compile: NVRTC makes a kernel of it without spills") {
  const testing::Scratch scratch;
  std::string warnings;
  Options o = options(scratch, "sm_90a");
  o.log_sink = [&](LogLevel, std::string_view text) { warnings += text; };
  Runtime runtime(o);
  const KernelReport report = runtime.warm_op(ops::find("affine")->request_of({}), "sm_90a");
  CHECK(report.origin == KernelOrigin::compiled);
  CHECK(warnings.empty());
}
