// Protects the model's waves of AMD. The maps of fragments are those of the products; both halves of a wave must hold
// the same operands on gfx11. Exchange and accesses work in waves of 32 and of 64 lanes. A missing sync shows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "model/primitive_unit.hpp"

namespace {

using tj::testing::contains;
using tj::testing::ModelUnit;
using tj::testing::outcome_of;

constexpr const char* kArchs[] = {"gfx1100", "gfx1201", "gfx90a"};
constexpr int kWaves[] = {32, 32, 64};
constexpr std::size_t kSide = 16;

struct ProductParams {
  const void* left;
  const void* right;
  float* out;
  std::uint16_t* own;
  int bf16, wrong_lane, wrong_element;
};

std::uint16_t bits_of(float value, bool bf16) {  // small integers, which both types hold exactly
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (bf16) return static_cast<std::uint16_t>(bits >> 16);
  if (value == 0) return 0;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | (((bits >> 23 & 0xffu) - 112u) << 10) |
                                    (bits >> 13 & 0x3ffu));
}

struct Products {
  std::vector<std::uint16_t> left, right, own = std::vector<std::uint16_t>(256, 0xffff);
  std::vector<float> a, b, out = std::vector<float>(1024, NAN);

  explicit Products(bool bf16) {
    for (std::size_t i = 0; i < 256; ++i) {
      a.push_back(static_cast<float>(static_cast<int>(i * 7 % 5) - 2));
      b.push_back(static_cast<float>(static_cast<int>((i * i + 3 * i) % 7) - 3));
      left.push_back(bits_of(a.back(), bf16));
      right.push_back(bits_of(b.back(), bf16));
    }
  }
  ProductParams params(bool bf16, int wrong_lane = -1, int wrong_element = 0) {
    return {left.data(), right.data(), out.data(), own.data(), bf16 ? 1 : 0, wrong_lane, wrong_element};
  }
  /// d[i][j] = sum over k of a[i][k] b[j][k].
  static std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b) {
    std::vector<float> d(256, 0.0f);
    for (std::size_t i = 0; i < kSide; ++i)
      for (std::size_t j = 0; j < kSide; ++j)
        for (std::size_t k = 0; k < kSide; ++k) d[i * kSide + j] += a[i * kSide + k] * b[j * kSide + k];
    return d;
  }
  static std::vector<float> transposed(const std::vector<float>& m) {
    std::vector<float> t(256);
    for (std::size_t i = 0; i < 256; ++i) t[i % kSide * kSide + i / kSide] = m[i];
    return t;
  }
  std::vector<float> part(std::size_t which) const {
    const auto from = out.begin() + static_cast<std::ptrdiff_t>(256 * which);
    return {from, from + 256};
  }
};

TEST_CASE("products over the maps are those of the matrices, and sums become operands of the next product") {
  for (std::size_t arch = 0; arch < 3; ++arch) {
    ModelUnit unit(tj::testing::wave_products_text(), kArchs[arch]);
    for (const bool bf16 : {false, true}) {
      CAPTURE(kArchs[arch]);
      CAPTURE(bf16);
      Products data(bf16);
      unit.run("kernel", data.params(bf16), static_cast<unsigned>(kWaves[arch]));
      const std::vector<float> d = Products::product(data.a, data.b), turned = Products::transposed(d);
      CHECK(data.part(0) == d);
      CHECK(data.part(1) == Products::product(data.a, turned));
      CHECK(data.part(2) == Products::product(turned, data.b));
      CHECK(data.part(3) == data.part(1));
      std::vector<std::uint16_t> rounded;
      for (const float value : turned) rounded.push_back(bits_of(value, bf16));
      CHECK(data.own == rounded);
    }
  }
}

TEST_CASE("products of e4m3 are those of what its bytes mean, on the arch that has the instruction") {
  tj::testing::check_narrow_wave_products(
      [](std::string_view text) { return tj::testing::PrimitiveUnit::on_model(text, "gfx1201"); });
}

TEST_CASE(
    "subnormal elements and sums count as 0 where the arch says that its matrix instructions flush them, and nowhere "
    "else") {
  for (const char* name : {"gfx1100", "gfx1201", "gfx90a", "gfx942"}) {
    CAPTURE(name);
    const bool flushes = tj::arch::find(name)->has_fact("matrix_flushes_subnormals");
    CHECK(flushes == (std::string(name) == "gfx90a"));
    ModelUnit unit(tj::testing::wave_products_text(), name);
    const auto first = [&](bool bf16, std::uint16_t left, std::uint16_t right) {
      Products data(bf16);
      std::fill(data.left.begin(), data.left.end(), left);
      std::fill(data.right.begin(), data.right.end(), right);
      unit.run("kernel", data.params(bf16), static_cast<unsigned>(tj::arch::find(name)->warp_size));
      return data.out.front();
    };
    CHECK(first(false, 0x0400, 0x3c00) == 0x1p-10f);                            // 2^-14, the least normal f16, times 1
    CHECK(first(false, 0x03ff, 0x3c00) == (flushes ? 0.0f : 16 * 0x3ffp-24f));  // the largest subnormal one
    CHECK(first(false, 0x3c00, 0x8001) == (flushes ? 0.0f : -0x1p-20f));        // the right operand's
    CHECK(first(true, 0x0080, 0x3f80) == 0x1p-122f);                            // 2^-126, the least normal bf16
    CHECK(first(true, 0x0040, 0x4f80) == (flushes ? 0.0f : 0x1p-91f));          // 2^-127 times 2^32
    CHECK(first(true, 0x0080, 0x3a80) == (flushes ? 0.0f : 0x1p-132f));         // a sum of f32 that is subnormal
  }
}

TEST_CASE(
    "halves of a wave that hold different operands are reported with lane, element and line; elsewhere nothing is held "
    "twice") {
  ModelUnit unit(tj::testing::wave_products_text(), "gfx1100");
  Products data(false);
  const auto message = [&](int lane, int element) {
    return outcome_of([&] { unit.run("kernel", data.params(false, lane, element), 32); }).message;
  };
  CHECK(contains(message(19, 5), "warp 0, lane 19: holds 0x"));
  CHECK(contains(message(19, 5), "as element 5 of the left operand's row 3, and lane 3 holds 0x"));
  CHECK(contains(message(7, 12), "lane 23: holds 0x"));
  CHECK(contains(message(7, 12), "as element 12 of the left operand's row 7, and lane 7"));
  for (std::size_t arch = 1; arch < 3; ++arch) {
    ModelUnit single(tj::testing::wave_products_text(), kArchs[arch]);
    Products other(false);
    CHECK_NOTHROW(single.run("kernel", other.params(false, 19, 1), static_cast<unsigned>(kWaves[arch])));
    CHECK(other.part(0) != Products::product(other.a, other.b));
  }
}

struct ExchangeParams {
  std::uint32_t* out;
  int lane;
};

TEST_CASE("lanes exchange in waves of 32 and of 64, and accesses of every size find what was written") {
  for (std::size_t arch = 0; arch < 3; ++arch) {
    const auto wave = static_cast<std::size_t>(kWaves[arch]);
    ModelUnit unit(tj::testing::wave_exchange_text(), kArchs[arch]);
    for (const int chosen : {-1, 0, kWaves[arch] - 1}) {
      CAPTURE(kArchs[arch]);
      std::vector<std::uint32_t> out(10 * wave, 0xffffffffu);
      unit.run("kernel", ExchangeParams{out.data(), chosen}, static_cast<unsigned>(wave));
      int wrong = 0;
      for (std::size_t lane = 0; lane < wave; ++lane) {
        const bool upper = (lane & 8) != 0;
        const std::size_t expected[] = {1000 + (lane ^ 5),
                                        1000 + (lane ^ 16),
                                        1000 + (lane ^ (wave / 2)),
                                        1000 + wave - 1 - lane,
                                        chosen >= 0 ? 1u : 0u,
                                        upper ? 100 + (lane ^ 8) : lane,
                                        upper ? 100 + lane : (lane ^ 8),
                                        0,
                                        0,
                                        1};
        for (std::size_t which = 0; which < 10; ++which) wrong += out[which * wave + lane] != expected[which];
      }
      CHECK(wrong == 0);
    }
  }
}

struct BarrierParams {
  std::uint32_t* out;
  int turns;
};

/// Words that somebody found wrong.
std::uint32_t wrong_words(ModelUnit& unit, int without, std::uint64_t seed) {
  tj::model::ModelOptions options;
  options.seed = seed;
  if (without > 0) options.disabled_sites = {without};
  unit.options(options);
  std::vector<std::uint32_t> out(256, 0);
  unit.run("kernel", BarrierParams{out.data(), 5}, 256);
  std::uint32_t wrong = 0;
  for (const std::uint32_t each : out) wrong += each;
  return wrong;
}

TEST_CASE(
    "what another wave or another lane writes is seen after a sync; without it the two are reported, whoever comes "
    "first") {
  for (const char* arch : kArchs) {
    CAPTURE(arch);
    ModelUnit unit(tj::testing::wave_barriers_text(), arch);
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      CAPTURE(seed);
      CHECK(wrong_words(unit, 0, seed) == 0);
      const auto message = [&](int site) { return outcome_of([&] { wrong_words(unit, site, seed); }).message; };
      const std::string lanes = message(1), written = message(2), read = message(3);
      CHECK_MESSAGE(contains(lanes, "nothing says who comes first: a warp_sync is missing"), lanes);
      CHECK_MESSAGE(contains(lanes, "4 bytes at shared address 0x"), lanes);
      for (const std::string& each : {written, read})
        CHECK_MESSAGE(contains(each, "nothing says who comes first: a block_sync, or"), each);
    }
  }
}

// Two threads and one place; `which` says which thread does what.
constexpr const char* kMeetings = R"(
struct Params { int which; };
TJ_KERNEL(kernel, 2 * kWave, Params, p) {
  const u32 base = shared_base(), thread = thread_index();
  if (p.which == 0 && thread == 1) store_shared_u16(base, 7);
  if (p.which == 0 && thread == 2) store_shared_u16(base + 2, 8);
  if (p.which == 1 && thread % kWave == 3) store_shared(base + 4 * thread, thread);
  if (p.which == 2 && thread == 1) store_shared(base, thread);
  if (p.which == 2 && thread == kWave) store_shared(base + 2 - 2, thread);
  if (p.which == 3 && thread == 5) store_shared(base + 16, thread);
  if (p.which == 3) warp_sync();
  if (p.which == 3 && thread == kWave + 5) load_shared<u32>(base + 16);
  if (p.which == 4 && thread == 0) store_shared(base, 0u);
  if (p.which == 4) block_sync();
  if (p.which == 4 && (thread == 0 || thread == kWave - 1)) load_shared<u32>(base);
  if (p.which == 4) warp_sync();
  if (p.which == 4 && thread == 4) store_shared(base, thread);
  if (p.which == 5 && thread < 2) store_shared(base, 1u);  // the same place by two lanes: one of them stays
}
)";

TEST_CASE("only accesses that meet are reported: halves of a word apart are not, nor lanes of a warp after its sync") {
  for (const char* arch : kArchs) {
    CAPTURE(arch);
    ModelUnit unit(kMeetings, arch);
    const auto threads = static_cast<unsigned>(2 * (std::string(arch) == "gfx90a" ? 64 : 32));
    for (const int right : {0, 1, 4, 5}) CHECK_NOTHROW(unit.run("kernel", right, threads));
    for (const int race : {2, 3}) {
      const std::string message = outcome_of([&] { unit.run("kernel", race, threads); }).message;
      CHECK_MESSAGE(contains(message, "nothing says who comes first: a block_sync, or"), message);
    }
  }
}

constexpr const char* kMisuse = R"(
struct Params { int which; };
TJ_KERNEL(kernel, 2 * kWave, Params, p) {
  const u32 lane = lane_index();
  float d[kSums] = {};
  u32 words[kOperandWords] = {};
  switch (p.which) {
    case 0: shuffle_from(lane, static_cast<int>(kWave)); break;
    case 1:
      if (lane == kWave - 1) mma_m16n16k16(Bf16{}, d, words, words);
      else mma_m16n16k16(F16{}, d, words, words);
      break;
    case 2:
      if (lane != kWave - 3) mma_m16n16k16(F16{}, d, words, words);
      break;
    case 3:
      if (lane == 2) any_in_warp(true);
      else mma_m16n16k16(F16{}, d, words, words);
      break;
  }
}
)";

TEST_CASE("misuse is reported with the lane that is wrong, in waves of either size") {
  for (std::size_t arch = 0; arch < 3; ++arch) {
    CAPTURE(kArchs[arch]);
    ModelUnit unit(kMisuse, kArchs[arch]);
    const auto wave = static_cast<unsigned>(kWaves[arch]);
    const auto message = [&](int which) { return outcome_of([&] { unit.run("kernel", which, 2 * wave); }).message; };
    CHECK(contains(message(0),
                   "shuffle with lane " + std::to_string(wave) + "; allowed are 0 to " + std::to_string(wave - 1)));
    CHECK(contains(message(1), "lane " + std::to_string(wave - 1) + ": multiplies elements of another type"));
    CHECK(outcome_of([&] { unit.run("kernel", 2, 2 * wave); }).code == tj::Code::deadlock);
    CHECK(contains(message(3), "all " + std::to_string(wave) + " lanes must execute the same"));
  }
}

TEST_CASE("blocks are whole waves") {
  ModelUnit unit(kMisuse, "gfx90a");
  const tj::Error error = outcome_of([&] { unit.run("kernel", 9, 96); });
  CHECK(error.code == tj::Code::invalid_argument);
  CHECK(contains(error.message, "threads is 96; allowed are multiples of 64"));
  CHECK_NOTHROW(unit.run("kernel", 9, 128));
}

}  // namespace
