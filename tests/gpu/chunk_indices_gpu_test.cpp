// Protects the listing of chunks on a real device: the lengths of the model's test, poison around all that is written.
// Inside a CUDA graph, and with chunk output behind it: tests/gpu/chunk_check.py.
#include <doctest/doctest.h>

#include <cstdio>

#include "common/random.hpp"
#include "gpu/gpu_device.hpp"
#include "ops/chunk_indices/problem.hpp"

using namespace tj;
using test::Ints;

TEST_CASE("lists of any lengths") {
  const Device device = test::nvidia_gpu();
  Runtime& runtime = Runtime::instance();
  std::uint64_t seed = samples::fresh_seed();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const Ints& lengths : {Ints{0}, Ints{1}, Ints{63}, Ints{64}, Ints{65}, Ints{64 * 100 + 1},
                              Ints{0, 64, 0, 0, 65, 1, 0}, Ints(300, 0), Ints{1 << 20}})
    CHECK(test::list_chunks_of(runtime, device, lengths, 3) == "");
  for (const std::size_t count : {31, 33, 255, 256, 257, 512, 513, 1025, 5000, 70000}) {
    CAPTURE(count);
    CHECK(test::list_chunks_of(runtime, device, test::random_lengths(count, seed++)) == "");
  }
}

TEST_CASE("too little room, gaps between pairs") {
  const Device device = test::nvidia_gpu();
  const Ints ends = test::ends_of({100, 0, 640, 1, 64, 65});
  for (const std::size_t capacity : {1, 3, 12, 15, 40})
    CHECK(test::list_chunks(Runtime::instance(), device, ends, capacity) == "");
  CHECK(test::list_chunks(Runtime::instance(), device, ends, 13, 6) == "");
  CHECK(test::list_chunks(Runtime::instance(), device, {0}, 4) == "");
}
