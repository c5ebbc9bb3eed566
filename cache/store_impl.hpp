// The parts of a store, for the files that implement its members: store.cpp, which changes what it finds, and
// inspect.cpp, which changes nothing.
//
// Decides what is said of layers and entries that cannot be used. Invariant: no state besides what was said and
// counted.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.hpp"
#include "cache/directory.hpp"
#include "cache/format.hpp"
#include "cache/layers.hpp"
#include "support/fork_safe.hpp"

namespace tj::cache {

inline constexpr Admission kAdmission{kHeaderBytes, header_problem};
inline constexpr const char* kNoDirectory =
    "no directory (TJ_CACHE_DIR, XDG_CACHE_HOME and a home directory are all missing, or have a colon in them)";

/// All entry files, or those of one request. problem, where it is wanted: why files are missing.
std::vector<FileInfo> entry_files(int directory, const std::string* request_hex, std::string* problem = nullptr);

inline constexpr std::int64_t kStaleNs = std::int64_t{3600} * 1'000'000'000;
/// Clocks of machines that share a cache differ by less. Such a time was set by hand, or by a clock that was wrong.
inline constexpr std::int64_t kFarAheadNs = 24 * kStaleNs;

/// Is a temporary that has this time one of a writer that is gone? One that is being written has its file system's
/// time, and then its writer's. Either clock may be off: another machine's disk, or a clock that has been set.
constexpr bool is_left_over(std::int64_t made_ns, std::int64_t file_system_now_ns, std::int64_t now_ns) {
  return made_ns < std::min(file_system_now_ns, now_ns) - kStaleNs ||
         made_ns > std::max(file_system_now_ns, now_ns) + kFarAheadNs;
}

struct Store::Impl {
  explicit Impl(std::string pack_keys) : packs(std::move(pack_keys)) {}

  std::string list;                      ///< as it was given
  std::vector<std::string> directories;  ///< none: memory only
  std::uint64_t max_size_bytes = 0;
  LogFunction log;
  PackOpener packs;
  std::atomic<bool> warned{false}, warned_of_lock{false};
  support::Mutex mutex;  ///< of what is below, held for a look-up only
  std::set<std::string> reported;
  StoreCounts counted;

  template <class Change>
  void count(Change&& change) {
    const std::lock_guard guard(mutex);
    change(counted);
  }

  void count_read(double read_s, double check_s) {
    count([=](StoreCounts& counts) {
      counts.read_s += read_s;
      counts.check_s += check_s;
    });
  }

  bool several() const { return directories.size() > 1; }
  void say(LogLevel level, const std::string& message) const {
    if (log) log(level, message);
  }
  void warn_once(const std::string& message);
  /// Tells what is wrong with a path, once for each; false when it was told before.
  bool report(const std::string& path, const std::string& message);
  /// All layers as they are, without a word.
  std::vector<Layer> look_at_layers() { return open_layers(directories, WhenMissing::leave, packs); }
  /// The layers that are there and can be used, after a word of the others.
  std::vector<Layer> open(WhenMissing when_missing);
  /// The same, where something is to be written; none is told, too.
  std::vector<Layer> open_to_write();
  /// Counts what write() does. False, and why, when the entry is not kept.
  bool store(const Key& key, const Entry& entry, std::string* problem);
  bool write(const Key& key, const Entry& entry, std::string* problem);
  /// Publishes an entry and evicts others, but for the one of this name. Empty, or why it could not be written.
  std::string publish(const Layer& layer, const Key& key, const std::string& bytes, const std::string& kept);
  /// The entry of a key in one layer.
  std::optional<Entry> load(const Layer& layer, const Key& key, const Without& without = {});
  std::optional<Entry> load(const std::vector<Layer>& layers, const Key& key, Served served, const Without& without);
  std::optional<Entry> look(const Layer& layer, const Key& key, std::string* problem) const;
  /// Layers in which somebody looks: problem says of the first what is wrong there.
  std::optional<Entry> look(const std::vector<Layer>& layers, const Key& key, std::string* problem,
                            Served served) const;
  std::optional<Entry> load_file(const Layer& layer, const std::string& name, const Key& key, const char* consequence);
  std::optional<Entry> load_packed(const Layer& layer, const PackRecord& record);
  /// Counts an entry that was read, or says why it is not used.
  void tell(const Layer& layer, const std::string& name, const std::optional<Entry>& entry, std::uint64_t bytes,
            const std::string& problem, Rejection why, const char* consequence);
};

/// Do packs serve a key by binaries of other compilers, too? Then load(key) is asked of them once more, without one.
inline bool asks_packs_again(const Key& key, Served served) {
  return served == Served::any_packed && !key.compiler_hex.empty() && !is_alias(key);
}

/// The first entry of a key in a pack that read(record) gives, in the order of their compilers where the key names
/// none.
template <class Read>
std::optional<Entry> find_packed(const PackIndex& index, const Key& key, const Without& without, Read&& read) {
  for (const PackRecord& record : index.of_request(key.request_hex))
    if (key.compiler_hex.empty() ? !is_alias(record.key) : key.compiler_hex == record.key.compiler_hex)
      if (without.count(record.key.compiler_hex) == 0)
        if (auto entry = read(record)) return entry;
  return std::nullopt;
}

/// The first entry of a key that read(name, key) gives: of all compilers, newest first, where the key names none.
template <class Read>
std::optional<Entry> find_entry(int directory, const Key& key, const Without& without, Read&& read) {
  if (without.count(key.compiler_hex) != 0) return std::nullopt;
  if (!key.compiler_hex.empty()) return read(file_name(key), key);
  std::vector<FileInfo> candidates = entry_files(directory, &key.request_hex);
  std::sort(candidates.begin(), candidates.end(), [](const FileInfo& a, const FileInfo& b) {
    return a.made_ns != b.made_ns ? a.made_ns > b.made_ns : a.name < b.name;
  });
  for (const FileInfo& candidate : candidates) {
    Key exact;  // the name must tell the truth about the compiler, too
    parse_file_name(candidate.name, &exact);
    if (is_alias(exact) || without.count(exact.compiler_hex) != 0) continue;
    if (auto entry = read(candidate.name, exact)) return entry;
  }
  return std::nullopt;
}

}  // namespace tj::cache
