// Protects what samples say of two schedules: each change once, in words that follow from the schedules, and none where
// there is none.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/gemm_reference.hpp"
#include "common/half.hpp"
#include "common/ladder_report.hpp"
#include "common/lines_report.hpp"
#include "common/random.hpp"
#include "common/schedule_changes.hpp"

namespace {

using tj::samples::Ladder;
using tj::samples::Rung;
using tj::samples::schedule_changes;
using tj::samples::schedule_facts;
using Words = std::vector<std::string>;

constexpr const char* kOneRole =
    R"({"ii": 900, "length": 900, "cluster": 1, "walk": "one_tile", "certificate": "why", "units": [{"name": "TC", "capacity": 1, "cycles": 300}, {"name": "ALU", "capacity": 2, "cycles": 0}],
  "nodes": [{"name": "load", "cycle": 0, "stage": 0, "role": "all", "scope": "iteration"}, {"name": "mma", "cycle": 500, "stage": 0, "role": "all", "scope": "iteration"},
            {"name": "store", "cycle": 0, "stage": 0, "role": "all", "scope": "tile_end"}],
  "roles": [{"name": "all"}], "rings": [{"value": "a", "slots": 1}, {"value": "b", "slots": 1}]})";
constexpr const char* kTwoRoles =
    R"({"ii": 450, "length": 950, "cluster": 2, "walk": "persistent", "units": [{"name": "TC", "capacity": 1, "cycles": 300}],
  "nodes": [{"name": "load", "cycle": 0, "stage": 0, "role": "load", "scope": "iteration"}, {"name": "mma", "cycle": 500, "stage": 1, "role": "all", "scope": "iteration"},
            {"name": "write", "cycle": 0, "stage": 0, "role": "all", "scope": "tile_end"}],
  "roles": [{"name": "load"}, {"name": "all"}], "rings": [{"value": "a", "slots": 2}, {"value": "b", "slots": 2, "shared_by": 2}]})";

}  // namespace

TEST_CASE("facts, and every kind of change once") {
  const auto one = schedule_facts(kOneRole), two = schedule_facts(kTwoRoles);
  CHECK(one.stages == 1);
  CHECK(two.stages == 2);
  CHECK(one.slots_text() == "a 1, b 1");
  CHECK(one.certificate == "why");
  CHECK(schedule_changes(one, one).empty());
  CHECK(schedule_changes(one, two) ==
        Words{"II 900 -> 450 cycles", "busy: TC 33% -> 67%", "write in the place of store",
              "1 role -> 2: load (load) apart", "a, b: 1 -> 2 slots",
              "1 stage -> 2: load of a later iteration beside mma", "length 900 -> 950", "blocks in clusters: 1 -> 2",
              "b: one copy for 1 -> 2 blocks", "a block a tile -> blocks that stay for several tiles"});
  CHECK(schedule_changes(two, one).size() == 10);
  auto beside = one;
  beside.blocks_per_sm = schedule_facts(R"({"blocks_per_sm": 2})").blocks_per_sm;
  CHECK(schedule_changes(one, beside) == Words{"blocks side by side on an SM: 1 -> 2"});
  auto paired = two;
  paired.pairs = schedule_facts(R"({"pairs": true})").pairs;
  CHECK(schedule_changes(two, paired) == Words{"products of a block each -> of pairs of blocks"});
  CHECK(schedule_changes(paired, two) == Words{"products of pairs of blocks -> of a block each"});
  CHECK(schedule_facts("[]").nodes.empty());
  CHECK(schedule_facts("{\"nodes\": [3], \"rings\": 7, \"ii\": \"x\"}").ii == 0);
}

TEST_CASE("the ladder's table, JSON and Markdown say the same; a gain needs equal sizes; NaN is wrong") {
  Ladder ladder;
  ladder.target = "sm_90a";
  ladder.rungs.resize(3);
  for (std::size_t i = 0; i < 3; ++i) {
    Rung& rung = ladder.rungs[i];
    rung.name = "v" + std::to_string(i + 1);
    rung.kernel = i < 2 ? "gemm_f16_kk_64x256x64_" + rung.name : "gemm_f16_kk_128x256x64c2x1";
    rung.m = rung.n = rung.k = i == 0 ? 64 : 128;
    rung.ms = 4.0 / static_cast<double>(i + 1);
    rung.limit = 1;
    rung.schedule = schedule_facts(i < 2 ? kOneRole : kTwoRoles);
    if (i > 0) rung.changes = tj::samples::rung_changes(ladder.rungs[i - 1], rung);
  }
  CHECK(ladder.gain(0) == 0);
  CHECK(ladder.gain(1) == 0);
  CHECK(ladder.gain(2) == doctest::Approx(1.5));
  CHECK(ladder.rungs[1].changes == Words{"M 64 -> 128", "N 64 -> 128", "K 64 -> 128", "the same schedule"});
  CHECK(ladder.rungs[2].changes.front() == "tile 64x256x64 -> 128x256x64c2x1");
  const auto json = nlohmann::json::parse(tj::samples::ladder_json(ladder));
  REQUIRE(json["rungs"].size() == 3);
  CHECK(json["rungs"][1]["gain"].is_null());
  CHECK(json["rungs"][2]["ii"] == 450);
  CHECK(json["rungs"][2]["slots"]["b"] == 2);
  CHECK(json["rungs"][2]["changes"].size() == ladder.rungs[2].changes.size());
  for (const std::string& text : {tj::samples::ladder_text(ladder), tj::samples::ladder_markdown(ladder, 8)})
    for (const char* part : {"v3", "1.50x", "450", "load, all", "a 2, b 2", "II 900 -> 450 cycles"})
      CHECK(text.find(part) != std::string::npos);
  CHECK(ladder.right());
  ladder.rungs[1].error = NAN;
  CHECK_FALSE(ladder.right());
  CHECK(tj::samples::ladder_text(ladder).find("WRONG") != std::string::npos);
}

TEST_CASE("lines of two sources that differ: once each, without places, comments, the kernel's name and its notes") {
  const std::string before = tj::samples::code_lines(
                        "struct k_v4 {\n  int slots = 1;  // of a\n}\n  dev::wait_full<11, RingA>(shared);\n  "
                        "dev::warp_sync<3>();\nTJ_NOTES(\nx",
                        "k_v4"),
                    now = tj::samples::code_lines(
                        "struct k_v5 {\n  int slots = 2;\n  dev::wait_full<4, RingA>(shared);\n  "
                        "dev::wait_full<5, RingA>(shared);\n  dev::at_node<2>(s);\n  dev::warp_sync<9>();\n",
                        "k_v5");
  CHECK(before == "int slots = 1;\ndev::wait_full<RingA>(shared);\ndev::warp_sync();\n");
  CHECK(tj::samples::changed_lines(before, now) == Words{"+ int slots = 2;", "- int slots = 1;"});
  CHECK(tj::samples::changed_lines(now, now).empty());
  Rung rung;
  rung.name = "v5";
  rung.adds = "Two slots.";
  rung.unit_lines = tj::samples::changed_lines(before, now);
  CHECK(tj::samples::rung_paragraph(rung, 1) ==
        "v5: Two slots.\n  unit, lines that change:\n    + int slots = 2;\n    and 1 more\n");
}

TEST_CASE("the reference of products: exact where a sum is, and every row of a small one") {
  const std::vector<std::uint16_t> a = tj::samples::random_normal(5 * 3, tj::DType::f16, 1),
                                   b = tj::samples::random_normal(4 * 3, tj::DType::f16, 2);
  const auto reference = tj::samples::gemm_reference(a, b, 5, 4, 3, tj::DType::f16, 3);
  CHECK(reference.rows == std::vector<std::int64_t>{0, 1, 2, 3, 4});
  std::vector<std::uint16_t> d;
  for (std::size_t i = 0; i < 20; ++i) {
    double sum = 0;
    for (std::size_t k = 0; k < 3; ++k)
      sum += static_cast<double>(tj::samples::half_to_float(a[i / 4 * 3 + k])) *
             tj::samples::half_to_float(b[i % 4 * 3 + k]);
    CHECK(reference.values[i] == sum);
    d.push_back(tj::samples::float_to_half(static_cast<float>(sum)));
  }
  CHECK(tj::samples::gemm_error(reference, d, tj::DType::f16) <= 5e-4);
  d[7] ^= 0x8000;
  CHECK(tj::samples::gemm_error(reference, d, tj::DType::f16) > 5e-4);
  d[7] = 0xffff;
  CHECK(std::isnan(tj::samples::gemm_error(reference, d, tj::DType::f16)));
}
