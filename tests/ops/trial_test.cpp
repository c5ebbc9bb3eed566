// Protects the problems that ops bring for being checked: they are legal, their flags name them again, and bad sizes
// are refused by name.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "ops/common/trial.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/tiles.hpp"
#include "ops/op.hpp"

using namespace tj;

namespace {

std::string refusal(const ops::Op& op, const ops::Flags& flags) {
  try {
    op.trials(flags, *arch::find("sm_90a"));
  } catch (const Error& e) {
    CHECK(e.stage == Stage::argument);
    return e.message;
  }
  return {};
}

void check_legal(const ops::Op& op, const ops::Trial& trial) {
  CAPTURE(std::string(op.name()));
  CAPTURE(trial.flags);
  std::vector<void*> places;  // made up: nothing looks there
  for (std::size_t i = 0; i < trial.tensors.size(); ++i) places.push_back(reinterpret_cast<void*>((i + 1) << 40));
  CHECK(std::any_of(trial.tensors.begin(), trial.tensors.end(),
                    [](const ops::TrialTensor& tensor) { return tensor.written; }));
  trial.with_args({DeviceKind::cpu, 0}, places, [&](const void* args) { CHECK_NOTHROW(op.validate(args, true)); });
}

}  // namespace

TEST_CASE("every op brings problems that it takes, and whose flags name them again") {
  for (const ops::Op* op : ops::all())
    for (const char* arch : {"sm_90a", "sm_80", "sm_100a", "gfx1100"}) {
      if (!op->serves(*arch::find(arch))) continue;
      const std::vector<ops::Trial> trials = op->trials({}, *arch::find(arch));
      REQUIRE(!trials.empty());
      for (const ops::Trial& trial : trials) {
        check_legal(*op, trial);
        const std::vector<ops::Trial> again = op->trials(ops::flags_of_text(trial.flags), *arch::find(arch));
        REQUIRE(again.size() == 1);
        CHECK(again.front().flags == trial.flags);
        CHECK(again.front().name == trial.name);
        CHECK(again.front().choice == trial.choice);
      }
    }
}

TEST_CASE("flags choose kernels and sizes of a trial") {
  const arch::Arch& arch = *arch::find("sm_90a");
  const auto count = [&](const char* op, const char* flags, const char* on = "sm_90a") {
    const std::vector<ops::Trial> trials = ops::find(op)->trials(ops::flags_of_text(flags), *arch::find(on));
    for (const ops::Trial& trial : trials) check_legal(*ops::find(op), trial);
    return trials.size();
  };
  CHECK(count("fmha", "--dtype f16,bf16 --causal both --head-dim 64,128") == 24);
  CHECK(count("gemm", "--a-major k,m --b-major k,n --bias both") == 24);
  CHECK(count("gemm", "--tile 128x128x64,64x32x128 --parts both") == 12);
  CHECK(count("gemm", "--rung v1,v2,v3,v9") == 11);
  CHECK(count("gemm", "--rung v1,v2,v3,v9", "sm_100a") == 11);  // whose rungs have larger tiles and the same limits
  CHECK(count("gemm", "--tile 16x64x128") == 3);                // no higher than what the last tile may lack
  CHECK(count("gemm", "--dtype e4m3 --out f32 --batch 2") == 3);
  CHECK(count("gemm", "--d-aligned false --add-c true --activation gelu") == 3);
  CHECK(count("gemm", "--m 100 --n 70 --k 321") == 1);
  CHECK(count("chunk_o",
              "--head-ratio 1,2,3 --gated both --variable both --h-transposed both --heads 2 --lengths 64,1") == 24);
  CHECK(count("sum_parts", "--out f32 --m 1 --n 1 --parts 1") == 1);
  const std::string name = ops::find("gemm")->trials(ops::flags_of_text("--m 100 --n 70 --k 321"), arch).front().name;
  CHECK(name == "M 100 N 70 K 321");
}

TEST_CASE("problems of a rung that serves one tile are within what the rung takes, on every arch alike") {
  for (const char* arch : {"sm_90a", "sm_100a", "sm_80", "gfx1100"})
    for (const char* rung : {"v1", "v2"}) {
      CAPTURE(arch);
      CAPTURE(rung);
      for (const ops::Trial& trial : ops::find("gemm")->trials({{"rung", {rung}}}, *arch::find(arch))) {
        const std::vector<std::int64_t>& d = trial.tensors[2].operand.shape;
        ops::GemmSizes sizes;
        sizes.m = d[0];
        sizes.n = d[1];
        sizes.k = trial.tensors.front().operand.shape[1];
        CHECK_NOTHROW(ops::check_gemm_rung(rung[1] - '0', sizes, DType::f16));
        ops::GemmKernel own, there;
        ops::set_gemm_rung(own, rung[1] - '0', nullptr);
        ops::set_gemm_rung(there, rung[1] - '0', arch::find(arch));
        CHECK(own.tile == there.tile);
      }
    }
}

TEST_CASE("rows are copied to rows that begin at multiples of 16 bytes, of which the rest belongs to them") {
  for (const auto& [columns, pitch] : {std::pair{1, 8}, {8, 8}, {9, 16}, {15, 16}, {17, 24}}) {
    const ops::Op& op = *ops::find("copy_rows");
    const ops::Flags flags = {{"batch", {"2"}}, {"rows", {"3"}}, {"columns", {std::to_string(columns)}}};
    const ops::Trial trial = op.trials(flags, *arch::find("sm_90a")).at(0);
    check_legal(op, trial);
    CHECK(trial.tensors.at(1).operand.strides == std::vector<std::int64_t>{3 * pitch, pitch, 1});
    CHECK(trial.tensors.at(1).room == static_cast<std::size_t>(6 * pitch));
  }
}

TEST_CASE("a list of chunks has a row for each chunk, and one where there is none") {
  const auto rows = [](const char* flags) {
    const std::vector<ops::TrialTensor> tensors =
        ops::find("chunk_indices")->trials(ops::flags_of_text(flags), *arch::find("sm_90a")).front().tensors;
    return tensors[1].operand.shape[0];
  };
  CHECK(rows("--lengths 64") == 1);
  CHECK(rows("--lengths 0") == 1);
  CHECK(rows("--lengths 65,0,64") == 3);
}

TEST_CASE("a product's tile is that of its sizes where all are given, else that of usual ones") {
  const auto tile = [&](const char* flags) {
    return ops::find("gemm")->trials(ops::flags_of_text(flags), *arch::find("sm_90a")).front().choice.value();
  };
  const int usual = tile("");
  CHECK(tile("--m 16 --n 4096 --k 4096") != usual);
  for (const char* some :
       {"--m 16", "--n 64", "--k 128", "--m 16 --n 64", "--m 16 --k 4096", "--n 16 --k 4096", "--batch 2"}) {
    CAPTURE(some);
    CHECK(tile(some) == usual);
  }
}

TEST_CASE("what is no size or no kernel is refused by name, value and what is allowed") {
  const auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string zero = refusal(*ops::find("fmha"), {{"seq-q", {"0"}}}),
                    word = refusal(*ops::find("gemm"), {{"m", {"many"}}}),
                    tail = refusal(*ops::find("gemm"), {{"m", {"12x"}}}),
                    two = refusal(*ops::find("fmha"), {{"heads", {"1", "2"}}});
  CHECK(contains(zero, "--seq-q is '0'; allowed: 1 to "));
  CHECK(contains(word, "--m is 'many'; allowed: 1 to "));
  CHECK(contains(tail, "--m is '12x'; allowed: 1 to "));
  CHECK(contains(two, "--heads is '1, 2'"));
  CHECK(contains(refusal(*ops::find("chunk_indices"), {{"rows", {"3"}}}), "--rows means nothing"));
  CHECK(contains(refusal(*ops::find("chunk_o"), {{"lengths", {"0"}}}), "--lengths"));
  const ops::Trial two_heads = ops::find("chunk_o")->trials({{"item-heads", {"2"}}}, *arch::find("sm_90a")).front();
  CHECK(two_heads.choice == 2);  // of an item: the kernel that was asked for, not that of calls
}

TEST_CASE("lengths whose sum does not fit the list that they are written to are refused") {
  const auto lengths = [](std::size_t count) {
    return ops::Flags{{"lengths", std::vector(count, std::string("1048576"))}};
  };
  CHECK(refusal(*ops::find("chunk_indices"), lengths(2047)) == "");
  CHECK(refusal(*ops::find("chunk_indices"), lengths(2048)) ==
        "--lengths add up to 2147483648; allowed: at most 2147483647");
}

TEST_CASE("an op without problems says so") {
  class Bare final : public ops::Op {
   public:
    std::string_view name() const override { return "bare"; }
    std::vector<ops::Candidate> candidates(const ops::Request&, const arch::Arch&) const override { return {}; }
    void validate(const void*, bool) const override {}
    Device device_of(const void*) const override { return {}; }
    ops::Request request_of(const ops::Kernel&) const override { return {}; }
    ops::ProblemKey problem_key(const void*) const override { return {}; }
    std::vector<ops::Request> requests(const std::map<std::string, std::vector<std::string>>&) const override {
      return {};
    }
    void plan(const void*, const ops::Kernel&, const ops::Geometry&, ops::LaunchPlan&) const override {}
  };
  CHECK(refusal(Bare(), {}).find("op 'bare' brings no problems to check it by") != std::string::npos);
}
