// Protects: the compiler that a cache key names is the one that compiles, and stat finds it in a fixed order. Where
// there is none, the error says which places were searched.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <tilejit/error.hpp>

#include "compile/backends.hpp"
#include "compile/library_search.hpp"

#include "compile/found_library.hpp"
#include "compile/runtime_library.hpp"
#include "support/expect.hpp"
#include "support/process_end.hpp"
#include "support/scratch.hpp"

namespace {

namespace fs = std::filesystem;
using tj::compile::LibrarySearch;

struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "tilejit_search_XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::string file(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
  std::string folder(const std::string& name) const { return (path / name).string(); }
  fs::path path;
};

LibrarySearch search_in(std::vector<std::vector<std::string>> groups) {
  return {"libnvrtc", {"libnvrtc.so.13", "libnvrtc.so.12"}, std::move(groups)};
}

tj::Error error_of(tj::compile::Compiler& compiler) {
  try {
    compiler.version();
  } catch (const tj::Error& error) {
    return error;
  }
  FAIL("no error");
  std::abort();
}

TEST_CASE("groups go first, then names, then folders") {
  const TemporaryFolder tmp;
  const std::string old_here = tmp.file("a/libnvrtc.so.12", "x");
  const std::string new_there = tmp.file("b/libnvrtc.so.13", "x");
  const std::string a = tmp.folder("a"), b = tmp.folder("b");
  CHECK(tj::compile::find_library(search_in({{a, b}})) == new_there);
  CHECK(tj::compile::find_library(search_in({{a}, {b}})) == old_here);
  CHECK(tj::compile::find_library(search_in({{tmp.folder("none"), b}, {a}})) == new_there);
  CHECK(tj::compile::find_library(search_in({{tmp.folder("none")}})) == "");
  fs::create_directories(tmp.path / "c" / "libnvrtc.so.13");
  CHECK(tj::compile::find_library(search_in({{tmp.folder("c")}})) == "");
}

TEST_CASE("a library's path is told before it is opened, and one that does not open is named with the way out") {
  const TemporaryFolder tmp;
  const std::string path = tmp.file("libnvrtc.so.12", "no library");
  std::vector<std::string> told;
  const auto open = [&](const std::string& folder) {
    return tj::testing::error_of([&] {
             tj::compile::open_found(search_in({{folder}}), "install one",
                                     [&](const std::string& each) { told.push_back(each); });
           })
        .message;
  };
  const std::string broken = open(tmp.path.string());
  CHECK_MESSAGE(broken.starts_with("libnvrtc is at " + path + " but does not open: "), broken);
  CHECK_MESSAGE(broken.ends_with("; repair or remove that file, or install one"), broken);
  CHECK(told == std::vector<std::string>{path});
  const std::string absent = open(tmp.folder("none"));
  CHECK_MESSAGE(absent.starts_with("libnvrtc was not found; searched "), absent);
  CHECK_MESSAGE(absent.ends_with("; install one"), absent);
  CHECK(told.size() == 1);
}

TEST_CASE("work that the process's end waits for opens no library any more") {
  const TemporaryFolder tmp;
  const std::string path = tmp.folder("libnvrtc.so.12");
  fs::copy_file(TJ_FAKES_DIR "/libhiprtc.so.6", path);
  static LibrarySearch search;
  search = search_in({{tmp.path.string()}});
  CHECK(tj::testing::wait_for(tj::testing::start_child([] {
          static std::atomic<int> state{0};
          ::alarm(200);
          std::atexit([] { ::_exit(state == 2 ? 0 : 6); });
          tj::support::end_first();
          std::thread([] {
            const tj::support::BeforeEnd whole;
            state = 1;
            while (!tj::support::process_is_ending()) std::this_thread::yield();
            const std::string refused =
                tj::testing::error_of([] { tj::compile::open_found(search, "install one"); }).message;
            state = refused == tj::support::kProcessIsEnding ? 2 : 3;
          }).detach();
          while (state == 0) std::this_thread::yield();
          std::exit(3);
          return 5;
        })) == 0);
}

TEST_CASE("libraries beside the one that was found are opened and stay; a file that is none is no error") {
  const TemporaryFolder tmp;
  const std::string beside = tmp.folder("libnvrtc-builtins.so.99");
  fs::copy_file(TJ_FAKES_DIR "/libhiprtc.so.6", beside);
  tmp.file("libnvrtc-builtins.so.98", "no library");
  const std::string other = tmp.folder("libother.so.99");
  fs::copy_file(TJ_FAKES_DIR "/libhiprtc.so.6", other);
  tj::compile::open_beside(tmp.path.string(), "libnvrtc-builtins.so*");
  std::ifstream maps("/proc/self/maps");
  const std::string opened{std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>()};
  CHECK(opened.find(beside) != std::string::npos);
  CHECK(opened.find(other) == std::string::npos);
}

TEST_CASE("a library that lacks a call is named with it") {
  const tj::Error error = error_of(*tj::compile::make_nvrtc({"libnvrtc", {"libhiprtc.so.6"}, {{TJ_FAKES_DIR}}}));
  CHECK(error.code == tj::Code::not_found);
  CHECK(error.message ==
        "symbol nvrtcVersion is missing in " TJ_FAKES_DIR
        "/libhiprtc.so.6; the library is damaged or of a version that is not supported: install another one");
}

TEST_CASE("the identity is path, size and time") {
  const TemporaryFolder tmp;
  const std::string path = tmp.file("libnvrtc.so.13", "12345");
  const auto compiler = tj::compile::make_nvrtc(search_in({{tmp.path.string()}}));
  const tj::compile::Identity identity = compiler->identity();
  CHECK(identity.present());
  CHECK(identity.kind == "nvrtc");
  CHECK(identity.path == path);
  CHECK(identity.size == 5);
  CHECK(identity.mtime_ns > 0);
  fs::remove(path);
  CHECK_FALSE(compiler->identity().present());
}

TEST_CASE(
    "a library that was found stays the compiler until it is gone or the variables differ, and is searched once") {
  const TemporaryFolder tmp;
  const std::string first = tmp.folder("first"), second = tmp.folder("second");
  const std::string path = tmp.file("second/libnvrtc.so.12", "12");
  int searches = 0;
  std::string inputs = "a";
  tj::compile::FoundLibrary found([&] { return ++searches, search_in({{first, second}}); }, [&] { return inputs; });
  for (int i = 0; i < 3; ++i) CHECK(found.identity("nvrtc").path == path);
  CHECK(searches == 1);
  const std::string newer = tmp.file("first/libnvrtc.so.13", "13");
  CHECK(found.identity("nvrtc").path == path);
  CHECK(tj::compile::find_library(found.search()) == path);
  tmp.file("second/libnvrtc.so.12", "another");
  CHECK(found.identity("nvrtc").size == 7);
  inputs = "b";
  CHECK(found.identity("nvrtc").path == newer);
  inputs = "a";
  fs::remove(newer);
  CHECK(found.identity("nvrtc").path == path);
  found.forget();
  tmp.file("first/libnvrtc.so.13", "13");
  CHECK(found.identity("nvrtc").path == newer);
  fs::remove(newer);
  fs::remove(path);
  CHECK_FALSE(found.identity("nvrtc").present());
  CHECK(found.search().groups.front().size() == 2);
}

TEST_CASE("a missing NVRTC is an error that lists the places and the next step") {
  const auto compiler = tj::compile::make_nvrtc(search_in({{"/nowhere/one"}, {"/nowhere/two", "/nowhere/one"}}));
  CHECK_FALSE(compiler->identity().present());
  const tj::Error error = error_of(*compiler);
  CHECK(error.stage == tj::Stage::compile);
  CHECK(error.code == tj::Code::not_found);
  for (const char* words :
       {"libnvrtc.so.13", "libnvrtc.so.12", "/nowhere/one, /nowhere/two", "LD_LIBRARY_PATH", "install"})
    CHECK_MESSAGE(error.message.find(words) != std::string::npos, error.message);
  CHECK(error.message.find('\n') == std::string::npos);
  CHECK_THROWS_AS(compiler->compile({"unit.cu", "", {}, "sm_90a", {}}), tj::Error);
}

TEST_CASE("a library that does not open is an error, not a reason to take another") {
  const TemporaryFolder tmp;
  const std::string path = tmp.file("libnvrtc.so.13", "this is no library");
  const auto compiler = tj::compile::make_nvrtc(search_in({{tmp.path.string()}, {"/usr/local/cuda/lib64"}}));
  const tj::Error error = error_of(*compiler);
  CHECK(error.code == tj::Code::not_found);
  CHECK(error.message.find(path) != std::string::npos);
  CHECK(error.message.find("does not open") != std::string::npos);
}

TEST_CASE("the own folder is searched first, the wheels' layout too") {
  const LibrarySearch search = tj::compile::nvrtc_search();
  REQUIRE(search.groups.size() > 3);
  REQUIRE(!search.groups[0].empty());
  CHECK(search.groups[0][0] == tj::compile::own_folder());
  CHECK(fs::exists(tj::compile::own_folder()));
  const std::string places = tj::compile::describe(search);
  CHECK(places.find("/nvidia/cu13/lib") != std::string::npos);
  CHECK(places.find("/usr/local/cuda/lib64") != std::string::npos);
}

TEST_CASE("folders of packages that were added are searched behind LD_LIBRARY_PATH, and named once") {
  const TemporaryFolder tmp;
  const std::string packages = tmp.folder("site-packages");
  const auto groups = [] { return tj::compile::nvrtc_search().groups; };
  const std::size_t before = groups().size();
  tj::compile::add_packages_folder(packages);
  tj::compile::add_packages_folder(packages);
  REQUIRE(groups().size() == before);
  const std::vector<std::string> added = groups()[2];
  CHECK(std::count(added.begin(), added.end(), packages + "/nvidia/cu13/lib") == 1);
  CHECK(std::count(added.begin(), added.end(), packages + "/nvidia/cuda_nvrtc/lib") == 1);
  const std::string wheel = tmp.file("site-packages/nvidia/cu13/lib/libnvrtc.so.13", "x");
  CHECK(tj::compile::find_library(search_in({added})) == wheel);
}

TEST_CASE("AMD's compiler is searched by release, and missing it is named") {
  const TemporaryFolder tmp;
  const std::string in_runtime = tmp.file("old/libamdhip64.so.5", "x");
  LibrarySearch search = tj::compile::hiprtc_search();
  search.groups = {{tmp.folder("old"), tmp.folder("new")}};
  CHECK(tj::compile::find_library(search) == in_runtime);
  const std::string own = tmp.file("new/libhiprtc.so.6", "x");
  CHECK(tj::compile::find_library(search) == own);
  search.groups = {{"/nowhere"}};
  const auto compiler = tj::compile::make_hiprtc(search);
  CHECK_FALSE(compiler->identity().present());
  const tj::Error error = error_of(*compiler);
  CHECK(error.code == tj::Code::not_found);
  CHECK(error.message.find("libhiprtc.so in /nowhere") != std::string::npos);
}

TEST_CASE("AMD's compiler of the usual folders: the newest, be it the loader's or ROCm's own") {
  const LibrarySearch search = tj::compile::hiprtc_search();
  REQUIRE(!search.groups.empty());
  const auto has = [&](const char* folder) {
    return std::count(search.groups.back().begin(), search.groups.back().end(), folder) > 0;
  };
  CHECK(has("/usr/lib/x86_64-linux-gnu"));
  CHECK(has("/opt/rocm/lib"));
}

TEST_CASE("an unknown kind of compiler is named") {
  CHECK_THROWS_WITH_AS(tj::compile::make_compiler("cc", {}), doctest::Contains("\"cc\""), tj::Error);
}

}  // namespace
