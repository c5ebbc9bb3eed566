// See output_file.hpp.
#include "tools/output_file.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "support/atomic_file.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"
#include "tools/options.hpp"

namespace tj::tools {
namespace {

namespace fs = std::filesystem;

bool same_file(const std::string& one, const std::string& other) {
  std::error_code unknown;
  if (fs::equivalent(one, other, unknown)) return true;
  const fs::path first = fs::weakly_canonical(fs::absolute(one, unknown), unknown);
  return !unknown && first == fs::weakly_canonical(fs::absolute(other, unknown), unknown);
}

}  // namespace

void require_different_files(const std::vector<OutputPath>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const auto& [flag, path] = outputs[i];
      const auto& [earlier, earlier_path] = outputs[j];
      if (path.empty() || earlier_path.empty() || same_file(path, "/dev/null") || !same_file(path, earlier_path))
        continue;
      bad_use(support::cat(flag, " is '", support::shown_path(path), "', the file that ", earlier,
                           " is to write; allowed: a file of its own for each"));
    }
}

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
