// Protects what a launch knows of its kernel: each op's members come back from a cache entry as they were, and no
// launch is told anything else than before. The launches of each op's trials stand in data/plans.txt: blocks, bytes of
// parameters, maps of tensors.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "artifact.hpp"
#include "ops/common/trial.hpp"
#include "ops/common/tunable.hpp"
#include "ops/op.hpp"
#include "support/pinned.hpp"

using namespace tj;
using ops::Geometry;

namespace {

struct Toy {
  int rows = 0;
  bool walks = false;
  std::int64_t bytes = 0;
};
constexpr std::array kToy = {ops::geometry_field<&Toy::rows>("rows"), ops::geometry_field<&Toy::walks>("walks"),
                             ops::geometry_field<&Toy::bytes>("bytes")};

TEST_CASE("a member takes each number of its range, by default of its type, and no other") {
  Geometry geometry;
  const auto& [rows, walks, bytes] = kToy;
  const std::int64_t least = std::numeric_limits<int>::min(), most = std::numeric_limits<int>::max();
  for (const std::int64_t number : {least, most}) {
    CHECK(rows.takes(number));
    rows.set(geometry, number);
    CHECK(rows.get(geometry) == number);
  }
  CHECK_FALSE(rows.takes(least - 1));
  CHECK_FALSE(rows.takes(most + 1));
  walks.set(geometry, 1);
  CHECK(geometry.as<Toy>().walks);
  CHECK(walks.takes(0));
  CHECK_FALSE(walks.takes(2));
  CHECK(bytes.takes(std::numeric_limits<std::int64_t>::max()));
  CHECK(rows.get(Geometry::of(Toy{7, false, 0})) == 7);
  constexpr ops::GeometryField kFew = ops::geometry_field<&Toy::rows>("rows", 1, 3);
  CHECK(kFew.takes(1));
  CHECK(kFew.takes(3));
  CHECK_FALSE(kFew.takes(0));
  CHECK_FALSE(kFew.takes(4));
}

/// The plan with which a kernel of this geometry is launched.
ops::LaunchPlan plan_of(const ops::Step& step, const Geometry& geometry, unsigned sm_count) {
  ops::LaunchPlan plan;
  plan.sm_count = sm_count;
  step.op->plan(step.args, step.kernel, geometry, plan);
  return plan;
}

Geometry through_an_entry(const ops::Op& op, const Geometry& geometry) {
  Artifact artifact;
  artifact.geometry = geometry;
  const auto again = from_entry(to_entry(artifact, op), op);
  REQUIRE(again);
  return again->geometry;
}

template <class Numbers>
std::string list(const Numbers& numbers, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + std::to_string(numbers[static_cast<std::size_t>(i)]);
  return text;
}

/// Blocks where nobody knows the device, on one of 2 multiprocessors and of 132; then parameters and maps.
std::string told(const ops::Step& step, const Geometry& geometry) {
  const ops::LaunchPlan plan = plan_of(step, geometry, 0);
  std::string text = std::string(step.op->name()) + " blocks " + std::to_string(plan.blocks);
  for (const unsigned sm_count : {2u, 132u}) text += " " + std::to_string(plan_of(step, geometry, sm_count).blocks);
  text += " params " + std::to_string(plan.params_bytes);
  for (std::size_t m = 0; m < plan.map_count; ++m) {
    const support::TensorMapDesc& map = plan.maps[m].desc;
    text += " map at " + std::to_string(plan.maps[m].offset) + " of " +
            std::to_string(reinterpret_cast<std::uintptr_t>(map.base) >> 40) + " " + list(map.dims, map.rank) + " by " +
            list(map.stride_bytes, map.rank) + " in " + list(map.box, map.rank) + " swizzled " +
            std::to_string(map.swizzle_bytes);
  }
  return text;
}

TEST_CASE("a kernel from the cache is launched as the one that was made, whatever the op and the arch") {
  std::vector<std::string> lines;
  for (const char* name : {"sm_80", "sm_90a", "sm_100a", "gfx90a"}) {
    const arch::Arch& arch = *arch::find(name);
    for (const ops::Op* op : ops::all()) {
      if (!op->serves(arch)) continue;
      for (const ops::Trial& trial : op->trials({}, arch)) {
        CAPTURE(name);
        CAPTURE(trial.name);
        std::vector<void*> places;
        for (std::size_t i = 0; i < trial.tensors.size(); ++i) places.push_back(reinterpret_cast<void*>((i + 1) << 40));
        trial.with_args({DeviceKind::cpu, 0}, places, [&](const void* args) {
          const ops::Kernel kernel = ops::resolve(*op, args, trial.choice, arch);
          op->steps(args, kernel, ops::nowhere(), [&](const ops::Step& step) {
            const ops::Op& by = *step.op;
            CAPTURE(by.name());
            const ops::Request request = by.request_of(step.kernel);
            const Geometry made = by.geometry(request, by.candidates(request, arch).front());
            const Geometry kept = through_an_entry(by, made);
            for (const ops::GeometryField& field : by.geometry_fields()) CHECK(field.get(made) == field.get(kept));
            for (const unsigned sm_count : {0u, 2u}) {  // all tiles, and what is resident
              const ops::LaunchPlan before = plan_of(step, made, sm_count), after = plan_of(step, kept, sm_count);
              CHECK(before.blocks == after.blocks);
              REQUIRE(before.map_count == after.map_count);
              for (std::size_t m = 0; m < before.map_count; ++m)
                CHECK(before.maps[m].desc.box == after.maps[m].desc.box);
            }
            lines.push_back(std::string(name) + " " + trial.name + ": " + told(step, made));
          });
        });
      }
    }
  }
  CHECK(lines.size() > 30);
  testing::check_pinned("tests/ops/data/plans.txt", lines);
}

// Where nothing is mapped before a tensor, hardware finds an illegal address behind such a map, whatever its boxes
// read.
TEST_CASE("no map of a tensor begins before it, or at its end") {
  const arch::Arch& arch = *arch::find("sm_90a");
  int maps = 0, of_ends = 0;
  for (const auto& [name, flags] : std::vector<std::pair<const char*, ops::Flags>>{
           {"fmha", {{"varlen", {"true"}}}},
           {"fmha", {{"varlen", {"true"}}, {"page-size", {"16"}}}},
           {"grouped_gemm", {{"tile", {"128x64x64"}}, {"dtype", {"bf16"}}}},
           {"grouped_gemm", {{"tile", {"64x128x128"}}, {"dtype", {"e4m3"}}, {"scales", {"block"}}}}}) {
    const ops::Op& op = *ops::find(name);
    for (const ops::Trial& trial : op.trials(flags, arch)) {
      CAPTURE(trial.flags);
      std::vector<void*> places;
      for (std::size_t i = 0; i < trial.tensors.size(); ++i) places.push_back(reinterpret_cast<void*>((i + 1) << 40));
      trial.with_args({DeviceKind::cpu, 0}, places, [&](const void* args) {
        const ops::Kernel kernel = ops::resolve(op, args, trial.choice, arch);
        const ops::Request request = op.request_of(kernel);
        const ops::LaunchPlan plan =
            plan_of({&op, args, kernel}, op.geometry(request, op.candidates(request, arch).front()), 2);
        for (std::size_t m = 0; m < plan.map_count; ++m, ++maps) {
          const support::TensorMapDesc& map = plan.maps[m].desc;
          const auto base = reinterpret_cast<std::uintptr_t>(map.base), tensor = base >> 40;
          REQUIRE(tensor >= 1);
          REQUIRE(tensor <= trial.tensors.size());
          CHECK((base & ((std::uintptr_t{1} << 40) - 1)) < trial.tensors[tensor - 1].bytes());
          of_ends += map.rank == 5;
        }
      });
    }
  }
  CHECK(maps > 20);
  CHECK(of_ends > 8);
}

TEST_CASE("no op has two members of one name") {
  for (const ops::Op* op : ops::all()) {
    std::set<std::string_view> names;
    for (const ops::GeometryField& field : op->geometry_fields()) CHECK(names.insert(field.name).second);
  }
}

}  // namespace
