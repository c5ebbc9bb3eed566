// See secret_file.hpp.
#include "support/secret_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "support/atomic_file.hpp"
#include "support/file_descriptor.hpp"

namespace tj::support {

std::optional<SecretKey> read_secret_key(const std::string& path, std::string* problem) {
  constexpr std::size_t kMaxBytes = 4096;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status{};
  std::string text(kMaxBytes, '\0');
  ssize_t count = -1;
  if (file && ::fstat(file.get(), &status) == 0) {
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
      *problem = "others can read or write it; run chmod 600 on it, or make another key (tj-warm --make-key)";
      return std::nullopt;
    }
    count = ::read(file.get(), text.data(), text.size());
  }
  if (count < 0) {
    *problem = errno_text(errno);
    return std::nullopt;
  }
  text.resize(static_cast<std::size_t>(count));
  auto key = SecretKey::parse(text, problem);
  if (!key) *problem += "; tj-warm --make-key makes one";
  return key;
}

}  // namespace tj::support
