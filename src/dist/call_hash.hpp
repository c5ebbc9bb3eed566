// A number that equal calls of all ranks have in common.
//
// Decides how values are mixed, and the numbers of kinds of calls. Each call says which of its values must be equal on
// all ranks.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include <tilejit/tensor.hpp>

namespace tj::dist {

/// Ranks whose calls are of different kinds tell different hashes.
enum class CallKind : std::uint8_t { keys = 1, gathered_rows, scattered_sums, decode, heads };

/// FNV-1a of the kind, then of the values in their order.
class CallHash {
 public:
  explicit CallHash(CallKind kind) { add(kind); }
  template <class Number>
    requires(std::is_integral_v<Number> || std::is_enum_v<Number>)
  CallHash& add(Number value) {
    for (int byte = 0; byte < 8; ++byte) {
      const auto low = static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) >> (8 * byte) & 0xff;
      state_ = (state_ ^ low) * 1099511628211u;
    }
    return *this;
  }
  CallHash& add(float value) { return add(std::bit_cast<std::int32_t>(value)); }
  CallHash& add(const std::optional<float>& value) { return add(value.has_value()).add(value.value_or(0)); }
  CallHash& add(const std::vector<std::int64_t>& values) {
    for (const std::int64_t value : values) add(value);
    return add(values.size());
  }
  /// Adds the type and B, H and D of [B, H, S, D]. S is each rank's own.
  CallHash& add_heads(const Tensor& t) { return add(t.dtype).add(t.shape[0]).add(t.shape[1]).add(t.shape[3]); }
  /// Adds masks and scores of FmhaArgs or ContextFmhaArgs.
  template <class Args>
  CallHash& add_scores(const Args& args) {
    return add(args.window.left)
        .add(args.window.right)
        .add(args.softcap)
        .add(args.scale)
        .add(args.alibi_slopes.has_value())
        .add(args.sinks.has_value());
  }
  std::uint32_t value() const { return static_cast<std::uint32_t>(state_ ^ state_ >> 32); }

 private:
  std::uint64_t state_ = 14695981039346656037u;
};

}  // namespace tj::dist
