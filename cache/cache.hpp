// The on-disk kernel cache: keys, entries, store. GPU-free; sees only src/support and the public headers.
//
// Decides the key, the entry format (cache/README.md) and how entries are published, found, bounded and checked.
// Invariant: the bytes that load() returns passed its checksum, and some store() was given them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tilejit/runtime.hpp>

#include "cache/counts.hpp"

namespace tj::support {
class SecretKey;  // signature.hpp
}

namespace tj::cache {

using Fields = std::vector<std::pair<std::string, std::string>>;

/// The key of a kernel.
struct Key {
  std::string request_hex;   ///< hash of everything but the compiler
  std::string compiler_hex;  ///< hash of the compiler's identity; empty: any compiler's entry matches
};

/// request: op, types, flags, target, options, build id ... compiler: kind, path, size, mtime; empty fields = no
/// compiler.
Key make_key(const Fields& request, const Fields& compiler);
/// The key of a binary by what it was compiled from. text: the text, the files that it includes, the compiler's
/// options, and all else that its entry says. Never equal to a key of make_key().
Key make_text_key(const Fields& text, const Fields& compiler);

struct Entry {
  Fields metadata;      ///< e.g. name, target, symbol, threads, smem_bytes, schedule, source_sha256, compiler_version
  std::string payload;  ///< the binary
  const std::string* find(std::string_view name) const;  ///< metadata value or null
  int layer = -1;                                        ///< of those that were given to the Store that loaded it
  std::string compiler_hex = {};                         ///< of its key, once it was decoded
};

/// The second half of an alias's key: no hash is as short. An alias is an entry without a payload, which names the
/// first half of its kernel's key.
inline constexpr const char* kAliasHalf = "alias";
inline bool is_alias(const Key& key) { return key.compiler_hex == kAliasHalf; }
/// An alias's key and entry. facts: of the kernel, for those who look at it.
inline Key alias_key(std::string request_hex) { return {std::move(request_hex), kAliasHalf}; }
Entry alias_entry(const std::string& text_hex, Fields facts);
/// The half that an alias names; empty where the entry is none.
std::string aliased(const Entry& entry);

/// The compilers whose binaries serve a key that names one: that one alone, or, behind all of its own, any in packs.
enum class Served { own, any_packed };
/// Second halves of keys. Binaries of these compilers are left out of a look-up.
using Without = std::set<std::string>;

struct ListedEntry {
  std::string path;
  bool alias = false;
  std::size_t layer = 0;  ///< of Store::layers()
  std::uint64_t bytes = 0;
  std::int64_t last_use_ns = 0;  ///< since 1970
  std::optional<Entry> entry;    ///< absent when damaged
  std::string problem;           ///< why it is damaged
};

/// A directory of a cache, as it is now.
struct LayerState {
  std::string directory;
  bool written = false;  ///< the others are only searched
  bool pack = false;     ///< a file
  std::string problem;   ///< why it is left out; empty when it is searched, or can be made
};

/// How long somebody waits for a key's lock.
struct LockWait {
  double limit_s = 0;  ///< 0: as long as it takes
  /// Told from time to time, first after a second: for how long it has been, and for whom ("process 1234 (tj-warm)").
  /// Told once more when the time is over.
  std::function<void(double waited_s, const std::string& holder, bool over)> says;
  bool* waited = nullptr;  ///< set, where it is wanted, when somebody else has the lock
  /// Asked many times a second while somebody else has the lock. True: the wait ends then, and nothing is told.
  std::function<bool()> given_up = {};
};

/// A pack as it was made. left_out: layers and entries that cannot be used, and why; problem: why there is no pack.
struct PackReport {
  std::uint64_t entries = 0, bytes = 0;
  std::vector<std::pair<std::string, std::string>> left_out;
  std::string problem;
};
struct UnpackReport {
  std::uint64_t written = 0, there = 0;
  /// By target and second half of the key: kernels that were written, or were there.
  std::map<std::pair<std::string, std::string>, std::uint64_t> kernels;
  std::vector<std::pair<std::string, std::string>> failed;  ///< entries, and why
  /// Entries that were written or there, and are not at the end, or cannot be read then, for a reason. None of them is
  /// counted above.
  std::vector<std::pair<std::string, std::string>> gone;
  std::string problem;  ///< why the pack cannot be used
};

using LogFunction = std::function<void(LogLevel, std::string_view)>;

/// Part of each message that says why the bytes given to store() are not on disk. The first message is a warning, the
/// others go to level debug.
inline constexpr std::string_view kNotKept = "kept in memory only";

class Store {
 public:
  /// directories: one, or several layers with colons between them. The first that can be written is; the others are
  /// searched behind it, in their order, and never written, marked or locked. One that is missing or cannot be trusted
  /// is left out, with one warning. Nothing that can be used: every load misses, every store is dropped, one warning.
  /// A file in the place of a directory is a pack. pack_keys: the file of keys that packs must be signed by; empty: no
  /// signature is wanted.
  Store(std::string directories, std::uint64_t max_size_bytes, LogFunction log, std::string pack_keys = {});
  ~Store();

  std::optional<Entry> load(const Key& key, Served served = Served::own, const Without& without = {});
  /// Loads the kernel that the request's alias names, by whichever compiler the key says. text_hex: what the alias
  /// names, where it is there and whole; else empty.
  std::optional<Entry> load_aliased(const Key& key, std::string* text_hex, Served served = Served::own,
                                    const Without& without = {});
  /// Gives what load() would, for inspection: nothing counts as a use, and the log has no word of it. problem: why a
  /// file that is there does not count; empty when there is none. layers() says which layers were left out.
  std::optional<Entry> look(const Key& key, std::string* problem, Served served = Served::own) const;
  /// Gives what load_aliased() would, likewise.
  std::optional<Entry> look_aliased(const Key& key, std::string* problem, Served served = Served::own) const;
  /// All entries with this second half of a key, in the order of their names; each counts as used. Of entries with one
  /// key the first layer's is taken. Meant for a few
  /// small entries that matter together: every one is read.
  std::vector<std::pair<Key, Entry>> load_all(const std::string& compiler_hex);
  /// When entries last came or went, in whichever layer, in ns since 1970; 0 when there is no directory.
  std::int64_t changed_ns() const;
  /// False when it could not be written (already logged).
  bool store(const Key& key, const Entry& entry);
  /// Has the request's alias name a kernel, which is there already. False, without a warning, when it could not be
  /// written: the kernel is then found by its text.
  bool store_alias(const std::string& request_hex, const Key& kernel, Fields facts);
  /// Held while one process makes a key's kernel; released with the returned object or with the process. Null where
  /// locks do not work and when the time to wait is over: two makers are acceptable.
  std::shared_ptr<void> lock(const Key& key, const LockWait& wait = {});

  /// Why nothing can be kept here now; empty when it can. Makes the directory, and for a moment a file in it.
  std::string cannot_keep() const;

  /// Entries of all layers. problem, where it is wanted: the reason why the list is not complete, or empty.
  std::vector<ListedEntry> list(std::string* problem = nullptr) const;
  /// Writes all sound entries of all layers into one file, which replaces one that is there. secret: signs it; may be
  /// null.
  PackReport pack(const std::string& path, const support::SecretKey* secret) const;
  /// Stores what a pack has and no layer.
  UnpackReport unpack(const std::string& path);

  /// The layers in the order in which they are searched. Makes nothing.
  std::vector<LayerState> layers() const;
  StoreCounts counts() const;
  /// All directories, as they were given.
  const std::string& directory() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The bytes of an entry file, and back; the string says what is wrong.
std::string encode(const Key& key, const Entry& entry);
std::optional<Entry> decode(std::string_view bytes, const Key* expected, std::string* problem,
                            Rejection* why = nullptr);

}  // namespace tj::cache
