// Protects attention without queries, without batches and without keys, on the CPU model: nothing is written, or zeros
// and what the formula says of a log-sum-exp. Tensors without elements have no address.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include <tilejit/counters.hpp>
#include <tilejit/ladder.hpp>
#include <tilejit/ops.hpp>
#include <tilejit/plan.hpp>

#include "ops/fmha/sequences_problem.hpp"
#include "support/full.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using testing::model_runtime;

namespace {

constexpr Device kHost{DeviceKind::cpu, 0};
constexpr float kSink = 0.5f;

template <class T>
void* address(std::vector<T>& memory) {
  return memory.empty() ? nullptr : memory.data();
}
template <class T>
Tensor tensor(std::vector<T>& memory, DType type, std::initializer_list<std::int64_t> sizes, T value) {
  std::int64_t elements = size_of(type) / static_cast<int>(sizeof(T));
  for (const std::int64_t size : sizes) elements *= size;
  memory.assign(static_cast<std::size_t>(elements), value);
  return Tensor::contiguous(address(memory), kHost, type, sizes);
}

struct Shape {
  std::int64_t batch = 2, heads = 4, kv_heads = 2, queries = 70, keys = 0, head_dim = 64, value_dim = 64;
  DType out = DType::f16;
};

/// A call whose outputs are poisoned.
struct Call {
  explicit Call(const Shape& s) {
    args.q = tensor<std::uint16_t>(q, DType::f16, {s.batch, s.heads, s.queries, s.head_dim}, 0x3c00);
    args.k = tensor<std::uint16_t>(k, DType::f16, {s.batch, s.kv_heads, s.keys, s.head_dim}, 0x3c00);
    args.v = tensor<std::uint16_t>(v, DType::f16, {s.batch, s.kv_heads, s.keys, s.value_dim}, 0x3c00);
    args.o = tensor<std::uint16_t>(o, s.out, {s.batch, s.heads, s.queries, s.value_dim}, 0x7e7e);
    args.lse = tensor<float>(lse, DType::f32, {s.batch, s.heads, s.queries}, 12345);
  }
  /// The same as one sequence behind the other, without pages or in some.
  void as_lists(std::int64_t page_size) {
    const auto& s = args.q.shape;
    const std::int64_t batch = s[0], heads = s[1], queries = s[2], kv = args.k.shape[1];
    for (std::int64_t i = 0; i <= batch; ++i) begins.push_back(static_cast<std::int32_t>(i * queries));
    nothing.assign(static_cast<std::size_t>(batch + 1), 0);
    args.q = Tensor::contiguous(args.q.data, kHost, DType::f16, {batch * queries, heads, s[3]});
    args.o = Tensor::contiguous(args.o.data, kHost, args.o.dtype, {batch * queries, heads, args.v.shape[3]});
    args.lse = Tensor::contiguous(args.lse->data, kHost, DType::f32, {heads, batch * queries});
    args.cu_seqlens_q = Tensor::contiguous(begins.data(), kHost, DType::i32, {batch + 1});
    const auto keys = [&](const Tensor& of) {
      return page_size > 0 ? Tensor::contiguous(nullptr, kHost, DType::f16, {0, page_size, kv, of.shape[3]})
                           : Tensor::contiguous(nullptr, kHost, DType::f16, {0, kv, of.shape[3]});
    };
    args.k = keys(args.k), args.v = keys(args.v);
    if (page_size == 0) args.cu_seqlens_k = Tensor::contiguous(nothing.data(), kHost, DType::i32, {batch + 1});
    if (page_size > 0) args.seqused_k = Tensor::contiguous(nothing.data(), kHost, DType::i32, {batch});
    if (page_size > 0) args.block_table = Tensor::contiguous(nullptr, kHost, DType::i32, {batch, 0});
  }
  void add_sinks() { args.sinks = tensor<float>(sinks, DType::f32, {std::int64_t{4}}, kSink); }

  /// "": o is zeros and each lse as it should be.
  std::string problem() const {
    const bool zeros = std::all_of(o.begin(), o.end(), [](std::uint16_t each) { return (each & 0x7fff) == 0; });
    const float wanted = args.sinks ? kSink : -std::numeric_limits<float>::infinity();
    const bool right = std::all_of(lse.begin(), lse.end(), [&](float each) { return each == wanted; });
    return !zeros ? "o is not zeros" : !right ? "lse is another" : "";
  }
  std::string run(const std::string& target) {
    model_runtime(target).run(args);
    return problem();
  }

  FmhaArgs args;
  std::vector<std::uint16_t> q, k, v, o;
  std::vector<float> lse, sinks, bias;
  std::vector<std::int32_t> begins, nothing;
};

std::vector<void*> addresses(const FmhaArgs& args) {
  std::vector<void*> list = {args.q.data, args.k.data, args.v.data, args.o.data, args.lse->data};
  for (const auto& each : {args.sinks, args.cu_seqlens_q, args.cu_seqlens_k, args.seqused_k, args.block_table})
    if (each) list.push_back(each->data);
  return list;
}

}  // namespace

TEST_CASE("no queries, no batches: the call succeeds, and no kernel is looked up or made") {
  Runtime& runtime = model_runtime("model:sm_86");
  const std::uint64_t misses = runtime.counters().misses;
  for (const Shape& shape : {Shape{.queries = 0, .keys = 9}, Shape{.queries = 0}, Shape{.batch = 0, .keys = 9}}) {
    for (const int lists : {0, 1, 2}) {
      Call call(shape);
      if (lists != 0) call.as_lists(lists == 1 ? 0 : 16);
      runtime.run(call.args);
      CHECK(runtime.prepare(call.args).name.empty());
      const Plan plan = runtime.plan(call.args);
      CHECK(plan.report().name.empty());
      CHECK(plan.workspace_bytes() == 0);
      plan.run(addresses(call.args));
      CHECK(call.problem() == "");
    }
  }
  CHECK(runtime.counters().misses == misses);
  CHECK(runtime.counters().loads == 0);
}

TEST_CASE("no keys: zeros, and no weight but that of a sink; a plan of it runs elsewhere") {
  int index = 0;
  for (const char* target : test::kSequencesTargets) {
    CAPTURE(target);
    for (const bool causal : {false, true}) {
      if (testing::thinned_out(index++)) continue;
      Call call({});
      call.args.causal = causal;
      if (causal) call.add_sinks();
      CHECK(call.run(target) == "");
    }
  }
  Call call({}), other({});
  const Plan plan = model_runtime().plan(call.args);
  plan.run(addresses(other.args));
  CHECK(other.problem() == "");
  CHECK(call.problem() != "");
}

TEST_CASE("no keys with every mask and modification, other head dims, o of f32, and a limit of multiprocessors") {
  for (const char* target : {"model:sm_90a", "model:sm_90"}) {
    CAPTURE(target);
    Call call({.head_dim = 96, .value_dim = 128, .out = DType::f32});
    call.args.window = {20, 9}, call.args.softcap = 5, call.args.top_left = true, call.args.max_sms = 1;
    CHECK(call.run(target) == "");
    Call own({.keys = 0});
    own.args.bias = tensor<float>(own.bias, DType::f32, {2, 4, 70, 0}, 0);
    own.args.score_mod = "return score * 2.0f;", own.args.mask_mod = "return k <= q;";
    own.args.key_range = "k0 = 0; k1 = 7; all1 = 5;";
    own.add_sinks();
    CHECK(own.run(target) == "");
  }
}

TEST_CASE("no keys of few queries, whose heads are rows; lists and pages without a key or a page") {
  for (const char* target : {"model:sm_90a", "model:sm_80", "model:gfx1100"}) {
    CAPTURE(target);
    for (const std::int64_t queries : {1, 70})
      for (const std::int64_t page_size : {-1, 0, 16}) {
        CAPTURE(queries);
        CAPTURE(page_size);
        Call call({.queries = queries});
        call.args.causal = queries == 1;
        if (page_size >= 0) call.as_lists(page_size);
        if (page_size != 0) call.add_sinks();
        CHECK(call.run(target) == "");
      }
  }
}

TEST_CASE("no keys, on every rung of the ladder") {
  Ladder ladder(model_runtime("model:sm_120a"));
  for (int rung = 1; rung <= 6; ++rung) {
    CAPTURE(rung);
    Call call({});
    ladder.run(call.args, rung);
    CHECK(call.problem() == "");
    Call none({.queries = 0});
    ladder.run(none.args, rung);
    CHECK(ladder.prepare(none.args, rung).name.empty());
  }
}

TEST_CASE("pages that are not there have no keys, whatever lists say") {
  for (const char* target : {"model:sm_90a", "model:sm_80"})
    for (const std::int64_t pages : {3, 400}) {  // of many, in parts that are merged
      Call call({.queries = 5});
      call.as_lists(16);
      std::vector<std::int32_t> table(static_cast<std::size_t>(2 * pages), 1 << 20);
      call.nothing.assign(call.nothing.size(), 40);
      call.args.block_table = Tensor::contiguous(table.data(), kHost, DType::i32, {2, pages});
      CHECK((model_runtime(target).plan(call.args).workspace_bytes() > 0) == (pages == 400));
      CHECK(call.run(target) == "");
    }
}

TEST_CASE("TJ_CHECK reads the lists of calls without queries, and passes those without keys") {
  Options options;
  options.target = "model:sm_90a";
  options.check_lists = true;
  options.use_disk_cache = false;
  Runtime runtime(options);
  Call call({.queries = 5});
  call.as_lists(16);
  runtime.run(call.args);
  CHECK(call.problem() == "");
  Call none({.queries = 0});
  none.as_lists(0);
  runtime.run(none.args);
  none.begins[1] = 7;
  CHECK_THROWS_WITH_AS(runtime.run(none.args), doctest::Contains("cu_seqlens_q[1] is 7"), Error);
}

TEST_CASE("partial outputs of no rows are merged to none") {
  std::vector<float> states, lse_states, o, lse;
  MergeStatesArgs args;
  args.states = tensor<float>(states, DType::f32, {3, 2, 0, 64}, 0);
  args.lse_states = tensor<float>(lse_states, DType::f32, {3, 2, 0}, 0);
  args.o = tensor<float>(o, DType::f32, {2, 0, 64}, 0);
  args.lse = tensor<float>(lse, DType::f32, {2, 0}, 0);
  model_runtime().run(args);
  CHECK(model_runtime().prepare(args).name.empty());
}
