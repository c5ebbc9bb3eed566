// Protects what choosing attention's walk by measurement rests on: problems of a command line, that a problem survives
// being written down, that its key is that of a call with its tensors, and which walks are measured.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "ops/fmha/fmha.hpp"
#include "support/expect.hpp"

using namespace tj;

namespace {

using testing::error_of;
using testing::has;
using Flags = std::map<std::string, std::vector<std::string>>;

const ops::Tunable& tunable() { return ops::fmha_tunable(); }
std::string refusal(const Flags& flags) {
  return error_of([&] { tunable().problems(flags); }).message;
}
std::vector<std::string> walks(const Flags& flags, const char* arch) {
  std::vector<std::string> names;
  for (const ops::Variant& variant : tunable().variants(tunable().problems(flags).front(), *arch::find(arch)))
    names.push_back(variant.name);
  return names;
}

}  // namespace

TEST_CASE("every kernel that flags name is a problem of the sizes") {
  const auto list = tunable().problems({{"seq-q", {"4096"}}, {"heads", {"32"}}, {"kv-heads", {"8"}}, {"batch", {"2"}}});
  REQUIRE(list.size() == 8);
  CHECK(list.front().name == "fmha_f16_d64 2x32/8 4096x4096");
  CHECK(list.front().flops == 4.0 * 2 * 32 * 64 * (4096.0 * 4096));
  for (const ops::Problem& problem : list) {
    const auto again = tunable().problem_of(problem.fields);
    REQUIRE(again.has_value());
    CHECK(again->name == problem.name);
    CHECK(tunable().key_of(*again) == tunable().key_of(problem));
    std::vector<void*> places;
    for (std::size_t i = 0; i < tunable().operands(problem).size(); ++i)
      places.push_back(reinterpret_cast<void*>((i + 1) << 40));
    tunable().with_args(problem, {DeviceKind::cuda, 0}, places, [&](const void* args) {
      CHECK(ops::fmha_op().problem_key(args) == tunable().key_of(problem));
      CHECK(tunable().problem_of(args).fields == problem.fields);
    });
  }
  CHECK_FALSE(tunable().key_of(list[0]) == tunable().key_of(list[1]));
  auto fields = list.front().fields;
  fields.back().second = "0";
  CHECK_FALSE(tunable().problem_of(fields).has_value());
}

TEST_CASE("a record's problem names no tile, walk or rung: those are what was chosen") {
  for (const auto& [name, value] : {std::pair<std::string, std::string>{"tile", "64x32"},
                                    {"tile", "128x128"},
                                    {"walk", "dynamic"},
                                    {"rung", "basic"}}) {
    // A forged record has it in the place that a request writes it to.
    Flags flags{{"dtype", {"f16"}}, {"head-dim", {"128"}}, {"causal", {"true"}}, {name, {value}}};
    const ops::Request request = ops::fmha_op().requests(flags).front();
    auto fields = request.fields;
    for (const char* size : {"batch", "heads", "kv-heads", "seq-q", "seq-k"}) fields.emplace_back(size, "64");
    const std::string said = name + " " + value;
    CAPTURE(said);
    CHECK_FALSE(tunable().problem_of(fields).has_value());
  }
}

TEST_CASE("a call that leaves multiprocessors to others has one walk, and is refused") {
  FmhaArgs args;
  args.q = args.k = args.v = args.o = Tensor::contiguous(nullptr, {DeviceKind::cuda, 0}, DType::f16, {1, 2, 64, 64});
  CHECK(tunable().problem_of(&args).name == "fmha_f16_d64 1x2/2 64x64");
  args.max_sms = 100;
  CHECK(error_of([&] { tunable().problem_of(&args); }).message ==
        "fmha: max_sms is 100; allowed in tuning: 0, as calls with a limit have one kernel");
}

TEST_CASE("a call without keys is refused by its argument") {
  FmhaArgs args;
  args.q = args.k = args.v = args.o = Tensor::contiguous(nullptr, {DeviceKind::cuda, 0}, DType::f16, {1, 2, 64, 64});
  args.k.shape[2] = args.v.shape[2] = 0;
  CHECK(error_of([&] { tunable().problem_of(&args); }).message ==
        "fmha: k.shape[2] (Sk) is 0; allowed in tuning: 1 and up");
}

TEST_CASE("what is no problem is refused by its flag") {
  CHECK(has(refusal({{"heads", {"4"}}}), "--seq-q is missing"));
  CHECK(has(refusal({{"seq-q", {"64"}}, {"walk", {"dynamic"}}}), "--walk is given; it is what is measured"));
  CHECK(has(refusal({{"seq-q", {"64"}}, {"rung", {"2"}}}), "--rung is given; a rung is one kernel"));
  CHECK(has(refusal({{"seq-q", {"64"}}, {"heads", {"6"}}, {"kv-heads", {"4"}}}), "multiple"));
}

TEST_CASE("what calls take comes first, as predicted for the sizes") {
  const Flags half{{"seq-q", {"512"}}, {"heads", {"32"}}, {"head-dim", {"128"}}, {"causal", {"false"}}};
  CHECK(walks(half, "sm_90a") == std::vector<std::string>{"128x128 usual", "usual", "dynamic", "128x128 dynamic"});
  const auto variants = tunable().variants(tunable().problems(half).front(), *arch::find("sm_90a"));
  CHECK(ops::fmha_op().request_of(variants.front().kernel).name == "fmha_f16_d128_128x128");
  CHECK(variants[0].predicted_cycles < variants[1].predicted_cycles);
  CHECK(has(refusal({{"seq-q", {"64"}}, {"tile", {"128x128"}}}), "--tile is given; it is what is measured"));
}

TEST_CASE("the usual walk comes first; others are those that the arch can have") {
  const Flags causal{{"seq-q", {"4096"}}, {"causal", {"true"}}}, full{{"seq-q", {"4096"}}, {"causal", {"false"}}};
  CHECK(walks(causal, "sm_90a") == std::vector<std::string>{"usual", "persistent", "dynamic"});
  CHECK(walks(full, "sm_90a") == std::vector<std::string>{"128x128 usual", "usual", "dynamic", "128x128 dynamic"});
  CHECK(walks(full, "gfx1100") == std::vector<std::string>{"usual", "dynamic"});
  const ops::Problem problem = tunable().problems(causal).front();
  const auto variants = tunable().variants(problem, *arch::find("sm_90a"));
  const ops::Kernel chosen = ops::fmha_op().kernel_of(tunable().key_of(problem), variants.back().kernel.choice);
  CHECK(chosen == variants.back().kernel);
  CHECK(ops::fmha_op().request_of(chosen).name == "fmha_f16_d64_causal_dynamic");
  CHECK(ops::fmha_op().request_of(variants.front().kernel).name == "fmha_f16_d64_causal");
}
