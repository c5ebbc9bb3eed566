// The promise of the reader of packs for any bytes: nothing, and why, or an index that is written the same again.
//
// Bytes are read as a file's end, and as an index whose end has the right checksum: the parser behind the checksum must
// not rely on it. The first byte says how many entries that end counts.
#include <cstdlib>
#include <string>
#include <string_view>

#include "cache/pack_format.hpp"
#include "support/fuzz.hpp"

namespace {

using namespace tj::cache;

void read(const std::string& last, std::uint64_t file_bytes, std::string_view index) {
  std::string problem;
  const auto end = read_end(last, file_bytes, &problem);
  if (end.has_value() != problem.empty()) std::abort();
  if (!end) return;
  if (end->index_offset() > file_bytes) std::abort();
  static_cast<void>(has_wrong_signature(*end));
  const auto records = read_index(index, *end, &problem);
  if (records.has_value() != problem.empty()) std::abort();
  if (!records) return;
  std::uint64_t bytes = kPackMagic.size();
  for (const PackRecord& record : *records) bytes += record.bytes;
  if (records->size() != end->count || bytes != end->index_offset() || encode_index(*records) != index) std::abort();
}

}  // namespace

TJ_FUZZ_TARGET(tj::testing::fuzz_pack)(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (size >= kPackEndBytes) {
    const std::size_t rest = size - kPackEndBytes;
    read(bytes.substr(rest), size, std::string_view(bytes).substr(0, rest));
  }
  if (size < 3) return 0;
  const std::string index = bytes.substr(3);
  const std::uint64_t offset = kPackMagic.size() + (data[1] | data[2] << 8);
  read(encode_end(data[0], index, offset, nullptr), offset + index.size() + kPackEndBytes, index);
  return 0;
}
