// The bytes of an entry, and their names.
//
// Decides the encoding written down in README.md. Does not touch files. Invariant: decode() reads nothing before the
// checksum over everything has passed, or another one that covers it (decode_known). It never reads past the end, even
// of bytes whose checksum is right, and accepts only what encode() makes.
#include <algorithm>

#include <utility>

#include "cache/bytes.hpp"
#include "cache/format.hpp"
#include "support/fail.hpp"
#include "support/hash.hpp"

namespace tj::cache {
namespace {

constexpr std::size_t kChecksumBytes = std::tuple_size_v<support::Digest>;

std::string checksum(std::string_view bytes) {
  const support::Digest digest = support::sha256(bytes);
  return {digest.begin(), digest.end()};
}

/// Empty when magic, version and length are right. The checksum counts, too, unless the bytes are known.
std::string check_frame(std::string_view bytes, bool known, Rejection* why) {
  if (std::string problem = header_problem(bytes, bytes.size(), why); !problem.empty() || known) return problem;
  const std::size_t end = bytes.size() - kChecksumBytes;
  if (checksum(bytes.substr(0, end)) != bytes.substr(end)) return "checksum does not match";
  return {};
}

std::string parse(std::string_view body, Key* key, Entry* entry) {
  Reader reader(body);
  key->request_hex = reader.text();
  key->compiler_hex = reader.text();
  const std::uint64_t count = reader.number(4);
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    std::string name = reader.text();
    std::string value = reader.text();
    if (reader.ok()) entry->metadata.emplace_back(std::move(name), std::move(value));
  }
  entry->payload = std::string(reader.take(reader.number(8)));
  return reader.done() ? std::string() : "malformed fields under a right checksum";
}

bool is_hex_like(std::string_view text) {
  return text.size() <= kMaxHexLength && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

}  // namespace

std::string header_problem(std::string_view first, std::uint64_t file_bytes, Rejection* why) {
  *why = Rejection::damaged;
  Reader reader(first);
  const std::string_view magic = reader.take(kMagic.size());
  const std::uint64_t version = reader.number(4);
  const std::uint64_t total = reader.number(8);
  if (!reader.ok()) return support::cat("too short: ", file_bytes, " bytes");
  if (magic != kMagic) return "not a tilejit kernel entry";
  if (version != kFormatVersion) {
    *why = Rejection::version;
    return support::cat("format version ", version, "; this library reads version ", kFormatVersion);
  }
  if (total != file_bytes) return support::cat(file_bytes, " bytes where ", total, " were written");
  if (file_bytes < kHeaderBytes + kChecksumBytes) return support::cat("too short: ", file_bytes, " bytes");
  return {};
}

const std::string* Entry::find(std::string_view name) const {
  for (const auto& [key, value] : metadata) {
    if (key == name) return &value;
  }
  return nullptr;
}

Entry alias_entry(const std::string& text_hex, Fields facts) {
  Entry entry;
  entry.metadata.emplace_back(kAliasHalf, text_hex);
  for (auto& fact : facts) entry.metadata.push_back(std::move(fact));
  return entry;
}

std::string aliased(const Entry& entry) {
  const std::string* text_hex = entry.find(kAliasHalf);
  const bool right = text_hex != nullptr && entry.payload.empty() && text_hex->size() == kMaxHexLength;
  return right && is_hex_like(*text_hex) ? *text_hex : std::string();
}

std::string encode(const Key& key, const Entry& entry) {
  constexpr std::uint64_t kMaxText = 0xffffffffu;
  std::uint64_t total = kHeaderBytes + 4 + key.request_hex.size() + 4 + key.compiler_hex.size() + 4 + 8 +
                        entry.payload.size() + kChecksumBytes;
  for (const auto& [name, value] : entry.metadata) {
    if (name.size() > kMaxText || value.size() > kMaxText) {
      support::fail(Stage::cache, Code::internal, "kernel cache: metadata '" + name.substr(0, 64) + "' exceeds 4 GiB");
    }
    total += 4 + name.size() + 4 + value.size();
  }
  std::string out;
  out.reserve(static_cast<std::size_t>(total));
  out.append(kMagic);
  put(out, kFormatVersion, 4);
  put(out, total, 8);
  put_text(out, key.request_hex);
  put_text(out, key.compiler_hex);
  put(out, entry.metadata.size(), 4);
  for (const auto& [name, value] : entry.metadata) {
    put_text(out, name);
    put_text(out, value);
  }
  put(out, entry.payload.size(), 8);
  out.append(entry.payload);
  out.append(checksum(out));
  return out;
}

namespace {

std::optional<Entry> decode(std::string_view bytes, bool known, const Key* expected, std::string* problem,
                            Rejection* why) {
  Key key;
  Entry entry;
  Rejection kind = Rejection::damaged;
  std::string reason = check_frame(bytes, known, &kind);
  if (reason.empty()) {
    reason = parse(bytes.substr(kHeaderBytes, bytes.size() - kHeaderBytes - kChecksumBytes), &key, &entry);
  }
  if (reason.empty() && expected != nullptr &&
      (key.request_hex != expected->request_hex ||
       (!expected->compiler_hex.empty() && key.compiler_hex != expected->compiler_hex))) {
    reason = "made for another key, " + file_name(key);
    kind = Rejection::other_key;
  }
  if (why != nullptr) *why = kind;
  if (problem != nullptr) *problem = reason;
  if (!reason.empty()) return std::nullopt;
  entry.compiler_hex = std::move(key.compiler_hex);
  return entry;
}

}  // namespace

std::optional<Entry> decode(std::string_view bytes, const Key* expected, std::string* problem, Rejection* why) {
  return decode(bytes, false, expected, problem, why);
}

std::optional<Entry> decode_known(std::string_view bytes, const Key* expected, std::string* problem, Rejection* why) {
  return decode(bytes, true, expected, problem, why);
}

/// No stream, as each look-up asks for several names.
std::string file_name(const Key& key) {
  std::string name;
  name.reserve(key.request_hex.size() + 1 + key.compiler_hex.size() + kSuffix.size());
  return name.append(key.request_hex).append(1, '-').append(key.compiler_hex).append(kSuffix);
}

bool is_well_formed(const Key& key) {
  return !key.request_hex.empty() && is_hex_like(key.request_hex) && is_hex_like(key.compiler_hex);
}

bool parse_file_name(std::string_view name, Key* key) {
  if (!name.ends_with(kSuffix)) return false;
  name.remove_suffix(kSuffix.size());
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos) return false;
  *key = Key{std::string(name.substr(0, dash)), std::string(name.substr(dash + 1))};
  return is_well_formed(*key);
}

}  // namespace tj::cache
