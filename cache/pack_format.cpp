// See pack_format.hpp.
#include "cache/pack_format.hpp"

#include <utility>

#include "cache/bytes.hpp"
#include "cache/directory.hpp"
#include "cache/format.hpp"
#include "support/fail.hpp"

namespace tj::cache {
namespace {

using support::cat;

template <class Array>
std::string_view text_of(const Array& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The numbers of an end, which the digest covers together with the index.
std::string numbers_of(std::uint64_t count, std::uint64_t index_bytes, std::uint64_t total) {
  std::string out;
  put(out, kPackVersion, 4);
  for (const std::uint64_t each : {count, index_bytes, total}) put(out, each, 8);
  return out;
}

support::Digest digest_of(std::string_view numbers, std::string_view index) {
  support::FieldHash hash;
  return hash.field("tilejit", "pack").field("numbers", numbers).field("index", index).finish();
}

/// A signature holds for packs alone.
std::string signed_text(const support::Digest& digest) { return cat("tilejit pack ", text_of(digest)); }

}  // namespace

std::uint64_t PackEnd::index_offset() const { return total - kPackEndBytes - index_bytes; }

std::string encode_index(const std::vector<PackRecord>& records) {
  std::string out;
  for (const PackRecord& record : records) {
    put_text(out, record.key.request_hex);
    put_text(out, record.key.compiler_hex);
    put(out, record.offset, 8);
    put(out, record.bytes, 8);
    out.append(text_of(record.sha256));
  }
  return out;
}

std::string encode_end(std::uint64_t count, std::string_view index, std::uint64_t index_offset,
                       const support::SecretKey* secret) {
  std::string out = numbers_of(count, index.size(), index_offset + index.size() + kPackEndBytes);
  const support::Digest digest = digest_of(out, index);
  out.append(text_of(digest));
  out.append(text_of(secret != nullptr ? secret->public_key() : support::PublicKey{}));
  out.append(text_of(secret != nullptr ? secret->sign(signed_text(digest)) : support::Signature{}));
  return out.append(kPackMagic);
}

std::optional<PackEnd> read_end(std::string_view last, std::uint64_t file_bytes, std::string* problem) {
  const auto refuse = [&](std::string why) {
    *problem = std::move(why);
    return std::nullopt;
  };
  if (last.size() != kPackEndBytes || !last.ends_with(kPackMagic))
    return refuse("it is no pack of kernels, or is cut short");
  Reader reader(last);
  if (const std::uint64_t version = reader.number(4); version != kPackVersion)
    return refuse(cat("it is a pack of format version ", version, "; this library reads version ", kPackVersion));
  PackEnd end;
  end.count = reader.number(8);
  end.index_bytes = reader.number(8);
  end.total = reader.number(8);
  end.digest = reader.array<support::Digest>();
  end.key = reader.array<support::PublicKey>();
  end.signature = reader.array<support::Signature>();
  if (end.total != file_bytes) return refuse(cat(file_bytes, " bytes where ", end.total, " were written"));
  if (end.index_bytes > kMaxIndexBytes || end.total < kPackMagic.size() + kPackEndBytes ||
      end.index_bytes > end.total - kPackMagic.size() - kPackEndBytes)
    return refuse(cat("its index cannot have ", end.index_bytes, " bytes"));
  return end;
}

std::optional<std::vector<PackRecord>> read_index(std::string_view index, const PackEnd& end, std::string* problem) {
  const auto refuse = [&](const char* why) {
    *problem = why;
    return std::nullopt;
  };
  if (index.size() != end.index_bytes ||
      digest_of(numbers_of(end.count, end.index_bytes, end.total), index) != end.digest)
    return refuse("the checksum of its index does not match");
  std::vector<PackRecord> records;
  std::string before;
  std::uint64_t at = kPackMagic.size();
  for (Reader reader(index); !reader.done();) {
    PackRecord record;
    record.key = {reader.text(), reader.text()};
    record.offset = reader.number(8);
    record.bytes = reader.number(8);
    record.sha256 = reader.array<support::Digest>();
    if (!reader.ok() || !is_well_formed(record.key)) return refuse("malformed index under a right checksum");
    std::string name = file_name(record.key);
    if (!(before < name) || record.offset != at || record.bytes > static_cast<std::uint64_t>(kMaxFileBytes) ||
        record.bytes > end.index_offset() - at)
      return refuse("its entries are not in their order, or not where they belong");
    at += record.bytes;
    before = std::move(name);
    records.push_back(std::move(record));
  }
  if (records.size() != end.count || at != end.index_offset())
    return refuse("its index does not list what the pack has");
  return records;
}

bool has_wrong_signature(const PackEnd& end) {
  if (!end.is_signed()) return end.signature != support::Signature{};
  return !support::is_signed_by(end.key, signed_text(end.digest), end.signature);
}

}  // namespace tj::cache
