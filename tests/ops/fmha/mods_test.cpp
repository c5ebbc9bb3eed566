// Protects what is said of a user's texts and biases: which are refused by what name, that a compiler's error names the
// text and its line, and that texts are part of a kernel's key and name.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "ops/fmha/fmha.hpp"
#include "ops/fmha/mods.hpp"
#include "ops/fmha/problem.hpp"
#include "support/device_texts.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using test::FmhaProblem;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

std::string refusal(const FmhaArgs& args, const char* target = "model:sm_80") {
  try {
    testing::model_runtime(target).run(args);
  } catch (const Error& error) {
    return error.message;
  }
  return "nothing";
}
bool says(const std::string& message, const std::string& part) {
  CAPTURE(message);
  CAPTURE(part);
  return message.find(part) != std::string::npos;
}

FmhaProblem problem() { return FmhaProblem({1, 2, 1, 40, 70, 64, DType::f16}, 12000); }

}  // namespace

TEST_CASE("texts that cannot be one are refused before anything is compiled, by their names") {
  const struct {
    std::string text;
    const char* said;
  } cases[] = {
      {"", "mask_mod is empty; allowed: the body of a function, such as return k <= q;"},
      {" \n // nothing\n", "mask_mod is empty"},
      {"return k <= q; }", "mask_mod has '}' in line 1 without its other half"},
      {"\n if (k <= q) { return true;", "mask_mod has '{' in line 2 without its other half"},
      {"return (k <= q];", "mask_mod has ']' in line 1"},
      {"k <= q;", "mask_mod has no return; allowed: the body of a function, such as return k <= q;"},
      {"// return\n k <= q;", "mask_mod has no return"},
      {"#define X 1\nreturn X;", "mask_mod has a directive of the preprocessor"},
      {"%:include \"/tmp/x.h\"\nreturn k <= q;", "mask_mod has '%:', another spelling of a bracket or a directive"},
      {"return k <= q; %> static void other() <%", "mask_mod has '<%', another spelling"},
      {"return k <= q; // one line \\ ", "mask_mod has a directive of the preprocessor or a line that goes on"},
      {"return k <= q; /* no end", "mask_mod has a comment that does not end"},
      {"const char* s = R\"(\")\"; return k <= q;", "mask_mod has a raw string; allowed: other strings"},
      {"return 0xa'b > k; } static int other() { return 0xa'b;", "mask_mod has '}' in line 1 without its other half"},
      {"return k <= q; // \xc3\xa4", "mask_mod has a character that is not printable ASCII"},
      {"return k <= q;" + std::string(2100, ' '), "mask_mod has 2114 characters; allowed: at most 2048"},
      {"return params.i32(k) == 1;", "mod_params is absent; allowed: a tensor of f32 or i32, as mask_mod reads params"},
  };
  FmhaProblem with = problem();
  for (const auto& each : cases) {
    with.args.mask_mod = each.text;
    CHECK(says(refusal(with.args), each.said));
  }
  with.args.mask_mod = {};
  with.args.key_range = "k0 = 3;";
  CHECK(says(refusal(with.args), "key_range is given; allowed: with mask_mod or score_mod"));
  with.args.key_range = {};
  with.args.mod_params = Tensor::contiguous(with.args.q.data, kCpu, DType::f32, {4});
  CHECK(says(refusal(with.args), "mod_params is given; allowed: with score_mod, mask_mod or key_range"));
  with.args.score_mod = "return score * params.f32(h);";
  with.args.mod_params->dtype = DType::f16;
  CHECK(says(refusal(with.args), "mod_params.dtype is f16; allowed: f32, or i32"));
}

TEST_CASE("digits that a quote parts, characters, and what looks like an end in quotes are code") {
  for (const char* text : {"return k <= 0xFF'FF;", "return k <= 1'000;", "return k != '}';",
                           "return k % 2 == 0; // <% '", "const char* s = \"%: \\\" /* \"; return s[0] == k;"}) {
    CAPTURE(std::string(text));
    CHECK(DeviceText(text).kept()->problem == "");
  }
}

TEST_CASE("a compiler's error names the text and the user's line") {
  FmhaProblem with = problem();
  with.args.mask_mod = "int half = q / 2;\nreturn k <= haf;";
  CHECK(says(refusal(with.args), "fmha: mask_mod does not compile, line 2: error"));
  with.args.mask_mod = {};
  with.args.score_mod = "return score +\n\n  nothing(k);";
  CHECK(says(refusal(with.args), "fmha: score_mod does not compile, line 3: error"));
  with.args.score_mod = "return score;";
  with.args.key_range = "k2 = 4;";
  CHECK(says(refusal(with.args), "fmha: key_range does not compile, line 1: error"));
}

TEST_CASE("shapes, types and strides of a bias") {
  FmhaProblem with = problem();
  std::vector<float> memory(2 * 40 * 70);
  const auto bias = [&](std::initializer_list<std::int64_t> shape, DType dtype = DType::f32) {
    with.args.bias = Tensor::contiguous(memory.data(), kCpu, dtype, shape);
    return refusal(with.args);
  };
  CHECK(says(bias({1, 2, 40, 71}), "bias.shape[3] (Sk) is 71 in [1, 2, 40, 71]; allowed: 70"));
  CHECK(says(bias({1, 2, 41, 70}), "bias.shape[2] (Sq) is 41 in [1, 2, 41, 70]; allowed: 40"));
  CHECK(says(bias({1, 3, 40, 70}), "bias.shape[1] (H) is 3 in [1, 3, 40, 70]; allowed: 2"));
  CHECK(says(bias({40, 70}), "bias"));
  CHECK(says(bias({1, 1, 40, 70}, DType::bf16), "bias.dtype is bf16; allowed: f16, as q.dtype, or f32"));
  CHECK(bias({1, 2, 40, 70}) == "nothing");
  with.args.bias->data = with.args.o.data;
  CHECK(says(refusal(with.args), "overlap"));
}

TEST_CASE("texts are part of the key, of the request and of the name; equal ones are one") {
  ops::FmhaKernel plain, causal, other;
  causal.mask_mod = "return k <= q;";
  other.mask_mod = "return k < q;";
  ops::FmhaKernel same;
  same.mask_mod = std::string("return k ") + "<= q;";
  ops::FmhaKernel as_score;
  as_score.score_mod = "return k <= q;";
  CHECK(ops::fmha_small_key(causal) == ops::fmha_small_key(same));
  const ops::FmhaKernel* kernels[] = {&plain, &causal, &other, &as_score};
  for (const auto* a : kernels)
    for (const auto* b : kernels) {
      if (a == b) continue;
      CHECK(ops::fmha_small_key(*a) != ops::fmha_small_key(*b));
      CHECK(ops::fmha_request(*a).fields != ops::fmha_request(*b).fields);
      CHECK(ops::fmha_request(*a).name != ops::fmha_request(*b).name);
    }
  // A request that another process wrote has the text.
  const ops::Request request = ops::fmha_request(causal);
  CHECK(ops::fmha_op().kernel_of(request).small_key == ops::fmha_small_key(causal));
  CHECK(ops::fmha_op().request_of({ops::fmha_small_key(causal)}).fields == request.fields);
}

TEST_CASE("texts on a command line") {
  const auto requests = ops::fmha_op().requests({{"mask-mod", {"return min(k", " q) == k;"}}, {"head-dim", {"64"}}});
  REQUIRE(!requests.empty());
  const auto& fields = requests[0].fields;
  CHECK(fields.back() == std::pair<std::string, std::string>("mask-mod", "return min(k, q) == k;"));
}
