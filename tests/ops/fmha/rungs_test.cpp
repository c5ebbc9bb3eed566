// Protects attention's ladder as constraints: each rung's kernel differs from the one before in what its name says, and
// its copies are ahead as far as the shared memory of its blocks allows.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "ops/fmha/fields.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/fmha/rungs.hpp"
#include "pipeline.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"

using namespace tj;

namespace {

Choice chosen(int rung, const char* arch, int head_dim = 128) {
  const ops::FmhaKernel config{{DType::f16, head_dim, true, false}, rung};
  return choose(ops::fmha_op(), ops::fmha_request(config), *arch::find(arch));
}

std::vector<std::string> bodies(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Node& node : graph.nodes) names.push_back(node.body);
  return names;
}

bool has(const Choice& choice, const char* body) {
  const auto names = bodies(choice.candidate.graph);
  return std::find(names.begin(), names.end(), body) != names.end();
}

int slots(const Choice& choice, const char* value) {
  for (const sched::Ring& ring : choice.schedule.rings)
    if (choice.candidate.graph.values[static_cast<std::size_t>(ring.value)].name == value) return ring.slots;
  return 0;
}

/// Iterations between the issue of a copy and its first reader.
double ahead(const Choice& choice, const char* load, const char* reader) {
  const graph::Graph& graph = choice.candidate.graph;
  const auto cycle = [&](const char* name) {
    return choice.schedule.cycle[static_cast<std::size_t>(graph.node_index(name))];
  };
  return static_cast<double>(cycle(reader) - cycle(load)) / choice.schedule.ii;
}

int stages(const Choice& choice) {
  int most = 0;
  for (std::size_t i = 0; i < choice.schedule.cycle.size(); ++i)
    most = std::max(most, choice.schedule.stage(static_cast<int>(i)) + 1);
  return most;
}

}  // namespace

TEST_CASE("a rung that there is not is refused with the numbers and names of all") {
  std::string names = "none";
  const auto rungs = ops::fmha_rungs();
  REQUIRE(rungs.size() == ops::kLastFmhaRung + 1);
  for (std::size_t rung = 1; rung < rungs.size(); ++rung)
    names += ", " + std::to_string(rung) + " (" + rungs[rung].name + ")";
  CHECK(ops::fmha_rung_names() == names);
  for (const int rung : {-1, ops::kLastFmhaRung + 1}) {
    const Error error = testing::error_of([&] { ops::check_fmha_rung(rung); });
    CHECK(error.message ==
          "fmha: rung is " + std::to_string(rung) + "; allowed: 0 (none)" + names.substr(names.find(',')));
  }
  for (const int rung : {0, 1, ops::kLastFmhaRung}) CHECK_NOTHROW(ops::check_fmha_rung(rung));
}

TEST_CASE("a request of a rung says what the rung asks for: one whose words change is another kernel") {
  const ops::FmhaKernel plain{{DType::f16, 128, true, false}};
  const std::size_t fields = ops::fmha_request(plain).fields.size();
  for (int rung = 1; rung <= ops::kLastFmhaRung; ++rung) {
    const ops::FmhaKernel config{{DType::f16, 128, true, false}, rung};
    const ops::Request request = ops::fmha_request(config);
    const auto words = ops::fmha_rung_fields(rung);
    REQUIRE(words.size() >= 8);
    REQUIRE(request.fields.size() >= fields + words.size());
    CHECK(std::equal(words.rbegin(), words.rend(), request.fields.rbegin()));
  }
  CHECK(ops::fmha_rung_fields(plain.rung).empty());
}

TEST_CASE("each rung changes what its name says, and nothing else of the kernel's nodes") {
  int index = 0;
  for (const char* arch : {"sm_80", "sm_86", "sm_90", "sm_120a"}) {
    if (testing::thinned_out(index++)) continue;
    CAPTURE(arch);
    std::vector<Choice> rungs;
    for (int rung = 1; rung <= ops::kLastFmhaRung; ++rung) rungs.push_back(chosen(rung, arch));
    for (std::size_t i = 0; i < rungs.size(); ++i) {
      CAPTURE(i);
      const int rung = static_cast<int>(i) + 1;
      const Choice& now = rungs[i];
      CHECK(has(now, "row_max_natural") == (rung < 2));
      CHECK(has(now, "pv_natural") == (rung < 2));
      CHECK(has(now, "transpose_k") == (rung < 3));
      CHECK(has(now, "qk_columns") == (rung < 3));
      if (rung < 5) CHECK((stages(now) == 1) == (rung < 4));
      CHECK(now.candidate.graph.blocks_per_sm == (rung < 5 ? 1 : 2));
      CHECK(has(now, "store_divided") == (rung < 6));
      CHECK(has(now, "store_approximated") == (rung == 6));
      CHECK(now.schedule.roles.size() == 1);
      for (const char* value : {"k", "v"})
        if (rung < 4) CHECK(slots(now, value) == 1);
      CHECK(sched::verify(now.candidate.graph, now.schedule).empty());
    }
  }
}

TEST_CASE("on AMD, too; there copies are an interval ahead at most, as registers hold one block") {
  int index = 0;
  for (const char* arch : {"gfx1100", "gfx1201", "gfx90a", "gfx942"})
    for (const int head_dim : {64, 128})
      for (int rung = 1; rung <= ops::kLastFmhaRung; ++rung) {
        if (index++ % 4 != 0 && testing::left_out()) continue;
        CAPTURE(arch);
        CAPTURE(head_dim);
        CAPTURE(rung);
        const Choice now = chosen(rung, arch, head_dim);
        CHECK(has(now, "row_max_natural") == (rung < 2));
        CHECK(has(now, "pv_natural") == (rung < 2));
        CHECK(has(now, "transpose_k") == (rung < 3));
        CHECK(has(now, "qk_columns") == (rung < 3));
        CHECK((stages(now) == 1) == (rung < 4));
        CHECK(now.candidate.graph.blocks_per_sm == (rung < 5 ? 1 : 2));
        CHECK(has(now, "store_divided") == (rung < 6));
        CHECK(has(now, "store_approximated") == (rung == 6));
        for (const char* value : {"k", "v"})
          if (rung < 4) CHECK(slots(now, value) == 1);
        if (rung >= 4) CHECK(ahead(now, "load_k", "qk.0") >= 1);
        if (rung >= 4) CHECK(ahead(now, "load_v", "pv.0") < 2);
        CHECK(sched::verify(now.candidate.graph, now.schedule).empty());
      }
}

TEST_CASE("copies are as far ahead as was asked where memory allows, else as far as their rings go") {
  const Choice roomy = chosen(4, "sm_80");  // 163 KB: 2 and 4 iterations fit
  CHECK(slots(roomy, "k") == 3);
  CHECK(slots(roomy, "v") == 5);
  CHECK(ahead(roomy, "load_k", "qk.0") >= 1.9);
  CHECK(ahead(roomy, "load_v", "pv.0") >= 3.8);
  const Choice narrow = chosen(4, "sm_120a");  // 99 KB: queries and five blocks
  CHECK(slots(narrow, "k") == 2);
  CHECK(slots(narrow, "v") == 3);
  CHECK(ahead(narrow, "load_k", "qk.0") > 1);
  CHECK(ahead(narrow, "load_v", "pv.0") > 2);
  const Choice half = chosen(5, "sm_120a");  // 49 KB: queries and two blocks
  CHECK(slots(half, "k") == 1);
  CHECK(slots(half, "v") == 1);
  const Choice small = chosen(5, "sm_120a", 64);  // rows of half the bytes
  CHECK(slots(small, "k") == 2);
  CHECK(slots(small, "v") == 3);
}

TEST_CASE("as many blocks as a rung says are on an SM of the chip, whatever the cap on what they use") {
  const arch::Arch& chip = *arch::find("sm_90");
  for (const char* target : {"sm_90", "sm_90+smem=99K", "sm_90+smem-sm=100K"})
    for (int rung = 1; rung <= ops::kLastFmhaRung; ++rung) {
      CAPTURE(target);
      CAPTURE(rung);
      const arch::Arch& arch = arch::parse_arch(target);
      const Choice choice = choose(ops::fmha_op(), ops::fmha_request({{DType::f16, 128, true, false}, rung}), arch);
      const codegen::Unit unit = codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives);
      const std::int64_t taken = unit.shape.smem_bytes + chip.smem_reserved_bytes;
      CHECK(taken * unit.shape.blocks_per_sm <= chip.smem_per_sm_bytes);
      CHECK(taken * (unit.shape.blocks_per_sm + 1) > chip.smem_per_sm_bytes);
    }
}

TEST_CASE("the deeper ring gives first") {
  const ops::FmhaRung& rung = ops::fmha_rungs()[4];
  const int expected[][3] = {{20, 3, 5}, {8, 3, 5}, {7, 3, 4}, {6, 3, 3}, {5, 2, 3},
                             {4, 2, 2},  {3, 1, 2}, {2, 1, 1}, {0, 1, 1}};
  for (const auto& [fit, k, v] : expected) {
    const int room = fit;
    CAPTURE(room);
    const ops::FmhaSlots found = ops::fmha_rung_slots(rung, fit);
    CHECK(found.k == k);
    CHECK(found.v == v);
  }
}

TEST_CASE("a rung is part of what a kernel is asked for by") {
  std::vector<std::uint64_t> keys;
  std::vector<std::string> names;
  for (int rung = 0; rung <= ops::kLastFmhaRung; ++rung) {
    const ops::FmhaKernel config{{DType::f16, 128, true, false}, rung};
    keys.push_back(ops::fmha_small_key(config));
    names.push_back(ops::fmha_request(config).name);
    for (const char* word : {ops::fmha_rung_words()[static_cast<std::size_t>(rung)],
                             ops::fmha_rung_numbers()[static_cast<std::size_t>(rung)]}) {
      ops::FmhaKernel read;
      ops::set_field<ops::kFmhaFields>("fmha", read, "rung", word);
      CHECK(read.rung == rung);
    }
  }
  CHECK(names.front() == "fmha_f16_d128_causal");
  CHECK(names.back() == "fmha_f16_d128_causal_division");
  std::sort(keys.begin(), keys.end());
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(keys.begin(), keys.end()) == keys.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}
