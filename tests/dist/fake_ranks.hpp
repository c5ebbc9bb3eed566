// Ranks of one process on the fake driver's GPU, and their calls, whose results nobody looks at.
//
// Invariant: FakeNccl and a Machine are made before the runtime.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "fakes/fake_nccl.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/expect.hpp"

namespace tj::test {

inline constexpr Device kGpu{DeviceKind::cuda, 0};

struct Ranks {
  static constexpr std::int64_t kRows = 64;
  explicit Ranks(Runtime& runtime) {
    ::setenv("NCCL_NVLS_ENABLE", "0", 1);
    const std::string id = dist::Group::unique_id();
    members.resize(2);
    each([&](int rank) { members[static_cast<std::size_t>(rank)].emplace(runtime, id, rank, 2, kGpu); });
  }
  template <class Work>
  void each(const Work& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back(
          [&work, this, rank] { said[static_cast<std::size_t>(rank)] = testing::said_by([&] { work(rank); }); });
    for (std::thread& thread : threads) thread.join();
  }
  /// A call of zigzag, causal attention, whose result nobody looks at.
  template <class Use>
  void with_args(const Use& use, std::int64_t rows = kRows) {
    constexpr std::int64_t kHeads = 2, kWidth = 64;
    std::vector<std::uint16_t> memory(static_cast<std::size_t>(4 * rows * kHeads * kWidth));
    const auto tensor = [&](std::size_t n) {
      return Tensor::strided(memory.data() + n * memory.size() / 4, kGpu, DType::f16, {1, kHeads, rows, kWidth},
                             {rows * kHeads * kWidth, kWidth, kHeads * kWidth, 1});
    };
    dist::ContextFmhaArgs args;
    args.q = tensor(0);
    args.k = tensor(1);
    args.v = tensor(2);
    args.o = tensor(3);
    args.causal = true;
    use(args);
  }
  void prepare(int rank) {
    with_args([&](const auto& args) { members[static_cast<std::size_t>(rank)]->prepare(args); });
  }
  void attend(std::int64_t rows = kRows) {
    each([&](int rank) {
      with_args([&](const auto& args) { members[static_cast<std::size_t>(rank)]->fmha(args); }, rows);
    });
  }
  std::vector<std::optional<dist::Group>> members;
  std::array<std::string, 2> said;
};

/// A call of each kind, on GPU 0, whose result nobody looks at: attention by keys and by heads, decode, gathered
/// rows, scattered sums.
inline constexpr const char* kCalls[] = {"fmha", "heads", "decode", "all_gather_gemm", "gemm_reduce_scatter"};
inline void make_call(Ranks& ranks, int rank, const std::string& name) {
  dist::Group& member = *ranks.members[static_cast<std::size_t>(rank)];
  if (name == "fmha") return ranks.with_args([&](const auto& args) { member.fmha(args); });
  if (name == "heads")
    return ranks.with_args([&](dist::ContextFmhaArgs args) {
      args.exchange = dist::Exchange::heads;
      member.fmha(args);
    });
  if (name == "decode")
    return ranks.with_args([&](const auto& args) {
      FmhaArgs call;
      call.q = args.q;
      call.k = args.k;
      call.v = args.v;
      call.o = args.o;
      member.decode({call});
    });
  constexpr std::int64_t kSize = 256;
  std::vector<std::uint16_t> a(2 * kSize * kSize), b(kSize * kSize), d(2 * kSize * kSize);
  const auto of = [](std::vector<std::uint16_t>& memory, std::int64_t rows) {
    return Tensor::contiguous(memory.data(), kGpu, DType::f16, {rows, kSize});
  };
  const bool gathers = name == "all_gather_gemm";
  GemmArgs product;
  product.a = of(a, gathers ? kSize : 2 * kSize);
  product.b = of(b, kSize);
  product.d = of(d, gathers ? 2 * kSize : kSize);
  if (gathers)
    member.all_gather_gemm({product, {}});
  else
    member.gemm_reduce_scatter({product, {}});
}

}  // namespace tj::test
