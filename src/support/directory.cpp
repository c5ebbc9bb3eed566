// See directory.hpp.
#include "support/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "support/file_descriptor.hpp"

namespace tj::support {
namespace {

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

/// Empty, and errno set, when it cannot be read. A description of its own: threads and children share the read position
/// of another.
std::unique_ptr<DIR, int (*)(DIR*)> opened(int directory) noexcept {
  FileDescriptor own(::openat(directory, ".", kFolder));
  DIR* const stream = own ? ::fdopendir(own.get()) : nullptr;
  if (stream != nullptr) own.release();
  return {stream, &::closedir};
}

/// Null at the end, or with an errno.
const dirent* next(DIR* stream) noexcept {
  for (;;) {
    errno = 0;  // the end is told apart from a failure by it alone
    const dirent* const item = ::readdir(stream);
    if (item == nullptr) return nullptr;
    const std::string_view name = item->d_name;
    if (name != "." && name != "..") return item;
  }
}

bool remove_entry(int directory, const char* name) noexcept {
  if (::unlinkat(directory, name, 0) == 0 || errno == ENOENT) return true;
  const FileDescriptor folder(::openat(directory, name, kFolder | O_NOFOLLOW));
  return folder && empty_directory(folder.get()) && ::unlinkat(directory, name, AT_REMOVEDIR) == 0;
}

}  // namespace

int list_directory(int directory, std::vector<std::string>& names) {
  const auto stream = opened(directory);
  if (!stream) return errno;
  while (const dirent* item = next(stream.get())) names.emplace_back(item->d_name);
  return errno;
}

int list_directory(const std::string& path, std::vector<std::string>& names) {
  const FileDescriptor folder(::open(path.c_str(), kFolder));
  return folder ? list_directory(folder.get(), names) : errno;
}

bool empty_directory(int directory, const char* kept) noexcept {
  const auto stream = opened(directory);
  if (!stream) return false;
  bool empty = true;
  while (const dirent* item = next(stream.get()))
    if (kept == nullptr || std::string_view(item->d_name) != kept)
      empty = remove_entry(directory, item->d_name) && empty;
  return empty && errno == 0;
}

}  // namespace tj::support
