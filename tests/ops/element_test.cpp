// Protects that a type never stands for another: an op that has no text of a kernel for one refuses it by its name,
// wherever it comes in behind validate(), which refuses it first.
#include <doctest/doctest.h>

#include <string>

#include <tilejit/error.hpp>
#include <tilejit/ops.hpp>

#include "arch/arch.hpp"
#include "ops/common/element.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/op.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::has;

namespace {

template <class Work>
void refused(const char* what, const std::string& type, Work&& work, Code code = Code::internal) {
  CAPTURE(what);
  const Error error = testing::error_of(work);
  CHECK(error.code == code);
  CHECK_MESSAGE(has(error.message, what), error.message);
  CHECK_MESSAGE(has(error.message, type), error.message);
}

}  // namespace

TEST_CASE("every type has its own text, and a list none") {
  CHECK(ops::element_text("x", DType::f16) == "tj::dev::F16");
  CHECK(ops::element_text("x", DType::bf16) == "tj::dev::Bf16");
  CHECK(ops::element_text("x", DType::f32) == "tj::dev::F32");
  CHECK(ops::element_text("x", DType::e4m3) == "tj::dev::E4m3");
  refused("x: there is no text", "i32", [] { ops::element_text("x", DType::i32); });
}

TEST_CASE("attention: graphs of every family, requests and launches") {
  for (const char* arch : {"sm_90a", "sm_100a", "sm_80", "gfx1100", "gfx90a"})
    for (const DType dtype : {DType::e4m3, DType::f32}) {
      CAPTURE(arch);
      refused("fmha", to_string(dtype),
              [&] { ops::fmha_candidates(FmhaConfig{dtype, 64, false, false}, *arch::find(arch)); });
    }
  ops::Request request = ops::fmha_request(FmhaConfig{DType::f16, 64, false, false});
  request.fields.front().second = "e4m3";
  refused(
      "fmha: dtype is 'e4m3'; allowed are f16, bf16", "e4m3",
      [&] { ops::fmha_op().candidates(request, *arch::find("sm_90a")); }, Code::invalid_argument);
  FmhaArgs args;
  args.q = args.k = args.v = args.o = Tensor::contiguous(nullptr, {}, DType::e4m3, {1, 1, 64, 64});
  ops::LaunchPlan plan;
  refused("fmha: elements of e4m3 have 1 bytes", "of 2", [&] { ops::fmha_plan(args, {}, plan); });
}

TEST_CASE("products and what adds their parts: requests") {
  for (const auto& [op, field] :
       {std::pair{"gemm", "dtype"}, std::pair{"gemm", "out"}, std::pair{"sum_parts", "out"}}) {
    ops::Request request = ops::find(op)->requests({}).front();
    for (auto& [name, value] : request.fields)
      if (name == field) value = "i32";
    refused(
        op, "i32", [&, name = op] { ops::find(name)->candidates(request, *arch::find("sm_90a")); },
        Code::invalid_argument);  // a field's table says what is allowed
  }
}
