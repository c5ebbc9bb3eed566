// The folder of a user's node bodies: which files are read, and whether they can be what the graph names (see
// custom.hpp).
//
// Names are looked for as words outside comments. A body that a macro puts together from pieces is not found that way:
// spell its name once, in a declaration.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "codegen/templates.hpp"
#include "custom/custom.hpp"
#include "support/atomic_file.hpp"
#include "support/directory.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj {
namespace {

namespace fs = std::filesystem;
using support::cat;
using support::fail;
using support::shown_path;

constexpr std::size_t kMaxFiles = 256;
constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

bool is_template(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".cuh" || extension == ".hpp" || extension == ".h";
}

/// The files in the folder and below it. Folders that are links are not entered.
std::vector<fs::path> find_files(const std::string& folder) {
  std::error_code problem;
  if (folder.empty() || folder.find('\0') != std::string::npos || !fs::is_directory(folder, problem))
    fail(Stage::argument, Code::not_found,
         cat("folder '", shown_path(folder), "' is no folder that can be read; give the one with the node bodies"));
  std::vector<fs::path> paths, folders{folder};
  while (!folders.empty()) {
    const fs::path at = std::move(folders.back());
    folders.pop_back();
    std::vector<std::string> names;
    if (const int error = support::list_directory(at.string(), names); error != 0)
      fail(Stage::argument, Code::io,
           cat("folder '", shown_path(folder), "' cannot be read: ", support::errno_text(error)));
    for (const std::string& name : names) {
      if (name.front() == '.') continue;
      fs::path path = at / name;
      if (fs::is_directory(fs::symlink_status(path, problem)))
        folders.push_back(std::move(path));
      else if (is_template(path) && fs::is_regular_file(path, problem))
        paths.push_back(std::move(path));
      if (paths.size() > kMaxFiles)
        fail(Stage::argument, Code::unsupported,
             cat("folder '", shown_path(folder), "' has more than ", kMaxFiles,
                 " files; give one with the node bodies alone"));
    }
  }
  return paths;
}

/// Comments become blanks; strings stay.
std::string without_comments(std::string_view text) {
  std::string result(text);
  for (std::size_t i = 0; i + 1 < result.size(); ++i) {
    if (result[i] == '"' || result[i] == '\'') {
      const char quote = result[i];
      for (++i; i < result.size() && result[i] != quote && result[i] != '\n'; ++i)
        if (result[i] == '\\') ++i;
      continue;
    }
    if (result[i] != '/' || (result[i + 1] != '/' && result[i + 1] != '*')) continue;
    const bool line = result[i + 1] == '/';
    const std::size_t found = line ? result.find('\n', i) : result.find("*/", i + 2);
    const std::size_t end = found == std::string::npos ? result.size() : line ? found : found + 2;
    std::fill(result.begin() + static_cast<std::ptrdiff_t>(i), result.begin() + static_cast<std::ptrdiff_t>(end), ' ');
  }
  return result;
}

bool has_word(const std::string& text, const std::string& word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !support::is_word_letter(text[at - 1]);
    const bool ends = at + word.size() == text.size() || !support::is_word_letter(text[at + word.size()]);
    if (begins && ends) return true;
  }
  return false;
}

[[noreturn]] void too_large(const std::string& folder, const fs::path& path, std::uintmax_t bytes) {
  fail(Stage::argument, Code::unsupported,
       cat("the files of folder '", shown_path(folder), "' have more than ", kMaxBytes, " bytes, '",
           shown_path(path.lexically_relative(folder).generic_string()), "' among them has ", bytes,
           "; give a folder with the node bodies alone"));
}

/// Asked for its size before it is read: a sparse file has gigabytes in no time. One that grows meanwhile is not read
/// much further than allowed.
std::string read_file(const std::string& folder, const fs::path& path, std::size_t most_bytes) {
  std::error_code problem;
  const std::uintmax_t bytes = fs::file_size(path, problem);
  if (!problem && bytes > most_bytes) too_large(folder, path, bytes);
  std::ifstream file(path, std::ios::binary);
  std::string text, part(std::size_t{1} << 16, '\0');
  while (file && text.size() <= most_bytes) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    text.append(part, 0, static_cast<std::size_t>(file.gcount()));
  }
  if (text.size() > most_bytes) too_large(folder, path, text.size());
  if (!file.eof() || file.bad())
    fail(Stage::argument, Code::io, cat("'", shown_path(path.string()), "' cannot be read"));
  return text;
}

std::string names_of(const std::vector<ops::TemplateText>& files) {
  std::string names;
  for (const ops::TemplateText& file : files) names += cat(names.empty() ? "" : ", ", file.name);
  return names;
}

/// Texts in which the graph's names are looked for: the folder, and the library's bodies that anything here includes.
std::vector<std::string> readable_texts(const graph::Graph& graph, const std::vector<ops::TemplateText>& files) {
  std::vector<std::string> texts;
  for (const ops::TemplateText& file : files) texts.push_back(without_comments(file.text));
  std::string mentioned;
  for (const std::string& include : graph.includes) mentioned += include + "\n";
  std::vector<bool> taken(codegen::templates().size(), false);
  for (bool more = true; more;) {
    more = false;
    for (std::size_t t = 0; t < taken.size(); ++t) {
      const codegen::TemplateFile& file = codegen::templates()[t];
      const auto mentions = [&](const std::string& text) { return text.find(file.name) != std::string::npos; };
      if (taken[t] || file.name.substr(0, 4) != "ops/" ||
          !(mentions(mentioned) || std::any_of(texts.begin(), texts.end(), mentions)))
        continue;
      texts.push_back(without_comments(file.text));
      taken[t] = more = true;
    }
  }
  return texts;
}

}  // namespace

std::vector<ops::TemplateText> read_templates(const std::string& folder) {
  std::vector<ops::TemplateText> files;
  std::size_t bytes = 0;
  for (const fs::path& path : find_files(folder)) {
    std::string text = read_file(folder, path, kMaxBytes - bytes);
    bytes += text.size();
    files.push_back({path.lexically_relative(folder).generic_string(), std::move(text)});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  if (files.empty())
    fail(Stage::argument, Code::not_found,
         cat("folder '", shown_path(folder), "' has no *.cuh, *.hpp or *.h file; put the node bodies there"));
  return files;
}

void check_templates(const graph::Graph& graph, const std::string& folder,
                     const std::vector<ops::TemplateText>& files) {
  const auto& library = codegen::templates();
  const auto in_folder = [&](std::string_view name) {
    return std::any_of(files.begin(), files.end(), [&](const auto& file) { return file.name == name; });
  };
  const auto in_library = [&](std::string_view name) {  // a unit of the model finds "abi.h", which lies in model/ here
    return std::any_of(library.begin(), library.end(),
                       [&](const auto& file) { return file.name == name || file.name == cat("model/", name); });
  };
  for (const ops::TemplateText& file : files)
    if (in_library(file.name))
      fail(Stage::argument, Code::invalid_argument,
           cat("folder '", shown_path(folder), "': '", file.name, "' is the name of a file of the library; rename it"));
  for (const std::string& include : graph.includes)
    if (!in_folder(include) && !in_library(include))
      fail(Stage::argument, Code::not_found,
           cat("graph '", graph.name, "' includes '", include, "', which neither folder '", shown_path(folder), "' (",
               names_of(files), ") nor the library has"));
  const std::vector<std::string> texts = readable_texts(graph, files);
  const auto need = [&](const std::string& word, const std::string& what) {
    if (std::none_of(texts.begin(), texts.end(), [&](const std::string& text) { return has_word(text, word); }))
      fail(Stage::argument, Code::not_found,
           cat("graph '", graph.name, "' needs ", what, " '", word, "', which no file of folder '", shown_path(folder),
               "' has: ", names_of(files)));
  };
  need("Tile", "the name");
  if (!graph.cuts()) need("first_tile", "the name");
  if (graph.walk == graph::Walk::persistent) need("next_tile", "the name");
  if (graph.draws())
    for (const char* word : {"tile_at", "tile_count"}) need(word, "the name");
  if (graph.walk == graph::Walk::sliced) need("tile_at", "the name");
  if (graph.cuts())
    for (const char* word : {"cut_tile", "tile_iterations"}) need(word, "the name");
  for (const graph::Node& node : graph.nodes) {
    need(node.body, cat("for node '", node.name, "' the body"));
    need(node.context, cat("for node '", node.name, "' the context"));
    if (node.async == graph::Async::matrix)
      need(node.body + "_done", cat("for node '", node.name, "', which runs on the matrix unit, the function"));
    for (const std::string& bound : {node.range.begin, node.range.end})
      if (!bound.empty()) need(bound, cat("for the range of node '", node.name, "' the function"));
    if (node.range && node.range.variant != graph::kFastVariant)
      need(node.range.variant, cat("for node '", node.name, "' the tag of its variant"));
  }
}

}  // namespace tj
