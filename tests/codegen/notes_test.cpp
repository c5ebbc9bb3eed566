// Protects a unit's notes about itself for reports. Each number of a site in the text has an entry, of the kind that
// the primitive is, and no entry is of nothing. Calls have ids of their own; roles and rings lie where the text has
// them.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "ops/chunk_o/chunk_o.hpp"
#include "ops/copy_rows/copy_rows.hpp"
#include "ops/fmha/sm90.hpp"
#include "ops/gemm/gemm.hpp"
#include "pipeline.hpp"
#include "sched/schedule.hpp"
#include "support/fail.hpp"

using namespace tj;
using Json = nlohmann::json;

namespace {

const std::map<std::string, std::string> kKinds = {{"wait_full", "wait"},           {"wait_empty", "wait"},
                                                   {"wait_drained", "wait"},        {"release", "arrive"},
                                                   {"release_alone", "arrive"},     {"release_by_group", "arrive"},
                                                   {"publish", "arrive"},           {"publish_copies", "arrive"},
                                                   {"expect_full", "expect"},       {"matrix_fence", "fence"},
                                                   {"proxy_fence", "fence"},        {"reads_arrived", "fence"},
                                                   {"mbarrier_init_done", "fence"}, {"matrix_commit", "commit"},
                                                   {"store_commit", "commit"},      {"matrix_wait", "group_wait"},
                                                   {"store_wait", "group_wait"},    {"copy_async_drain", "copies_wait"},
                                                   {"block_sync", "sync"},          {"warp_sync", "sync"},
                                                   {"named_sync", "turn_wait"},     {"named_arrive", "turn_arrive"},
                                                   {"cluster_sync", "cluster"},     {"registers_shrink", "registers"},
                                                   {"registers_grow", "registers"}, {"wait_for_grids_before", "grids"}};

/// The text of the notes, as a compiler would put its literals together.
std::string literals(const std::string& text) {
  std::string joined;
  const std::string begin = "R\"~(", end = ")~\"";
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    const std::size_t stop = text.find(end, at);
    REQUIRE(stop != std::string::npos);
    joined += text.substr(at + begin.size(), stop - at - begin.size());
    at = stop;
  }
  return joined;
}

std::vector<std::string> names_of(const Json& list) { return list.get<std::vector<std::string>>(); }

void check_sites(const codegen::Unit& unit, const Json& notes) {
  std::map<int, std::string> primitives;  // by the number that follows their name
  const std::string body = unit.text.substr(0, unit.text.find("TJ_NOTES("));
  const std::regex numbered("dev::([a-z_]+)<([0-9]+)[,>]");
  std::set<int> calls, asked;
  for (auto at = std::sregex_iterator(body.begin(), body.end(), numbered); at != std::sregex_iterator(); ++at) {
    const int number = std::stoi((*at)[2]);
    if ((*at)[1] == "at_node")
      CHECK(calls.insert(number).second);
    else if ((*at)[1] == "is_full")
      CHECK(asked.insert(number).second);
    else
      CHECK(primitives.emplace(number, (*at)[1]).second);
  }
  for (const int number : asked) CHECK(primitives.at(number) == "wait_full");
  CHECK(body.find("_sync();") == std::string::npos);  // none without a site
  CHECK(notes["sites"].size() == primitives.size());
  CHECK(notes["sites"].size() == unit.sites.size());
  for (const Json& site : notes["sites"]) {
    const int id = site["id"];
    CAPTURE(site.dump());
    REQUIRE(primitives.count(id) == 1);
    CHECK(kKinds.at(primitives[id]) == site["kind"].get<std::string>());
    const codegen::Site& known = unit.sites[static_cast<std::size_t>(id) - 1];
    CHECK(known.id == id);
    CHECK(site["text"].get<std::string>() == known.what);
    CHECK(site["role"].get<std::vector<int>>() == known.roles);
    for (const int role : known.roles) CHECK(role < static_cast<int>(notes["roles"].size()));
    if (site.contains("ring") && known.kind != codegen::SiteKind::fence)
      CHECK(site["text"].get<std::string>().find(
                "ring " + notes["rings"][site["ring"].get<std::size_t>()]["value"].get<std::string>()) !=
            std::string::npos);
  }
  std::set<int> noted;
  for (const Json& call : notes["calls"]) CHECK(noted.insert(call["id"].get<int>()).second);
  CHECK(noted == calls);
}

void check_places(const codegen::Unit& unit, const Choice& choice, const Json& notes) {
  const graph::Graph& graph = choice.candidate.graph;
  REQUIRE(notes["roles"].size() == choice.schedule.roles.size());
  for (std::size_t r = 0; r < notes["roles"].size(); ++r) {
    const Json& role = notes["roles"][r];
    CHECK(role["name"].get<std::string>() == choice.schedule.roles[r].name);
    CHECK((role["first_warp"].get<int>() + role["warps"].get<int>()) * graph.machine.warp_size <= unit.shape.threads);
    if (role["single_thread"].get<bool>())
      CHECK(unit.text.find("if (warp == " + role["first_warp"].dump() + " && dev::elect_one())") != std::string::npos);
  }
  REQUIRE(notes["rings"].size() == choice.schedule.rings.size());
  for (std::size_t r = 0; r < notes["rings"].size(); ++r) {
    const Json& ring = notes["rings"][r];
    CAPTURE(ring.dump());
    CHECK(ring["data"].get<std::int64_t>() +
              ring["slots"].get<std::int64_t>() * ring["slot_bytes"].get<std::int64_t>() <=
          unit.shape.smem_bytes);
    CHECK(unit.text.find("kSlots = " + ring["slots"].dump() + ", kSlotBytes = " + ring["slot_bytes"].dump()) !=
          std::string::npos);
    CHECK(ring.contains("full") == graph.machine.shared_barriers);
    if (ring.contains("full"))
      CHECK(unit.text.find("kData = " + ring["data"].dump() + ", kFull = " + ring["full"].dump() +
                           ", kEmpty = " + ring["empty"].dump() + ";") != std::string::npos);
    CHECK_FALSE(names_of(ring["producers"]).empty());
    CHECK_FALSE(names_of(ring["consumers"]).empty());
    REQUIRE(r + ring["members"].get<std::size_t>() <= notes["rings"].size());
    for (std::size_t m = 1; m < ring["members"].get<std::size_t>(); ++m)
      CHECK(notes["rings"][r + m]["data"].get<std::int64_t>() ==
            ring["data"].get<std::int64_t>() + static_cast<std::int64_t>(m) * ring["slots"].get<std::int64_t>() *
                                                   ring["slot_bytes"].get<std::int64_t>());
  }
  for (const Json& call : notes["calls"]) {
    REQUIRE(call["nodes"].size() == call["role"].size());
    for (std::size_t i = 0; i < call["nodes"].size(); ++i) {
      const int node = graph.node_index(call["nodes"][i].get<std::string>());
      REQUIRE(node >= 0);
      CHECK(choice.schedule.role[static_cast<std::size_t>(node)] == call["role"][i].get<int>());
    }
  }
}

void check(const ops::Op& op, const ops::Request& request, const char* name) {
  const arch::Arch& arch = *arch::find(name);
  const Choice choice = choose(op, request, arch);
  const codegen::Unit unit = codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives);
  CAPTURE(request.name);
  CAPTURE(arch.name);
  CHECK(literals(unit.text) == unit.notes);
  const Json notes = Json::parse(unit.notes);
  CHECK(notes["name"].get<std::string>() == choice.candidate.graph.name);
  CHECK(notes["entry_registers"].get<int>() * unit.shape.threads <= choice.candidate.graph.machine.registers);
  check_sites(unit, notes);
  check_places(unit, choice, notes);
}

}  // namespace

TEST_CASE("a unit's notes are of its text") {
  using Flags = std::map<std::string, std::vector<std::string>>;
  const struct {
    const ops::Op& op;
    const char* arch;
    Flags flags;
  } sets[] = {
      {ops::fmha_op(), "sm_90a", {{"dtype", {"f16"}}, {"general-scale", {"false"}}}},
      {ops::fmha_op(), "sm_80", {{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"general-scale", {"false"}}}},
      {ops::fmha_op(), "sm_120a", {{"dtype", {"bf16"}}, {"head-dim", {"64"}}, {"general-scale", {"false"}}}},
      {ops::fmha_op(), "gfx1100", {{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"general-scale", {"false"}}}},
      {ops::fmha_op(), "gfx942", {{"dtype", {"f16"}}, {"head-dim", {"64"}}, {"general-scale", {"false"}}}},
      {ops::gemm_op(), "sm_90a", {{"dtype", {"f16"}}, {"tile", {"128x256x64", "128x256x64c2x1", "16x64x128"}}}},
      {ops::gemm_op(), "sm_90a", {{"dtype", {"f16"}}, {"d-aligned", {"false"}}, {"tile", {"128x256x64"}}}},
      {ops::gemm_op(), "sm_80", {{"dtype", {"f16"}}, {"tile", {"128x128x64"}}}},
      {ops::gemm_op(), "gfx942", {{"dtype", {"f16"}}, {"tile", {"128x128x64"}}}},
      {ops::chunk_o_op(), "sm_90a", {}},
  };
  for (const auto& [op, arch, flags] : sets)
    for (const ops::Request& request : op.requests(flags)) check(op, request, arch);
}

TEST_CASE(
    "members of a family that have a ring each are noted as such, and what the matrix unit leaves in registers is") {
  const arch::Arch& arch = *arch::find("sm_90a");
  const auto requests =
      ops::gemm_op().requests({{"dtype", {"f16"}}, {"d-aligned", {"false"}}, {"tile", {"128x256x64"}}});
  REQUIRE(!requests.empty());
  const Choice choice = choose(ops::gemm_op(), requests[0], arch);
  const Json notes = Json::parse(codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives).notes);
  std::map<std::string, int> members;
  for (const Json& ring : notes["rings"]) members[ring["value"].get<std::string>()] = ring["members"].get<int>();
  CHECK(members == std::map<std::string, int>{{"a", 1}, {"b", 1}, {"d0", 2}, {"d1", 1}});
  CHECK(notes["waits"].dump().find(R"({"distance":0,"dst":"stage_rows.1","src":"mma.1"})") != std::string::npos);
  for (const Json& wait : notes["waits"]) CHECK(wait["src"].get<std::string>().substr(0, 4) == "mma.");
}

TEST_CASE("a name with any character is a string of the notes") {
  graph::Graph graph =
      ops::fmha_group_graph(FmhaConfig{DType::f16, 64, false, false}, {2, 128, true}, *arch::find("sm_90a"));
  graph.name = "a \"b\\ )~\" \n\x01 \xc3\xa9";
  const codegen::Unit unit = codegen::emit(graph, sched::schedule(graph), "sm90");
  CHECK(literals(unit.text.substr(unit.text.find("TJ_NOTES("))) == unit.notes);
  CHECK(Json::parse(unit.notes)["name"].get<std::string>() == graph.name);
}

TEST_CASE("a block of one tile fills its first slots without a wait; tile after tile it waits for them") {
  graph::Graph graph =
      ops::fmha_group_graph(FmhaConfig{DType::f16, 128, true, false}, {2, 128, true}, *arch::find("sm_90a"));
  const sched::Schedule schedule = sched::schedule(graph);
  const auto early = [&] {
    const codegen::Unit unit = codegen::emit(graph, schedule, "sm90");
    int found = 0;
    for (const codegen::Site& site : unit.sites)
      found += site.what.find("role load, prologue: wait ring") != std::string::npos;
    return found;
  };
  graph.walk = graph::Walk::one_tile;
  CHECK(early() == 0);
  graph.walk = graph::Walk::persistent;
  CHECK(early() > 0);
}

TEST_CASE("so do the steps of a loop that are known to be its first; those that may be any wait") {
  const arch::Arch& arch = *arch::find("sm_80");
  const auto requests = ops::fmha_op().requests(
      {{"dtype", {"f16"}}, {"head-dim", {"64"}}, {"general-scale", {"false"}}, {"causal", {"false"}}});
  REQUIRE(!requests.empty());
  Choice choice = choose(ops::fmha_op(), requests[0], arch);
  const auto waits = [&](bool persistent, const char* section) {
    choice.candidate.graph.walk = persistent ? graph::Walk::persistent : graph::Walk::one_tile;
    int found = 0;
    for (const codegen::Site& site : codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives).sites)
      found += site.what.find(support::cat(section, ": wait ring k empty")) != std::string::npos;
    return found;
  };
  CHECK(waits(false, "steady") == 0);
  CHECK(waits(true, "steady") == 1);
  for (const bool persistent : {false, true}) CHECK(waits(persistent, "steady, fast variants") == 1);
}

TEST_CASE("what nobody fills again is handed back without an order") {
  const arch::Arch& arch = *arch::find("sm_120a");
  const auto requests = ops::fmha_op().requests(
      {{"dtype", {"f16"}}, {"head-dim", {"64"}}, {"causal", {"true"}}, {"general-scale", {"false"}}});
  REQUIRE(!requests.empty());
  Choice choice = choose(ops::fmha_op(), requests[0], arch);
  const auto at_end = [&](bool persistent, const char* what) {
    choice.candidate.graph.walk = persistent ? graph::Walk::persistent : graph::Walk::one_tile;
    int found = 0;
    for (const codegen::Site& site : codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives).sites)
      found +=
          site.what.find("role compute0, epilogue: ") != std::string::npos && site.what.find(what) != std::string::npos;
    return found;
  };
  for (const char* what : {"warp sync before release of ring k", "reads of ring k have arrived"}) {
    CHECK(at_end(true, what) > 0);
    CHECK(at_end(false, what) == 0);
  }
  CHECK(at_end(true, ": release ring k") == at_end(false, ": release ring k"));
}

TEST_CASE("no unit meets for barriers that it does not have, nor gives back registers that nobody takes") {
  const arch::Arch& arch = *arch::find("sm_90a");
  const auto unit_of = [&](const ops::Op& op, const std::map<std::string, std::vector<std::string>>& flags) {
    const auto requests = op.requests(flags);
    REQUIRE(!requests.empty());
    const Choice choice = choose(op, requests[0], arch);
    return codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives);
  };
  const auto count = [](const codegen::Unit& unit, const char* what) {
    return std::count_if(unit.sites.begin(), unit.sites.end(),
                         [&](const codegen::Site& site) { return site.what.find(what) != std::string::npos; });
  };
  const codegen::Unit copies = unit_of(ops::copy_rows_op(), {}),
                      wide = unit_of(ops::gemm_op(), {{"dtype", {"f16"}}, {"tile", {"128x256x64"}}}),
                      narrow = unit_of(ops::gemm_op(), {{"dtype", {"f16"}}, {"tile", {"64x32x128"}}});
  CHECK(count(copies, "barriers are initialised") == 0);
  CHECK(count(wide, "barriers are initialised") == 1);
  CHECK(count(wide, "registers of") == 2);
  CHECK(count(narrow, "registers of") == 0);
}
