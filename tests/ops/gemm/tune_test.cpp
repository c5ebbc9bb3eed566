// Protects what choosing a product's tile by measurement rests on: problems of a command line, that a problem survives
// being written down, that its key is that of a call with its tensors, and that the ranking begins with what is taken
// unmeasured.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "arch/arch.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"

using namespace tj;

namespace {

using testing::error_of;
using testing::has;
using Flags = std::map<std::string, std::vector<std::string>>;

const arch::Arch& hopper() { return *arch::find("sm_90a"); }
std::vector<ops::Problem> problems(const Flags& flags) { return ops::gemm_tunable().problems(flags); }
std::string refusal(const Flags& flags) {
  return error_of([&] { problems(flags); }).message;
}

using Values = std::vector<std::string>;

/// Of a flag's values the last one alone under the address sanitizer: each combination is asked of every tile.
Values some(const Values& all) { return testing::left_out() ? Values{all.back()} : all; }

const Flags kEverything = {{"sizes", {"100x200x72", "512", "16x64x40x3", "33x35x37"}},
                           {"dtype", {"f16", "bf16", "e4m3"}},
                           {"out", some({"f16", "bf16", "f32"})},
                           {"a-major", {"k", "m"}},
                           {"b-major", {"k", "n"}},
                           {"bias", {"both"}},
                           {"add-c", {"both"}},
                           {"activation", some({"none", "gelu"})}};

}  // namespace

TEST_CASE("every combination of sizes and kinds is a problem") {
  const auto list =
      problems({{"m", {"1", "4096"}}, {"n", {"4096"}}, {"k", {"512", "1024"}}, {"dtype", {"f16"}}, {"bias", {"both"}}});
  REQUIRE(list.size() == 8);
  CHECK(list.front().name == "gemm_f16_kk 1x4096x512");
  CHECK(list.back().name == "gemm_f16_kk_bias 4096x4096x1024");
  CHECK(list.front().flops == 2.0 * 4096 * 512);
  CHECK(problems({{"sizes", {"64", "1x2x3", "4x5x6x7"}}, {"dtype", {"bf16"}}}).back().name ==
        "gemm_bf16_kk_rows 4x5x6x7");
  // No tile serves all kinds of e4m3.
  for (const char* gate : {"none", "silu"})
    for (const char* out : {"bf16", "e4m3"})
      for (const char* scales : {"block", "row"}) {
        const Flags flags = {
            {"sizes", {"512"}}, {"dtype", {"e4m3"}}, {"out", {out}}, {"scales", {scales}}, {"gate", {gate}}};
        CHECK(problems(flags).size() == 1);
      }
  const auto narrow = problems({{"sizes", {"64"}}, {"dtype", {"f16", "e4m3"}}, {"out", {"f32"}}});
  REQUIRE(narrow.size() == 2);
  CHECK(narrow.back().name == "gemm_e4m3_f32_kk 64x64x64");
}

TEST_CASE("what is no problem is refused by its flag") {
  CHECK(has(refusal({{"n", {"1"}}, {"k", {"1"}}}), "--m is missing"));
  CHECK(has(refusal({{"m", {"1"}}, {"n", {"one"}}, {"k", {"1"}}}), "--n is 'one'; allowed: a number"));
  CHECK(has(refusal({{"m", {"0"}}, {"n", {"1"}}, {"k", {"1"}}}), "m is 0; allowed: 1 to"));
  for (const char* bad : {"1x2", "1x2x3x4x5", "x", "1x2x", "-1"})
    CHECK_MESSAGE(!refusal({{"sizes", {bad}}}).empty(), bad);
  CHECK(has(refusal({{"sizes", {"1x2"}}}), "--sizes is '1x2'; allowed: S, MxNxK"));
  CHECK(has(refusal({{"sizes", {"1"}}, {"m", {"1"}}}), "--sizes and --m are both given"));
  CHECK(has(refusal({{"sizes", {"1"}}, {"tile", {"128x256x64"}}}), "--tile is given; it is what is measured"));
  CHECK(has(refusal({{"sizes", {"1"}}, {"dtype", {"f8"}}}), "--dtype is 'f8'"));
  CHECK(has(refusal({{"sizes", {"1"}}, {"colour", {"red"}}}), "--colour means nothing to gemm"));
}

TEST_CASE("a call over a K of 0 is refused by its argument: no record could name it") {
  const auto tensor = [](std::initializer_list<std::int64_t> sizes) {
    return Tensor::contiguous(nullptr, {DeviceKind::cuda, 0}, DType::f16, sizes);
  };
  GemmArgs args;
  args.a = tensor({16, 0}), args.b = tensor({24, 0}), args.d = tensor({16, 24});
  CHECK(error_of([&] { ops::gemm_tunable().problem_of(&args); }).message ==
        "gemm: a.shape[1] (K) is 0; allowed in tuning: 1 and up");
  args.a = tensor({3, 16, 0}), args.d = tensor({3, 16, 24});
  CHECK(error_of([&] { ops::gemm_tunable().problem_of(&args); }).message ==
        "gemm: a.shape[2] (K) is 0; allowed in tuning: 1 and up");
  args.a = tensor({16, 8}), args.b = tensor({24, 8}), args.d = tensor({16, 24});
  CHECK(ops::gemm_tunable().problem_of(ops::gemm_tunable().problem_of(&args).fields).has_value());
}

TEST_CASE("a problem survives its fields; a field that was changed is noticed or is another problem") {
  int index = 0;
  for (const ops::Problem& problem : problems(kEverything)) {
    if (testing::thinned_out(index++)) continue;
    const auto back = ops::gemm_tunable().problem_of(problem.fields);
    REQUIRE(back);
    CHECK(back->name == problem.name);
    CHECK(ops::gemm_tunable().key_of(*back) == ops::gemm_tunable().key_of(problem));
  }
  const ops::Problem good = problems({{"sizes", {"64"}}, {"dtype", {"f16"}}}).front();
  for (std::size_t i = 0; i < good.fields.size(); ++i) {
    ops::Problem bad = good;
    bad.fields[i].second = "x1";
    CHECK_FALSE_MESSAGE(ops::gemm_tunable().problem_of(bad.fields), good.fields[i].first);
    bad.fields.erase(bad.fields.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK_FALSE_MESSAGE(ops::gemm_tunable().problem_of(bad.fields), good.fields[i].first);
  }
}

TEST_CASE("a problem with a limit of multiprocessors is another problem, and no cluster of its tiles exceeds it") {
  ops::Problem problem = problems({{"sizes", {"8192"}}, {"dtype", {"f16"}}}).front();
  const ops::ProblemKey unlimited = ops::gemm_tunable().key_of(problem);
  problem.fields.emplace_back("max-sms", "1");
  const auto limited = ops::gemm_tunable().problem_of(problem.fields);
  REQUIRE(limited);
  CHECK(limited->name == "gemm_f16_kk 8192x8192x8192 on 1 SMs");
  CHECK_FALSE(ops::gemm_tunable().key_of(*limited) == unlimited);
  for (const ops::Variant& variant : ops::gemm_tunable().variants(*limited, hopper()))
    CHECK(ops::gemm_tiles()[static_cast<std::size_t>(ops::GemmChoice::of(variant.kernel.choice).tile)].blocks() == 1);
  problem.fields.back().second = "2147483647";  // the largest that a call may say
  const auto most = ops::gemm_tunable().problem_of(problem.fields);
  REQUIRE(most);
  CHECK(most->fields == problem.fields);
  for (const char* bad : {"0", "-1", "x", "2147483648", "99999999999"}) {
    problem.fields.back().second = bad;
    CHECK_FALSE(ops::gemm_tunable().problem_of(problem.fields));
  }
}

TEST_CASE("a choice that was made before is made again, whatever came between") {
  const auto problem = [](std::int64_t i) {
    return ops::GemmSizes{1 + i * 37 % 5000, 64 + i * 211 % 9000, 16 + i * 101 % 3000, 1 + i % 3};
  };
  const auto choice = [&](std::int64_t i) { return ops::choose_gemm(problem(i), {}, hopper()); };
  std::vector<ops::GemmChoice> first;
  const std::int64_t count = testing::share(600);
  for (std::int64_t i = 0; i < count; ++i) {
    first.push_back(choice(i));
    CHECK(choice(i) == first.back());
    CHECK(ops::rank_gemm(problem(i), {}, hopper()).front().choice == first.back());
  }
  for (std::int64_t i = count; i-- > 0;) CHECK(choice(i) == first[static_cast<std::size_t>(i)]);
}

TEST_CASE("tensors of a problem are a call that gemm takes, with the problem's key and each choice's kernel") {
  const ops::Tunable& tunable = ops::gemm_tunable();
  int index = 0;
  for (const ops::Problem& problem : problems(kEverything)) {
    if (testing::sampled_out(index++)) continue;
    CAPTURE(problem.name);
    std::vector<void*> places;
    for (std::size_t i = 0; i < tunable.operands(problem).size(); ++i)
      places.push_back(reinterpret_cast<void*>((i + 1) << 40));
    const auto variants = tunable.variants(problem, hopper());
    REQUIRE(!variants.empty());
    tunable.with_args(problem, {DeviceKind::cuda, 0}, places, [&](const void* args) {
      CHECK_NOTHROW(ops::gemm_op().validate(args, false));
      const ops::ProblemKey key = ops::gemm_op().problem_key(args);
      CHECK(key == tunable.key_of(problem));
      CHECK(static_cast<const GemmArgs*>(args)
                ->d.strides[static_cast<std::size_t>(static_cast<const GemmArgs*>(args)->d.rank - 2)] ==
            ops::gemm_sizes(*static_cast<const GemmArgs*>(args)).n);
      CHECK(ops::resolve(ops::gemm_op(), args, {}, hopper()) == variants.front().kernel);
      for (const ops::Variant& variant : variants) {
        CHECK(ops::gemm_op().kernel_of(key, variant.kernel.choice) == variant.kernel);
        const ops::GemmKernel made = ops::chosen(ops::gemm_kind(*static_cast<const GemmArgs*>(args)),
                                                 ops::GemmChoice::of(variant.kernel.choice));
        CHECK(ops::gemm_op().request_of(variant.kernel).fields == ops::gemm_request(made).fields);
      }
      CHECK(std::is_sorted(variants.begin() + 1, variants.end(),
                           [](const auto& x, const auto& y) { return x.predicted_cycles < y.predicted_cycles; }));
    });
  }
}
