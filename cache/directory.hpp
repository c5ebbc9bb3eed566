// The directory of a cache and the files in it, as the file system sees them.
//
// Decides whom to trust. Trusted are directories and files that belong to this user or to root and that nobody else can
// write. The last component of their path is no symbolic link. Knows nothing of an entry's bytes. Invariant: the open
// descriptor is judged, never the path, so nothing can be exchanged in between.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/counts.hpp"
#include "support/file_descriptor.hpp"

namespace tj::cache {

/// A larger file is not one of ours: kernels take some hundred KB, and a checksum over this much a tenth of a second.
inline constexpr std::int64_t kMaxFileBytes = std::int64_t{64} << 20;

struct FileInfo {
  std::string name;
  std::uint64_t bytes = 0;
  std::int64_t last_use_ns = 0;  ///< access time, which the store sets itself: works where reads do not touch it
  std::int64_t made_ns = 0;      ///< modification time, set once
};

/// Since 1970, or the nearest time that there is: a file's time may be any, and 64 bits end in 2262.
std::int64_t nanoseconds(const timespec& time) noexcept;

enum class WhenMissing { leave, make };

/// Why others than this user and root could have written it; empty when nobody could.
std::string distrust(const struct stat& status);

/// Opens a file as openat() does, again where a network file system or a signal asks for it.
support::FileDescriptor open_file(int directory, const std::string& name, int flags);

/// Opens a directory. Neither a value nor a problem means that it does not exist. Made directories get mode 0700.
/// error: the errno of the problem, where it is wanted; 0 for what is not trusted.
support::FileDescriptor open_directory(const std::string& path, WhenMissing when_missing, std::string* problem,
                                       int* error = nullptr);

/// Names in the directory, as far as it can be read; `problem`, where it is wanted, says why names are missing.
std::vector<std::string> list_names(int directory, std::string* problem = nullptr);

/// Facts of a file, without following links; false when there is no such file.
bool file_info(int directory, const std::string& name, FileInfo* info);

/// Frees a name that a folder has: an empty folder is removed, another one gets a name behind it, which `aside` is
/// then. False, and nothing was changed, when that is refused.
bool free_name(int directory, const std::string& name, std::string* aside);

struct ReadFile {
  support::FileDescriptor file;
  std::string bytes;
};

/// A check of a file before it is read whole. It sees the first `bytes` bytes and the file's size, and gives the
/// problem for which the rest is not read; empty when there is none.
struct Admission {
  std::size_t bytes = 0;
  std::string (*problem)(std::string_view first, std::uint64_t file_bytes, Rejection* why) = nullptr;
};

/// A regular file of a trusted owner, whole. Without a value and without a problem: it does not exist. why: the kind of
/// the problem, where it is wanted.
std::optional<ReadFile> read_file(int directory, const std::string& name, const Admission& admission,
                                  std::string* problem, Rejection* why = nullptr);

/// Sets the access time to now and keeps the rest. Failing is allowed: a read-only cache stays usable.
void mark_used(int file);

}  // namespace tj::cache
