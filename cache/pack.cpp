// See pack.hpp.
#include "cache/pack.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "cache/directory.hpp"
#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/interruptions.hpp"
#include "support/seconds.hpp"
#include "support/signature.hpp"
#include "support/text.hpp"

namespace tj::cache {
namespace {

using support::cat;

constexpr std::uint64_t kMaxKeysBytes = 1 << 20;

/// So many bytes from there on; false with a problem, also where the file ends before.
bool read_at(int file, std::uint64_t offset, std::size_t count, std::string& bytes, std::string* problem) {
  bytes.resize(count);
  support::Interruptions interruptions;
  for (std::size_t filled = 0; filled < count;) {
    const ssize_t got = ::pread(file, bytes.data() + filled, count - filled, static_cast<off_t>(offset + filled));
    if (got < 0 && interruptions.again(errno)) continue;
    if (got <= 0) {
      *problem = got == 0 ? "it is shorter than it was" : "cannot read it: " + support::errno_text(errno);
      return false;
    }
    filled += static_cast<std::size_t>(got);
    interruptions.came_further();
  }
  return true;
}

std::string keys_problem(std::string_view, std::uint64_t file_bytes, Rejection*) {
  return file_bytes > kMaxKeysBytes ? cat("it has ", file_bytes, " bytes; allowed: at most ", kMaxKeysBytes)
                                    : std::string();
}

}  // namespace

std::vector<support::PublicKey> read_public_keys(const std::string& path, std::string* problem) {
  const auto file = read_file(AT_FDCWD, path, {0, keys_problem}, problem);
  if (!file && problem->empty()) *problem = "it does not exist";
  return file ? support::parse_public_keys(file->bytes, problem) : std::vector<support::PublicKey>();
}

namespace {

/// Why the keys of the file do not vouch for a pack with this end, whose signature is right; empty when one of them
/// does.
std::string unsigned_problem(const PackEnd& end, const std::string& keys_path) {
  std::string problem;
  const std::vector<support::PublicKey> keys = read_public_keys(keys_path, &problem);
  const auto of_keys = [&](const std::string& why) {
    return cat(why, " (TJ_PACK_KEYS is '", support::shown_path(keys_path), "')");
  };
  if (!problem.empty()) return of_keys("the file of keys cannot be used: " + problem);
  if (!end.is_signed()) return of_keys("it is not signed");
  if (std::find(keys.begin(), keys.end(), end.key) == keys.end())
    return of_keys(cat("it is signed by the key ", support::name_of(end.key), "..., which is none of those"));
  return {};
}

}  // namespace

std::span<const PackRecord> PackIndex::of_request(const std::string& request_hex) const {
  const auto first = std::lower_bound(
      records.begin(), records.end(), request_hex,
      [](const PackRecord& record, const std::string& wanted) { return record.key.request_hex < wanted; });
  auto last = first;
  while (last != records.end() && last->key.request_hex == request_hex) ++last;
  return {first, last};
}

std::shared_ptr<const PackIndex> PackOpener::verified(int file, std::uint64_t file_bytes, std::string* problem) const {
  if (file_bytes < kPackEndBytes) {
    *problem = "it is no pack of kernels, or is cut short";
    return nullptr;
  }
  std::string bytes;
  if (!read_at(file, file_bytes - kPackEndBytes, kPackEndBytes, bytes, problem)) return nullptr;
  const auto end = read_end(bytes, file_bytes, problem);
  if (!end || !read_at(file, end->index_offset(), static_cast<std::size_t>(end->index_bytes), bytes, problem))
    return nullptr;
  auto records = read_index(bytes, *end, problem);
  if (!records) return nullptr;
  if (has_wrong_signature(*end))
    *problem = "its signature is not right";
  else if (!keys_path_.empty())
    *problem = unsigned_problem(*end, keys_path_);
  if (!problem->empty()) return nullptr;
  auto index = std::make_shared<PackIndex>();
  index->records = std::move(*records);
  if (!keys_path_.empty()) index->signer = support::name_of(end->key);
  return index;
}

OpenedPack PackOpener::open(const std::string& path, std::string* problem) {
  problem->clear();
  OpenedPack pack;
  pack.file = open_file(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status{};
  if (!pack.file || ::fstat(pack.file.get(), &status) != 0)
    *problem = !pack.file && errno == ELOOP ? "it is a symbolic link, which is not followed; name the real file"
                                            : support::errno_text(errno);
  else if (!S_ISREG(status.st_mode))
    *problem = support::errno_text(ENOTDIR);
  else if (keys_path_.empty())
    *problem = distrust(status);
  if (!problem->empty()) return {};
  const Stamp stamp = {static_cast<std::int64_t>(status.st_dev),
                       static_cast<std::int64_t>(status.st_ino),
                       status.st_size,
                       status.st_mtim.tv_sec,
                       status.st_mtim.tv_nsec,
                       status.st_ctim.tv_sec,
                       status.st_ctim.tv_nsec};
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(path); known != known_.end() && known->second.first == stamp)
      pack.index = known->second.second;
  }
  if (pack.index) return pack;
  pack.index = verified(pack.file.get(), static_cast<std::uint64_t>(status.st_size), problem);
  if (!pack.index) return {};
  const std::lock_guard lock(mutex_);
  known_[path] = {stamp, pack.index};
  return pack;
}

std::optional<std::string> read_packed(int file, const PackRecord& record, std::string* problem, Rejection* why,
                                       double* check_s) {
  problem->clear();
  *why = Rejection::unreadable;
  std::string bytes;
  if (!read_at(file, record.offset, static_cast<std::size_t>(record.bytes), bytes, problem)) return std::nullopt;
  const support::Seconds taken;
  const bool right = support::sha256(bytes) == record.sha256;
  if (check_s != nullptr) *check_s = taken.so_far();
  if (right) return bytes;
  *why = Rejection::damaged;
  *problem = "its bytes are not those of the pack's index";
  return std::nullopt;
}

}  // namespace tj::cache
