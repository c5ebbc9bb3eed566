// Protects what is said of a user's end of a product: which texts and buffers are refused by what name, that a
// compiler's error names the text and its line, and that texts are part of kernels' keys, requests, names and flags.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "ops/gemm/gemm.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/gemm/rates.hpp"
#include "ops/grouped_gemm/grouped_gemm.hpp"
#include "ops/sum_parts/sum_parts.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::GemmProblem;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

template <class Call>
std::string refused(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message;
  }
  return "nothing";
}
std::string refusal(const GemmArgs& args, const char* target = "model:sm_80") {
  return refused([&] { testing::model_runtime(target).run(args); });
}
bool says(const std::string& message, const std::string& part) {
  CAPTURE(message);
  CAPTURE(part);
  return message.find(part) != std::string::npos;
}

GemmProblem problem() { return GemmProblem(test::gemm_shape(40, 40, 64), 7); }

}  // namespace

TEST_CASE("texts and buffers that cannot be are refused before anything is compiled, by their names") {
  const struct {
    const char *text, *said;
  } cases[] = {
      {"", "end_text is empty; allowed: the body of a function, such as return value * 2;"},
      {"value * 2;", "end_text has no return; allowed: the body of a function, such as return value * 2;"},
      {"return (value;", "end_text has '(' in line 1 without its other half"},
      {"#define X\nreturn value;", "end_text has a directive of the preprocessor"},
      {"return value * params.f32(row);", "end_params is absent; allowed: a tensor of f32 or i32, as end_text reads"},
  };
  GemmProblem with = problem();
  for (const auto& each : cases) {
    with.args.end_text = each.text;
    CHECK(says(refusal(with.args), each.said));
  }
  with.args.end_text = "return value * params.f32(row);";
  std::vector<float> memory(40);
  with.args.end_params = Tensor::contiguous(memory.data(), kCpu, DType::f16, {40});
  CHECK(says(refusal(with.args), "end_params.dtype is f16; allowed: f32, or i32"));
  with.args.end_params = Tensor::contiguous(memory.data(), kCpu, DType::f32, {4, 10});
  CHECK(says(refusal(with.args), "end_params"));
  with.args.end_params = Tensor::contiguous(with.args.d.data, kCpu, DType::f32, {40});
  CHECK(says(refusal(with.args), "overlap"));
  with.args.end_params = Tensor::contiguous(memory.data(), kCpu, DType::f32, {40});
  CHECK(refusal(with.args) == "nothing");
  with.args.activation = Activation::relu;
  CHECK(says(refusal(with.args), "activation is 1; allowed with end_text, which takes its place: 0 (none)"));
  with.args.activation = Activation::none;
  with.args.end_text = {};
  CHECK(says(refusal(with.args), "end_params is given; allowed: with end_text, which reads it"));
}

TEST_CASE("a compiler's error names the text and the user's line, of the launch that adds parts, too") {
  GemmProblem with = problem();
  with.args.end_text = "float half = value / 2;\nreturn haf;";
  for (const char* target : {"model:sm_80", "model:sm_90a", "model:gfx90a"})
    CHECK(says(refusal(with.args, target), "gemm: end_text does not compile, line 2: error"));
  with.args.end_text = "return value * group;";  // grouped_gemm's alone
  CHECK(says(refusal(with.args), "gemm: end_text does not compile, line 1: error"));
  GemmProblem parts(test::gemm_shape(16, 64, 8192), 8);
  parts.args.end_text = "\n\nreturn nothing(value);";
  CHECK(says(refusal(parts.args, "model:sm_90a"), "end_text does not compile, line 3: error"));
}

TEST_CASE("texts are part of the key, of the request and of the name; equal ones are one") {
  ops::GemmKernel plain, relu, other, same;
  relu.end_text = "return value > 0 ? value : 0;";
  other.end_text = "return value > 1 ? value : 0;";
  same.end_text = std::string("return value > 0 ") + "? value : 0;";
  CHECK(ops::gemm_small_key(relu) == ops::gemm_small_key(same));
  const ops::GemmKernel* kernels[] = {&plain, &relu, &other};
  for (const auto* a : kernels)
    for (const auto* b : kernels) {
      if (a == b) continue;
      CHECK(ops::gemm_small_key(*a) != ops::gemm_small_key(*b));
      CHECK(ops::gemm_request(*a).fields != ops::gemm_request(*b).fields);
      CHECK(ops::gemm_request(*a).name != ops::gemm_request(*b).name);
    }
  ops::GemmKernel parts = ops::of_parts(relu);
  const std::uint64_t key = ops::gemm_small_key(parts);
  parts.end_text = relu.end_text;  // which is never asked of a part
  CHECK(ops::gemm_small_key(parts) == key);
  // A request that another process wrote has the text.
  const ops::Request request = ops::gemm_request(relu);
  CHECK(ops::gemm_op().kernel_of(request).small_key == ops::gemm_small_key(relu));
  CHECK(ops::gemm_op().request_of({ops::gemm_small_key(relu)}).fields == request.fields);
  const std::uint64_t sum = ops::sum_parts_small_key(DType::f16, false, relu.end_text);
  CHECK(sum != ops::sum_parts_small_key(DType::f16));
  CHECK(ops::sum_parts_op().kernel_of(ops::sum_parts_op().request_of({sum})).small_key == sum);
}

TEST_CASE("texts on command lines") {
  const std::pair<std::string, std::string> field("end-text", "return min(value, 1.0f);");
  const ops::Flags text{{"end-text", {"return min(value", " 1.0f);"}}};
  ops::Flags with = text;
  with["dtype"] = {"bf16"};
  with["tile"] = {"64x64x128"};
  REQUIRE(ops::gemm_op().requests(with).size() == 1);
  CHECK(ops::gemm_op().requests(with)[0].fields.back() == field);
  REQUIRE(!ops::grouped_gemm_op().requests(with).empty());
  CHECK(ops::grouped_gemm_op().requests(with)[0].fields.back() == field);
  CHECK(ops::sum_parts_op().requests(text)[0].fields.back() == field);
  with["activation"] = {"relu"};
  CHECK(says(refused([&] { ops::gemm_op().requests(with); }), "--end-text is given with --activation"));
  with.erase("activation");
  with["end-text"] = {"value;"};
  CHECK(says(refused([&] { ops::gemm_op().requests(with); }), "end_text has no return"));
}

TEST_CASE("configurations, and what a text costs: calls with one are not tuned") {
  GemmConfig config;
  config.end_text = "return value * 2;";
  CHECK(ops::gemm_kind(config).end_text == config.end_text);
  const auto configs = ops::gemm_configs({{"sizes", {"64", "32x64x128"}}, {"end-text", {"return value * 2;"}}});
  REQUIRE(configs.size() >= 2);
  for (const GemmConfig& each : configs) CHECK(each.end_text == config.end_text);
  config.activation = Activation::silu;
  CHECK(says(refused([&] { ops::gemm_kind(config); }), "activation is 3; allowed with end_text"));
  GemmProblem with = problem();
  with.args.end_text = "return value * 2;";
  CHECK(says(refused([&] { ops::gemm_tunable().problem_of(&with.args); }), "end_text is given; allowed in tuning"));
  const arch::Arch& h200 = *arch::find("sm_90a");
  CHECK(ops::gemm_text_cycles({}, h200) == 0);
  CHECK(ops::gemm_text_cycles("return value * 2;", h200) > 0);
  CHECK(ops::gemm_text_cycles("return value * 2 + value / 3;", h200) > ops::gemm_text_cycles("return value;", h200));
}
