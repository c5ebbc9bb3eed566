// SHA-256 over named, length-delimited fields.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tj::support {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view bytes);
std::string to_hex(const Digest& digest);

/// Fields cannot run together: each is written as name length, name, value length, value.
class FieldHash {
 public:
  FieldHash& field(std::string_view name, std::string_view value);
  FieldHash& field(std::string_view name, std::uint64_t value);
  Digest finish() const;

 private:
  std::string buffer_;
};

}  // namespace tj::support
