// Protects the numbers in what products allow: of each limit the last value that passes and the first that does not, on
// both sides. The words of a refusal are for gemm_validate_test.cpp.
#include <doctest/doctest.h>

#include <cstdint>

#include <tilejit/ops.hpp>

#include "arch/arch.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/limits.hpp"

using namespace tj;
using namespace tj::testing;

namespace {

struct OnRung {
  GemmConfig sizes;
  int rung = 0;
};

}  // namespace

TEST_CASE("rungs of the ladder of products") {
  check_limits<OnRung>(
      {},
      [](const OnRung& c) {
        ops::rung_kernel(ops::gemm_op(), ops::gemm_problem_key(c.sizes), c.rung, *arch::find("sm_90a"));
      },
      {
          {"rung is", {0, 3, 10}, {-1, 11}, [](auto& c, auto value) { c.rung = static_cast<int>(value); }},
          {"rung is v1 and M",
           {1, 64, 128},
           {129, 256},
           [](auto& c, auto value) {
             c.sizes = {value, 128, 64};
             c.rung = 1;
           }},
          {"rung is v1 and N",
           {1, 128},
           {129, 256},
           [](auto& c, auto value) {
             c.sizes = {128, value, 64};
             c.rung = 1;
           }},
          {"rung is v1 and K",
           {1, 64},
           {65},
           [](auto& c, auto value) {
             c.sizes = {128, 128, value};
             c.rung = 1;
           }},
          {"rung is v1 and the batch",
           {1},
           {2},
           [](auto& c, auto value) {
             c.sizes = {128, 128, 64, value};
             c.rung = 1;
           }},
          {"rung is v2 and M",
           {128},
           {129},
           [](auto& c, auto value) {
             c.sizes = {value, 128, 4096};
             c.rung = 2;
           }},
          {"rung is v2 and N",
           {128},
           {129},
           [](auto& c, auto value) {
             c.sizes = {128, value, 4096};
             c.rung = 2;
           }},
          {"rung is v2 and the batch",
           {1},
           {2},
           [](auto& c, auto value) {
             c.sizes = {128, 128, 4096, value};
             c.rung = 2;
           }},
          {"and a.dtype is e4m3",
           {0, 10},
           {1, 9},
           [](auto& c, auto value) {
             c.sizes.dtype = DType::e4m3;
             c.rung = static_cast<int>(value);
             c.sizes.m = c.sizes.n = c.sizes.k = 64;
           }},
      });
}

TEST_CASE("products") {
  check_limits<GemmConfig>(
      {}, [](const GemmConfig& config) { ops::validate(config); },
      {
          {"m is", {1, 64}, {0, -1, kMost + 1}, [](auto& c, auto value) { c.m = value; }},
          {"n is", {1, 64}, {0, -1, kMost + 1}, [](auto& c, auto value) { c.n = value; }},
          {"k is", {1, kMost}, {0, -1, kMost + 1}, [](auto& c, auto value) { c.k = value; }},
          {"batch is", {1, 64}, {0, -1, kMost + 1}, [](auto& c, auto value) { c.batch = value; }},
          {"B * ceil(M / 64) * ceil(N / 32)",
           {2048},
           {2049},
           [](auto& c, auto value) {
             c.m = kMost;
             c.n = value;
           }},
          {"B * ceil(M / 64) * ceil(N / 32)",
           {4096},
           {4097},
           [](auto& c, auto value) {
             c.n = kMost / 2;
             c.m = value;
           }},
          {"B * ceil(M / 64) * ceil(N / 32)",
           {kMost},
           {kMost + 1},
           [](auto& c, auto value) {
             c.m = 64;
             c.n = 32;
             c.batch = value;
             if (value > kMost) c.batch = kMost, c.m = 65;
           }},
          {"dtype is", {0, 1, 4}, {2, 3}, [](auto& c, auto value) { c.dtype = static_cast<DType>(value); }},
          {"out is", {0, 1, 2, 4}, {3, 5}, [](auto& c, auto value) { c.out = static_cast<DType>(value); }},
          {"activation is",
           {0, 4},
           {-1, 5},
           [](auto& c, auto value) { c.activation = static_cast<Activation>(value); }},
      });
  GemmArgs good;
  good.a = dense(0, DType::f16, {24, 32});
  good.b = dense(1, DType::f16, {40, 32});
  good.d = dense(2, DType::f32, {24, 40});
  good.c = dense(3, DType::f32, {24, 40});
  good.bias = dense(4, DType::f32, {40});
  good.beta = 1;
  const std::int64_t rows = 24 * 40 * 4, operand = 24 * 32 * 2;
  check_limits<GemmArgs>(good, [](const GemmArgs& args) { ops::validate(args, false); },
                         {
                             {"(K)",
                              {0, 1, kMost},
                              {-1, kMost + 1},
                              [](auto& a, auto value) {
                                resize(a.a, 1, value);
                                resize(a.b, 1, value);
                              }},
                             {"(M)",
                              {0, 1},
                              {-1, kMost + 1},
                              [](auto& a, auto value) {
                                for (Tensor* each : {&a.a, &a.d, &*a.c}) resize(*each, 0, value);
                              }},
                             {"(N)",
                              {0, 1},
                              {-1, kMost + 1},
                              [](auto& a, auto value) {
                                resize(a.b, 0, value), resize(*a.bias, 0, value);
                                for (Tensor* each : {&a.d, &*a.c}) resize(*each, 1, value);
                              }},
                             {"a.strides[0]",
                              {32, 33, 1, kMostStride / 2 - 1},
                              {0, -32, kMostStride / 2},
                              [](auto& a, auto value) { a.a.strides[0] = value; }},
                             {"a.data", {2, 4}, {1, 3}, [](auto& a, auto value) { move(a.a, value); }},
                             {"b.data", {2}, {1}, [](auto& a, auto value) { move(a.b, value); }},
                             {"d.data", {4}, {1, 2}, [](auto& a, auto value) { move(a.d, value); }},
                             {"c.data", {4}, {2}, [](auto& a, auto value) { move(*a.c, value); }},
                             {"bias.data", {4}, {2}, [](auto& a, auto value) { move(*a.bias, value); }},
                             {"d.strides[0]",
                              {40, 41, kMostStride / 4 - 1},
                              {39, kMostStride / 4},
                              [](auto& a, auto value) { a.d.strides[0] = value; }},
                             {"c.strides[0]",
                              {1, 40, kMostStride / 4 - 1},
                              {0, kMostStride / 4},
                              [](auto& a, auto value) { a.c->strides[0] = value; }},
                             {"d at",
                              {operand, -rows},
                              {operand - 4, 4 - rows, 0},
                              [](auto& a, auto value) {
                                a.d.data = a.a.data;
                                move(a.d, value);
                              }},
                             {"d at",
                              {40 * 32 * 2, -rows},
                              {40 * 32 * 2 - 4, 4 - rows},
                              [](auto& a, auto value) {
                                a.d.data = a.b.data;
                                move(a.d, value);
                              }},
                             {"d at",
                              {rows, -rows, 0},
                              {rows - 4, 4 - rows},
                              [](auto& a, auto value) {
                                a.d.data = a.c->data;
                                move(a.d, value);
                              }},
                             {"d at",
                              {160, -rows},
                              {156, 4 - rows},
                              [](auto& a, auto value) {
                                a.d.data = a.bias->data;
                                move(a.d, value);
                              }},
                             {"d at",
                              {1},
                              {2, 41},
                              [](auto& a, auto value) {  // the view of c is d's where every stride is
                                a.c = a.d;
                                if (value > 1) a.c->strides[0] = 40 + value / 2;
                              }},
                         });
  // Each clause of what "the same view" asks: another rank, another place, another stride where there is more than one.
  GemmArgs view = good;
  resize(view.d, 0, 1), resize(view.a, 0, 1);
  view.c = view.d;
  view.c->strides[0] = 7;
  CHECK_NOTHROW(ops::validate(view, false));
}
