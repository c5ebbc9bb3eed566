// Protects files of facts: what is replaced, that everything else is as shipped, one hash for the same facts, and that
// each mistake is refused with file, key, value and what is allowed. Every fact of every arch has limits.
#include "arch/fact_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arch/fact_limits.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

using namespace tj;
using testing::has;

namespace {

std::string text_of(const std::string& arch, const std::string& facts) {
  return R"({"tilejit_facts": 1, "arch": ")" + arch + R"(", "facts": {)" + facts + "}}";
}
const arch::FactFile& read(const std::string& arch, const std::string& facts) {
  return arch::read_facts(text_of(arch, facts), "/f.json", "TJ_FACTS");
}
std::string refusal(const std::string& text) {
  const Error error = testing::error_of([&] { arch::read_facts(text, "/f.json", "TJ_FACTS"); });
  CHECK(error.stage == Stage::argument);
  CHECK(error.code == Code::invalid_argument);
  CHECK_MESSAGE(has(error.message, "TJ_FACTS: facts of /f.json: "), error.message);
  CHECK_MESSAGE(has(error.message, "allowed"), error.message);
  return error.message;
}

}  // namespace

TEST_CASE("every fact of every arch has limits that hold it, and nothing else has") {
  for (const arch::FactLimits& limits : arch::fact_limits()) {
    CAPTURE(limits.name);
    CHECK(limits.least < limits.most);
    const std::string name = limits.name;
    const auto has_it = [&](const arch::Arch* each) { return each->has_fact(name); };
    CHECK((name == "clock_ghz" || name == "sm_count" || std::any_of(arch::all().begin(), arch::all().end(), has_it)));
  }
  for (const arch::Arch* each : arch::all())
    for (const auto& entry : each->facts) {
      const std::string& name = entry.first;
      const auto& fact = entry.second;
      CAPTURE(each->name);
      CAPTURE(name);
      const arch::FactLimits* limits = arch::limits_of(name);
      REQUIRE(limits != nullptr);
      CHECK(fact.value >= limits->least);
      CHECK(fact.value <= limits->most);
    }
}

TEST_CASE("a file's facts replace those of its arch, and all else is as shipped") {
  const arch::Arch& shipped = *arch::find("sm_90a");
  const arch::FactFile& file = read("sm_90a", R"("copy_latency_cycles": 512.5, "clock_ghz": 1.5, "sm_count": 78,
    "exp2_per_cycle": {"value": 15, "spread": {"p10": 14, "p90": 16}, "source": "a line"})");
  const arch::Arch& arch = arch::with_facts(shipped, &file);
  CHECK(arch.name == "sm_90a+facts=" + file.hash);
  CHECK(file.hash.size() == 16);
  CHECK(arch.fact("copy_latency_cycles") == 512.5);
  CHECK(arch.fact("exp2_per_cycle") == 15);
  CHECK(arch.clock_ghz == 1.5);
  CHECK(arch.sm_count == 78);
  CHECK(arch.compiler_name() == "sm_90a");
  CHECK(arch.facts.size() == shipped.facts.size());
  for (const auto& [name, fact] : shipped.facts)
    if (file.facts.count(name) == 0) CHECK(arch.fact(name) == fact.value);
  CHECK(shipped.fact("copy_latency_cycles") != 512.5);
  CHECK(&arch::with_facts(arch, &file) == &arch);
  CHECK(&arch::with_facts(shipped, nullptr) == &shipped);
  CHECK(arch::find(arch.name) == &arch);
  CHECK(arch::parse_target("model:" + arch.name).arch == &arch);
  CHECK(arch::shipped_name(arch) == "sm_90a");
  CHECK(arch::same_devices(arch, shipped));
}

TEST_CASE("the same facts have one hash, whatever their order and what else a file says; others have another") {
  const arch::FactFile& one = read("sm_90a", R"("copy_latency_cycles": 500, "exp2_per_cycle": 15)");
  const arch::FactFile& same = arch::read_facts(
      R"({"measured": {"device": "NVIDIA H200", "date": "2026-11-29"}, "arch": "sm_90a", "tilejit_facts": 1,
          "facts": {"exp2_per_cycle": {"value": 15.0}, "copy_latency_cycles": 5e2}})",
      "/other.json", "--facts");
  CHECK(&one == &same);
  CHECK(one.hash != read("sm_90a", R"("copy_latency_cycles": 501, "exp2_per_cycle": 15)").hash);
  CHECK(&read("sm_90a", R"("slice_cycles": 0)") == &read("sm_90a", R"("slice_cycles": -0.0)"));
  CHECK(one.hash != read("sm_100", R"("copy_latency_cycles": 500, "exp2_per_cycle": 15)").hash);
  CHECK(one.hash != read("sm_90a", R"("copy_latency_cycles": 500)").hash);
}

TEST_CASE("options take away from an arch with facts what they take from any, in one order") {
  const arch::FactFile& file = read("sm_90", R"("copy_latency_cycles": 400, "thread_copy_latency_cycles": 300)");
  const arch::Arch& less = arch::parse_arch("sm_90+facts=" + file.hash + "+smem=99K+copies=threads");
  CHECK(less.name == "sm_90+copies=threads+smem=99K+facts=" + file.hash);
  CHECK_FALSE(less.has_fact("copy_latency_cycles"));
  CHECK(less.fact("thread_copy_latency_cycles") == 300);
  CHECK(&arch::with_facts(arch::parse_arch("sm_90+copies=threads+smem=99K"), &file) == &less);
  CHECK(arch::shipped_name(less) == "sm_90+copies=threads+smem=99K");
  CHECK(has(arch::as_ptx(arch::with_facts(*arch::find("sm_90"), &file))->name, "+code=ptx+facts="));
}

TEST_CASE("another arch's facts, and facts that nobody has read, are refused by name") {
  const arch::FactFile& file = read("sm_90a", R"("copy_latency_cycles": 512)");
  const Error other = testing::error_of([&] { arch::with_facts(*arch::find("sm_80"), &file); });
  CHECK(other.stage == Stage::target);
  CHECK_MESSAGE(has(other.message, "'arch' 'sm_90a', and the target is 'sm_80'; allowed: a file of 'sm_80'"),
                other.message);
  CHECK(has(other.message, "/f.json"));
  const Error unknown = testing::error_of([] { arch::parse_target("sm_90a+facts=0123456789abcdef"); });
  CHECK_MESSAGE(has(unknown.message, "facts is '0123456789abcdef', which no file of facts has"), unknown.message);
  CHECK(has(unknown.message, "TJ_FACTS"));
  CHECK_THROWS_AS(arch::parse_target("sm_80+facts=" + file.hash), Error);
  const arch::FactFile& second = read("sm_90a", R"("copy_latency_cycles": 513)");
  const Error both =
      testing::error_of([&] { arch::with_facts(arch::with_facts(*arch::find("sm_90a"), &file), &second); });
  CHECK_MESSAGE(has(both.message, "allowed: one of them"), both.message);
}

TEST_CASE("what is no such file is refused with the key, its value and what is allowed") {
  CHECK(has(refusal(text_of("sm_90", R"("copy_latncy_cycles": 5)")),
            "'facts.copy_latncy_cycles' is '5'; 'sm_90' has no such fact; did you mean 'copy_latency_cycles'?"));
  CHECK(has(refusal(text_of("sm_80", R"("copy_latency_cycles": 5)")), "'sm_80' has no such fact"));
  CHECK(has(refusal(text_of("sm_90a", R"("copy_latency_cycles": -1)")),
            "'facts.copy_latency_cycles' is '-1'; allowed: numbers from 0 to 20000"));
  CHECK(has(refusal(text_of("sm_90a", R"("copy_latency_cycles": 20001)")),
            "is '20001'; allowed: numbers from 0 to 20000"));
  CHECK(has(refusal(text_of("sm_90a", R"("copy_latency_cycles": "5")")), "allowed: numbers from"));
  CHECK(has(refusal(text_of("sm_90a", R"("sm_count": 1.5)")),
            "'facts.sm_count' is '1.5'; allowed: whole numbers from 1 to 4096"));
  CHECK(has(refusal(text_of("sm_90a", R"("exp2_per_cycle": {"spread": 1})")), "has no 'value'"));
  CHECK(has(refusal(text_of("sm_90a", R"("exp2_per_cycle": {"value": 1, "spred": 1})")), "did you mean 'spread'?"));
  CHECK(has(refusal(text_of("sm_80", R"("operand_registers": 40)")), "allowed: leave it out"));
  CHECK(has(refusal(text_of("sm90a", "")), "'arch' is 'sm90a'; allowed: sm_90a, "));
  CHECK(has(refusal(text_of("sm_90a+smem=99K", "")), "'arch' is 'sm_90a+smem=99K'"));
  CHECK(has(refusal(text_of("sm_90a", R"("exp2_per_cycle": 1, "exp2_per_cycle": 2)")),
            "'exp2_per_cycle' stands there twice"));
  CHECK(has(refusal(R"({"arch": "sm_90a", "facts": {}})"), "it has no 'tilejit_facts'"));
  CHECK(has(refusal(R"({"tilejit_facts": 2, "arch": "sm_90a", "facts": {}})"), "'tilejit_facts' is '2'; allowed: 1"));
  CHECK(has(refusal(R"({"tilejit_facts": 1, "arch": "sm_90a", "facts": []})"), "'facts' is '[]'"));
  CHECK(has(refusal(R"({"tilejit_facts": 1, "arch": "sm_90a", "facts": {}, "fcts": {}})"), "'fcts' is not known"));
  CHECK(has(refusal(R"({"tilejit_facts": 1, "arch": "sm_90a", "facts": {}, "measured": {"device": 1}})"),
            "'measured.device' is '1'"));
  for (const char* text : {"", "[]", "{", "1", "null"}) CHECK(has(refusal(text), "it is no JSON object"));
  CHECK(has(refusal(std::string(arch::kMostFactFileBytes + 1, ' ')), "bytes; allowed: at most"));
}

TEST_CASE("a file that is not there, or is none, is refused with its path") {
  const testing::Scratch scratch;
  const Error gone = testing::error_of([&] { arch::load_facts(scratch / "none.json", "TJ_FACTS"); });
  CHECK(gone.code == Code::not_found);
  CHECK_MESSAGE(has(gone.message, "TJ_FACTS is '" + scratch / "none.json'"), gone.message);
  CHECK(has(testing::error_of([&] { arch::load_facts(scratch.path(), "--facts"); }).message, "which is no file"));
  testing::write_bytes(scratch / "good.json", text_of("sm_90a", R"("exp2_per_cycle": 12)"));
  CHECK(arch::load_facts(scratch / "good.json", "TJ_FACTS").facts.at("exp2_per_cycle").value == 12);
}

TEST_CASE("tools are told where each fact comes from") {
  const arch::FactFile& file = arch::read_facts(
      R"({"tilejit_facts": 1, "arch": "sm_90a", "measured": {"device": "NVIDIA H200", "date": "2026-11-30"},
          "facts": {"copy_latency_cycles": 499, "clock_ghz": 1.6}})",
      "/mine.json", "TJ_FACTS");
  const auto kind = [](const arch::Arch& arch, const std::string& name) {
    for (const arch::FactOrigin& each : arch::fact_origins(arch))
      if (each.name == name) return each.kind + ": " + each.source;
    return std::string();
  };
  const arch::Arch &shipped = *arch::find("sm_90a"), &mine = arch::with_facts(shipped, &file);
  CHECK(kind(mine, "copy_latency_cycles") == "file: /mine.json (NVIDIA H200, 2026-11-30)");
  CHECK(has(kind(mine, "clock_ghz"), "file: /mine.json"));
  CHECK(kind(shipped, "clock_ghz").empty());
  CHECK(has(kind(shipped, "copy_latency_cycles"), "measured: tests/gpu/node_cycles.py"));
  CHECK(has(kind(shipped, "matrix_flops_per_cycle"), "document: NVIDIA H100"));
  CHECK(has(kind(shipped, "row_read_cycles"), "estimate: estimate"));
  CHECK(has(kind(*arch::find("gfx1100"), "tile_turn_cycles"), "guess: "));
  CHECK(arch::fact_origins(shipped).size() == shipped.facts.size());
}
