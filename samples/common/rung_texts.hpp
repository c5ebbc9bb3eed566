// The rungs of the ladder in words, and a folder for their sources.
//
// Decides what is said of a rung beside what its schedule and its source say.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <tilejit/tilejit.hpp>

namespace tj::samples {

/// The addition of rung 1 to 10 to the rung before, in a sentence or two.
inline const char* rung_adds(int rung) {
  static constexpr const char* kTexts[] = {
      "One tile and one iteration. The threads of one role load a and b into shared memory, multiply once, and store d "
      "from registers.",
      "A loop over K. The sums stay where they are from one iteration to the next.",
      "A block for each tile of d, so that any M and N are served.",
      "Bulk copies. One thread asks the copy engine for a tile of a and of b, and a barrier counts their bytes. d "
      "leaves "
      "through shared memory, and the engine stores it.",
      "Two slots for a and for b. Copies of a later iteration run beside the product of this one.",
      "Blocks that stay. Each does tile after tile, in groups of rows, so that neighbours find in L2 what they share.",
      "Roles. Copies, products and stores have warps of their own, which meet at the barriers of the rings.",
      "Four slots. Copies run further ahead, so that their latency is hidden.",
      "Clusters of two blocks. Both use what one copy brings; in tensor memory both also multiply as one.",
      "Two consumers. A block has two sets of sums, which share what is copied of one operand; in tensor memory blocks "
      "multiply in pairs as well. Tile, slots and walk are the op's own choice.",
  };
  return kTexts[rung - 1];
}

/// A folder for sources, which goes away with it.
class SourceFolder {
 public:
  SourceFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "tj_ladder_XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr)
      throw Error(Stage::argument, Code::io,
                  "cannot make a folder for sources, '" + path + "': " + std::strerror(errno) +
                      "; give a folder that may be written by TMPDIR, or --lines 0");
    path_ = path;
  }
  SourceFolder(const SourceFolder&) = delete;
  SourceFolder& operator=(const SourceFolder&) = delete;
  ~SourceFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The text of a file; empty where there is none.
inline std::string text_of_file(const std::string& path) {
  std::ostringstream text;
  if (!path.empty()) text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace tj::samples
