// Reading and writing .npy files.
//
// The header is a Python dictionary literal; the little parser below knows the three keys that the format defines and
// refuses all else. Invariant: an Array that is returned has exactly the bytes that its shape and dtype say.
#include "common/npy.hpp"

#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include <tilejit/error.hpp>

namespace tj::samples {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr std::size_t kMagicBytes = 6;
constexpr std::size_t kMaxHeaderBytes = 1 << 16;

[[noreturn]] void refuse(Code code, const std::string& path, const std::string& what) {
  throw Error(Stage::argument, code, path + ": " + what);
}

class HeaderParser {
 public:
  HeaderParser(const std::string& path, const std::string& text) : path_(path), text_(text) {}

  Array parse() {
    Array array;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        array.dtype = dtype(string());
        seen_ |= 1;
      } else if (key == "fortran_order") {
        if (boolean())
          refuse(Code::unsupported, path_, "fortran_order is True; allowed: C order (numpy.ascontiguousarray)");
        seen_ |= 2;
      } else if (key == "shape") {
        array.shape = tuple();
        seen_ |= 4;
      } else {
        bad("key '" + key + "'");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (seen_ != 7) bad("a missing key (descr, fortran_order and shape are needed)");
    return array;
  }

 private:
  [[noreturn]] void bad(const std::string& what) {
    refuse(Code::invalid_argument, path_, "not a .npy header: " + what + " in " + text_);
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(std::string("no '") + c + "' at byte " + std::to_string(at_));
  }
  std::string string() {
    const char quote = accept('\'') ? '\'' : (expect('"'), '"');
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string::npos) bad("an unfinished string");
    const std::string value = text_.substr(at_, end - at_);
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}})
      if (text_.compare(at_, std::strlen(word), word) == 0) {
        at_ += std::strlen(word);
        return value;
      }
    bad("fortran_order is neither True nor False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(number());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }
  std::int64_t number() {
    skip_space();
    std::int64_t value = 0;
    const std::size_t begin = at_;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_)
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
          __builtin_add_overflow(value, std::int64_t{text_[at_] - '0'}, &value))
        bad("a size that does not fit 64 bits");
    if (at_ == begin) bad("a size that is no number");
    return value;
  }
  DType dtype(const std::string& descr) {
    if (descr == "<f2") return DType::f16;
    if (descr == "<f4") return DType::f32;
    refuse(Code::unsupported, path_, "dtype is '" + descr + "'; allowed: '<f2' (numpy.float16), '<f4' (numpy.float32)");
  }

  const std::string& path_;
  const std::string& text_;
  std::size_t at_ = 0;
  int seen_ = 0;
};

/// Bytes of the array's data; refuses what overflows.
std::size_t data_bytes(const std::string& path, const Array& array) {
  std::int64_t bytes = size_of(array.dtype);
  for (const std::int64_t size : array.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      refuse(Code::invalid_argument, path, "its shape does not fit 64 bits of bytes");
  return static_cast<std::size_t>(bytes);
}

std::string read_exactly(std::ifstream& file, const std::string& path, std::size_t bytes, const char* what) {
  std::string text(bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(bytes));
  if (static_cast<std::size_t>(file.gcount()) != bytes)
    refuse(Code::invalid_argument, path, std::string("ends inside ") + what + "; is it a complete .npy file?");
  return text;
}

std::string read_header(std::ifstream& file, const std::string& path) {
  const std::string start = read_exactly(file, path, kMagicBytes + 2, "the magic number");
  if (start.compare(0, kMagicBytes, kMagic, kMagicBytes) != 0)
    refuse(Code::invalid_argument, path,
           "no .npy file (the magic number is missing); allowed: what numpy.save() writes");
  const int version = static_cast<unsigned char>(start[kMagicBytes]);
  if (version < 1 || version > 3)
    refuse(Code::unsupported, path, "format version " + std::to_string(version) + "; allowed: 1, 2, 3");
  const std::string length_text = read_exactly(file, path, version == 1 ? 2 : 4, "the header length");
  std::size_t length = 0;
  for (std::size_t i = length_text.size(); i-- > 0;) length = length << 8 | static_cast<unsigned char>(length_text[i]);
  if (length > kMaxHeaderBytes)
    refuse(Code::invalid_argument, path, "header of " + std::to_string(length) + " bytes; allowed: at most 65536");
  return read_exactly(file, path, length, "the header");
}

}  // namespace

std::int64_t Array::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

Array read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(Code::io, path, std::string("cannot be opened: ") + std::strerror(errno));
  const std::string header = read_header(file, path);
  Array array = HeaderParser(path, header).parse();
  const std::size_t wanted = data_bytes(path, array);
  // The file's own size first: a damaged shape must not become a huge allocation.
  const std::streamoff begin = file.tellg();
  file.seekg(0, std::ios::end);
  const auto present = static_cast<std::size_t>(static_cast<std::streamoff>(file.tellg()) - begin);
  if (present != wanted)
    refuse(Code::invalid_argument, path,
           "holds " + std::to_string(present) + " bytes of data; its shape needs " + std::to_string(wanted));
  file.seekg(begin);
  array.bytes.resize(wanted);
  file.read(reinterpret_cast<char*>(array.bytes.data()), static_cast<std::streamsize>(wanted));
  if (!file) refuse(Code::io, path, std::string("cannot be read: ") + std::strerror(errno));
  return array;
}

void write_npy(const std::string& path, const Array& array) {
  if (array.dtype != DType::f16 && array.dtype != DType::f32)
    refuse(Code::unsupported, path,
           std::string("dtype is ") + to_string(array.dtype) + "; allowed: f16, f32 (.npy knows no bf16)");
  if (array.bytes.size() != data_bytes(path, array))
    refuse(Code::invalid_argument, path, "the array's bytes do not match its shape");
  std::string header = std::string("{'descr': '") + (array.dtype == DType::f16 ? "<f2" : "<f4") +
                       "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t size : array.shape) header += std::to_string(size) + ",";
  header += "), }";
  while ((kMagicBytes + 4 + header.size() + 1) % 64 != 0) header += ' ';  // the data starts on a multiple of 64 bytes
  header += '\n';
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) refuse(Code::io, path, std::string("cannot be written: ") + std::strerror(errno));
  file.write(kMagic, kMagicBytes);
  const char version_and_length[4] = {1, 0, static_cast<char>(header.size() & 0xff),
                                      static_cast<char>(header.size() >> 8)};
  file.write(version_and_length, sizeof version_and_length);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  file.write(reinterpret_cast<const char*>(array.bytes.data()), static_cast<std::streamsize>(array.bytes.size()));
  file.flush();
  if (!file) refuse(Code::io, path, std::string("cannot be written: ") + std::strerror(errno));
}

}  // namespace tj::samples
