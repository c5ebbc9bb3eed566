// Finding, publishing, bounding and listing entries.
//
// Decides what is a miss, who is evicted and what is said about it. Does not decide bytes (entry.cpp) or trust
// (directory.cpp). Invariant: no state besides "already warned". Every call opens the directory anew, so a cache that
// is deleted, replaced or forked along with the process keeps working.
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <mutex>
#include <set>

#include "cache/directory.hpp"
#include "cache/format.hpp"
#include "cache/lock.hpp"
#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"

namespace tj::cache {
namespace {

using support::cat;
using support::FileDescriptor;

constexpr Admission kAdmission{kHeaderBytes, header_problem};
constexpr const char* kMadeAgain = "The kernel is compiled again and the file replaced.";
constexpr const char* kLeftOut = "It counts as absent; storing it anew replaces the file.";

constexpr const char* kNoDirectory = "no directory (TJ_CACHE_DIR, XDG_CACHE_HOME and a home directory are all missing)";

constexpr std::int64_t kStaleNs = std::int64_t{3600} * 1'000'000'000;
/// Clocks of machines that share a cache differ by less. Such a time was set by hand, or by a clock that was wrong.
constexpr std::int64_t kFarAheadNs = 24 * kStaleNs;

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds(now);
}

/// All entry files, or those of one request.
std::vector<FileInfo> entry_files(int directory, const std::string* request_hex, std::string* problem = nullptr) {
  std::vector<FileInfo> files;
  for (const std::string& name : list_names(directory, problem)) {
    Key key;
    FileInfo info;
    if (!parse_file_name(name, &key) || (request_hex != nullptr && key.request_hex != *request_hex)) continue;
    if (file_info(directory, name, &info)) files.push_back(std::move(info));
  }
  return files;
}

/// Removes what killed writers left behind. A live writer needs seconds.
void remove_stale_temporaries(int directory) {
  const std::int64_t oldest_ns = now_ns() - kStaleNs, far_ahead_ns = now_ns() + kFarAheadNs;
  for (const std::string& name : list_names(directory)) {
    FileInfo info;
    if (support::is_temporary_name(name) && file_info(directory, name, &info) &&
        (info.made_ns < oldest_ns || info.made_ns > far_ahead_ns)) {
      ::unlinkat(directory, name.c_str(), 0);
    }
  }
}

/// Least recently used first, until the rest fits; never the newest, even when an older one cannot be removed. Two
/// processes doing this at once remove the same files. A use far ahead of now counts as the oldest: it would be the
/// latest for ever, and entries in use would go instead.
void evict(int directory, std::uint64_t max_size_bytes, const std::string& newest) {
  std::vector<FileInfo> files = entry_files(directory, nullptr);
  std::uint64_t total = 0;
  for (const FileInfo& file : files) total += file.bytes;
  if (total <= max_size_bytes) return;
  const std::int64_t far_ahead_ns = now_ns() + kFarAheadNs;
  for (FileInfo& file : files)
    if (file.last_use_ns > far_ahead_ns) file.last_use_ns = 0;
  std::sort(files.begin(), files.end(), [](const FileInfo& a, const FileInfo& b) {
    return a.last_use_ns != b.last_use_ns ? a.last_use_ns < b.last_use_ns : a.name < b.name;
  });
  for (const FileInfo& file : files) {
    if (total <= max_size_bytes) return;
    if (file.name == newest) continue;
    if (::unlinkat(directory, file.name.c_str(), 0) == 0 || errno == ENOENT) total -= file.bytes;
  }
}

}  // namespace

struct Store::Impl {
  std::string directory;
  std::uint64_t max_size_bytes = 0;
  LogFunction log;
  std::atomic<bool> warned{false}, warned_of_lock{false};
  support::Mutex mutex;  // of `reported`, held for a look-up only
  std::set<std::string> reported;

  void say(LogLevel level, const std::string& message) const {
    if (log) log(level, message);
  }
  void warn_once(const std::string& message) {
    say(warned.exchange(true) ? LogLevel::debug : LogLevel::warn, "kernel cache: " + message);
  }
  void report_damage(const std::string& name, const std::string& problem, const char* consequence) {
    {
      const std::lock_guard guard(mutex);
      if (!reported.insert(name).second) return;
    }
    say(LogLevel::warn, cat("kernel cache: ", directory, "/", name, " is not used: ", problem, ". ", consequence));
  }

  FileDescriptor open(WhenMissing when_missing) {
    if (directory.empty()) {
      warn_once(cat(kNoDirectory, "; kernels are ", kNotKept, ". Set TJ_CACHE_DIR."));
      return {};
    }
    std::string problem;
    FileDescriptor opened = open_directory(directory, when_missing, &problem);
    if (!problem.empty()) {
      warn_once(cat("cannot use ", directory, ": ", problem, ". Kernels are ", kNotKept,
                    "; give TJ_CACHE_DIR a directory of your own."));
    }
    return opened;
  }

  /// The newest sound entry of a key, of those that read(name, key) gives.
  template <class Read>
  static std::optional<Entry> find(int opened, const Key& key, Read&& read) {
    if (!key.compiler_hex.empty()) return read(file_name(key), key);
    std::vector<FileInfo> candidates = entry_files(opened, &key.request_hex);
    std::sort(candidates.begin(), candidates.end(), [](const FileInfo& a, const FileInfo& b) {
      return a.made_ns != b.made_ns ? a.made_ns > b.made_ns : a.name < b.name;
    });
    for (const FileInfo& candidate : candidates) {
      Key exact;  // the name must tell the truth about the compiler, too
      parse_file_name(candidate.name, &exact);
      if (auto entry = read(candidate.name, exact)) return entry;
    }
    return std::nullopt;
  }

  std::optional<Entry> load_file(int opened, const std::string& name, const Key& key,
                                 const char* consequence = kMadeAgain) {
    std::string problem;
    std::optional<ReadFile> file = read_file(opened, name, kAdmission, &problem);
    std::optional<Entry> entry;
    if (file) entry = decode(file->bytes, &key, &problem);
    if (entry) {
      mark_used(file->file.get());
    } else if (!problem.empty()) {
      report_damage(name, problem, consequence);
    }
    return entry;
  }
};

Store::Store(std::string directory, std::uint64_t max_size_bytes, LogFunction log) : impl_(std::make_unique<Impl>()) {
  // A trailing slash would have the last component followed where it is a symbolic link.
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  impl_->directory = std::move(directory);
  impl_->max_size_bytes = max_size_bytes;
  impl_->log = std::move(log);
}

Store::~Store() = default;

const std::string& Store::directory() const noexcept { return impl_->directory; }

std::optional<Entry> Store::load(const Key& key) {
  if (!is_well_formed(key)) return std::nullopt;
  const FileDescriptor opened = impl_->open(WhenMissing::leave);
  if (!opened) return std::nullopt;
  return Impl::find(opened.get(), key, [&](const std::string& name, const Key& exact) {
    return impl_->load_file(opened.get(), name, exact);
  });
}

std::optional<Entry> Store::look(const Key& key, std::string* problem) const {
  problem->clear();
  if (!is_well_formed(key)) return std::nullopt;
  if (impl_->directory.empty()) {
    *problem = kNoDirectory;
    return std::nullopt;
  }
  const FileDescriptor opened = open_directory(impl_->directory, WhenMissing::leave, problem);
  if (!opened) return std::nullopt;
  return Impl::find(opened.get(), key, [&](const std::string& name, const Key& exact) -> std::optional<Entry> {
    const std::optional<ReadFile> file = read_file(opened.get(), name, kAdmission, problem);
    return file ? decode(file->bytes, &exact, problem) : std::nullopt;
  });
}

std::vector<std::pair<Key, Entry>> Store::load_all(const std::string& compiler_hex) {
  std::vector<std::pair<Key, Entry>> found;
  if (!is_well_formed({compiler_hex, {}})) return found;
  const FileDescriptor opened = impl_->open(WhenMissing::leave);
  if (!opened) return found;
  std::vector<std::string> names = list_names(opened.get());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    Key key;
    if (!parse_file_name(name, &key) || key.compiler_hex != compiler_hex) continue;
    if (auto entry = impl_->load_file(opened.get(), name, key, kLeftOut))
      found.emplace_back(std::move(key), std::move(*entry));
  }
  return found;
}

std::int64_t Store::changed_ns() const {
  struct stat status{};
  if (impl_->directory.empty() || ::stat(impl_->directory.c_str(), &status) != 0) return 0;
  return nanoseconds(status.st_mtim);
}

bool Store::store(const Key& key, const Entry& entry) {
  if (!is_well_formed(key)) {
    impl_->say(LogLevel::error, cat("kernel cache: '", file_name(key), "' is no key; make one with make_key()"));
    return false;
  }
  const FileDescriptor opened = impl_->open(WhenMissing::make);
  if (!opened) return false;
  const std::string bytes = encode(key, entry);
  constexpr std::uint64_t kMaxBytes = kMaxFileBytes;
  const std::uint64_t bound = impl_->max_size_bytes != 0 ? std::min(impl_->max_size_bytes, kMaxBytes) : kMaxBytes;
  if (bytes.size() > bound) {
    impl_->warn_once(cat("an entry of ", bytes.size(), " bytes exceeds the bound of ", bound, " bytes and is ",
                         kNotKept, "; raise TJ_CACHE_MAX_SIZE (at most 64M counts here)."));
    return false;
  }
  {
    support::AtomicFile file(opened.get(), file_name(key), 0600);
    file.write(bytes);
    file.stamp();
    file.commit();
    if (!file.ok()) {
      impl_->warn_once(
          cat("cannot write into ", impl_->directory, ": ", file.problem(), ". New kernels are ", kNotKept, "."));
      return false;
    }
  }
  remove_stale_temporaries(opened.get());
  if (impl_->max_size_bytes != 0) evict(opened.get(), impl_->max_size_bytes, file_name(key));
  return true;
}

std::shared_ptr<void> Store::lock(const Key& key, const LockWait& wait) {
  const FileDescriptor opened = impl_->open(WhenMissing::make);
  if (!opened) return nullptr;
  NoLock reason;
  auto held = lock_key(opened.get(), key, wait, &reason);
  if (held) return held;
  if (reason.file_error != 0 && !impl_->warned_of_lock.exchange(true)) {
    impl_->say(LogLevel::warn,
               cat("kernel cache: cannot open ", impl_->directory, "/", kLockFile, ": ", reason.problem,
                   ". Processes that want the same kernel at once each make it; ",
                   support::next_step(reason.file_error, "remove this file, which is then made anew"), "."));
  } else {
    impl_->say(LogLevel::debug, cat("kernel cache: no lock in ", impl_->directory, ": ", reason.problem));
  }
  return nullptr;
}

std::string Store::cannot_keep() const {
  if (impl_->directory.empty()) return kNoDirectory;
  std::string problem;
  const FileDescriptor opened = open_directory(impl_->directory, WhenMissing::make, &problem);
  if (!opened) return problem;
  support::AtomicFile file(opened.get(), "a first entry", 0600);  // never committed
  file.write("a few bytes, as a full disk makes empty files too");
  return file.problem();
}

std::vector<ListedEntry> Store::list(std::string* problem) const {
  std::vector<ListedEntry> listed;
  std::string reason = impl_->directory.empty() ? kNoDirectory : "";
  const FileDescriptor opened =
      impl_->directory.empty() ? FileDescriptor() : open_directory(impl_->directory, WhenMissing::leave, &reason);
  if (!opened) {
    if (problem != nullptr) *problem = reason.empty() ? "it does not exist" : reason;
    return listed;
  }
  if (problem != nullptr) problem->clear();
  for (const FileInfo& info : entry_files(opened.get(), nullptr, problem)) {
    ListedEntry item;
    item.path = impl_->directory + "/" + info.name;
    item.bytes = info.bytes;
    item.last_use_ns = info.last_use_ns;
    Key key;
    parse_file_name(info.name, &key);
    if (auto file = read_file(opened.get(), info.name, kAdmission, &item.problem)) {
      item.entry = decode(file->bytes, &key, &item.problem);
    } else if (item.problem.empty()) {
      continue;  // evicted since
    }
    listed.push_back(std::move(item));
  }
  std::sort(listed.begin(), listed.end(), [](const ListedEntry& a, const ListedEntry& b) {
    return a.last_use_ns != b.last_use_ns ? a.last_use_ns > b.last_use_ns : a.path < b.path;
  });
  return listed;
}

}  // namespace tj::cache
