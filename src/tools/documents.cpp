// See documents.hpp.
#include "tools/documents.hpp"

#include <filesystem>
#include <system_error>

namespace tj::tools {

std::string document(const std::string& name) {
  std::error_code problem;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (problem) return name;
  const std::filesystem::path file =
      (program.parent_path().parent_path() / "share/doc/tilejit" / name).lexically_normal();
  return std::filesystem::is_regular_file(file, problem) ? file.string() : name;
}

}  // namespace tj::tools
