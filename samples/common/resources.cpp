// See resources.hpp.
#include "common/resources.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <tilejit/error.hpp>

namespace tj::samples {

std::string resources(const std::string& sample) {
  std::error_code problem;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", problem);
  const std::filesystem::path folder =
      (program.parent_path().parent_path() / "share/tilejit/samples" / sample).lexically_normal();
  if (problem || !std::filesystem::is_directory(folder, problem))
    throw Error(Stage::argument, Code::not_found,
                "the sample's files are not at " + folder.string() + "; build or install the samples with theirs");
  return folder.string();
}

std::string resource_text(const std::string& sample, const std::string& file) {
  const std::string path = resources(sample) + "/" + file;
  std::ifstream text(path, std::ios::binary);
  if (!text) throw Error(Stage::argument, Code::io, "cannot read " + path);
  return {std::istreambuf_iterator<char>(text), std::istreambuf_iterator<char>()};
}

}  // namespace tj::samples
