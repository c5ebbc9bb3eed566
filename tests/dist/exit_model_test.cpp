// Protects ranks of a group from one whose thread has ended. They are told at once. A process in exit() does not wait
// for them.
#include <doctest/doctest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <tilejit/dist.hpp>
#include <tilejit/tilejit.hpp>

#include "support/expect.hpp"
#include "support/model_runtime.hpp"

namespace {

using namespace tj;

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr double kLongWait_s = 600;
constexpr int kRows = 64, kDepth = 64;

void product(dist::Group& rank) {
  std::vector<std::uint16_t> rows(kRows * kDepth), all(kRows * kDepth), d(2 * kRows * kRows);
  dist::AllGatherGemmArgs args;
  args.product.a = Tensor::contiguous(rows.data(), kCpu, DType::f16, {kRows, kDepth});
  args.product.b = Tensor::contiguous(all.data(), kCpu, DType::f16, {kRows, kDepth});
  args.product.d = Tensor::contiguous(d.data(), kCpu, DType::f16, {2 * kRows, kRows});
  rank.all_gather_gemm(args, {});
}

/// A child whose log sink ends rank 0's thread at this line of its call. 0: rank 1 was told why at once.
int ends_at(int line, void (*ends)(), const char* why) {
  return testing::wait_for(testing::start_child([=] {
    ::alarm(200);
    static std::vector<dist::Group>* ranks = nullptr;
    static std::thread other;
    static std::string said;
    static std::atomic<bool> told{false};
    static const char* wanted = nullptr;
    static thread_local int lines = 0;  // until the end; 0: it goes on
    wanted = why;
    static std::atomic<bool> looked{false};
    const auto look = [] {
      if (looked.exchange(true))
        for (;;) ::pause();  // a handler of exit() and the main thread come here
      other.join();
      ::_exit(testing::has(said, wanted) ? 0 : 7);
    };
    std::atexit(look);
    Options options;
    options.target = "model:sm_80";
    options.log_level = LogLevel::trace;
    options.wait_limit_s = kLongWait_s;
    options.log_sink = [ends](LogLevel, std::string_view) {
      if (lines > 0 && --lines == 0) ends();
    };
    Runtime& runtime = *new Runtime(options);
    ranks = new std::vector<dist::Group>(dist::Group::on_model(runtime, 2));
    other = std::thread([] {
      product((*ranks)[1]);
      said = testing::said_by([] {
        product((*ranks)[1]);
        product((*ranks)[1]);
      });
      told = true;
    });
    std::thread([line] {
      product((*ranks)[0]);
      lines = line;
      for (;;) product((*ranks)[0]);
    }).detach();
    while (!told) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    look();
    return 9;
  }));
}

TEST_CASE("a rank whose thread calls exit(), or ends, in a function of the user's is told of at once") {
  for (const int line : {1, 2}) {
    CAPTURE(line);
    CHECK(ends_at(line, [] { std::exit(3); }, "its thread called exit()") == 0);
    CHECK(ends_at(line, [] { ::pthread_exit(nullptr); }, "its thread has ended") == 0);
  }
}

}  // namespace
