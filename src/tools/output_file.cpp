// See output_file.hpp.
#include "tools/output_file.hpp"

#include <cerrno>
#include <fstream>

#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"
#include "tools/options.hpp"

namespace tj::tools {

void write_output_file(const char* flag, const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    bad_use(support::cat(flag, ": cannot write '", support::shown_path(path),
                         "': ", support::errno_text(errno != 0 ? errno : EIO),
                         "; give a file in a directory that exists and may be written"));
}

}  // namespace tj::tools
