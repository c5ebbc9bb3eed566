// Protects: of several versions the newest goes first, a user's own choice before all, and every name of a ROCm library
// is tried once.
#include "support/installations.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "support/scratch.hpp"
#include "support/variable.hpp"

using Texts = std::vector<std::string>;

TEST_CASE("versions are compared as numbers") {
  const tj::testing::Scratch scratch;
  for (const char* name : {"rocm-6.4.1", "rocm-6.10.0", "rocm-7.0.0", "other"})
    std::filesystem::create_directory(scratch / name);
  CHECK(tj::support::newest_first(scratch / "rocm-*") ==
        Texts{scratch / "rocm-7.0.0", scratch / "rocm-6.10.0", scratch / "rocm-6.4.1"});
  CHECK(tj::support::matching(scratch / "none-*").empty());
}

TEST_CASE("a pattern matches as a shell's does: in every part of a path, sorted, nothing hidden, names as they are") {
  using tj::support::matching;
  const tj::testing::Scratch scratch;
  for (const char* folder : {"b1", "a2", "a1", ".a3"}) {
    std::filesystem::create_directories(scratch / (std::string(folder) + "/lib"));
    tj::testing::write_bytes(scratch / (std::string(folder) + "/lib/x.so.1"), "");
  }
  tj::testing::write_bytes(scratch / "a2/lib/.x.so.2", "");
  CHECK(matching(scratch / "a*/lib/*.so.*") == Texts{scratch / "a1/lib/x.so.1", scratch / "a2/lib/x.so.1"});
  CHECK(matching(scratch / "*/lib") == Texts{scratch / "a1/lib", scratch / "a2/lib", scratch / "b1/lib"});
  CHECK(matching(scratch / "[!a]?//lib/") == Texts{scratch / "b1//lib/"});
  CHECK(matching(scratch / "a1/lib/x.so.1") == Texts{scratch / "a1/lib/x.so.1"});
  CHECK(matching(scratch / "a1/lib/x.so.1/*").empty());
  CHECK(matching(scratch / "a1/none").empty());
  CHECK(matching("").empty());
  CHECK(matching("/") == Texts{"/"});
}

TEST_CASE("the user's ROCm goes before the usual place; none is named twice") {
  ::setenv("ROCM_PATH", "/somewhere/rocm", 1);
  ::setenv("HIP_PATH", "/somewhere/rocm", 1);
  const Texts roots = tj::support::rocm_roots();
  ::unsetenv("ROCM_PATH");
  ::unsetenv("HIP_PATH");
  REQUIRE(roots.size() >= 2);
  CHECK(roots[0] == "/somewhere/rocm");
  CHECK(roots[1] == "/opt/rocm");
  CHECK(std::set<std::string>(roots.begin(), roots.end()).size() == roots.size());
}

TEST_CASE("folders of the user's choice: the loader's list, then those of ROCM_PATH and HIP_PATH") {
  ::setenv("ROCM_PATH", "/somewhere/rocm", 1);
  const auto groups = tj::support::rocm_chosen_folders();
  ::unsetenv("ROCM_PATH");
  REQUIRE(groups.size() == 2);
  REQUIRE(groups[1].size() >= 2);
  CHECK(groups[1][0] == "/somewhere/rocm/lib");
  CHECK(groups[1][1] == "/somewhere/rocm/lib64");
}

TEST_CASE("known releases of a library go before later ones") {
  const Texts names = tj::support::rocm_library_names("libx");
  CHECK(Texts(names.begin(), names.begin() + 3) == Texts{"libx.so.7", "libx.so.6", "libx.so.5"});
  CHECK(std::find(names.begin(), names.end(), "libx.so.10") != names.end());
}

TEST_CASE("a ROCm that was chosen and serves for nothing is named, with what it lacks") {
  const tj::testing::Scratch scratch;
  const Texts names = {"libx.so.7", "libx.so.6"};
  std::filesystem::create_directories(scratch / "rocm/lib64");
  {
    const tj::testing::Variable absent("ROCM_PATH", scratch / "none");
    CHECK(tj::support::unused_rocm(names) == "ROCM_PATH is '" + scratch / "none" + "', which does not exist");
    const tj::testing::Variable empty("HIP_PATH", scratch / "rocm");
    CHECK(tj::support::unused_rocm(names) == "ROCM_PATH is '" + scratch / "none" +
                                                 "', which does not exist; HIP_PATH is '" + scratch / "rocm" +
                                                 "', which has no lib/libx.so.7 nor an earlier one");
    tj::testing::write_bytes(scratch / "rocm/lib64/libx.so.6", "");
    CHECK(tj::support::unused_rocm(names) == "");
  }
  CHECK(tj::support::unused_rocm(names) == "");
}

TEST_CASE("the loader's list is taken without its empty parts") {
  const tj::testing::Variable list("LD_LIBRARY_PATH", "/a::/b:");
  CHECK(tj::support::rocm_chosen_folders()[0] == Texts{"/a", "/b"});
}
