// See gemm_problem.hpp.
#include "ops/gemm/problem.hpp"

#include "ops/quantised.hpp"

#include <tilejit/ladder.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/half.hpp"
#include "common/random.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/fail.hpp"
#include "support/index.hpp"

namespace tj::test {
namespace {

using tj::support::at;

constexpr std::size_t kGuardBytes = 512;  // before and behind
constexpr unsigned char kPoison = 0xff;   // a NaN in every type
const Device kCpu{DeviceKind::cpu, 0};

/// To nearest, ties to even; |value| <= 448.
std::uint8_t to_e4m3(double value) {
  const double size = std::fabs(value);
  const int exponent = std::max(-6, size > 0 ? std::ilogb(size) : -6);
  const int eighths =
      static_cast<int>(std::nearbyint(std::ldexp(size, 3 - exponent)));  // 8 to 16, below 8 at the lowest exponent
  return static_cast<std::uint8_t>((std::signbit(value) ? 0x80 : 0) | (eighths + (exponent + 6) * 8));
}

double element(const Tensor& t, std::int64_t index) {
  const auto i = static_cast<std::size_t>(index);
  if (t.dtype == DType::e4m3) return from_e4m3(static_cast<const std::uint8_t*>(t.data)[i]);
  if (t.dtype == DType::f32) return static_cast<double>(static_cast<const float*>(t.data)[i]);
  return static_cast<double>(samples::to_float(static_cast<const std::uint16_t*>(t.data)[i], t.dtype));
}

/// Offset of (batch, row, column); a tensor without batch serves all.
std::int64_t offset(const Tensor& t, std::int64_t batch, std::int64_t row, std::int64_t column) {
  std::int64_t result = row * t.strides[at(t.rank - 2)] + column * t.strides[at(t.rank - 1)];
  if (t.rank == 3) result += batch * t.strides[0];
  return result;
}

/// The scale of block `block` of K, also of those that are four exponents in a word.
double block_scale(const Tensor& scales, std::int64_t batch, std::int64_t row, std::int64_t block) {
  if (scales.dtype != DType::i32) return element(scales, offset(scales, batch, row, block));
  const std::uint32_t word = static_cast<const std::uint32_t*>(scales.data)[offset(scales, batch, row, block / 4)];
  return std::ldexp(1.0, static_cast<int>(word >> block % 4 * 8 & 0xff) - 127);
}

}  // namespace

double activated(double x, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::gelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}

namespace {

double read_e4m3(int bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::nan("");
  const double size = exponent == 0 ? mantissa * 0x1p-9 : std::ldexp(1.0 + mantissa / 8.0, exponent - 7);
  return bits & 0x80 ? -size : size;
}

}  // namespace

double from_e4m3(std::uint8_t bits) {  // references read each element many times
  static const std::array<double, 256> elements = [] {
    std::array<double, 256> all{};
    for (int each = 0; each < 256; ++each) all[static_cast<std::size_t>(each)] = read_e4m3(each);
    return all;
  }();
  return elements[bits];
}

double gemm_limit(DType in, DType out) {
  if (out == DType::f32) return in == DType::e4m3 ? 3e-4 : 1e-5;
  return out == DType::f16 ? 5e-4 : 4e-3;
}

GemmShape gemm_shape(int m, int n, int k, DType dtype, DType out) {
  GemmShape shape;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.dtype = dtype;
  shape.out = out;
  return shape;
}

std::string GemmShape::text() const {
  return support::cat("M ", m, " N ", n, " K ", k, " B ", batch, " ", to_string(dtype), "->", to_string(out),
                      a_transposed ? " a^T" : "", b_transposed ? " b^T" : "", " alpha ", alpha, " beta ", beta,
                      bias ? " bias" : "", in_place ? " in place" : "", c_f32 ? " c of f32" : "",
                      b_shared ? " one b" : "", " activation ", static_cast<int>(activation), " gate ",
                      static_cast<int>(gate), gate_interleaved ? " interleaved" : "", scales ? " scales" : "",
                      blocks == Scales::tensor  ? ""
                      : blocks == Scales::block ? " block scales"
                                                : " row scales",
                      packed_scales ? " packed" : "", packed_out ? " packed out" : "",
                      powers_of_two ? " powers of two" : "", scale_d_transposed ? " sd k" : "",
                      scale_a_transposed ? " sa k" : "", scale_b_transposed ? " sb k" : "", " scale padding ",
                      scale_padding, " padding ", padding, any_stride ? " any stride" : "",
                      shift > 0 ? support::cat(" shift ", shift) : std::string(), wide_a ? " wide a" : "");
}

Tensor GemmProblem::place(Memory& memory, DType dtype, std::vector<std::int64_t> shape, bool transposed,
                          int padding) const {
  const std::size_t rank = shape.size(), size = static_cast<std::size_t>(size_of(dtype));
  Tensor& t = memory.tensor;
  t.device = kCpu;
  t.dtype = dtype;
  t.rank = static_cast<int>(rank);
  std::int64_t step = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    // From the innermost in memory to the outermost; the innermost alone is padded.
    std::size_t axis = rank - 1 - i;
    if (transposed && axis + 2 >= rank) axis = axis == rank - 1 ? rank - 2 : rank - 1;
    t.shape[axis] = shape[axis];
    t.strides[axis] = step;
    step *= shape[axis] + (i == 0 && rank > 1 ? padding : 0);
  }
  memory.bytes.assign(
      (static_cast<std::size_t>(step) + static_cast<std::size_t>(shape_.shift)) * size + 2 * kGuardBytes + 16, kPoison);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.bytes.data() + kGuardBytes);
  const int shift = shape_.wide_a && &memory == &a_ ? 0 : shape_.shift;
  t.data = reinterpret_cast<void*>((begin + 15) / 16 * 16 + static_cast<std::size_t>(shift) * size);
  return t;
}

void GemmProblem::fill(Memory& memory, std::uint64_t seed) {
  const Tensor& t = memory.tensor;
  std::size_t count = 1;
  for (int i = 0; i < t.rank; ++i) count *= static_cast<std::size_t>(t.shape[at(i)]);
  const auto values = samples::random_normal(count, t.dtype == DType::bf16 ? DType::bf16 : DType::f16, seed);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t place = 0;
    std::size_t rest = i;
    for (int axis = t.rank - 1; axis >= 0; --axis) {
      const auto size = static_cast<std::size_t>(t.shape[at(axis)]);
      place += static_cast<std::int64_t>(rest % size) * t.strides[at(axis)];
      rest /= size;
    }
    if (t.dtype == DType::i32) {  // four exponents of 124 to 131
      const std::uint32_t bits = values[i] * 2654435761u;
      static_cast<std::uint32_t*>(t.data)[place] = 0x7c7c7c7cu + (bits >> 3 & 0x07070707u);
    } else if (t.dtype == DType::f32)
      static_cast<float*>(t.data)[place] = samples::to_float(values[i], DType::f16) / 3.0f;
    else if (t.dtype == DType::e4m3)
      static_cast<std::uint8_t*>(t.data)[place] =
          to_e4m3(static_cast<double>(samples::to_float(values[i], DType::f16)));
    else
      static_cast<std::uint16_t*>(t.data)[place] = values[i];
  }
}

GemmProblem::GemmProblem(const GemmShape& shape, std::uint64_t seed) : shape_(shape) {
  const auto sizes = [&](bool batched, std::vector<std::int64_t> inner) {
    if (batched) inner.insert(inner.begin(), shape.batch);
    return inner;
  };
  const int wide = 16 / size_of(shape.dtype);  // rows of a and b begin at multiples of 16 bytes
  const auto to_wide = [&](int size, bool any_stride) {
    return any_stride ? shape.padding : (wide - size % wide) % wide + wide * shape.padding;
  };
  const bool batched = shape.batch > 0;
  args.a = place(a_, shape.dtype, sizes(batched, {shape.m, shape.k}), shape.a_transposed,
                 to_wide(shape.a_transposed ? shape.m : shape.k, shape.any_stride && !shape.wide_a));
  args.b = place(b_, shape.dtype, sizes(batched && !shape.b_shared, {shape.n, shape.k}), shape.b_transposed,
                 to_wide(shape.b_transposed ? shape.n : shape.k, shape.any_stride));
  const DType added = ops::gemm_added(shape.dtype, shape.out);
  args.d = place(d_, shape.out, sizes(batched, {shape.m, shape.columns()}), false, shape.padding);
  fill(a_, seed);
  fill(b_, seed + 1);
  args.alpha = shape.alpha;
  args.beta = shape.beta;
  args.activation = shape.activation;
  args.gate = shape.gate;
  args.gate_interleaved = shape.gate_interleaved;
  if (shape.bias) {
    args.bias = place(bias_, added, {shape.n}, false, 0);
    fill(bias_, seed + 2);
  }
  if (shape.scales) {
    const auto scale = [&](Memory& memory, float value) {
      const Tensor tensor = place(memory, DType::f32, {1}, false, 0);
      *static_cast<float*>(tensor.data) = value;
      return tensor;
    };
    args.scale_a = scale(scale_a_, 0.3f);
    args.scale_b = scale(scale_b_, -1.7f);
  }
  if (shape.blocks != Scales::tensor) {
    const int k_blocks = shape.packed_scales ? (shape.k + 511) / 512 : (shape.k + 127) / 128;
    const DType type = shape.packed_scales ? DType::i32 : DType::f32;
    const bool rows = shape.blocks == Scales::row;
    args.scale_a =
        place(scale_a_, type, sizes(batched, {shape.m, k_blocks}), !shape.scale_a_transposed, shape.scale_padding);
    args.scale_b =
        place(scale_b_, type, sizes(batched && !shape.b_shared, {rows ? shape.n : (shape.n + 127) / 128, k_blocks}),
              rows && !shape.scale_b_transposed, shape.scale_padding);
    fill(scale_a_, seed + 4);
    fill(scale_b_, seed + 5);
  }
  if (shape.out == DType::e4m3) {
    const int columns = shape.columns(), words = shape.packed_out ? (columns + 511) / 512 : (columns + 127) / 128;
    args.scale_d = place(scale_d_, shape.packed_out ? DType::i32 : DType::f32, sizes(batched, {shape.m, words}),
                         !shape.scale_d_transposed, shape.scale_padding);
    args.powers_of_two = shape.powers_of_two || shape.packed_out;
  }
  if (shape.in_place) {
    fill(d_, seed + 3);
    args.c = args.d;
  } else {
    args.c =
        place(c_, shape.c_f32 ? DType::f32 : added, sizes(batched, {shape.m, shape.columns()}), false, shape.padding);
    if (shape.beta != 0) fill(c_, seed + 3);  // else NaN: it must not be read
  }
  c_values_.clear();
  for (std::int64_t z = 0; z < std::max(1, shape.batch); ++z)
    for (std::int64_t i = 0; i < shape.m; ++i)
      for (std::int64_t j = 0; j < shape.columns(); ++j)
        c_values_.push_back(shape.beta != 0 ? element(*args.c, offset(*args.c, z, i, j)) : 0.0);
}

void GemmProblem::run(Runtime& runtime, Device device) {
  const auto call = [&](const GemmArgs& with) {
    rung == 0 ? runtime.run("gemm", &with) : Ladder(runtime).run(with, rung);
  };
  if (device.kind == DeviceKind::cpu) return call(args);
  GemmArgs there = args;
  std::vector<std::pair<std::shared_ptr<void>, char*>> kept;
  const auto stage = [&](Tensor& tensor, Memory& memory) {
    auto allocation = runtime.allocate(device, memory.bytes.size() + 16);
    // The same distance from a 16-byte boundary as on the host, so that the tensor is as aligned as there.
    char* target = static_cast<char*>(allocation.get()) + reinterpret_cast<std::uintptr_t>(memory.bytes.data()) % 16;
    runtime.copy(target, device, memory.bytes.data(), kCpu, memory.bytes.size());
    tensor.data = target + (static_cast<unsigned char*>(memory.tensor.data) - memory.bytes.data());
    tensor.device = device;
    kept.emplace_back(std::move(allocation), target);
  };
  stage(there.d, d_);
  stage(there.a, a_);
  stage(there.b, b_);
  if (there.bias) stage(*there.bias, bias_);
  if (there.end_params) {
    Memory memory{{}, *there.end_params};
    const auto* bytes = static_cast<const unsigned char*>(memory.tensor.data);
    memory.bytes.assign(bytes, bytes + 4 * memory.tensor.shape[0]);
    memory.tensor.data = memory.bytes.data();
    stage(*there.end_params, memory);
  }
  if (there.scale_a) stage(*there.scale_a, scale_a_);
  if (there.scale_b) stage(*there.scale_b, scale_b_);
  if (there.scale_d) stage(*there.scale_d, scale_d_);
  const auto scales_there = there.scale_d ? kept.back().second : nullptr;
  if (shape_.in_place)
    there.c = there.d;
  else
    stage(*there.c, c_);
  call(there);
  runtime.synchronize(device);
  runtime.copy(d_.bytes.data(), kCpu, kept.front().second, device, d_.bytes.size());
  if (there.scale_d) runtime.copy(scale_d_.bytes.data(), kCpu, scales_there, device, scale_d_.bytes.size());
}

std::vector<double> GemmProblem::reference() const {
  std::vector<double> result;
  double factor = static_cast<double>(shape_.alpha);
  const bool blocks = shape_.blocks != Scales::tensor;
  for (const auto& scale : {args.scale_a, args.scale_b})
    if (scale && !blocks) factor *= element(*scale, 0);
  for (std::int64_t z = 0; z < std::max(1, shape_.batch); ++z) {
    std::vector<double> b(static_cast<std::size_t>(shape_.n) * static_cast<std::size_t>(shape_.k));
    for (std::int64_t j = 0; j < shape_.n; ++j)
      for (std::int64_t k = 0; k < shape_.k; ++k)
        b[static_cast<std::size_t>(j * shape_.k + k)] =
            element(args.b, offset(args.b, z, j, k)) *
            (blocks ? block_scale(*args.scale_b, z, shape_.blocks == Scales::row ? j : j / 128, k / 128) : 1.0);
    std::vector<double> row(static_cast<std::size_t>(shape_.k));
    for (std::int64_t i = 0; i < shape_.m; ++i) {
      for (std::int64_t k = 0; k < shape_.k; ++k)
        row[static_cast<std::size_t>(k)] =
            element(args.a, offset(args.a, z, i, k)) * (blocks ? block_scale(*args.scale_a, z, i, k / 128) : 1.0);
      const auto product = [&](std::int64_t j) {
        double sum = 0;
        if (shape_.alpha != 0)
          for (std::size_t k = 0; k < row.size(); ++k) sum += row[k] * b[static_cast<std::size_t>(j) * row.size() + k];
        return factor * sum + (args.bias ? element(*args.bias, j) : 0.0);
      };
      for (std::int64_t j = 0; j < shape_.columns(); ++j) {
        const double added = static_cast<double>(shape_.beta) * c_values_[result.size()];
        const auto value = [&] {
          if (shape_.gate == Activation::none) return product(j);
          if (shape_.gate_interleaved) return activated(product(2 * j), shape_.gate) * product(2 * j + 1);
          return activated(product(j), shape_.gate) * product(j + shape_.columns());
        };
        result.push_back(end ? end(value(), i, j, z) + added : activated(value() + added, shape_.activation));
      }
    }
  }
  return result;
}

/// Each row by itself, and what lies beside scales: exponents behind the last block's are 0.
std::string GemmProblem::quantised_problem() const {
  const std::vector<double> wanted = reference();
  const Tensor& scales = *args.scale_d;
  const auto columns = static_cast<std::size_t>(shape_.columns());
  const double limit = (shape_.gate == Activation::none ? 20 : 40) * gemm_limit(shape_.dtype, DType::f32);
  std::vector<unsigned char> rest = d_.bytes, rest_of_scales = scale_d_.bytes;
  const auto clear = [](std::vector<unsigned char>& bytes, const Memory& of, std::int64_t place, std::size_t size) {
    const auto begin = static_cast<std::size_t>(static_cast<unsigned char*>(of.tensor.data) - of.bytes.data());
    std::memset(bytes.data() + begin + static_cast<std::size_t>(place) * size, kPoison, size);
  };
  for (std::size_t row = 0; row < wanted.size() / columns; ++row) {
    const auto z = static_cast<std::int64_t>(row) / shape_.m, i = static_cast<std::int64_t>(row) % shape_.m;
    const auto values = std::span(wanted).subspan(row * columns, columns);
    double norm = 0;
    for (const double value : values) norm += value * value;
    const QuantisedRow check{
        values, [&](std::size_t j) { return element(args.d, offset(args.d, z, i, static_cast<std::int64_t>(j))); },
        [&](std::size_t block) {
          return written_scale(scales, offset(scales, z, i, 0), scales.strides[at(scales.rank - 1)],
                               static_cast<std::int64_t>(block));
        },
        limit * std::sqrt(norm / static_cast<double>(columns)), args.powers_of_two};
    if (const std::string wrong = check.problem(); !wrong.empty()) return support::cat("row ", row, ": ", wrong);
    for (std::size_t j = 0; j < columns; ++j) clear(rest, d_, offset(args.d, z, i, static_cast<std::int64_t>(j)), 1);
    const std::int64_t words = scales.shape[at(scales.rank - 1)];
    for (std::int64_t word = 0; word < words; ++word) {
      const std::int64_t place = offset(scales, z, i, word);
      if (const auto blocks = (columns + 127) / 128 % 4;
          shape_.packed_out && word + 1 == words && blocks != 0 &&
          static_cast<const std::uint32_t*>(scales.data)[place] >> 8 * blocks != 0)
        return support::cat("row ", row, ": exponents behind the last are not 0");
      clear(rest_of_scales, scale_d_, place, 4);
    }
  }
  for (const std::vector<unsigned char>* bytes : {&rest, &rest_of_scales})
    for (const unsigned char byte : *bytes)
      if (byte != kPoison) return bytes == &rest ? "memory beside d was written" : "memory beside scales was written";
  return "";
}

std::string GemmProblem::problem() const {
  if (args.scale_d) return quantised_problem();
  const std::vector<double> wanted = reference();
  std::vector<unsigned char> rest = d_.bytes;
  const std::size_t size = static_cast<std::size_t>(size_of(shape_.out));
  const std::size_t begin = static_cast<std::size_t>(static_cast<unsigned char*>(args.d.data) - d_.bytes.data());
  double difference = 0, norm = 0;
  std::size_t index = 0;
  for (std::int64_t z = 0; z < std::max(1, shape_.batch); ++z)
    for (std::int64_t i = 0; i < shape_.m; ++i)
      for (std::int64_t j = 0; j < shape_.columns(); ++j, ++index) {
        const std::int64_t place = offset(args.d, z, i, j);
        const double got = element(args.d, place);
        if (std::isnan(got))
          return support::cat("d[", z, ", ", i, ", ", j, "] was not written, or is NaN; ", wanted[index],
                              " was wanted");
        difference += (got - wanted[index]) * (got - wanted[index]);
        norm += wanted[index] * wanted[index];
        std::memset(rest.data() + begin + static_cast<std::size_t>(place) * size, kPoison, size);
      }
  for (const unsigned char byte : rest)
    if (byte != kPoison) return "memory beside d was written";
  const double error = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  const double allowed = gemm_limit(shape_.dtype, shape_.out);
  return error <= allowed ? std::string() : support::cat("relative error ", error, ", allowed ", allowed);
}

}  // namespace tj::test
