// Protects copies between ranks of one process. A rank that leaves an exchange or a call without memory takes its
// messages back, and the others are told at once.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "dist/transport.hpp"
#include "support/allocations.hpp"
#include "support/expect.hpp"
#include "support/full.hpp"

namespace {

using namespace tj;
using Bytes = std::vector<unsigned char>;
constexpr std::size_t kBytes = std::size_t{1} << 16;
constexpr unsigned char kSent = 1, kReused = 2, kUntouched = 3;
constexpr double kLongWait_s = 600;

/// The ranks of an exchange in which an allocation fails behind `count` others. Rank 0 uses its memory again where it
/// is the one that has none.
struct Doomed {
  bool without_memory = false;
  std::string said;  ///< by rank 1
  Bytes received = Bytes(kBytes, kUntouched);

  explicit Doomed(long count) {
    const auto ends = dist::local_transports(2, kLongWait_s);
    Bytes own(kBytes, kSent), from_1(kBytes), from_0(kBytes, kSent);
    std::thread other([&] {
      const dist::Send send{0, from_0.data(), kBytes};
      const dist::Receive receive{0, received.data(), kBytes};
      try {
        ends[1]->exchange({&send, 1}, {&receive, 1}, {});
      } catch (const Error& error) {
        said = error.message;
      } catch (const std::bad_alloc&) {
        said = "no memory";
      }
    });
    const dist::Send send{1, own.data(), kBytes};
    const dist::Receive receive{1, from_1.data(), kBytes};
    testing::fail_allocation_after(count);
    try {
      ends[0]->exchange({&send, 1}, {&receive, 1}, {});
    } catch (const std::bad_alloc&) {
      without_memory = true;
      std::fill(own.begin(), own.end(), kReused);
    } catch (const Error&) {
    }
    testing::fail_allocation_after(-1);
    other.join();
  }
};

}  // namespace

TEST_CASE("a rank without memory in an exchange takes its messages back, and the others are told at once") {
  int failed = 0;
  for (long count = 0; count < 24; ++count) {
    const Doomed doomed(count);
    CAPTURE(count);
    CHECK(std::count(doomed.received.begin(), doomed.received.end(), kReused) == 0);
    if (!doomed.without_memory) continue;
    ++failed;
    CHECK_MESSAGE((doomed.said.empty() || testing::has(doomed.said, "a rank ran out of memory in a call")),
                  doomed.said);
  }
  CHECK((failed > 0 || testing::kThreadSanitized));  // which fails no allocation
}

TEST_CASE("a rank that has given up without memory for its words is told of, too") {
  const auto ends = dist::local_transports(2, kLongWait_s);
  const std::string why(100, 'w');
  testing::fail_allocation_after(0);
  ends[0]->give_up(why);
  testing::fail_allocation_after(-1);
  const std::string said = testing::said_by([&] { ends[1]->exchange({}, {}, {}); });
  CHECK_MESSAGE(testing::has(said, testing::kThreadSanitized ? why : "a rank ran out of memory in a call"), said);
}
