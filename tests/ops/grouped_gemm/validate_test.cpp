// Protects what grouped_gemm refuses, by the argument's name, its value and what is allowed; that nothing runs then;
// that few kernels serve a model; and that the C structure means the same as the C++ one.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <string_view>

#include <tilejit/tilejit.h>
#include <tilejit/tilejit.hpp>

#include "arch/arch.hpp"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "ops/grouped_gemm/problem.hpp"
#include "support/expect.hpp"

using namespace tj;
using test::GroupedProblem;
using test::GroupedShape;

namespace {

GroupedShape shape_of(Grouping grouping, DType dtype = DType::bf16) {
  GroupedShape shape;
  shape.counts = {40, 3};
  shape.grouping = grouping;
  shape.dtype = dtype;
  if (dtype == DType::e4m3) shape.scales = Scales::block;
  return shape;
}

std::string refusal(const std::function<void(GroupedGemmArgs&)>& change, Grouping grouping = Grouping::ends,
                    DType dtype = DType::bf16) {
  GroupedProblem problem(shape_of(grouping, dtype), 1);
  change(problem.args);
  return testing::said_by([&] { ops::validate(problem.args, true); });
}

bool has(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts)
    if (text.find(part) == std::string::npos) {
      MESSAGE(text);
      return false;
    }
  return true;
}

}  // namespace

TEST_CASE("legal calls pass") {
  for (const Grouping grouping : {Grouping::ends, Grouping::counts, Grouping::rows})
    for (const DType dtype : {DType::bf16, DType::e4m3}) CHECK(refusal([](GroupedGemmArgs&) {}, grouping, dtype) == "");
}

TEST_CASE("shapes and lists") {
  CHECK(has(refusal([](auto& a) { a.groups.dtype = DType::i32, a.groups.shape[0] = 3; }),
            {"grouped_gemm: groups.shape[0]", "3", "allowed: 2", "b.shape[0]"}));
  CHECK(has(refusal([](auto& a) { a.groups.shape[0] = 5; }, Grouping::rows), {"groups.shape[0]", "a's M"}));
  CHECK(has(refusal([](auto& a) { a.groups.dtype = DType::f32; }), {"groups.dtype is f32", "i32"}));
  CHECK(has(refusal([](auto& a) { a.a.shape[1] = 32; }), {"a.shape[1]", "b's K"}));
  CHECK(has(refusal([](auto& a) { a.d.shape[0] = 7; }), {"d.shape[0]", "a's rows"}));
  CHECK(has(refusal([](auto& a) { a.b.rank = 2; }), {"b.rank", "[G, N, K]"}));
  CHECK(has(refusal([](auto&) {}, Grouping::counts), {}));
  CHECK(has(refusal([](auto& a) { a.grouping = Grouping::counts; }), {"a.rank", "[G, R, K] with counts"}));
  CHECK(has(refusal([](auto& a) { a.grouping = static_cast<Grouping>(4); }), {"grouping is 4", "3 (depths)"}));
}

TEST_CASE("memory that the copy engine cannot read as it lies") {
  CHECK(has(refusal([](auto& a) { a.a.strides[0] = 65; }), {"a.strides[0]"}));
  CHECK(has(refusal([](auto& a) { a.b.strides[2] = 2; }), {"b.strides[2]", "allowed: 1"}));
  CHECK(has(refusal([](auto& a) { a.a.data = static_cast<char*>(a.a.data) + 2; }), {"a.data"}));
  CHECK(has(refusal([](auto& a) { a.d.data = a.a.data; }), {"d", "a", "overlap"}));
  CHECK(has(refusal([](auto& a) { a.d.data = a.groups.data; }), {"d", "groups"}));
}

TEST_CASE("numbers and scales") {
  CHECK(has(refusal([](auto& a) { a.alpha = std::numeric_limits<float>::infinity(); }), {"alpha is inf", "finite"}));
  CHECK(has(refusal([](auto& a) { a.expected_rows = -1; }), {"expected_rows is -1", "0 (not known)"}));
  CHECK(has(refusal([](auto& a) { a.max_sms = -1; }), {"max_sms is -1"}));
  CHECK(has(refusal([](auto& a) { a.activation = static_cast<Activation>(9); }), {"activation is 9"}));
  CHECK(has(refusal([](auto& a) { a.scale_a = a.groups; }), {"scale_a is given with a.dtype bf16", "e4m3"}));
  CHECK(has(refusal([](auto& a) { a.scale_b.reset(); }, Grouping::ends, DType::e4m3), {"scale_b is absent"}));
  CHECK(has(refusal([](auto& a) { a.scale_b->shape[1] = 5; }, Grouping::ends, DType::e4m3), {"scale_b.shape[1]"}));
  CHECK(has(refusal([](auto& a) { a.scale_a->shape[0] = 5; }, Grouping::ends, DType::e4m3), {"scale_a.shape[0]"}));
}

TEST_CASE("lists, where a user wants them looked at: the first bad entry by name") {
  const auto told = [](Grouping grouping, std::size_t at, std::int32_t entry) -> std::string {
    GroupedShape shape = shape_of(grouping);
    shape.counts = {40, 0, 130};
    GroupedProblem problem(shape, 1);
    problem.list[at] = entry;
    return testing::said_by(
        [&] { ops::grouped_gemm_op().check_lists(&problem.args, [&](const Tensor&) { return problem.list; }); });
  };
  CHECK(told(Grouping::ends, 0, 40) == "");
  CHECK(told(Grouping::counts, 1, 130) == "");
  CHECK(told(Grouping::rows, 39, -1) == "");  // the last of its group
  // A tile of 64 rows takes what its own first row names, so that a row of none within a group would cut it.
  CHECK(has(told(Grouping::rows, 3, -1), {"groups[4] is 0; allowed: -1, as groups[3]", "the next multiple of 128"}));
  CHECK(has(told(Grouping::ends, 1, 39), {"groups[1] is 39; allowed: 40 (the end before it) to 170 (M)"}));
  CHECK(has(told(Grouping::ends, 2, 171), {"groups[2] is 171"}));
  CHECK(has(told(Grouping::ends, 0, -1), {"groups[0] is -1; allowed: 0 to 170 (M)"}));
  CHECK(has(told(Grouping::counts, 2, 131), {"groups[2] is 131; allowed: 0 to 130 (R)"}));
  CHECK(has(told(Grouping::rows, 7, 3), {"groups[7] is 3; allowed: -1 (none) to 2"}));
  CHECK(has(told(Grouping::rows, 7, 2), {"groups[7] is 2; allowed: 0, as groups[0], or -1"}));
}

TEST_CASE("configurations") {
  GroupedGemmConfig config;
  config.groups = 0;
  CHECK_THROWS_WITH_AS(ops::validate(config), doctest::Contains("groups is 0; allowed: 1 to"), Error);
  config = {};
  config.scales = Scales::block;
  CHECK_THROWS_WITH_AS(ops::validate(config), doctest::Contains("scales is 1"), Error);
  config.dtype = DType::e4m3;
  CHECK_NOTHROW(ops::validate(config));
}

TEST_CASE("all archs of products have groups; what one lacks is refused by the op's name") {
  const ops::Op& op = ops::grouped_gemm_op();
  const arch::Arch& other = *arch::find("gfx1100");
  for (const arch::Arch* arch : arch::all()) CHECK(op.serves(*arch) == ops::gemm_op().serves(*arch));
  const ops::Kernel kernel = op.choose(
      ops::gemm_problem_key(ops::grouped_gemm_sizes(GroupedGemmConfig{}), ops::grouped_gemm_kind(GroupedGemmConfig{})),
      *arch::find("sm_90a"));
  CHECK_THROWS_WITH_AS(static_cast<void>(op.candidates(op.request_of(kernel), other)),
                       doctest::Contains("grouped_gemm: tile is"), Error);
}

TEST_CASE("calls that differ by less than a power of two in their expected rows take one kernel") {
  GroupedGemmConfig config;
  config.expected_rows = 300;
  const auto kernel = [&] {
    return ops::choose_gemm(ops::gemm_problem_key(ops::grouped_gemm_sizes(config), ops::grouped_gemm_kind(config)),
                            *arch::find("sm_90a"))
        .small_key;
  };
  const std::uint64_t one = kernel();
  config.expected_rows = 500;
  CHECK(kernel() == one);
}

TEST_CASE("few kernels serve the experts of a model in all batches: eight with those that quantise and combine") {
  struct Model {
    const char* name;
    std::int64_t experts, each, width, inner;
  };
  const auto kernels_of = [](const Model& model, DType dtype) {
    std::set<std::uint64_t> kernels;
    for (const bool first : {true, false})
      for (std::int64_t tokens = 1; tokens <= 4096; ++tokens) {
        GroupedGemmConfig config;
        config.dtype = dtype;
        config.groups = model.experts;
        config.expected_rows = (tokens * model.each + model.experts - 1) / model.experts;
        config.n = first ? 2 * model.inner : model.width;
        config.k = first ? model.width : model.inner;
        config.gate = first ? Activation::silu : Activation::none;
        config.out = first ? dtype : DType::bf16;
        if (dtype == DType::e4m3) config.scales = Scales::block;
        kernels.insert(
            ops::choose_gemm(ops::gemm_problem_key(ops::grouped_gemm_sizes(config), ops::grouped_gemm_kind(config)),
                             *arch::find("sm_90a"))
                .small_key);
      }
    return kernels.size();
  };
  for (const Model& model : {Model{"Mixtral-8x7B", 8, 2, 4096, 14336}, Model{"DeepSeek-V3", 256, 8, 7168, 2048},
                             Model{"DeepSeek-V3, 64 experts", 64, 8, 7168, 2048}}) {
    CAPTURE(model.name);
    CHECK(kernels_of(model, DType::e4m3) <= 6);  // tokens are quantised, and sums of a token's experts combined
    CHECK(kernels_of(model, DType::bf16) <= 7);
  }
}

TEST_CASE("of tiles that are alike for groups, clusters below each other are taken for many rows alone") {
  const auto tile_of = [](std::int64_t rows) {
    GroupedGemmConfig config;
    config.dtype = config.out = DType::e4m3;
    config.scales = Scales::block;
    config.gate = Activation::silu;
    config.groups = 8;
    config.n = config.k = 4096;
    config.expected_rows = rows;
    return ops::gemm_choice_name(ops::GemmChoice::of(
        ops::choose_gemm(ops::gemm_problem_key(ops::grouped_gemm_sizes(config), ops::grouped_gemm_kind(config)),
                         *arch::find("sm_90a"))
            .choice));
  };
  CHECK(tile_of(48) == "64x256x128");
  CHECK(tile_of(64) == "128x256x128");  // half of the groups have more than 64 rows
  CHECK(tile_of(128) == "128x256x128");
  CHECK(tile_of(8192) == "128x256x128c2x1");  // half of the groups leave 128 rows of a cluster empty
}

TEST_CASE("a tile has room for groups that have more rows than the mean, as half of them do") {
  const auto rows_of = [](DType dtype, std::int64_t rows) {
    GroupedGemmConfig config;
    config.dtype = dtype;
    if (dtype == DType::e4m3) config.scales = Scales::block;
    config.groups = 8;
    config.n = 4096;
    config.k = 14336;
    config.expected_rows = rows;
    const ops::Kernel kernel = ops::choose_gemm(
        ops::gemm_problem_key(ops::grouped_gemm_sizes(config), ops::grouped_gemm_kind(config)), *arch::find("sm_90a"));
    return ops::gemm_tiles()[static_cast<std::size_t>(ops::GemmChoice::of(kernel.choice).tile)].block_m;
  };
  for (const DType dtype : {DType::e4m3, DType::bf16}) {
    for (const std::int64_t few : {1, 16, 33, 48}) CHECK(rows_of(dtype, few) == 64);
    for (const std::int64_t more : {49, 64, 96}) CHECK(rows_of(dtype, more) == 128);
  }
}

TEST_CASE("blocks of AMD draw their tiles where lists may ask for more threads than a launch of HIP has") {
  for (const Grouping grouping : {Grouping::ends, Grouping::counts})
    for (const std::int64_t rows : {1 << 20, 1 << 28}) {
      GroupedProblem problem(shape_of(grouping), 1);
      GroupedGemmArgs& args = problem.args;
      const std::size_t row_axis = grouping == Grouping::counts ? 1 : 0, columns = row_axis + 1;
      args.a.shape[row_axis] = args.d.shape[row_axis] = rows;
      args.b.shape[1] = args.d.shape[columns] = 64;
      const auto walk_on = [&](const char* arch) {
        const ops::Op& op = ops::grouped_gemm_op();
        return ops::GemmChoice::of(op.choose(op.problem_key(&args), *arch::find(arch)).choice).walk;
      };
      CHECK(walk_on("gfx90a") == (rows > 1 << 20 ? ops::WalkChoice::dynamic : ops::WalkChoice::usual));
      for (const char* nvidia : {"sm_80", "sm_90a", "sm_100a"}) CHECK(walk_on(nvidia) == ops::WalkChoice::usual);
    }
}

TEST_CASE("a C structure is the descriptor") {
  GroupedProblem problem(shape_of(Grouping::rows, DType::e4m3), 1);
  const auto c_tensor = [](const Tensor& tensor) {
    tj_tensor c{};
    c.size = sizeof c;
    c.data = tensor.data;
    c.dtype = static_cast<std::int32_t>(tensor.dtype);
    c.rank = tensor.rank;
    for (int i = 0; i < tensor.rank; ++i) {
      c.shape[i] = tensor.shape[static_cast<std::size_t>(i)];
      c.strides[i] = tensor.strides[static_cast<std::size_t>(i)];
    }
    return c;
  };
  const tj_tensor a = c_tensor(problem.args.a), b = c_tensor(problem.args.b), d = c_tensor(problem.args.d),
                  groups = c_tensor(problem.args.groups), scale_a = c_tensor(*problem.args.scale_a);
  tj_grouped_gemm_args c{};
  c.size = sizeof c;
  c.a = &a;
  c.b = &b;
  c.d = &d;
  c.groups = &groups;
  c.scale_a = &scale_a;
  c.alpha = 2;
  c.grouping = TJ_GROUPING_ROWS;
  c.activation = TJ_ACTIVATION_SILU;
  c.expected_rows = 77;
  c.max_sms = 5;
  const GroupedGemmArgs args = ops::grouped_gemm_from_c(&c);
  CHECK(args.grouping == Grouping::rows);
  CHECK(args.activation == Activation::silu);
  CHECK(args.alpha == 2.0f);
  CHECK(args.expected_rows == 77);
  CHECK(args.max_sms == 5);
  CHECK(args.scale_a->data == problem.args.scale_a->data);
  CHECK(!args.scale_b);
  CHECK(!args.bias);
  CHECK(!args.c);
  CHECK(args.gate == Activation::none);
  c.c = &d;
  c.beta = -1;
  c.gate = TJ_ACTIVATION_GELU;
  c.gate_interleaved = 1;
  c.grouping = TJ_GROUPING_DEPTHS;
  const GroupedGemmArgs more = ops::grouped_gemm_from_c(&c);
  CHECK(more.c->data == problem.args.d.data);
  CHECK(more.beta == -1.0f);
  CHECK(more.gate == Activation::gelu);
  CHECK(more.gate_interleaved);
  CHECK(more.grouping == Grouping::depths);
  CHECK(!more.scale_d);
  CHECK(!more.powers_of_two);
  c.scale_d = &scale_a;
  c.powers_of_two = 1;
  const GroupedGemmArgs quantised = ops::grouped_gemm_from_c(&c);
  CHECK(quantised.scale_d->data == problem.args.scale_a->data);
  CHECK(quantised.powers_of_two);
  c.gate = 9;
  CHECK_THROWS_WITH_AS(static_cast<void>(ops::grouped_gemm_from_c(&c)), doctest::Contains("args.gate is 9"), Error);
  c.gate = 0;
  c.grouping = 7;
  CHECK_THROWS_WITH_AS(static_cast<void>(ops::grouped_gemm_from_c(&c)), doctest::Contains("args.grouping is 7"), Error);
}

TEST_CASE("a gate and an addend: what does not go with them is named") {
  const auto gated = [](GroupedGemmArgs& g) {
    g.gate = Activation::silu;
    g.d = Tensor::strided(g.d.data, g.d.device, g.d.dtype, {43, 32}, {32, 1});
  };
  CHECK(refusal(gated) == "");
  CHECK(has(refusal([](GroupedGemmArgs& g) { g.gate = Activation::silu; }),
            {"d.shape[1] (N) is 64", "32", "half of b's N, with a gate"}));
  CHECK(has(refusal([](GroupedGemmArgs& g) { g.gate = static_cast<Activation>(7); }), {"gate is 7", "4 (gelu_tanh)"}));
  CHECK(has(refusal([&](GroupedGemmArgs& g) { gated(g), g.activation = Activation::relu; }),
            {"activation is 1", "with a gate: 0 (none)"}));
  CHECK(has(refusal([&](GroupedGemmArgs& g) { gated(g), g.beta = 1; }), {"beta is not 0", "with a gate: 0"}));
  CHECK(has(refusal([](GroupedGemmArgs& g) { g.beta = 1; }), {"beta is 1 but c is absent"}));
  CHECK(has(refusal([](GroupedGemmArgs& g) { g.beta = std::numeric_limits<float>::infinity(); }),
            {"beta is inf", "any finite value"}));
  CHECK(has(refusal([](GroupedGemmArgs& g) { g.beta = 1, g.c = g.groups; }), {"c.rank is 1"}));
  CHECK(refusal([](GroupedGemmArgs& g) { g.beta = 1, g.c = g.d; }) == "");
  CHECK(has(refusal([](GroupedGemmArgs& g) {
              g.beta = 1, g.c = g.d;
              g.c->data = static_cast<char*>(g.d.data) + 2;
            }),
            {"d", "c", "overlap"}));
}
