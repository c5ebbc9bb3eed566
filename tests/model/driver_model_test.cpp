// Protects the model as a driver: memory, loading, launch limits, and the arithmetic that a unit does by itself.
#include <doctest/doctest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "model/block.hpp"
#include "model/model_unit.hpp"
#include "model/object.hpp"
#include "support/allocations.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::Stage;
using tj::testing::contains;
using tj::testing::outcome_of;

struct alignas(64) Params {
  const float* in;
  float* out;
  unsigned* words;
  int count;
};

constexpr const char* kUnit = R"(
struct alignas(64) Params { const float* in; float* out; unsigned* words; int count; };
TJ_KERNEL(arithmetic, 32, Params, p) {
  for (int i = static_cast<int>(thread_index()); i < p.count; i += 32) {
    const float x = p.in[i];
    store_global(p.out + 5 * i, exp2_approx(x));
    store_global(p.out + 5 * i + 1, log2_approx(x));
    store_global(p.out + 5 * i + 2, maximum(x, 0.25f));
    store_global(p.out + 5 * i + 3, multiply_add(x, 1.0f + 0x1p-12f, -x));
    store_global(p.out + 5 * i + 4, minus_infinity());
    store_global(p.words + 2 * i, pack(F16{}, x, -x));
    store_global_u16(p.words + 2 * i + 1, pack(Bf16{}, x, -x));
    store_global_u16(reinterpret_cast<unsigned short*>(p.words + 2 * i + 1) + 1, pack(Bf16{}, x, -x) >> 16);
  }
}
// One float a block, after every thread of it has come.
TJ_KERNEL(blocks, 64, Params, p) {
  block_sync();
  if (thread_index() == 63) store_global(p.out + block_index(), static_cast<float>(min(static_cast<int>(block_index()), p.count)));
}
TJ_NOTES(blocks, R"notes({"name": "blocks", "sites": []})notes"
                 "\n")
)";

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(kUnit);
  return made;
}

TEST_CASE("a launch that runs out of memory says so, wherever that was, and the next one is right") {
  const auto kernel = unit().driver->load(0, unit().bytes(), "blocks", 0);
  std::vector<float> out(4);
  const Params params{nullptr, out.data(), nullptr, 7};
  const auto launch = [&] {
    unit().driver->launch(0, *kernel, {{4, 1, 1}, {.threads = 64}}, &params, sizeof(params), {});
  };
  const long before = tj::testing::allocations();
  launch();
  const long made = tj::testing::allocations() - before;
  for (long n = 0; n < made; ++n) {
    CAPTURE(n);
    tj::testing::fail_allocation_after(n);
    try {
      launch();  // one that lacks memory for a worker has fewer, and is right
    } catch (const std::bad_alloc&) {
    }
    tj::testing::fail_allocation_after(-1);
    out.assign(4, -1);
    launch();
    CHECK(out == std::vector<float>{0, 1, 2, 3});
  }
  CHECK((made > 3 || tj::testing::allocations() == 0));  // nothing is counted under the thread sanitizer
}

TEST_CASE("accesses to global memory allocate nothing, and one before the grids in front is told with its bytes") {
  constexpr int kMost = 512;
  const std::vector<float> in(kMost, 1.0f);
  std::vector<float> out(kMost * 5);
  std::vector<unsigned> words(kMost * 2);
  const auto kernel = unit().driver->load(0, unit().bytes(), "arithmetic", 0);
  const auto launch = [&](int count, bool waits_itself) {
    const Params params{in.data(), out.data(), words.data(), count};
    const long before = tj::testing::allocations();
    unit().driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 32}, waits_itself}, &params, sizeof(params), {});
    return tj::testing::allocations() - before;
  };
  const long few = launch(32, false), many = launch(kMost, false);
  CHECK(many <= few + 32);  // of 3840 stores more
  CHECK(contains(outcome_of([&] { launch(32, true); }).message,
                 "access of 4 bytes of global memory, which a grid before this one may still use: "
                 "wait_for_grids_before is missing"));
}

TEST_CASE("arithmetic has the device's rounding and its special values") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> in = {0.0f,     1.0f,       -1.0f,       0.3f,        10.5f,        -125.5f,
                                 -126.5f,  -kInf,      2049.0f,     2051.0f,     65519.0f,     65520.0f,
                                 0x1p-25f, 0x1.8p-25f, 1.00390625f, 1.01171875f, std::nanf("")};
  std::vector<float> out(in.size() * 5);
  std::vector<unsigned> words(in.size() * 2);
  unit().run("arithmetic", Params{in.data(), out.data(), words.data(), static_cast<int>(in.size())}, 32, 0);
  for (std::size_t i = 0; i + 1 < in.size(); ++i) {
    const double x = in[i];
    CAPTURE(x);
    const double power = x < -126 ? 0 : std::exp2(x);
    CHECK((static_cast<double>(out[5 * i]) == power || std::fabs(out[5 * i] / power - 1) < 1e-6));
    if (x > 0) CHECK(std::fabs(out[5 * i + 1] - std::log2(x)) < 1e-6);
    CHECK(out[5 * i + 2] == std::fmax(in[i], 0.25f));
    if (std::isfinite(in[i])) CHECK(out[5 * i + 3] == std::fma(in[i], 1.0f + 0x1p-12f, -in[i]));
    CHECK(out[5 * i + 4] == -kInf);
  }
  CHECK(out[1] == -kInf);           // log2(0)
  CHECK(out[5 * 16 + 2] == 0.25f);  // NaN loses
  const auto f16 = [&](std::size_t i) { return words[2 * i] & 0xffffu; };
  const auto bf16 = [&](std::size_t i) { return words[2 * i + 1] & 0xffffu; };
  CHECK(words[2] == 0xbc003c00u);  // the first value in the low half
  CHECK(words[3] == 0xbf803f80u);
  CHECK(f16(8) == 0x6800);   // 2049: tie to even
  CHECK(f16(9) == 0x6802);   // 2051: tie to even, up
  CHECK(f16(10) == 0x7bff);  // 65519
  CHECK(f16(11) == 0x7c00);  // 65520: infinity
  CHECK(f16(12) == 0x0000);  // half the smallest denormal
  CHECK(f16(13) == 0x0001);
  CHECK(bf16(14) == 0x3f80);  // 1 + 2^-8: tie to even
  CHECK(bf16(15) == 0x3f82);  // 1 + 3 * 2^-8
  CHECK(bf16(7) == 0xff80);
  CHECK((bf16(16) & 0x7fffu) > 0x7f80u);  // NaN stays NaN
  CHECK((f16(16) & 0x7fffu) > 0x7c00u);
}

TEST_CASE("traps, rounding and flushes that a program has set change nothing in a kernel, and stay its own") {
  const std::vector<float> in = {0.0f, -std::numeric_limits<float>::infinity(), 0.3f, -125.5f, 0x1.8p-25f, 1e-40f};
  const auto results = [&] {
    std::vector<float> out(in.size() * 5);
    std::vector<unsigned> words(in.size() * 2);
    unit().run("arithmetic", Params{in.data(), out.data(), words.data(), static_cast<int>(in.size())}, 32, 0);
    for (const float each : out) words.push_back(std::bit_cast<unsigned>(each));
    return words;
  };
  const std::vector<unsigned> usual = results();
  std::fenv_t before;
  std::fegetenv(&before);
  ::feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
  std::fesetround(FE_UPWARD);
#ifdef __SSE__
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
#endif
  const std::vector<unsigned> found = results();
  const bool kept = std::fegetround() == FE_UPWARD && (::fegetexcept() & FE_INVALID) != 0;
  std::fesetenv(&before);
  CHECK(found == usual);
  CHECK(kept);
}

TEST_CASE("device memory is host memory, aligned and copied") {
  const auto driver = tj::model::open_model();
  CHECK(driver->device_count() == 1);
  CHECK(driver->device_info(0).vendor == "cpu");
  CHECK(outcome_of([&] { driver->device_info(1); }).code == Code::invalid_argument);
  const auto memory = driver->allocate(0, 1000);
  CHECK(reinterpret_cast<std::uintptr_t>(memory.get()) % 256 == 0);
  const std::vector<char> from(1000, 'x');
  std::vector<char> back(1000);
  driver->copy(0, memory.get(), true, from.data(), false, 1000);
  driver->copy(0, back.data(), false, memory.get(), true, 1000);
  CHECK(back == from);
  CHECK(driver->allocate(0, 0) != nullptr);
  CHECK(outcome_of([&] { driver->allocate(0, ~std::size_t{0} - 100); }).code == Code::out_of_memory);
  CHECK_FALSE(driver->capturing(0, {}));
  driver->synchronize(0, {});
  int calls = 0;
  CHECK(driver->time_ms(0, [&] { ++calls; }) >= 0);
  CHECK(calls == 1);
  CHECK(outcome_of([&] { driver->record(0, [&](tj::Stream) { ++calls; }); }).code == Code::unsupported);
  CHECK(calls == 1);
}

TEST_CASE("what cannot be loaded or launched is an error that says why") {
  const auto driver = tj::model::open_model();
  const Error garbage = outcome_of([&] { driver->load(0, "not an object", "kernel", 0); });
  CHECK(garbage.stage == Stage::load);
  CHECK(garbage.code == Code::unsupported);
  CHECK(contains(garbage.message, "is not whole: it is no 64-bit ELF file (13 bytes)"));
  for (const std::size_t part : {2, 3, 50}) {  // a loader that maps what is not there ends the process
    const std::string_view whole = unit().bytes();
    CHECK(contains(outcome_of([&] { driver->load(0, whole.substr(0, whole.size() / part), "blocks", 0); }).message,
                   "a unit's shared object is not whole: "));
  }
  const Error symbol = outcome_of([&] { driver->load(0, unit().bytes(), "absent", 0); });
  CHECK(contains(symbol.message, "no kernel \"absent\""));

  std::vector<float> out(16);
  const Params params{nullptr, out.data(), nullptr, 7};
  CHECK(contains(outcome_of([&] { driver->load(0, unit().bytes(), "blocks", std::int64_t{1} << 40); }).message,
                 "at most 1048576"));
  const auto kernel = driver->load(0, unit().bytes(), "blocks", 300000);
  const auto launch = [&](tj::launch::LaunchConfig config, std::size_t bytes) {
    return outcome_of([&] { driver->launch(0, *kernel, config, &params, bytes, {}); }).message;
  };
  CHECK(contains(launch({{1, 1, 1}, {.threads = 64}}, sizeof(params) - 1), "the kernel takes 64"));
  CHECK(contains(launch({{1, 1, 1}, {.threads = 96}}, sizeof(params)), "at most 64"));
  CHECK(contains(launch({{1, 1, 1}, {.threads = 33}}, sizeof(params)), "multiples of 32"));
  CHECK(contains(launch({{1, 1, 1}, {.threads = 64, .smem_bytes = 300001}}, sizeof(params)),
                 "was loaded for at most 300000"));
  for (const auto& grid : {std::array{1u, 2u, 1u}, std::array{1u, 1u, 2u}, std::array{0u, 1u, 1u}})
    CHECK(contains(launch({grid, {.threads = 64}}, sizeof(params)), "one dimension"));
  for (const unsigned threads : {0u, 31u, 65u, 1025u, 1056u})
    CHECK(
        contains(launch({{1, 1, 1}, {.threads = threads}}, sizeof(params)), "allowed are multiples of 32 up to 1024"));
  for (const unsigned threads : {96u, 1024u})
    CHECK(contains(launch({{1, 1, 1}, {.threads = threads}}, sizeof(params)), "compiled for at most 64"));
  CHECK(contains(launch({{1, 1, 1}, {.threads = 64, .smem_bytes = -1}}, sizeof(params)), "smem_bytes is -1"));
  CHECK(contains(launch({{1, 1, 1}, {.threads = 64}}, sizeof(params) + 1), "the kernel takes 64"));
  CHECK(launch({{1, 1, 1}, {.threads = 64, .smem_bytes = 300000}}, sizeof(params)) == "nothing was thrown");
  for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{1048577}})
    CHECK(contains(outcome_of([&] { driver->load(0, unit().bytes(), "blocks", bytes); }).message, "at most 1048576"));
  CHECK_NOTHROW(driver->load(0, unit().bytes(), "blocks", 1048576));
}

TEST_CASE("a unit that memory has no room for is an error that says so, not a library that is cut off") {
  const std::string& bytes = unit().bytes();
  REQUIRE(bytes.size() > 4096);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};  // of files, be they in memory or on disk
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Error e = outcome_of([&] { tj::model::open_model()->load(0, bytes, "blocks", 0); });
    ::_exit(contains(e.log, "memfd_create: ") && contains(e.log.substr(0, e.log.find('\n')), "File too large") ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a number that no site has is refused: 0 is what all primitives without one bear") {
  const auto refusal = [](tj::model::ModelOptions options) {
    const Error e = outcome_of([&] { tj::model::open_model_driver()->set_options(std::move(options)); });
    CHECK(e.stage == Stage::argument);
    CHECK(e.code == Code::invalid_argument);
    return e.message;
  };
  CHECK(contains(refusal({1, {3, 0}, 0, {}}),
                 "ModelOptions::disabled_sites has the site 0; allowed: a site's number from 1 on"));
  CHECK(contains(refusal({1, {}, 0, {-1}}), "ModelOptions::weakened_sites has the site -1; allowed: "));
}

TEST_CASE("kernels stay loaded side by side, and after their driver") {
  std::vector<std::shared_ptr<tj::launch::Kernel>> kernels;
  for (int i = 0; i < 8; ++i) kernels.push_back(tj::model::open_model()->load(0, unit().bytes(), "blocks", 0));
  const auto driver = tj::model::open_model();
  for (const auto& kernel : kernels) {
    std::vector<float> out(10, -1.0f);
    const Params params{nullptr, out.data(), nullptr, 7};
    driver->launch(0, *kernel, {{10, 1, 1}, {.threads = 64}}, &params, sizeof(params), {});
    for (int b = 0; b < 10; ++b) CHECK(out[static_cast<std::size_t>(b)] == static_cast<float>(std::min(b, 7)));
  }
}

TEST_CASE("a unit's notes are there for reports, and may be absent") {
  using tj::model::Object;
  const Object with(unit().bytes(), "blocks", tj::model::api()),
      without(unit().bytes(), "arithmetic", tj::model::api());
  REQUIRE(with.kernel().notes != nullptr);
  CHECK(with.kernel().notes == std::string("{\"name\": \"blocks\", \"sites\": []}\n"));
  CHECK(without.kernel().notes == nullptr);
}

TEST_CASE("accesses outside of the memory that a launch may touch are faults") {
  const auto kernel = unit().driver->load(0, unit().bytes(), "blocks", 0);
  std::vector<float> out(8, -1);
  const Params params{nullptr, out.data(), nullptr, 100};
  const auto begin = reinterpret_cast<std::uintptr_t>(out.data());
  const auto run = [&](unsigned blocks, tj::support::MemoryRange range) {
    return outcome_of([&] {
             unit().driver->launch(0, *kernel, {{blocks, 1, 1}, {.threads = 64}, false, {&range, 1}}, &params,
                                   sizeof(params), {});
           })
        .message;
  };
  CHECK(run(4, {begin, begin + 16, true}) == "nothing was thrown");
  CHECK_MESSAGE(contains(run(5, {begin, begin + 16, true}), "writes 4 bytes at global address 0x"),
                run(5, {begin, begin + 16, true}));
  CHECK(out[4] == -1);
  CHECK(contains(run(1, {begin, begin + 16, false}), "outside of all tensors that the call writes"));
}

TEST_CASE("threads launch on one driver at once") {
  const auto driver = tj::model::open_model();
  const auto kernel = driver->load(0, unit().bytes(), "blocks", 1024);
  std::vector<std::vector<float>> results(3, std::vector<float>(40, -1.0f));
  std::vector<std::thread> threads;
  for (auto& out : results)
    threads.emplace_back([&] {
      const Params params{nullptr, out.data(), nullptr, 1000};
      driver->launch(0, *kernel, {{40, 1, 1}, {.threads = 64, .smem_bytes = 1024}}, &params, sizeof(params), {});
    });
  for (auto& thread : threads) thread.join();
  for (const auto& out : results)
    for (int b = 0; b < 40; ++b) CHECK(out[static_cast<std::size_t>(b)] == static_cast<float>(b));
}

}  // namespace
