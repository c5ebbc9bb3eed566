// Numbers and texts as bytes: little-endian, texts behind their length in four bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tj::cache {

inline void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

inline void put_text(std::string& out, std::string_view text) {
  put(out, text.size(), 4);
  out.append(text);
}

/// Takes from the front; after the first overrun everything is empty and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(count));
    rest_.remove_prefix(static_cast<std::size_t>(count));
    return taken;
  }
  std::uint64_t number(int bytes) {
    const std::string_view raw = take(static_cast<std::uint64_t>(bytes));
    std::uint64_t value = 0;
    for (std::size_t i = raw.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(raw[i]);
    return value;
  }
  std::string text() { return std::string(take(number(4))); }
  /// An array of bytes, zeros where it is cut short.
  template <class Array>
  Array array() {
    Array out{};
    const std::string_view raw = take(out.size());
    for (std::size_t i = 0; i < raw.size(); ++i) out[i] = static_cast<typename Array::value_type>(raw[i]);
    return out;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace tj::cache
