// Protects plans: what a run gives the driver is what the call gives it, at other addresses; a run allocates nothing
// and looks at nothing but addresses; bad addresses are refused by name before anything is launched.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "ops/chunk_indices/params.cuh"
#include "ops/chunk_o/params.cuh"
#include "ops/copy_rows/params.cuh"
#include "ops/fmha/params.cuh"
#include "ops/gemm/params.cuh"
#include "ops/sum_parts/params.cuh"
#include "runtime/runtime_fixture.hpp"
#include "support/allocations.hpp"

namespace {

using namespace tj::test;
using tj::ChunkIndicesArgs;
using tj::ChunkOArgs;
using tj::DType;
using tj::Error;
using tj::FmhaArgs;
using tj::GemmArgs;
using tj::Plan;
using tj::Runtime;
using tj::Tensor;

constexpr tj::Device kGpu{tj::DeviceKind::cuda, 0};

void* at(int place, std::uint64_t more = 0) {
  return address(kFirstAddress + static_cast<std::uint64_t>(place) * kAddressStep + more);
}
Tensor dense(int place, DType dtype, std::initializer_list<std::int64_t> shape, std::uint64_t more = 0) {
  return Tensor::contiguous(at(place, more), kGpu, dtype, shape);
}

/// Lines of the driver's log that `work` adds, launches' parameters included.
template <class Work>
std::string log_of(Machine& machine, const Work& work) {
  const std::string before = machine.cuda.log();
  work();
  return std::string(machine.cuda.log()).substr(before.size());
}

/// The parameter of each launch, in order: of the nth so many bytes.
class Launches {
 public:
  Launches(Machine& machine, std::vector<std::size_t> bytes) : machine_(machine), bytes_(std::move(bytes)) {
    machine_.cuda.on_launch(
        [](const void* given, void* user) {
          auto& self = *static_cast<Launches*>(user);
          const std::size_t n = self.params.size();
          self.params.emplace_back(static_cast<const char*>(given), n < self.bytes_.size() ? self.bytes_[n] : 0);
        },
        this);
  }
  ~Launches() { machine_.cuda.on_launch(nullptr, nullptr); }
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;
  std::vector<std::string> params;

 private:
  Machine& machine_;
  std::vector<std::size_t> bytes_;
};

/// Launches with their shapes.
std::string launches_of(const std::string& log) {
  std::string kept;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("cuLaunchKernel", 0) == 0) kept += line + "\n";
  return kept;
}

/// A call and the addresses of its tensors, each moved by `move` bytes.
struct Call {
  const char* op;
  std::shared_ptr<void> args;
  std::vector<void*> addresses;
  std::vector<std::size_t> params;  ///< bytes of each launch's parameter
};

constexpr std::size_t kFmha = sizeof(tj::ops::fmha::Params), kGemm = sizeof(tj::ops::gemm::Params),
                      kCopy = sizeof(tj::ops::copy_rows::Params), kSum = sizeof(tj::ops::sum_parts::Params);

Call fmha_call(std::uint64_t move, bool lse) {
  auto args = std::make_shared<FmhaArgs>(attention({2, 4, 2, 300, 500, 128}));
  for (Tensor* each : {&args->q, &args->k, &args->v, &args->o}) each->data = static_cast<char*>(each->data) + move;
  Call call{"fmha", args, {args->q.data, args->k.data, args->v.data, args->o.data}, {kFmha}};
  if (lse) {
    args->lse = dense(9, DType::f32, {2, 4, 300}, move + 4);
    call.addresses.push_back(args->lse->data);
  }
  return call;
}

/// k: long K and few tiles are cut into parts; with an odd row pitch operands are copied first.
Call gemm_call(std::uint64_t move, std::int64_t m, std::int64_t n, std::int64_t k, bool all,
               std::vector<std::size_t> params, DType out = DType::f16) {
  auto args = std::make_shared<GemmArgs>();
  args->a = dense(0, DType::f16, {m, k}, move);
  args->b = dense(1, DType::f16, {n, k}, move);
  args->d = dense(2, out, {m, n}, move);
  Call call{"gemm", args, {args->a.data, args->b.data, args->d.data}, std::move(params)};
  if (!all) return call;
  args->c = dense(3, out, {m, n}, move);
  args->beta = 1;
  args->bias = dense(4, out, {n}, move + static_cast<std::uint64_t>(tj::size_of(out)));
  call.addresses.insert(call.addresses.end(), {args->c->data, args->bias->data});
  return call;
}

Call chunk_o_call(std::uint64_t move) {
  auto args = std::make_shared<ChunkOArgs>();
  args->q = dense(0, DType::bf16, {640, 2, 128}, move);
  args->k = dense(1, DType::bf16, {640, 2, 128}, move);
  args->v_new = dense(2, DType::bf16, {768, 4, 128}, move);
  args->h = dense(3, DType::bf16, {12, 4, 128, 128}, move);
  args->o = dense(4, DType::bf16, {640, 4, 128}, move);
  args->g_cu = dense(5, DType::f32, {640, 4}, move + 4);
  args->cu_seqlens = dense(6, DType::i32, {3}, move + 8);
  args->chunk_indices = dense(7, DType::i32, {12, 2}, move);
  args->total_chunks = dense(8, DType::i32, {1}, move + 12);
  return {"chunk_o",
          args,
          {args->q.data, args->k.data, args->v_new.data, args->h.data, args->o.data, args->g_cu->data,
           args->cu_seqlens->data, args->chunk_indices->data, args->total_chunks->data},
          {sizeof(tj::ops::chunk_o::Params)}};
}

Call chunk_indices_call(std::uint64_t move) {
  auto args = std::make_shared<ChunkIndicesArgs>();
  args->cu_seqlens = dense(0, DType::i32, {3}, move + 4);
  args->chunk_indices = dense(1, DType::i32, {12, 2}, move + 8);
  args->total_chunks = dense(2, DType::i32, {1}, move + 4);
  return {"chunk_indices",
          args,
          {args->cu_seqlens.data, args->chunk_indices.data, args->total_chunks.data},
          {sizeof(tj::ops::chunk_indices::Params)}};
}

using MakeCall = Call (*)(std::uint64_t move);
constexpr MakeCall kCalls[] = {
    [](std::uint64_t move) { return fmha_call(move, false); },
    [](std::uint64_t move) { return fmha_call(move, true); },
    [](std::uint64_t move) { return gemm_call(move, 256, 512, 1024, false, {kGemm}); },
    [](std::uint64_t move) { return gemm_call(move, 256, 512, 1024, true, {kGemm}); },
    [](std::uint64_t move) { return gemm_call(move, 256, 513, 1024, true, {kGemm}, DType::f32); },
    [](std::uint64_t move) {
      return gemm_call(move, 2000, 2000, 1999, true, {kCopy, kCopy, kGemm});
    },  // operands are copied first
    [](std::uint64_t move) { return gemm_call(move, 64, 64, 16384, true, {kGemm, kSum}); },  // sums over parts of K
    [](std::uint64_t move) { return gemm_call(move + 2, 64, 64, 16384, true, {kCopy, kCopy, kGemm, kSum}); },  // both
    chunk_o_call,
    chunk_indices_call,
};

TEST_CASE("a run gives the driver what the call gives it, at other addresses than the plan was made with") {
  for (std::size_t i = 0; i < std::size(kCalls); ++i) {
    CAPTURE(i);
    Machine machine;
    machine.cuda.set_param_bytes(0);
    tj::Options options = machine.options();
    options.allocator = tj::Allocator{[](tj::Device, std::size_t, tj::Stream) { return at(40); },
                                      [](tj::Device, void*, std::size_t, tj::Stream) {}};
    Runtime runtime(options);
    const Call made = kCalls[i](0), other = kCalls[i](std::uint64_t{1} << 20);
    const Plan plan = runtime.plan(made.op, made.args.get());
    runtime.prepare(other.op, other.args.get());
    Launches of_call(machine, other.params);
    const std::string called = log_of(machine, [&] { runtime.run(other.op, other.args.get()); });
    Launches of_plan(machine, other.params);
    const std::string planned = log_of(machine, [&] { plan.run(other.addresses); });
    CHECK(launches_of(called) == launches_of(planned));
    CHECK(of_plan.params.size() == other.params.size());
    const bool same = of_call.params == of_plan.params;
    CHECK(same);
    CHECK(planned.find("cuTensorMapEncodeTiled") == std::string::npos);
  }
}

TEST_CASE("a run allocates nothing") {
  for (std::size_t i = 0; i < std::size(kCalls); ++i) {
    CAPTURE(i);
    Machine machine;
    machine.cuda.set_param_bytes(0);
    Runtime runtime(machine.options());
    const Call call = kCalls[i](0);
    const Plan plan = runtime.plan(call.op, call.args.get());
    void* const workspace = plan.workspace_bytes() > 0 ? at(20) : nullptr;
    machine.cuda.record(0);  // the fake's own books allocate
    const long before = tj::testing::allocations();
    plan.run(call.addresses, {}, workspace);
    const long after = tj::testing::allocations();
    machine.cuda.record(1);
    CHECK(after == before);
  }
}

std::string refusal(const Plan& plan, const std::vector<void*>& addresses, void* workspace = nullptr) {
  try {
    plan.run(addresses, {}, workspace);
  } catch (const Error& e) {
    CHECK(e.stage == tj::Stage::argument);
    CHECK(e.code == tj::Code::invalid_argument);
    return e.message;
  }
  return "";
}

TEST_CASE("bad addresses are refused by name, and nothing is launched") {
  Machine machine;
  Runtime runtime(machine.options());
  const Call call = fmha_call(0, true);
  const Plan plan = runtime.plan(call.op, call.args.get());
  CHECK(plan.tensors() == std::vector<std::string>{"q", "k", "v", "o", "lse"});
  const auto with = [&](std::size_t i, void* address) {
    std::vector<void*> addresses = call.addresses;
    addresses[i] = address;
    return addresses;
  };
  const std::string log = log_of(machine, [&] {
    CHECK(has(refusal(plan, with(1, nullptr)), "fmha: the address of k is null; allowed: that of "));
    CHECK(has(refusal(plan, with(0, at(30, 8))), "the address of q is "));
    CHECK(has(refusal(plan, with(0, at(30, 8))), "allowed: multiples of 16"));
    CHECK(has(refusal(plan, with(4, at(30, 2))), "allowed: multiples of 4,"));
    CHECK(has(refusal(plan, with(3, call.addresses[0])), "fmha: o at "));
    CHECK(has(refusal(plan, with(3, call.addresses[0])), " overlaps q at "));
    CHECK(has(refusal(plan, with(4, static_cast<char*>(call.addresses[3]) + 16)), " overlaps "));
    CHECK(has(refusal(plan, with(3, address(~std::uint64_t{15}))), "bytes end within the address space"));
    CHECK(has(refusal(plan, {call.addresses[0]}), "addresses are 1; allowed: 5, of q, k, v, o, lse"));
  });
  CHECK(log.empty());
  plan.run(with(1, call.addresses[2]));  // k and v may be one
  plan.run(with(4, at(30, 4)));          // lse at any of its elements
}

TEST_CASE("d of a product may be c, and nothing else") {
  Machine machine;
  machine.cuda.set_param_bytes(0);
  Runtime runtime(machine.options());
  const Call call = gemm_call(0, 256, 512, 1024, true, {});
  const Plan plan = runtime.plan(call.op, call.args.get());
  std::vector<void*> addresses = call.addresses;  // a, b, d, c, bias
  addresses[3] = addresses[2];
  plan.run(addresses);
  addresses[3] = static_cast<char*>(addresses[2]) + 32;
  CHECK(has(refusal(plan, addresses), " overlaps c at "));
  addresses = call.addresses;
  addresses[2] = addresses[0];
  CHECK(has(refusal(plan, addresses), " overlaps a at "));
}

TEST_CASE("a plan needs no memory to be made, and takes multiples of 16 bytes then") {
  Machine machine;
  machine.cuda.set_param_bytes(0);
  Runtime runtime(machine.options());
  GemmArgs args = *static_cast<GemmArgs*>(gemm_call(0, 256, 512, 1024, false, {}).args.get());
  const Call call = gemm_call(0, 256, 512, 1024, false, {});
  args.a.data = args.b.data = args.d.data = nullptr;
  runtime.plan(args).run(call.addresses);
  CHECK(has(refusal(runtime.plan(args), {at(0, 2), at(1), at(2)}), "the address of a is "));
  CHECK(runtime.prepare(args).name == runtime.plan(args).report().name);
  // Sizes that are refused are refused when the plan is made.
  args.a.shape[1] = 8;
  CHECK(has(error_of([&] { runtime.plan(args); }).message, "gemm: b.shape[1] (K) is 1024"));
  GemmArgs bad = *static_cast<GemmArgs*>(call.args.get());
  bad.beta = 1;
  CHECK(has(error_of([&] { runtime.plan(bad); }).message, "beta is 1 but c is absent"));
  bad.c = bad.d;
  bad.c->rank = bad.d.rank = 9;
  CHECK(has(error_of([&] { runtime.plan(bad); }).message, "gemm: d.rank is 9"));
  CHECK(has(error_of([&] { runtime.prepare(bad); }).message, "gemm: d.rank is 9"));
  bad.c = bad.d = bad.a;
  bad.c->shape = bad.d.shape = {std::int64_t{1} << 62, std::int64_t{1} << 62};
  CHECK(error_of([&] { runtime.plan(bad); }).stage == tj::Stage::argument);
  CHECK(has(error_of([&] { runtime.plan("copy_rows", &args); }).message, "op is 'copy_rows', which has no plan"));
  CHECK(has(error_of([&] { runtime.plan("gemm", nullptr); }).message, "args of 'gemm' is null"));
}

TEST_CASE("a workspace is the caller's, of an allocator, or of the pool") {
  Machine machine;
  machine.cuda.set_param_bytes(0);
  std::vector<std::pair<void*, std::size_t>> given, back;
  tj::Options options = machine.options();
  options.allocator =
      tj::Allocator{[&](tj::Device, std::size_t bytes, tj::Stream) {
                      given.emplace_back(at(40), bytes);
                      return at(40);
                    },
                    [&](tj::Device, void* memory, std::size_t bytes, tj::Stream) { back.emplace_back(memory, bytes); }};
  const Call call = gemm_call(0, 64, 64, 16384, true, {});
  Runtime pooled(machine.options()), own(options);
  const Plan plan = pooled.plan(call.op, call.args.get());
  CHECK(plan.workspace_bytes() > 0);
  CHECK(plan.workspace_alignment() == 256);
  CHECK_FALSE(plan.workspace_zeroed());
  CHECK(log_of(machine, [&] { plan.run(call.addresses); }).find("cuMemAllocFromPoolAsync") != std::string::npos);
  CHECK(log_of(machine, [&] { plan.run(call.addresses, {}, at(20)); }).find("cuMemAlloc") == std::string::npos);
  CHECK(has(refusal(plan, call.addresses, at(20, 128)), "; allowed: multiples of 256"));
  CHECK(has(refusal(plan, call.addresses, call.addresses[1]), "gemm: workspace at "));
  void* const last = reinterpret_cast<void*>(~std::uintptr_t{255});
  CHECK(has(refusal(plan, call.addresses, last), "allowed: an address from which "));

  const std::string log = log_of(machine, [&] {
    own.plan(call.op, call.args.get()).run(call.addresses);
    own.run(call.op, call.args.get());
  });
  CHECK(log.find("cuMemAlloc") == std::string::npos);
  CHECK(given.size() == 2);
  CHECK(given == back);
  CHECK(given.front().second == plan.workspace_bytes());

  options.allocator->deallocate = nullptr;
  CHECK(has(error_of([&] { Runtime half(options); }).message, "Options::allocator has no deallocate"));
  options.allocator->deallocate = [](tj::Device, void*, std::size_t, tj::Stream) {};
  options.allocator->allocate = [](tj::Device, std::size_t, tj::Stream) { return nullptr; };
  const Error none = error_of([&] { Runtime(options).run(call.op, call.args.get()); });
  CHECK(none.code == tj::Code::out_of_memory);
  CHECK(has(none.message, "Options::allocator gave no memory for a workspace of "));
}

/// The errors that a second thread meets while a launch of the first is under way.
struct Meeting {
  const Plan* plan = nullptr;
  const Call* call = nullptr;
  bool met = false;
  std::string other_stream = {}, same_stream = {}, other_memory = {};

  std::string said(tj::Stream stream, void* workspace) const {
    try {
      plan->run(call->addresses, stream, workspace);
    } catch (const Error& e) {
      return e.message;
    }
    return "ran";
  }
  void meet() {
    if (std::exchange(met, true)) return;
    std::thread([this] {
      other_stream = said({address(0x10)}, at(20));
      same_stream = said({}, at(20));
      other_memory = said({address(0x10)}, at(21));
    }).join();
  }
};

TEST_CASE("a workspace in use is refused to another stream, where both are seen") {
  Machine machine;
  machine.cuda.set_param_bytes(0);
  Runtime runtime(machine.options());
  const Call call = gemm_call(0, 64, 64, 16384, true, {});
  const Plan plan = runtime.plan(call.op, call.args.get());
  Meeting meeting{&plan, &call};
  machine.cuda.on_launch([](const void*, void* user) { static_cast<Meeting*>(user)->meet(); }, &meeting);
  plan.run(call.addresses, {}, at(20));
  machine.cuda.on_launch(nullptr, nullptr);
  CHECK(has(meeting.other_stream, " is in use by another run at this moment; allowed: one run at a time"));
  CHECK(meeting.same_stream == "ran");
  CHECK(meeting.other_memory == "ran");
  plan.run(call.addresses, {address(0x10)}, at(20));  // free again
}

TEST_CASE("a plan outlives its runtime and keeps its kernel") {
  Machine machine;
  std::optional<Plan> plan;
  const Call call = fmha_call(0, false);
  {
    Runtime runtime(machine.options());
    plan.emplace(runtime.plan(call.op, call.args.get()));
  }
  Plan moved_from = *plan;
  const Plan copy = std::move(moved_from);
  plan.reset();
  CHECK(moved_from.device() == kGpu);  // whole, as every plan is
  CHECK(!launches_of(log_of(machine, [&] { copy.run(call.addresses); })).empty());
  CHECK(copy.device() == kGpu);
  CHECK(copy.report().target == "sm_90a");
}

}  // namespace
