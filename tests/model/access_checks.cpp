// Expectations of ordinary accesses, on whatever runs the primitives: every size and type to and from global and shared
// memory, and parts of eight halves. Shared by the tests of the model and of a device.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "model/primitive_unit.hpp"

namespace tj::testing {
namespace {

// Each thread brings 64 bytes into shared memory by one kind of access after the other, and another one takes them on.
constexpr const char* kUnit = R"(
struct Params { const char* in; char* out; char* halves; };
static const float* floats(const char* at) { return reinterpret_cast<const float*>(at); }

static void bring(const char* in, u32 place) {
  u32 four[4], two[2];
  float a, b, values[4];
  load_global(in, four);
  store_shared(place, four);
  load_global(in + 16, two);
  store_shared(place + 16, two[0]);
  store_shared(place + 20, two[1]);
  store_shared(place + 24, load_global(floats(in + 24)));
  store_shared(place + 28, load_global_u32(in + 28));
  load_global(floats(in + 32), values);
  store_shared(place + 32, values);
  load_global(floats(in + 48), a, b);
  store_shared(place + 48, a);
  store_shared(place + 52, b);
  u32 bytes = 0;
  for (u32 i = 0; i < 4; ++i) bytes |= load_global_u8(in + 56 + i) << 8 * i;
  store_shared(place + 56, bytes);
  store_shared(place + 60, load_global_u16(in + 60) | load_global_u16(in + 62) << 16);
}

static void take(u32 place, char* out) {
  const auto word = [&](u32 at) { return load_shared<u32>(place + at); };
  float values[4];
  float* numbers = reinterpret_cast<float*>(out);
  store_global(out, word(0), word(4), word(8), word(12));
  store_global(out + 16, word(16), word(20));
  store_global(numbers + 6, load_shared<float>(place + 24));
  store_global(out + 28, word(28));
  load_shared(place + 32, values);
  store_global(numbers + 8, values);
  store_global(numbers + 12, load_shared<float>(place + 48), load_shared<float>(place + 52));
  for (u32 i = 56; i < 64; i += 2) store_global_u16(out + i, load_shared_u16(place + i));
}

TJ_KERNEL(kernel, 128, Params, p) {
  const u32 t = thread_index(), base = shared_base();
  bring(p.in + 64 * t, base + 64 * t);
  block_sync();
  take(base + 64 * (t ^ 33), p.out + 64 * t);
  u32 words[4];
  load_global(p.in + 64 * t, words);
  store_halves(p.halves + 32 * t, words, static_cast<int>(t % 11) - 1, t / 16 % 2 != 0);
}
)";

struct Params {
  const unsigned char* in;
  unsigned char* out;
  unsigned char* halves;
};

}  // namespace

std::string_view access_text() { return kUnit; }

void check_accesses(const MakeUnit& make) {
  constexpr std::size_t kThreads = 128;
  PrimitiveUnit unit = make(kUnit);
  std::vector<unsigned char> in(64 * kThreads);
  std::uint32_t state = 3;
  for (unsigned char& byte : in)
    byte = static_cast<unsigned char>((state = state * 1664525u + 1013904223u) >> 25) % 0x7f;  // no NaN among them
  const Params params{unit.upload(in), unit.upload(std::vector<unsigned char>(in.size())),
                      unit.upload(std::vector<unsigned char>(32 * kThreads, 0xee))};
  unit.run(params, kThreads);
  const std::vector<unsigned char> out = unit.download(params.out, in.size()),
                                   halves = unit.download(params.halves, 32 * kThreads);
  int wrong = 0, wrong_halves = 0;
  for (std::size_t t = 0; t < kThreads; ++t) {
    for (std::size_t i = 0; i < 64; ++i) wrong += out[64 * t + i] != in[64 * (t ^ 33) + i];
    const int stored = static_cast<int>(t % 11) - 1;
    for (std::size_t i = 0; i < 32; ++i)
      wrong_halves += halves[32 * t + i] != (static_cast<int>(i / 2) < stored && i < 16 ? in[64 * t + i] : 0xee);
  }
  CHECK(wrong == 0);
  CHECK(wrong_halves == 0);
}

}  // namespace tj::testing
