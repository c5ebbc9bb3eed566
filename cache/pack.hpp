// Packs as files: opened, trusted, and read entry by entry.
//
// Decides which packs are searched: those of this user or root that nobody else can write, or, where keys are given,
// those that one of them has signed, whoever owns them. Does not decide bytes (pack_format.hpp). Invariants: the
// descriptor that is judged is the one that is read; nothing is mapped; each entry is held against the index, which
// was verified whole.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/counts.hpp"
#include "cache/pack_format.hpp"
#include "support/file_descriptor.hpp"
#include "support/fork_safe.hpp"

namespace tj::cache {

/// Never changes.
struct PackIndex {
  std::vector<PackRecord> records;
  std::string signer;  ///< the name of the key; empty for a pack without a signature that was checked

  /// The records of a request, in the order of their compilers.
  std::span<const PackRecord> of_request(const std::string& request_hex) const;
};

struct OpenedPack {
  support::FileDescriptor file;
  std::shared_ptr<const PackIndex> index;  ///< null where there is none
};

/// Opens packs; an index that was verified is kept as long as the file stays the same. Thread safe.
class PackOpener {
 public:
  /// keys_path: a file of public keys; empty: no signature is wanted.
  explicit PackOpener(std::string keys_path) : keys_path_(std::move(keys_path)) {}
  /// No index and a problem, when it cannot be used.
  OpenedPack open(const std::string& path, std::string* problem);

 private:
  using Stamp = std::array<std::int64_t, 7>;  ///< device, inode, size, modification and change
  std::shared_ptr<const PackIndex> verified(int file, std::uint64_t file_bytes, std::string* problem) const;

  const std::string keys_path_;
  mutable support::Mutex mutex_;
  std::map<std::string, std::pair<Stamp, std::shared_ptr<const PackIndex>>> known_;
};

/// The public keys of a file that is trusted like an entry; empty, and why, where there are none.
std::vector<support::PublicKey> read_public_keys(const std::string& path, std::string* problem);
/// The bytes of one entry, when they are those of the index. check_s: gets the seconds that this took, beside the
/// reading.
std::optional<std::string> read_packed(int file, const PackRecord& record, std::string* problem, Rejection* why,
                                       double* check_s = nullptr);

}  // namespace tj::cache
