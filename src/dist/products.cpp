// See products.hpp.
#include "dist/products.hpp"

#include <algorithm>
#include <utility>

#include "dist/made_up.hpp"
#include "dist/peers.hpp"
#include "support/fail.hpp"

namespace tj::dist {

using support::cat;

namespace {

/// A copy of fewer bytes waits longer for its beginning than it travels.
constexpr double kPieceBytes = 8 << 20;
constexpr std::int64_t kTileRows = 128;  ///< of most tiles, and a divisor of larger ones

}  // namespace

void refuse_product(const char* op, const std::string& what, Code code) {
  support::fail(Stage::argument, code, cat(op, ": ", what));
}

Tensor matrix_rows(const Tensor& t, Range rows) {
  Tensor some = t;
  some.shape[0] = rows.rows();
  if (t.data != nullptr) some.data = static_cast<std::byte*>(t.data) + rows.begin * t.strides[0] * size_of(t.dtype);
  return some;
}

const ops::Op& gemm_op() { return detail::op_of<GemmArgs>(); }

Range Cut::piece(int n) const {
  return {std::min(n * each, rows), n + 1 == count ? rows : std::min((n + 1) * each, rows)};
}

Cut cut_of(std::int64_t rows, std::size_t row_bytes, int forced) {
  const double bytes = static_cast<double>(rows) * static_cast<double>(row_bytes);
  const int wanted = forced > 0 ? forced : std::clamp(static_cast<int>(bytes / kPieceBytes), 1, kMostPieces);
  Cut cut{rows, (rows / wanted + kTileRows) / kTileRows * kTileRows};
  if (rows % wanted == 0 && rows / wanted % kTileRows == 0) cut.each = rows / wanted;
  cut.each = std::max(cut.each, kTileRows);
  cut.count = static_cast<int>(std::max<std::int64_t>(1, (rows + cut.each - 1) / cut.each));
  return cut;
}

void check_product(const char* op, const GemmArgs& product, const Member& member) {
  if (product.a.rank != 2 || product.b.rank != 2 || product.d.rank != 2)
    refuse_product(op, cat("a, b and d have ", product.a.rank, ", ", product.b.rank, " and ", product.d.rank,
                           " dimensions; allowed: matrices, 2"));
  if (product.a.device != member.device)
    refuse_product(
        op, cat("a is on ", to_string(product.a.device), "; allowed: the group's device, ", to_string(member.device)));
  if (product.a.dtype != DType::f16 && product.a.dtype != DType::bf16)
    refuse_product(op, cat("a is ", to_string(product.a.dtype), "; allowed: f16, bf16"), Code::unsupported);
  for (const auto& [name, scale] :
       {std::pair{"scale_a", &product.scale_a}, {"scale_b", &product.scale_b}, {"scale_d", &product.scale_d}})
    if (*scale) refuse_product(op, cat(name, " is given; allowed: none"), Code::unsupported);
}

void validate_product(GemmArgs product, Device device) {
  place_nulls(
      {&product.a, &product.b, &product.d, product.c ? &*product.c : nullptr, product.bias ? &*product.bias : nullptr});
  detail::op_of<GemmArgs>().validate(&product, device.kind == DeviceKind::cpu);
}

}  // namespace tj::dist
