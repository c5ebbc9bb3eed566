// Protects rings that threads fill by copies that they do not wait for. The schedule's decisions about them reach the
// unit, and each of its waits, arrivals and announcements is missed when it is switched off.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "codegen/load_unit.hpp"
#include "codegen/rolled.hpp"
#include "common/half.hpp"
#include "custom/warp_kernel.hpp"
#include "graph/json_reader.hpp"
#include "model/model.hpp"
#include "ops/common/machine.hpp"
#include "sched/schedule.hpp"

using namespace tj;
using testing::has;

namespace {

const test::WarpKernel& source() {
  static const test::WarpKernel kernel("sm_80", true);
  return kernel;
}
graph::Graph the_graph(const std::string& text) {
  return graph::read_json(text, "product", {ops::machine_of(*arch::find("sm_80"))});
}

codegen::Unit unit_with(int max_slots) {
  const graph::Graph graph = the_graph(source().description.graph);
  sched::Options options;
  options.max_slots = max_slots;
  return codegen::emit(graph, sched::schedule(graph, options), "sm80");
}

/// K in steps of 64, whose fillings differ.
constexpr int kDepth = 64 * 15;

class Emitted {
 public:
  explicit Emitted(codegen::Unit made) : unit(std::move(made)), a_(64 * kDepth), b_(64 * kDepth) {
    kernel_ = test::load_unit(*driver_, unit, "sm_80", {{"warp_product.cuh", source().bodies}});
    for (std::size_t i = 0; i < a_.size(); ++i) {  // small whole numbers: sums are exact
      a_[i] = samples::float_to_half(static_cast<float>(static_cast<int>(i * 7 % 11) - 5));
      b_[i] = samples::float_to_half(static_cast<float>(static_cast<int>(i * 5 % 13) - 6));
    }
  }
  /// "" when the run was right; else the fault, or what is wrong.
  std::string run(std::uint64_t seed, std::vector<int> disabled, int depth = kDepth) {
    model::ModelOptions options;
    options.seed = seed;
    options.disabled_sites = std::move(disabled);
    driver_->set_options(options);
    std::vector<float> d(64 * 64, NAN);
    const test::WarpKernel::Params params{a_.data(), b_.data(), d.data(), depth};
    try {
      driver_->launch(0, *kernel_, {{1, 1, 1}, unit.shape}, &params, sizeof(params), {});
    } catch (const Error& e) {
      return e.message;
    }
    return d == sums(depth) ? "" : "wrong sums";
  }
  codegen::Unit unit;

 private:
  std::vector<float> sums(int depth) const {
    const auto k_size = static_cast<std::size_t>(depth);
    std::vector<float> all(64 * 64);
    for (std::size_t i = 0; i < 64; ++i)
      for (std::size_t j = 0; j < 64; ++j)
        for (std::size_t k = 0; k < k_size; ++k)
          all[64 * i + j] += samples::half_to_float(a_[k_size * i + k]) * samples::half_to_float(b_[k_size * j + k]);
    return all;
  }

  std::vector<std::uint16_t> a_, b_;
  std::shared_ptr<model::ModelDriver> driver_ = model::open_model_driver();
  std::shared_ptr<launch::Kernel> kernel_;
};

}  // namespace

TEST_CASE("a ring that threads fill has an arrival for each of them, and none announces bytes") {
  const std::string text = unit_with(0).text;
  CHECK(has(text, "kFullArrivals = 128, kEmptyArrivals = 4"));
  CHECK(has(text, "dev::publish_copies<"));
  CHECK(has(text, "dev::copy_async_drain<"));
  CHECK_FALSE(has(text, "dev::expect_full<"));
  CHECK_FALSE(has(text, "dev::proxy_fence<"));
  CHECK(has(unit_with(2).text, "kSlots = 2"));  // as deep as the schedule says
}

TEST_CASE("each site is missed when it is switched off") {
  Emitted kernel(unit_with(2));
  for (std::uint64_t seed = 1; seed <= 6; ++seed) REQUIRE(kernel.run(seed, {}) == "");
  for (const codegen::Site& site : kernel.unit.sites) {
    CAPTURE(site.what);
    // A thread that reads the last filling has waited for the same copies.
    const bool excused = has(site.what, "its threads' copies are done");
    bool missed = false;
    for (std::uint64_t seed = 1; seed <= (excused ? 1 : 12) && !missed; ++seed)
      missed = kernel.run(seed, {site.id}) != "";
    CHECK((missed || excused));
  }
}

TEST_CASE(
    "one role whose copies are many iterations ahead: one text for steps that lack an iteration, right for every trip "
    "count") {
  std::string text = source().description.graph;
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  };
  replace("\"latency\": 600", "\"latency\": 1500");
  replace("\"delay\": 600", "\"delay\": 1500");
  replace("\"max_slots\": 4", "\"max_slots\": 5");
  const graph::Graph graph = the_graph(text);
  sched::Options options;
  options.mixed_roles = true;
  options.max_roles = 1;
  const sched::Schedule schedule = sched::schedule(graph, options);
  REQUIRE(schedule.roles.size() == 1);
  const codegen::Pattern pattern = codegen::find_pattern(graph, schedule, 0);
  CHECK(pattern.peel >= 4);
  REQUIRE(codegen::lacks_iterations_alone(pattern));
  Emitted kernel(codegen::emit(graph, schedule, "sm80"));
  CHECK_FALSE(has(kernel.unit.text, "dev::copy_async_drain<"));  // each thread has waited for all fillings itself
  std::size_t products = 0;
  for (std::size_t at = kernel.unit.text.find(" mma("); at != std::string::npos;
       at = kernel.unit.text.find(" mma(", at + 1))
    ++products;
  CHECK(products == 2);
  for (int steps = 0; steps <= 7; ++steps) {
    CAPTURE(steps);
    CHECK(kernel.run(static_cast<std::uint64_t>(steps) + 1, {}, 64 * steps) == "");
  }
  for (const codegen::Site& site : kernel.unit.sites) {
    CAPTURE(site.what);
    // The first steps find every slot free, and after the last ones of the
    // only tile nobody fills one again.
    const bool excused = has(site.what, "any step: wait ring tile empty") || has(site.what, "any step: release") ||
                         has(site.what, "any step: reads of ring tile") ||
                         has(site.what, "any step: warp sync before release");
    bool missed = false;
    for (std::uint64_t seed = 1; seed <= (excused ? 1 : 24) && !missed; ++seed)
      missed = kernel.run(seed, {site.id}) != "";
    CHECK((missed || excused));
  }
}

TEST_CASE("such a graph survives being written and read, and hardware that reads by itself is refused") {
  const graph::Graph graph = the_graph(source().description.graph);
  CHECK(graph::to_text(the_graph(graph::to_json(graph, {ops::machine_of(*arch::find("sm_80"))}))) ==
        graph::to_text(graph));
  CHECK(has(graph::to_text(graph), "async-threads"));
  std::string text = source().description.graph;
  const std::string mma = "\"context\": \"Consumer\", \"cycles\": 256";
  text.replace(text.find(mma), mma.size(), mma + ", \"async\": \"matrix\"");
  const Error error = testing::error_of([&] { the_graph(text); });
  CHECK(error.stage == Stage::graph);
  CHECK_MESSAGE(
      has(error.message, "value 'tile' is filled by copies of threads (node 'load') and read by node 'mma.0'"),
      error.message);
}
