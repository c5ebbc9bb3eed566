// Protects opening libraries at run time: the first that opens wins, and a failure tells everything that was tried.
#include "support/dynamic_library.hpp"

#include <doctest/doctest.h>

#include "tests/support/scratch.hpp"

using tj::support::DynamicLibrary;

TEST_CASE("the first that opens wins, and says which file it is") {
  std::string searched;
  const auto library = DynamicLibrary::open_first({"", "libtilejit-missing.so.1", "libm.so.6"}, &searched);
  REQUIRE(library != nullptr);
  CHECK(library->path().front() == '/');
  CHECK(library->path().find("libm.so.6") != std::string::npos);
  void* const address = library->symbol("cos");
  REQUIRE(address != nullptr);
  CHECK(reinterpret_cast<double (*)(double)>(address)(0.0) == 1.0);
  CHECK(library->symbol("tilejit_no_such_symbol") == nullptr);
}

TEST_CASE("when none opens there is one line a try, name first, with the loader's reason") {
  const tj::testing::Scratch scratch;
  const std::string broken = scratch / "libbroken.so";
  tj::testing::write_bytes(broken, "not an object file, but long enough to have an ELF header if it were one .......");
  std::string searched = "old";
  CHECK(DynamicLibrary::open_first({"libtilejit-missing.so.1", broken}, &searched) == nullptr);
  const std::size_t newline = searched.find('\n');
  REQUIRE(newline != std::string::npos);
  CHECK(searched.find('\n', newline + 1) == std::string::npos);
  CHECK(searched.rfind("libtilejit-missing.so.1: ", 0) == 0);
  CHECK(searched.find("No such file") < newline);
  CHECK(searched.find("libtilejit-missing.so.1", 1) > newline);  // the loader begins with the name itself
  CHECK(searched.compare(newline + 1, broken.size() + 2, broken + ": ") == 0);
  CHECK(DynamicLibrary::open_first({}, nullptr) == nullptr);
}

TEST_CASE("what the process has loaded is found without loading anything") {
  CHECK(DynamicLibrary::loaded({"libtilejit-missing.so.1", "libresolv-none.so"}) == nullptr);
  CHECK(DynamicLibrary::loaded_path({"libtilejit-missing.so.1"}) == "");
  CHECK(DynamicLibrary::loaded_path({"libtilejit-missing.so.1", "libc.so.6"}).find("libc.so.6") != std::string::npos);
}
