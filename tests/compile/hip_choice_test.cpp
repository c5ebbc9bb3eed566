// Protects the choice of a compiler of HIP, by stat alone. A clang without the linker of its version is none. An old
// hiprtc is asked only for archs that it knows. Errors say what to install.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compile/backends.hpp"
#include "compile/clang_search.hpp"
#include "compile/hip_here.hpp"
#include "compile/hip_options.hpp"
#include "compile/hip_version.hpp"
#include "compile/library_search.hpp"
#include "support/environment.hpp"
#include "support/expect.hpp"
#include "support/installations.hpp"
#include "support/scratch.hpp"
#include "support/variable.hpp"

namespace {

using tj::testing::Variable;
namespace fs = std::filesystem;
using tj::Code;
using tj::Error;
using tj::compile::find_hip_clang;
using tj::compile::HipVersion;
using tj::compile::LibrarySearch;
using tj::testing::error_of;
using tj::testing::has;

/// A machine whose programs and ROCm lie in a folder of the test; nothing of the real one is found but what is in
/// /opt/rocm.
struct Place {
  tj::testing::Scratch scratch;
  Variable path{"PATH", scratch / "bin"}, rocm{"ROCM_PATH", scratch / "rocm"}, hip{"HIP_PATH", scratch / "rocm"};

  std::string program(const std::string& name, const std::string& text = "#!/bin/sh\nexit 0\n") const {
    const std::string file = scratch / name;
    fs::create_directories(fs::path(file).parent_path());
    tj::testing::write_bytes(file, text);
    ::chmod(file.c_str(), 0700);
    return file;
  }
  LibrarySearch hiprtc(const std::string& file = {}) const {
    if (!file.empty()) program("lib/" + file, "no library");
    return {"libhiprtc", {"libhiprtc.so.7", "libhiprtc.so.6", "libamdhip64.so.5"}, {{scratch / "lib"}}};
  }
};

const bool kRocmHere = fs::exists("/opt/rocm");

TEST_CASE("options that hiprtc takes from the environment by itself make it another compiler to the cache") {
  const Place place;
  const auto compiler = tj::compile::make_hiprtc(place.hiprtc("libhiprtc.so.6"));
  const std::string usual = compiler->identity().kind;
  const Variable added("HIPRTC_COMPILE_OPTIONS_APPEND", "-O1");
  CHECK(compiler->identity().kind != usual);
  CHECK(has(compiler->identity().kind, "-O1"));
}

TEST_CASE("the newest numbered clang that knows the arch goes first, each with the linker of its version") {
  const Place place;
  CHECK_FALSE(find_hip_clang("gfx1100").present());
  place.program("bin/clang-16");
  place.program("bin/ld.lld-16");
  CHECK(find_hip_clang("gfx1100").clang == place.scratch / "bin/clang-16");
  CHECK(find_hip_clang("gfx1100").lld == place.scratch / "bin/ld.lld-16");
  if (!kRocmHere) CHECK_FALSE(find_hip_clang("gfx1151").present());  // since 17
  place.program("bin/clang-19");
  std::vector<std::string> rejected;
  CHECK(find_hip_clang("gfx1100", &rejected).clang == place.scratch / "bin/clang-16");
  REQUIRE(rejected.size() == 1);
  CHECK(has(rejected.front(), "lld-19"));
  rejected.clear();
  find_hip_clang("gfx1151", &rejected);
  REQUIRE(rejected.size() == 2);
  CHECK(has(rejected.back(), "clang-16 is older than 17, the first for gfx1151"));
  CHECK(tj::compile::clang_advice("gfx1151") ==
        "clang 17 or newer with its lld (Debian: apt-get install clang-19 lld-19)");
  CHECK(tj::compile::clang_advice("gfx950") == "clang 20 or newer with its lld");
  // Beside the file behind the link, under the one name that LLVM gives it.
  place.program("llvm/bin/clang-20");
  place.program("llvm/bin/ld.lld");
  fs::create_symlink(place.scratch / "llvm/bin/clang-20", place.scratch / "bin/clang-20");
  CHECK(find_hip_clang("gfx1151").clang == place.scratch / "bin/clang-20");
  CHECK(find_hip_clang("gfx1151").lld == place.scratch / "llvm/bin/ld.lld");
}

TEST_CASE("the oldest clang that knows a gfx11 is taken where it is the only one, the one before it is not looked at") {
  if (kRocmHere) return;
  const Place place;
  place.program("bin/clang-14");
  place.program("bin/ld.lld-14");
  CHECK_FALSE(find_hip_clang("gfx90a").present());
  place.program("bin/clang-15");
  place.program("bin/ld.lld-15");
  for (const char* arch : {"gfx1100", "gfx90a"}) {
    CHECK(find_hip_clang(arch).clang == place.scratch / "bin/clang-15");
    CHECK(find_hip_clang(arch).lld == place.scratch / "bin/ld.lld-15");
  }
  CHECK_FALSE(find_hip_clang("gfx1201").present());  // since 18
}

TEST_CASE("hiprtc that is asked for and not there: the error says how else, and what the user's own ROCm lacks") {
  const Place place;
  const Error missing = error_of([&] { tj::compile::make_hip({"hiprtc", "gfx1100"}, place.hiprtc())->version(); });
  CHECK(missing.code == Code::not_found);
  for (const std::string& words : {std::string("set ROCM_PATH to its folder"),
                                   "ROCM_PATH is '" + (place.scratch / "rocm") + "', which does not exist"})
    CHECK_MESSAGE(has(missing.message, words), missing.message);
  if (!kRocmHere) CHECK_MESSAGE(!has(missing.message, "TJ_HIP_COMPILER=auto"), missing.message);
  place.program("bin/clang-19");
  place.program("bin/ld.lld-19");
  const Error with_clang = error_of([&] { tj::compile::make_hip({"hiprtc", "gfx1100"}, place.hiprtc())->version(); });
  CHECK_MESSAGE(has(with_clang.message, "TJ_HIP_COMPILER=auto, which takes " + (place.scratch / "bin/clang-19")),
                with_clang.message);
}

TEST_CASE("a ROCm that the user names and nothing is taken from is named, with what it lacks") {
  const Place place;
  const std::vector<std::string> names = {"libamdhip64.so.7", "libamdhip64.so.6"};
  const std::string rocm = place.scratch / "rocm";
  CHECK(tj::support::unused_rocm(names) ==
        "ROCM_PATH is '" + rocm + "', which does not exist; HIP_PATH is '" + rocm + "', which does not exist");
  fs::create_directories(rocm + "/lib");
  CHECK(has(tj::support::unused_rocm(names),
            "ROCM_PATH is '" + rocm + "', which has no lib/libamdhip64.so.7 nor an earlier one"));
  CHECK(has(tj::compile::unused_rocm_remark(), "; ROCM_PATH is '" + rocm + "'"));
  const Error old = error_of([] { tj::compile::refuse_aborting_arch({5, 2}, "gfx1100", "/x/libamdhip64.so.5"); });
  CHECK_MESSAGE(has(old.message, "ROCM_PATH is '" + rocm + "'"), old.message);
  place.program("rocm/lib64/libamdhip64.so.6");
  CHECK(tj::support::unused_rocm(names) == "");
}

TEST_CASE("ROCm's clang goes after numbered ones and before the one without a number; a compiler cache is none") {
  const Place place;
  place.program("cache/ccache");
  fs::create_directories(place.scratch / "bin");
  fs::create_symlink(place.scratch / "cache/ccache", place.scratch / "bin/clang-19");
  place.program("cache/ld.lld");
  place.program("plain/llvm-14/bin/clang");
  place.program("plain/llvm-14/bin/ld.lld");
  fs::create_symlink(place.scratch / "plain/llvm-14/bin/clang", place.scratch / "bin/clang");
  if (!kRocmHere) CHECK(find_hip_clang("gfx90a").clang == place.scratch / "bin/clang");
  if (!kRocmHere) CHECK_FALSE(find_hip_clang("gfx1100").present());  // since 15
  place.program("rocm/lib/llvm/bin/clang-20");
  place.program("rocm/lib/llvm/bin/ld.lld");
  fs::create_directories(place.scratch / "rocm/bin");
  fs::create_symlink(place.scratch / "rocm/lib/llvm/bin/clang-20", place.scratch / "rocm/bin/amdclang++");
  CHECK(find_hip_clang("gfx1100").clang == place.scratch / "rocm/bin/amdclang++");
  CHECK(find_hip_clang("gfx1100").lld == place.scratch / "rocm/lib/llvm/bin/ld.lld");
}

TEST_CASE("the identity changes with the linker too") {
  const Place place;
  place.program("bin/clang-19");
  const std::string lld = place.program("bin/ld.lld-19");
  const auto clang = tj::compile::make_clang({"clang", "gfx1100"});
  const auto before = clang->identity();
  CHECK(before.kind == "clang");
  CHECK(before.path == fs::canonical(place.scratch / "bin/clang-19"));
  REQUIRE(before.helpers.size() == 1);
  CHECK(before.helpers[0].path == fs::canonical(lld));
  place.program("bin/ld.lld-19", "#!/bin/sh\n# another one\n");
  CHECK(clang->identity().helpers[0].size != before.helpers[0].size);
}

TEST_CASE("left open, hiprtc compiles where its file's name is new enough, else clang, else hiprtc is asked itself") {
  const auto kind = [](const Place& place, const char* arch, const std::string& library) {
    return tj::compile::make_hip({"auto", arch}, place.hiprtc(library))->identity().kind;
  };
  {
    const Place place;
    if (!kRocmHere) CHECK(kind(place, "gfx1100", "libamdhip64.so.5") == "hiprtc");
    place.program("bin/clang-19");
    place.program("bin/ld.lld-19");
    CHECK(kind(place, "gfx1100", "libamdhip64.so.5") == "clang");
    CHECK(kind(place, "gfx90a", "libamdhip64.so.5") == "hiprtc");
    CHECK(kind(place, "gfx90a:sramecc+:xnack-", "libamdhip64.so.5") == "hiprtc");
    CHECK(kind(place, "gfx1201", "libhiprtc.so.6") == "clang");  // which 6 it is, the name does not say
    CHECK(kind(place, "gfx1100", "libhiprtc.so.6") == "hiprtc");
    CHECK(kind(place, "gfx950", "libhiprtc.so.7") == "hiprtc");
  }
  const Place place;
  place.program("bin/clang-19");
  place.program("bin/ld.lld-19");
  place.program("lib/libhiprtc.so.6.4.60402", "no library");
  fs::create_symlink("libhiprtc.so.6.4.60402", place.scratch / "lib/libhiprtc.so.6");
  CHECK(kind(place, "gfx1201", "") == "hiprtc");
  if (!kRocmHere)
    CHECK(kind(place, "gfx950", "") == "hiprtc");  // which then says what it needs: clang 19 does not know it either
  place.program("bin/clang-20");
  place.program("bin/ld.lld-20");
  CHECK(kind(place, "gfx950", "") == "clang");
}

TEST_CASE("a choice that was made is kept to") {
  const Place place;
  place.program("bin/clang-19");
  place.program("bin/ld.lld-19");
  CHECK(tj::compile::make_hip({"hiprtc", "gfx1100"}, place.hiprtc("libamdhip64.so.5"))->identity().kind == "hiprtc");
  CHECK(tj::compile::make_hip({"clang", "gfx1100"}, place.hiprtc("libhiprtc.so.7"))->identity().kind == "clang");
}

TEST_CASE("without a compiler the error says what was searched and what to install") {
  if (kRocmHere) return;
  const Place place;
  place.program("bin/clang-19");
  const auto both = tj::compile::make_hip({"auto", "gfx1201"}, place.hiprtc());
  CHECK_FALSE(both->identity().present());
  const Error none = error_of([&] { both->version(); });
  CHECK(none.code == Code::not_found);
  for (const char* words : {"libhiprtc.so.7", "clang-22", "/opt/rocm", "install ROCm 6 or newer", "lld-19"})
    CHECK_MESSAGE(has(none.message, words), none.message);
  const Error clang = error_of([&] { tj::compile::make_hip({"clang", "gfx1201"}, place.hiprtc())->compile({}); });
  CHECK(clang.code == Code::not_found);
  for (const char* words : {"gfx1201", "clang-19 has no ld.lld of its version", "lld-19"})
    CHECK_MESSAGE(has(clang.message, words), clang.message);
}

TEST_CASE("a machine whose hiprtc is too old for an arch lacks a compiler for it, as tests see it") {
  if (kRocmHere) return;
  const Place place;
  fs::create_directories(place.scratch / "rocm/lib");
  fs::create_symlink(TJ_FAKES_DIR "/libhiprtc.so.6", place.scratch / "rocm/lib/libhiprtc.so.6");  // of 6.4
  CHECK(tj::testing::hip_compiler("gfx950") == nullptr);
  const auto hiprtc = tj::compile::make_compiler("hiprtc", {"auto", "gfx950"});
  CHECK(hiprtc->identity().kind == "hiprtc");
  const std::string lack = tj::testing::lack_of(*hiprtc, "gfx950");
  CHECK_MESSAGE(has(lack, "\"gfx950\" needs hiprtc 7.0"), lack);
}

TEST_CASE("a clang that crashes is reported") {
  const Place place;
  place.program("bin/clang-19", "#!/bin/sh\nkill -9 $$\n");
  place.program("bin/ld.lld-19");
  tj::compile::Job job;
  job.name = "unit.cu";
  job.arch = "gfx1100";
  const Error killed = error_of([&] { tj::compile::make_clang({"clang", "gfx1100"})->compile(job); });
  CHECK(killed.code == Code::compile_failed);
  CHECK_MESSAGE(has(killed.message, "was ended by signal 9"), killed.message);
}

TEST_CASE("clang finds its linker first, whatever else is in PATH") {
  const Place place;
  place.program("bin/ld.lld", "#!/bin/sh\necho another\n");
  place.program("bin/clang-19",
                "#!/bin/sh\necho \"error: linker $(/bin/readlink \"$(command -v ld.lld)\")\"\nexit 1\n");
  const std::string lld = place.program("bin/ld.lld-19");
  tj::compile::Job job;
  job.name = "unit.cu";
  job.arch = "gfx1100";
  const Error e = error_of([&] { tj::compile::make_clang({"clang", "gfx1100"})->compile(job); });
  CHECK_MESSAGE(has(e.log, "linker " + lld), e.log);
}

TEST_CASE("releases of hiprtc: what each may be asked, and how an old one is refused") {
  using tj::compile::first_release;
  struct Row {
    HipVersion rocm;
    int clang;
    std::vector<const char*> names;
  };
  for (const Row& row : {Row{{}, 0, {"gfx900", "gfx906", "gfx908", "gfx90a", "gfx1010", "gfx1011", "gfx1012"}},
                         Row{{}, 0, {"gfx1030", "gfx1031", "gfx1032", "gfx90a:xnack-"}},
                         Row{{5, 5}, 15, {"gfx1100", "gfx1101", "gfx1102", "gfx1103"}}, Row{{6, 0}, 17, {"gfx942"}},
                         Row{{6, 2}, 17, {"gfx1150", "gfx1151"}}, Row{{6, 4}, 18, {"gfx1200", "gfx1201"}},
                         Row{{7, 0}, 19, {"gfx1152"}}, Row{{7, 0}, 20, {"gfx1153", "gfx950"}}})
    for (const char* name : row.names) {
      CAPTURE(name);
      CHECK(first_release(name) == row.rocm);
      CHECK(tj::compile::first_clang(name) == row.clang);
    }
  CHECK(tj::compile::first_clang("gfx1999") == 0);
  CHECK(first_release("gfx1999") == HipVersion{7, 0});  // nobody knows what it needs
  CHECK_NOTHROW(tj::compile::refuse_aborting_arch({6, 4}, "gfx1200", "/x"));
  const Error e = error_of([] { tj::compile::refuse_aborting_arch({6, 3}, "gfx1200", "/x/libhiprtc.so.6"); });
  CHECK(e.code == Code::unsupported);
  for (const char* words :
       {"gfx1200", "6.4", "6.3", "/x/libhiprtc.so.6", "install ROCm 6.4", "clang 18", "TJ_HIP_COMPILER"})
    CHECK_MESSAGE(has(e.message, words), e.message);
}

TEST_CASE("what a library's file name says of its release bounds what it claims") {
  using tj::compile::bounded_by_file_name;
  using tj::compile::version_in_file_name;
  CHECK(version_in_file_name("/lib/libamdhip64.so.5.2.21153") == HipVersion{5, 2});
  CHECK(version_in_file_name("/lib/libhiprtc.so.6") == HipVersion{6, 0});
  CHECK(version_in_file_name("/lib/libhiprtc.so.10.1") == HipVersion{10, 1});
  CHECK(version_in_file_name("/lib/libhiprtc.so") == HipVersion{});
  CHECK(version_in_file_name("/a.so.5/libhiprtc") == HipVersion{});
  CHECK(bounded_by_file_name({9, 0}, "/lib/libamdhip64.so.5.2.21153") == HipVersion{5, 2});
  CHECK(bounded_by_file_name({6, 4}, "/lib/libhiprtc.so.6") == HipVersion{6, 4});
  CHECK(bounded_by_file_name({6, 4}, "/lib/libhiprtc.so") == HipVersion{6, 4});
}

TEST_CASE("one compute unit runs a block: said from gfx10 on, and not before, where there is no choice") {
  const auto has_option = [](const char* arch, const char* option) {
    const auto options = tj::compile::hip_options(arch);
    return std::find(options.begin(), options.end(), option) != options.end();
  };
  for (const char* arch : {"gfx1030", "gfx1100", "gfx1151", "gfx1201"}) CHECK(has_option(arch, "-mcumode"));
  for (const char* arch : {"gfx90a", "gfx942", "gfx950"}) CHECK_FALSE(has_option(arch, "-mcumode"));
  CHECK(has_option("gfx1100", "--offload-arch=gfx1100"));
  CHECK(has_option("gfx1100", "-std=c++17"));
}

}  // namespace
