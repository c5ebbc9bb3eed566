// See input_file.hpp.
#include "tools/input_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <ostream>

#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/file_descriptor.hpp"
#include "support/patience.hpp"
#include "support/text.hpp"
#include "tools/options.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::shown_path;

constexpr std::size_t kPieceBytes = std::size_t{1} << 16;
constexpr std::chrono::seconds kLongestStep{1};

[[noreturn]] void refuse(const InputFile& file, int error) {
  bad_use(cat(file.flag, ": cannot read '", shown_path(file.path), "': ", support::errno_text(error), "; ",
              support::next_step(error, file.expected)));
}

/// Returns when there is something to read: bytes, the end, or an error.
void wait_until_readable(const InputFile& file, int opened, std::ostream& err) {
  support::Patience patience(0);
  for (;;) {
    pollfd asked{opened, POLLIN, 0};
    const auto step = std::chrono::ceil<std::chrono::milliseconds>(patience.step(kLongestStep));
    if (const int ready = ::poll(&asked, 1, static_cast<int>(step.count())); ready > 0) return;
    if (patience.word_is_due())
      err << file.tool << ": " << file.flag << ": waiting for '" << shown_path(file.path)
          << "', into which nobody has written for " << std::floor(patience.waited_s()) << " s" << std::endl;
  }
}

}  // namespace

std::string read_input_file(const InputFile& file, std::size_t most_bytes, std::ostream& err) {
  // O_NONBLOCK: a pipe without a writer is opened at once, and waited for below.
  const support::FileDescriptor opened(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!opened) refuse(file, errno);
  std::string text, piece(kPieceBytes, '\0');
  while (text.size() <= most_bytes) {
    wait_until_readable(file, opened.get(), err);
    const std::size_t wanted = std::min(piece.size(), most_bytes + 1 - text.size());
    const ssize_t count = ::read(opened.get(), piece.data(), wanted);
    if (count == 0) break;
    if (count > 0)
      text.append(piece, 0, static_cast<std::size_t>(count));
    else if (errno != EINTR && errno != EAGAIN)
      refuse(file, errno);
  }
  return text;
}

}  // namespace tj::tools
