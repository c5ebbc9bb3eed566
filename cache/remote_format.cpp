// See remote_format.hpp.
#include "cache/remote_format.hpp"

#include <algorithm>

#include "cache/bytes.hpp"
#include "support/fail.hpp"
#include "support/hash.hpp"

namespace tj::cache {
namespace {

using support::cat;

template <class Array>
std::string_view text_of(const Array& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A signature holds for values alone, and for this name.
std::string signed_text(std::string_view name, std::string_view entry) {
  support::FieldHash hash;
  const support::Digest digest =
      hash.field("tilejit", "remote value").field("name", name).field("entry", entry).finish();
  return cat("tilejit remote ", text_of(digest));
}

}  // namespace

std::string encode_remote(std::string_view name, std::string_view entry, const support::SecretKey* secret) {
  std::string out(kRemoteMagic);
  put(out, kRemoteVersion, 4);
  put(out, kRemoteHeaderBytes + entry.size(), 8);
  out.append(text_of(secret != nullptr ? secret->public_key() : support::PublicKey{}));
  out.append(text_of(secret != nullptr ? secret->sign(signed_text(name, entry)) : support::Signature{}));
  return out.append(entry);
}

std::optional<std::string_view> read_remote(std::string_view name, std::string_view value,
                                            const std::vector<support::PublicKey>* keys, std::string* problem) {
  const auto refuse = [&](std::string why) {
    *problem = std::move(why);
    return std::nullopt;
  };
  Reader reader(value);
  const std::string_view magic = reader.take(kRemoteMagic.size());
  const std::uint64_t version = reader.number(4), total = reader.number(8);
  const auto key = reader.array<support::PublicKey>();
  const auto signature = reader.array<support::Signature>();
  if (!reader.ok() || magic != kRemoteMagic) return refuse("it is no value of tilejit, or is cut short");
  if (version != kRemoteVersion)
    return refuse(cat("it has format version ", version, "; this library reads version ", kRemoteVersion));
  if (total != value.size()) return refuse(cat(value.size(), " bytes where ", total, " were written"));
  const std::string_view entry = value.substr(kRemoteHeaderBytes);
  const bool is_signed = key != support::PublicKey{};
  if (is_signed ? !support::is_signed_by(key, signed_text(name, entry), signature) : signature != support::Signature{})
    return refuse("its signature is not right");
  if (keys != nullptr && !is_signed) return refuse("it is not signed");
  if (keys != nullptr && std::find(keys->begin(), keys->end(), key) == keys->end())
    return refuse(cat("it is signed by the key ", support::name_of(key), "..., which is none of TJ_PACK_KEYS"));
  return entry;
}

}  // namespace tj::cache
