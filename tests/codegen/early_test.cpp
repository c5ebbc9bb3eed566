// Protects which waits a step asks about before the step that needs them, and that an answer stands for the wait of the
// same site and ring alone.
#include <doctest/doctest.h>

#include <regex>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/early.hpp"
#include "codegen/emit.hpp"
#include "ops/gemm/gemm.hpp"
#include "sched/schedule.hpp"

using namespace tj;
using codegen::Event;
using codegen::EventKind;

namespace {

Event event(EventKind kind, int ring = -1, int pending = 0) {
  Event made;
  made.kind = kind;
  made.ring = ring;
  made.iteration = 0;
  made.pending = pending;
  return made;
}

std::vector<Event> step(int pending) {
  return {event(EventKind::wait_full, 0),  event(EventKind::wait_full, 1),
          event(EventKind::matrix_fence),  event(EventKind::call),
          event(EventKind::matrix_commit), event(EventKind::wait_full, 2),
          event(EventKind::call),          event(EventKind::matrix_wait, -1, pending),
          event(EventKind::release, 0)};
}

std::string text_of(DType dtype, int tile) {
  ops::GemmKernel kernel;
  kernel.dtype = dtype;
  kernel.out = DType::bf16;
  kernel.tile = tile;
  const auto graph = ops::gemm_candidate(kernel, *arch::find("sm_90a")).graph;
  return codegen::emit(graph, sched::schedule(graph), "sm90").text;
}

}  // namespace

TEST_CASE("a step asks for those that it begins with, before it waits for all products") {
  const std::vector<Event> all = step(0), some = step(1);
  const codegen::EarlyWaits early = codegen::early_waits(all);
  REQUIRE(early.waits.size() == 2);
  CHECK(early.waits[0].wait == &all[0]);
  CHECK(early.waits[1].wait == &all[1]);
  CHECK(early.asked_before == &all[7]);
  CHECK(codegen::early_waits(some).waits.empty());  // products stay under way: the unit has work
  CHECK(codegen::early_waits({}).waits.empty());
}

TEST_CASE("a kernel of promoted sums asks with the site and ring of the wait, one filling on") {
  const std::string text = text_of(DType::e4m3, ops::place_of(ops::GemmTile{128, 128, 128, 1, 1, 1}));
  const std::regex asked(R"((\w+)_is_there = dev::is_full<(\d+), (\w+)>\(shared, base \+ s \+ 1\))");
  int found = 0;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), asked); at != std::sregex_iterator(); ++at) {
    ++found;
    const std::string wait = "if (!" + (*at)[1].str() + "_is_there) dev::wait_full<" + (*at)[2].str() + ", " +
                             (*at)[3].str() + ">(shared, base + s);";
    CAPTURE(wait);
    CHECK(text.find(wait) != std::string::npos);
  }
  CHECK(found == 2);
  CHECK(text_of(DType::f16, ops::place_of(ops::GemmTile{128, 256, 64})).find("is_full") == std::string::npos);
}
