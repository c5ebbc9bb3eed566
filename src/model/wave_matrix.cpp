// See wave_matrix.hpp.
#include "model/wave_matrix.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include "model/block.hpp"
#include "model/matrix_math.hpp"
#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;
using Requests = WarpUnit::Requests;

constexpr unsigned kSide = 16;  // rows, columns, depth

struct Layout {
  unsigned lanes, words, sums;  ///< lanes of a wave; words of a lane's operand; sums of a lane
  unsigned copies;              ///< lanes that hold each element of an operand
  bool interleaved;             ///< sum v is row 2v + lane / 16, else lane / 16 * sums + v
};
constexpr Layout kLayouts[] = {{32, 8, 8, 2, true}, {32, 4, 8, 1, false}, {64, 2, 4, 1, false}};

const tj_model_wave_mma& request_of(const Requests& requests, unsigned lane) {
  return *static_cast<const tj_model_wave_mma*>(requests[lane]);
}
Thread& lane_of(Thread& any, unsigned lane) {
  return any.block->scheduler.thread(any.warp() * any.warp_threads + lane);
}

void check(Thread& last, const Requests& requests) {
  const tj_model_wave_mma& first = request_of(requests, 0);
  const Layout& layout = kLayouts[first.layout];
  if (layout.lanes != last.warp_threads)
    fault(last, cat("a matrix instruction of waves of ", layout.lanes, " in one of ", last.warp_threads));
  for (unsigned lane = 1; lane < layout.lanes; ++lane) {
    const tj_model_wave_mma& own = request_of(requests, lane);
    if (own.layout != first.layout)
      fault(lane_of(last, lane), "asks for another matrix instruction than lane 0 of its wave");
    if (own.flushes != first.flushes)
      fault(lane_of(last, lane), "takes subnormal elements otherwise than lane 0 of its wave");
    if (own.element != first.element)
      fault(lane_of(last, lane), "multiplies elements of another type than lane 0 of its wave");
  }
  if (first.element == TJ_MODEL_E4M3 && first.layout != TJ_MODEL_GFX12)
    fault(last, "multiplies elements of e4m3, for which its arch has no instruction");
}

/// The same of e4m3, as f32: out[k * 16 + line] or [line * 16 + k] of the first or last 16 of its 32 of K. Which of
/// them an instruction takes does not matter, as long as both operands have the same.
void gather_bytes(const Requests& requests, const unsigned* tj_model_wave_mma::* words, unsigned half, bool turned,
                  float* out) {
  for (unsigned lane = 0; lane < 2 * kSide; ++lane)
    for (unsigned element = 0; element < 8; ++element) {
      const unsigned line = lane % kSide, k = lane / kSide * 8 + element,
                     word = (request_of(requests, lane).*words)[2 * half + element / 4];
      out[turned ? k * kSide + line : line * kSide + k] =
          e4m3_to_float(static_cast<std::uint8_t>(word >> element % 4 * 8));
    }
}

/// out[line * 16 + k], line a row of the left operand or a column of the right one. `which` says how a report calls it.
void gather(Thread& last, const Requests& requests, const unsigned* tj_model_wave_mma::* words, const char* which,
            std::uint16_t* out) {
  const Layout& layout = kLayouts[request_of(requests, 0).layout];
  const unsigned holders = layout.lanes / layout.copies;
  for (unsigned lane = 0; lane < layout.lanes; ++lane) {
    const unsigned line = lane % kSide, first_k = lane % holders / kSide * 2 * layout.words;
    for (unsigned element = 0; element < 2 * layout.words; ++element) {
      const auto bits =
          static_cast<std::uint16_t>((request_of(requests, lane).*words)[element / 2] >> (element % 2 * 16));
      std::uint16_t& place = out[line * kSide + first_k + element];
      if (lane >= holders && place != bits)
        fault(lane_of(last, lane),
              cat("holds ", hex(bits), " as element ", element, " of ", which, " ", line, ", and lane ", lane - holders,
                  " holds ", hex(place), "; both halves of a wave must hold the same operands"));
      place = bits;
    }
  }
}

/// Subnormal numbers become 0, of the same sign: an f16 below 2^-14, a bf16 or an f32 below 2^-126.
void flush(float* values, unsigned count, tj_model_element element) {
  const float least = element == TJ_MODEL_F16 ? 0x1p-14f : std::numeric_limits<float>::min();
  for (unsigned i = 0; i < count; ++i)
    if (std::fabs(values[i]) < least) values[i] = std::copysign(0.0f, values[i]);
}

unsigned row_of(const Layout& layout, unsigned lane, unsigned v) {
  return layout.interleaved ? 2 * v + lane / kSide : lane / kSide * layout.sums + v;
}

/// Sums of all lanes, row by row.
void take_sums(const Requests& requests, const Layout& layout, float* sums) {
  for (unsigned lane = 0; lane < layout.lanes; ++lane)
    for (unsigned v = 0; v < layout.sums; ++v)
      sums[row_of(layout, lane, v) * kSide + lane % kSide] = request_of(requests, lane).d[v];
}
void give_sums(const Requests& requests, const Layout& layout, const float* sums) {
  for (unsigned lane = 0; lane < layout.lanes; ++lane)
    for (unsigned v = 0; v < layout.sums; ++v)
      request_of(requests, lane).d[v] = sums[row_of(layout, lane, v) * kSide + lane % kSide];
}

void multiply_bytes(const Requests& requests, float* sums) {
  alignas(32) float left[kSide * kSide], right[kSide * kSide];
  for (unsigned half = 0; half < 2; ++half) {
    gather_bytes(requests, &tj_model_wave_mma::a, half, false, left);
    gather_bytes(requests, &tj_model_wave_mma::b, half, true, right);
    multiply_rows(left, right, sums, kSide, kSide);
  }
}

void multiply_halves(Thread& last, const Requests& requests, float* sums) {
  const tj_model_element element = request_of(requests, 0).element;
  alignas(32) std::uint16_t a[kSide * kSide], b[kSide * kSide];  // [row][k], [column][k]
  alignas(32) float left[kSide * kSide], right[kSide * kSide], transposed[kSide * kSide];
  gather(last, requests, &tj_model_wave_mma::a, "the left operand's row", a);
  gather(last, requests, &tj_model_wave_mma::b, "the right operand's column", b);
  to_floats(a, kSide * kSide, element, left);
  to_floats(b, kSide * kSide, element, right);
  const bool flushes = request_of(requests, 0).flushes != 0;
  const auto flush_if = [&](float* values, tj_model_element of) {
    if (flushes) flush(values, kSide * kSide, of);
  };
  flush_if(left, element);
  flush_if(right, element);
  for (unsigned k = 0; k < kSide; ++k)
    for (unsigned column = 0; column < kSide; ++column) transposed[k * kSide + column] = right[column * kSide + k];
  flush_if(sums, TJ_MODEL_BF16);  // an f32 is subnormal where a bf16 is
  multiply_rows(left, transposed, sums, kSide, kSide);
  flush_if(sums, TJ_MODEL_BF16);
}

void multiply_all(Thread& last, const Requests& requests) {
  check(last, requests);
  const Layout& layout = kLayouts[request_of(requests, 0).layout];
  alignas(32) float sums[kSide * kSide];
  take_sums(requests, layout, sums);
  if (request_of(requests, 0).element == TJ_MODEL_E4M3)
    multiply_bytes(requests, sums);
  else
    multiply_halves(last, requests, sums);
  give_sums(requests, layout, sums);
}

}  // namespace

void multiply_wave(Thread& thread, const tj_model_wave_mma& request) {
  Block& block = *thread.block;
  block.warps[thread.warp()].meet_all(block.scheduler, thread, WarpUnit::Kind::wave_mma, &request, multiply_all);
}

}  // namespace tj::model
