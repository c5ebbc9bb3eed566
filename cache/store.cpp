// Finding, publishing and bounding entries.
//
// Decides what is a miss, who is evicted and what is said about it. Does not decide bytes (entry.cpp) or trust
// (directory.cpp). Invariant: no state besides what was said and counted. Every call opens the directory anew, so a
// cache that is deleted, replaced or forked along with the process keeps working.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <map>
#include <mutex>
#include <utility>

#include "cache/directory.hpp"
#include "cache/format.hpp"
#include "cache/layers.hpp"
#include "cache/lock.hpp"
#include "cache/store_impl.hpp"
#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/process_end.hpp"
#include "support/seconds.hpp"

namespace tj::cache {
namespace {

using support::cat;

constexpr const char* kMadeAgain = "The kernel is compiled again and the file replaced.";
constexpr const char* kStays = "The file stays, as its layer is only read; other layers are searched.";
constexpr const char* kTextAgain = "Its kernel is looked for by its text, and the file replaced.";
constexpr const char* kLeftOut = "It counts as absent; storing it anew replaces the file.";

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds(now);
}

/// Removes what killed writers left behind. A live writer needs seconds. just_written: by the file system's clock.
void remove_stale_temporaries(int directory, const timespec& just_written) {
  const std::int64_t now = now_ns(), written = just_written.tv_sec != 0 ? nanoseconds(just_written) : now;
  for (const std::string& name : list_names(directory)) {
    FileInfo info;
    if (support::is_temporary_name(name) && file_info(directory, name, &info) &&
        is_left_over(info.made_ns, written, now))
      ::unlinkat(directory, name.c_str(), 0);
  }
}

/// A bound of their own: aliases are too small for that of bytes. So a directory of many builds stays quick to read.
constexpr std::uint64_t kMaxAliases = 16384;

bool names_alias(const std::string& file_name) {
  Key key;
  return parse_file_name(file_name, &key) && is_alias(key);
}

/// Least recently used first, until the rest fits; never the one to keep, even when an older one cannot be removed.
/// Two processes doing this at once remove the same files. A use far ahead of now counts as the oldest: it would be the
/// latest for ever, and entries in use would go instead. max_size_bytes 0: aliases alone have a bound.
/// Returns how many went, and their bytes.
std::pair<std::uint64_t, std::uint64_t> evict(int directory, std::uint64_t max_size_bytes, const std::string& kept) {
  std::vector<FileInfo> files = entry_files(directory, nullptr);
  std::uint64_t total = 0, aliases = 0, gone = 0, bytes = 0;
  for (const FileInfo& file : files) {
    total += file.bytes;
    aliases += names_alias(file.name) ? 1 : 0;
  }
  const auto fits = [&] { return max_size_bytes == 0 || total <= max_size_bytes; };
  if (fits() && aliases <= kMaxAliases) return {gone, bytes};
  const std::int64_t far_ahead_ns = now_ns() + kFarAheadNs;
  for (FileInfo& file : files)
    if (file.last_use_ns > far_ahead_ns) file.last_use_ns = 0;
  std::sort(files.begin(), files.end(), [](const FileInfo& a, const FileInfo& b) {
    return a.last_use_ns != b.last_use_ns ? a.last_use_ns < b.last_use_ns : a.name < b.name;
  });
  for (const FileInfo& file : files) {
    const bool alias = names_alias(file.name), too_many = alias && aliases > kMaxAliases;
    if (file.name == kept || (fits() && !too_many)) continue;
    const bool removed = ::unlinkat(directory, file.name.c_str(), 0) == 0;
    if (removed || errno == ENOENT) {
      total -= file.bytes;
      aliases -= alias ? 1 : 0;
    }
    gone += removed ? 1 : 0;
    bytes += removed ? file.bytes : 0;
  }
  return {gone, bytes};
}

}  // namespace

std::vector<FileInfo> entry_files(int directory, const std::string* request_hex, std::string* problem) {
  std::vector<FileInfo> files;
  for (const std::string& name : list_names(directory, problem)) {
    Key key;
    FileInfo info;
    if (!parse_file_name(name, &key) || (request_hex != nullptr && key.request_hex != *request_hex)) continue;
    if (file_info(directory, name, &info)) files.push_back(std::move(info));
  }
  return files;
}

void Store::Impl::warn_once(const std::string& message) {
  say(warned.exchange(true) ? LogLevel::debug : LogLevel::warn, "kernel cache: " + message);
}

bool Store::Impl::report(const std::string& path, const std::string& message) {
  {
    const std::lock_guard guard(mutex);
    if (!reported.insert(path).second) return false;
  }
  say(LogLevel::warn, cat("kernel cache: ", message));
  return true;
}

std::vector<Layer> Store::Impl::open(WhenMissing when_missing) {
  if (directories.empty()) warn_once(cat(kNoDirectory, "; kernels are ", kNotKept, ". Set TJ_CACHE_DIR."));
  const support::Seconds taken;
  std::vector<Layer> layers = open_layers(directories, when_missing, packs);
  count([&](StoreCounts& counts) { counts.open_s += taken.so_far(); });
  for (const Layer& layer : layers) {
    if (layer.problem.empty()) continue;
    if (several())
      report(layer.directory, cat("the layer ", layer.directory, " is left out: ", layer.problem,
                                  ". The others are searched; correct the folder, or TJ_CACHE_DIR."));
    else
      warn_once(cat("cannot use ", layer.directory, ": ", layer.problem, ". Kernels are ", kNotKept,
                    "; give TJ_CACHE_DIR a directory of your own."));
  }
  std::erase_if(layers, [](const Layer& layer) { return !layer.opened; });
  return layers;
}

std::vector<Layer> Store::Impl::open_to_write() {
  std::vector<Layer> layers = open(WhenMissing::make);
  if (layer_to_write(layers) == nullptr && !layers.empty())
    warn_once(cat(several() ? "none of the layers " : "the file ", list,
                  several() ? " can be written" : ", a pack, cannot be written", ". New kernels are ", kNotKept,
                  "; give TJ_CACHE_DIR a directory of your own, too."));
  return layers;
}

std::optional<Entry> Store::Impl::load_file(const Layer& layer, const std::string& name, const Key& key,
                                            const char* consequence) {
  std::string problem;
  Rejection why = Rejection::unreadable;
  const support::Seconds reading;
  std::optional<ReadFile> file = read_file(layer.opened.get(), name, kAdmission, &problem, &why);
  const double read_s = reading.so_far();
  std::optional<Entry> entry;
  if (file) entry = decode(file->bytes, &key, &problem, &why);
  count_read(read_s, reading.so_far() - read_s);
  if (entry) {
    if (layer.written) mark_used(file->file.get());
    entry->layer = static_cast<int>(layer.place);
  }
  tell(layer, name, entry, file ? file->bytes.size() : 0, problem, why, consequence);
  return entry;
}

std::optional<Entry> Store::Impl::load_packed(const Layer& layer, const PackRecord& record) {
  std::string problem;
  Rejection why = Rejection::unreadable;
  double check_s = 0;
  const support::Seconds reading;
  const auto bytes = read_packed(layer.opened.get(), record, &problem, &why, &check_s);
  const double read_s = reading.so_far() - check_s;
  auto entry = bytes ? decode_known(*bytes, &record.key, &problem, &why) : std::nullopt;
  count_read(read_s, reading.so_far() - read_s);
  if (entry) entry->layer = static_cast<int>(layer.place);
  tell(layer, file_name(record.key), entry, record.bytes, problem, why, kStays);
  return entry;
}

void Store::Impl::tell(const Layer& layer, const std::string& name, const std::optional<Entry>& entry,
                       std::uint64_t bytes, const std::string& problem, Rejection why, const char* consequence) {
  if (entry) return count([&](StoreCounts& counts) { counts.layers[layer.place].bytes_read += bytes; });
  if (problem.empty()) return;
  const std::string path = layer.directory + "/" + name;
  if (report(path, cat(path, " is not used: ", problem, ". ", layer.written ? consequence : kStays)))
    count([&](StoreCounts& counts) { ++counts.rejected[static_cast<std::size_t>(why)]; });
}

Store::Store(std::string directories, std::uint64_t max_size_bytes, LogFunction log, std::string pack_keys)
    : impl_(std::make_unique<Impl>(std::move(pack_keys))) {
  impl_->directories = split_layers(directories);
  impl_->list = impl_->several() || impl_->directories.empty() ? std::move(directories) : impl_->directories.front();
  for (const std::string& directory : impl_->directories) impl_->counted.layers.push_back({directory});
  impl_->max_size_bytes = max_size_bytes;
  impl_->log = std::move(log);
}

Store::~Store() = default;

const std::string& Store::directory() const noexcept { return impl_->list; }

std::optional<Entry> Store::Impl::load(const Layer& layer, const Key& key, const Without& without) {
  if (layer.pack)
    return find_packed(*layer.pack, key, without, [&](const PackRecord& record) { return load_packed(layer, record); });
  return find_entry(layer.opened.get(), key, without, [&](const std::string& name, const Key& exact) {
    return load_file(layer, name, exact, is_alias(exact) ? kTextAgain : kMadeAgain);
  });
}

std::optional<Entry> Store::Impl::load(const std::vector<Layer>& layers, const Key& key, Served served,
                                       const Without& without) {
  for (const Layer& layer : layers)
    if (auto entry = load(layer, key, without)) return entry;
  if (!asks_packs_again(key, served)) return std::nullopt;
  for (const Layer& layer : layers)
    if (layer.pack)
      if (auto entry = load(layer, {key.request_hex, {}}, without)) return entry;
  return std::nullopt;
}

std::optional<Entry> Store::load(const Key& key, Served served, const Without& without) {
  if (!is_well_formed(key)) return std::nullopt;
  return impl_->load(impl_->open(WhenMissing::leave), key, served, without);
}

/// Each layer's alias is followed, so that one without its kernel hides no other's.
std::optional<Entry> Store::load_aliased(const Key& key, std::string* text_hex, Served served, const Without& without) {
  text_hex->clear();
  if (!is_well_formed(key)) return std::nullopt;
  const std::vector<Layer> layers = impl_->open(WhenMissing::leave);
  for (const Layer& layer : layers) {
    const auto alias = impl_->load(layer, alias_key(key.request_hex));
    const std::string named = alias ? aliased(*alias) : std::string();
    if (named.empty() || named == *text_hex) continue;
    *text_hex = named;
    if (auto entry = impl_->load(layers, {named, key.compiler_hex}, served, without)) return entry;
  }
  return std::nullopt;
}

std::vector<std::pair<Key, Entry>> Store::load_all(const std::string& compiler_hex) {
  std::map<std::string, std::pair<Key, Entry>> found;  // by file name
  if (!is_well_formed({compiler_hex, {}})) return {};
  for (const Layer& layer : impl_->open(WhenMissing::leave)) {
    for (const PackRecord& record : layer.records()) {
      const std::string name = file_name(record.key);
      if (record.key.compiler_hex != compiler_hex || found.count(name) != 0) continue;
      if (auto entry = impl_->load_packed(layer, record)) found.try_emplace(name, record.key, std::move(*entry));
    }
    if (layer.pack) continue;
    for (const std::string& name : list_names(layer.opened.get())) {
      Key key;
      if (!parse_file_name(name, &key) || key.compiler_hex != compiler_hex || found.count(name) != 0) continue;
      if (auto entry = impl_->load_file(layer, name, key, kLeftOut))
        found.try_emplace(name, std::move(key), std::move(*entry));
    }
  }
  std::vector<std::pair<Key, Entry>> list;
  for (auto& [name, item] : found) list.push_back(std::move(item));
  return list;
}

std::int64_t Store::changed_ns() const {
  std::int64_t latest = 0;
  for (const std::string& directory : impl_->directories)
    if (struct stat status{}; ::stat(directory.c_str(), &status) == 0)
      latest = std::max(latest, nanoseconds(status.st_mtim));
  return latest;
}

StoreCounts Store::counts() const {
  const std::lock_guard guard(impl_->mutex);
  return impl_->counted;
}

bool Store::store(const Key& key, const Entry& entry) {
  std::string problem;
  return impl_->store(key, entry, &problem);
}

bool Store::Impl::store(const Key& key, const Entry& entry, std::string* problem) {
  const bool stored = write(key, entry, problem);
  count([&](StoreCounts& counts) { ++(stored ? counts.stores : counts.failed_stores); });
  return stored;
}

bool Store::Impl::write(const Key& key, const Entry& entry, std::string* problem) {
  problem->clear();
  if (!is_well_formed(key)) {
    *problem = cat("'", file_name(key), "' is no key; make one with make_key()");
    say(LogLevel::error, cat("kernel cache: ", *problem));
    return false;
  }
  const std::vector<Layer> layers = open_to_write();
  const Layer* const layer = layer_to_write(layers);
  if (layer == nullptr) {
    *problem = "no layer can be written";
    return false;
  }
  const std::string bytes = encode(key, entry);
  constexpr std::uint64_t kMaxBytes = kMaxFileBytes;
  const std::uint64_t bound = max_size_bytes != 0 ? std::min(max_size_bytes, kMaxBytes) : kMaxBytes;
  if (bytes.size() > bound) {
    *problem = cat("an entry of ", bytes.size(), " bytes exceeds the bound of ", bound, " bytes");
    warn_once(cat(*problem, " and is ", kNotKept, "; raise TJ_CACHE_MAX_SIZE (at most 64M counts here)."));
    return false;
  }
  *problem = publish(*layer, key, bytes, file_name(key));
  if (!problem->empty())
    warn_once(cat("cannot write into ", layer->directory, ": ", *problem, ". New kernels are ", kNotKept, "."));
  return problem->empty();
}

std::string Store::Impl::publish(const Layer& layer, const Key& key, const std::string& bytes,
                                 const std::string& kept) {
  const support::BeforeEnd whole;
  if (!whole) return std::string(support::kNothingIsKept);
  const std::string name = file_name(key);
  timespec written{};
  for (bool again = true;; again = false) {
    support::AtomicFile file(layer.opened.get(), name, 0600);
    file.write(bytes);
    written = file.stamp();
    file.commit();
    if (file.ok()) break;
    if (again && file.error() == ENOENT) continue;  // somebody has removed the temporary
    if (!again || file.error() != EISDIR) return file.problem();
    std::string aside;
    if (!free_name(layer.opened.get(), name, &aside))
      return cat(file.problem(), ", which has files and cannot be renamed; remove it");
    if (!aside.empty())
      say(LogLevel::warn,
          cat("kernel cache: ", layer.directory, "/", name, " was a folder with files in it, and is called ", aside,
              " now; remove it where nothing in it is needed"));
  }
  remove_stale_temporaries(layer.opened.get(), written);
  const auto gone = max_size_bytes != 0 || is_alias(key) ? evict(layer.opened.get(), max_size_bytes, kept)
                                                         : std::pair<std::uint64_t, std::uint64_t>();
  count([&](StoreCounts& counts) {
    counts.bytes_written += bytes.size();
    counts.evictions += gone.first;
    counts.bytes_evicted += gone.second;
  });
  return {};
}

bool Store::store_alias(const std::string& request_hex, const Key& kernel, Fields facts) {
  const Key key = alias_key(request_hex);
  if (!is_well_formed(key) || kernel.request_hex.size() != kMaxHexLength) return false;
  const std::vector<Layer> layers = impl_->open(WhenMissing::make);
  const Layer* const layer = layer_to_write(layers);
  if (layer == nullptr) return false;
  const std::string bytes = encode(key, alias_entry(kernel.request_hex, std::move(facts)));
  const std::string problem = impl_->publish(*layer, key, bytes, file_name(kernel));
  if (problem.empty())
    impl_->count([](StoreCounts& counts) { ++counts.alias_stores; });
  else
    impl_->say(LogLevel::debug, cat("kernel cache: cannot write an alias into ", layer->directory, ": ", problem));
  return problem.empty();
}

std::shared_ptr<void> Store::lock(const Key& key, const LockWait& wait) {
  const std::vector<Layer> layers = impl_->open_to_write();
  const Layer* const layer = layer_to_write(layers);
  if (layer == nullptr) return nullptr;
  NoLock reason;
  auto held = lock_key(layer->opened.get(), key, wait, &reason);
  if (held) return held;
  if (reason.file_error != 0 && !impl_->warned_of_lock.exchange(true)) {
    impl_->say(LogLevel::warn,
               cat("kernel cache: cannot open ", layer->directory, "/", kLockFile, ": ", reason.problem,
                   ". Processes that want the same kernel at once each make it; ",
                   support::next_step(reason.file_error, "remove this file, which is then made anew"), "."));
  } else {
    impl_->say(LogLevel::debug, cat("kernel cache: no lock in ", layer->directory, ": ", reason.problem));
  }
  return nullptr;
}

}  // namespace tj::cache
