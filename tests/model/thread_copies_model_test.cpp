// Protects the model's copies by threads: what they bring, what becomes zero, and when they are done. A missing wait or
// arrival shows.
#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

#include "model/model_unit.hpp"
#include "model/primitive_unit.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::testing::contains;
using tj::testing::outcome_of;
using tj::testing::PrimitiveUnit;

void set(PrimitiveUnit& unit, std::uint64_t seed, std::vector<int> disabled) {
  dynamic_cast<tj::model::ModelDriver&>(unit.driver()).set_options({seed, std::move(disabled), 1, {}});
}
PrimitiveUnit the_unit(const char* arch = "sm_80") {
  return PrimitiveUnit::on_model(tj::testing::thread_copies_text(), arch);
}

TEST_CASE("every size brings what is present and zeros after it, and reads no more") {
  for (const char* arch : {"sm_80", "sm_120a"}) {
    CAPTURE(arch);
    tj::testing::check_copy_sizes([arch](std::string_view text) { return PrimitiveUnit::on_model(text, arch); });
  }
}

TEST_CASE("groups of a thread and rings between roles are right under every order of completions") {
  PrimitiveUnit unit = the_unit();
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    set(unit, seed, {});
    for (int which : {1, 2})
      for (int count : {1, 2, 17}) tj::testing::check_copied_tiles(unit, which, count);
  }
}

TEST_CASE("a wait, commit or arrival that is missing shows") {
  PrimitiveUnit unit = the_unit();
  const auto noticed = [&](int which, int site) {
    int seeds = 0;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      set(unit, seed, {site});
      int wrong = 0;
      const Error error = outcome_of([&] { wrong = tj::testing::wrong_copied_words(unit, which, 9); });
      seeds += error.code == Code::model_fault || error.code == Code::deadlock || wrong != 0;
    }
    return seeds;
  };
  for (int site : {3, 4}) {
    CAPTURE(site);
    CHECK(noticed(1, site) > 0);
  }
  for (int site : {6, 7, 8, 9}) {
    CAPTURE(site);
    CHECK(noticed(2, site) > 0);
  }
  set(unit, 1, {4});
  const std::string message = outcome_of([&] { tj::testing::wrong_copied_words(unit, 1, 9); }).message;
  CHECK_MESSAGE(contains(message, "had written by a copy_async; nothing orders the two"), message);
}

TEST_CASE("an arrival waits for the copies before it, and for none after it") {
  PrimitiveUnit unit = the_unit();
  int faults = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    set(unit, seed, {});
    CHECK(outcome_of([&] { tj::testing::wrong_copied_words(unit, 3, 1); }).code ==
          Code::internal);  // nothing was thrown
    faults += contains(outcome_of([&] { tj::testing::wrong_copied_words(unit, 3, 2); }).message,
                       "had written by a copy_async; nothing orders the two");
  }
  CHECK(faults == 20);
}

TEST_CASE("a copy looks at the bytes that are present alone, and of none at no memory") {
  constexpr const char* kText = R"(
struct Params { const char* in; u32 present; };
TJ_KERNEL(kernel, 32, Params, p) {
  if (thread_index() == 0) copy_async<16>(shared_base(), p.in, p.present);
  copy_async_commit<1>();
  copy_async_wait<2, 0>();
}
)";
  struct Params {
    const char* in;
    unsigned present;
  };
  tj::testing::ModelUnit unit(kText, "sm_80");
  const auto kernel = unit.driver->load(0, unit.bytes(), "kernel", 1024);
  alignas(16) const char bytes[64] = {};
  const auto begin = reinterpret_cast<std::uintptr_t>(&bytes[16]);
  const auto message = [&](int at, unsigned present) {
    const tj::support::MemoryRange range{begin, begin + 10, false};
    const Params params{bytes + at, present};
    return outcome_of([&] {
             unit.driver->launch(0, *kernel, {{1, 1, 1}, {.threads = 32, .smem_bytes = 1024}, false, {&range, 1}},
                                 &params, sizeof params, {});
           })
        .message;
  };
  for (const auto& [at, present] : {std::pair{16, 10u}, {16, 1u}, {16, 0u}, {0, 0u}, {32, 0u}})
    CHECK(message(at, present) == "nothing was thrown");
  for (const auto& [at, present] : {std::pair{16, 11u}, {0, 1u}, {32, 1u}})
    CHECK(contains(message(at, present), "which is outside of all tensors that the call reads"));
}

TEST_CASE("misuse is reported with its thread") {
  PrimitiveUnit unit = the_unit();
  const auto message = [&](int which) {
    const Error error = outcome_of([&] { tj::testing::wrong_copied_words(unit, which, 1); });
    CHECK(error.code == Code::model_fault);
    return error.message;
  };
  CHECK(contains(message(10), "lane 3: copy_async of 16 bytes to shared address 0x808, which is no multiple of 16"));
  CHECK(contains(message(11), "out of bounds"));
  CHECK(contains(message(12), "of 8 bytes, of which 9 are said to be present"));
  CHECK(contains(message(13), "which is no multiple of 8"));
  CHECK(contains(message(14), "ends while copies of its own may be under way"));
  CHECK(contains(message(15),
                 "lane 3 reads 4 bytes at shared address 0x800, which warp 0, lane 3 had written by a copy_async"));
  CHECK(contains(message(16), "no mbarrier was initialised"));
}

}  // namespace
