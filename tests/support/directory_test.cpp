// Protects that folders are listed whole and emptied whole, that links in them are not followed, and that errors are
// told.
#include "support/directory.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "support/file_descriptor.hpp"
#include "support/scratch.hpp"

namespace {

using tj::testing::Scratch;
using tj::testing::write_bytes;

std::vector<std::string> listed(const std::string& path, int& error) {
  std::vector<std::string> names;
  error = tj::support::list_directory(path, names);
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("names are all that a folder has, hidden ones too; what is no folder is told") {
  const Scratch scratch;
  int error = -1;
  CHECK(listed(scratch.path(), error).empty());
  CHECK(error == 0);
  for (const char* name : {"a", ".b", "c d"}) write_bytes(scratch / name, "text");
  CHECK(listed(scratch.path(), error) == std::vector<std::string>{".b", "a", "c d"});
  CHECK(error == 0);
  CHECK(listed(scratch / "a", error).empty());
  CHECK(error == ENOTDIR);
  CHECK(listed(scratch / "none", error).empty());
  CHECK(error == ENOENT);
}

TEST_CASE("a folder is emptied but for one name, and links lead nowhere") {
  const Scratch scratch, other;
  write_bytes(other / "stays", "text");
  std::filesystem::create_directories(scratch / "deep/deeper/.deepest");
  for (const char* name : {"kept", "a", "deep/kept", "deep/deeper/.deepest/b"}) write_bytes(scratch / name, "text");
  std::filesystem::create_directory_symlink(other.path(), scratch / "deep/link");
  const tj::support::FileDescriptor folder(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CHECK(tj::support::empty_directory(folder.get(), "kept"));
  CHECK(tj::testing::names_in(scratch.path()) == std::vector<std::string>{"kept"});
  CHECK(tj::testing::names_in(other.path()) == std::vector<std::string>{"stays"});
  CHECK(tj::support::empty_directory(folder.get()));
  CHECK(tj::testing::names_in(scratch.path()).empty());
  CHECK_FALSE(tj::support::empty_directory(-1));
}

}  // namespace
