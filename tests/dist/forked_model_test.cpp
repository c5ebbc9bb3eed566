// Protects forked children of a process that has groups. Collective calls, prepare() and check() of such a group are
// errors by name there, whatever the parent was doing. Dropping one touches nothing, and the parent's goes on.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "support/expect.hpp"
#include "support/model_runtime.hpp"
#include "support/scratch.hpp"

namespace {

using namespace tj;

/// The number of the first call that does not say that the group is the parent's; 0: all do.
int untold(std::vector<dist::Group>& members) {
  const std::vector<std::function<void()>> calls = {[&] { members[1].check(); },
                                                    [&] { members[0].fmha({}, {}); },
                                                    [&] { members[0].prepare(dist::ContextFmhaArgs{}); },
                                                    [&] { members[1].all_gather_gemm({}, {}); },
                                                    [&] { members[0].prepare(dist::AllGatherGemmArgs{}); },
                                                    [&] { members[1].gemm_reduce_scatter({}, {}); },
                                                    [&] { members[0].prepare(dist::GemmReduceScatterArgs{}); }};
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (!testing::has(testing::said_by(calls[i]), "a child of fork() has no group: this one is its parent's"))
      return static_cast<int>(i) + 1;
  return 0;
}

}  // namespace

TEST_CASE("a forked child is told that a group is its parent's, drops it, and may make its own") {
  auto members = dist::Group::on_model(testing::model_runtime("model:sm_80"), 2);
  CHECK(testing::wait_for(testing::start_child([&] {
          ::alarm(60);
          if (const int call = untold(members); call != 0) return call;
          if (members[1].rank() != 1 || members[1].size() != 2) return 20;
          members.clear();
          auto own = dist::Group::on_model(testing::model_runtime("model:sm_80"), 1);
          own[0].check();
          return 0;
        })) == 0);
  for (auto& member : members) member.check();
}

TEST_CASE("a forked child is told so while a rank of its parent waits for another one") {
  tj::Runtime& runtime = testing::model_runtime("model:sm_80");
  auto members = dist::Group::on_model(runtime, 2);
  std::vector<std::uint16_t> rows(64 * 64), all(2 * 64 * 64), sums(64 * 2 * 64);
  const Device cpu{DeviceKind::cpu, 0};
  const auto call = [&](std::size_t rank, std::vector<std::uint16_t>& d) {
    dist::AllGatherGemmArgs args;
    args.product.a = Tensor::contiguous(rows.data(), cpu, DType::f16, {64, 64});
    args.product.b = Tensor::contiguous(all.data(), cpu, DType::f16, {64, 64});
    args.product.d = Tensor::contiguous(d.data(), cpu, DType::f16, {128, 64});
    members[rank].all_gather_gemm(args, {});
  };
  std::vector<std::uint16_t> other(sums.size());
  std::thread first([&] { call(0, sums); });
  const int told = testing::wait_for(testing::start_child([&] {
    ::alarm(60);
    return untold(members);
  }));
  call(1, other);
  first.join();
  CHECK(told == 0);
}
