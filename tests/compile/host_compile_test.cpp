// Protects the host compiler backend: which compiler is taken, what it is given, what its refusal becomes, and that
// nothing stays behind.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "compile/backends.hpp"
#include "compile/host_process.hpp"
#include "model/model_unit.hpp"
#include "support/environment.hpp"
#include "support/scratch.hpp"
#include "support/variable.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::Stage;
using tj::testing::contains;
using tj::testing::outcome_of;
using tj::testing::Variable;

tj::compile::Job job(std::string text) {
  tj::compile::Job result;
  result.name = "some_unit.cpp";
  result.text = std::move(text);
  return result;
}

TEST_CASE("a unit sees its headers by their names and becomes a shared object") {
  const tj::testing::Scratch scratch;
  const Variable temporary("TMPDIR", scratch.path());
  const auto compiler = tj::compile::make_host();
  auto unit = job(
      "#include \"a/b.h\"\nextern \"C\" __attribute__((visibility(\"default\"))) int answer() { return kAnswer; }\n");
  unit.headers = {{"a/b.h", "#include \"c.h\"\n"}, {"a/c.h", "enum { kAnswer = 42 };\n"}};
  const tj::compile::Binary binary = compiler->compile(unit);
  CHECK(binary.bytes.substr(0, 4) == "\177ELF");
  CHECK(contains(binary.bytes, "answer"));
  CHECK(binary.log.empty());
  CHECK(binary.milliseconds > 0);
  CHECK(tj::testing::names_in(scratch.path()).empty());
}

TEST_CASE("a refused unit is an error with the first line and the whole log") {
  const tj::testing::Scratch scratch;
  const Variable temporary("TMPDIR", scratch.path());
  const Error e = outcome_of([] { tj::compile::make_host()->compile(job("int f() { return undefined_name; }\n")); });
  CHECK(e.stage == Stage::compile);
  CHECK(e.code == Code::compile_failed);
  CHECK(contains(e.message, "some_unit.cpp"));
  CHECK(contains(e.log, "undefined_name"));
  CHECK(tj::testing::names_in(scratch.path()).empty());
}

TEST_CASE("without a compiler the error says what was searched and what to install") {
  const tj::testing::Scratch scratch;
  const Variable path("PATH", scratch.path() + ":relative");
  const auto compiler = tj::compile::make_host();
  CHECK_FALSE(compiler->identity().present());
  const Error e = outcome_of([&] { compiler->compile(job("")); });
  CHECK(e.code == Code::not_found);
  CHECK(contains(e.message, scratch.path()));
  CHECK(contains(e.message, "apt-get install g++"));
  const Variable relative("PATH", "relative:.");
  CHECK(contains(outcome_of([&] { compiler->compile(job("")); }).message,
                 "is in PATH ('relative:.', which names no absolute folder)"));
}

TEST_CASE("identity names a real file and changes with it; the options of the key are fixed") {
  const auto compiler = tj::compile::make_host();
  const auto identity = compiler->identity();
  REQUIRE(identity.present());
  CHECK(identity.kind == "host");
  CHECK(identity.size > 0);
  CHECK_FALSE(compiler->version().empty());
  const auto options = compiler->base_options("sm_90a");
  CHECK(std::find(options.begin(), options.end(), "-march=x86-64-v3") != options.end());
  CHECK(options == compiler->base_options("another"));

  const tj::testing::Scratch scratch;
  tj::testing::write_bytes(scratch / "c++", "#!/bin/sh\n");
  ::chmod((scratch / "c++").c_str(), 0700);
  const Variable path("PATH", scratch.path());
  CHECK(compiler->identity().path != identity.path);
}

TEST_CASE("a compiler behind a link is run by the link's name and identified by its file") {
  const tj::testing::Scratch scratch;
  const auto real = tj::compile::make_host()->identity();
  REQUIRE(real.present());
  // A program like ccache and distcc: it takes the place of the compiler by whose name it was called.
  tj::testing::write_bytes(scratch / "wrapper", "#!/bin/sh\ncase $0 in */c++) exec " + real.path +
                                                    " \"$@\";; *) echo \"called $0\"; exit 1;; esac\n");
  ::chmod((scratch / "wrapper").c_str(), 0700);
  std::filesystem::create_directory(scratch / "links");
  std::filesystem::create_symlink(scratch / "wrapper", scratch / "links" + "/c++");
  const Variable path("PATH", scratch / "links" + ":/usr/bin:/bin");
  const auto compiler = tj::compile::make_host();
  CHECK(contains(compiler->identity().path, "/wrapper"));
  CHECK(compiler->compile(job("int f() { return 1; }\n")).bytes.substr(0, 4) == "\177ELF");
}

TEST_CASE("a compiler that crashes or says nothing is reported") {
  const tj::testing::Scratch scratch;
  const Variable path("PATH", scratch.path());
  const auto refused_by = [&](const std::string& script) {
    tj::testing::write_bytes(scratch / "c++", "#!/bin/sh\n" + script);
    ::chmod((scratch / "c++").c_str(), 0700);
    const Error error = outcome_of([] { tj::compile::make_host()->compile(job("")); });
    CHECK(error.code == Code::compile_failed);
    return error;
  };
  CHECK(contains(refused_by("kill -9 $$\n").message, "was ended by signal 9"));
  const Error unwritten = refused_by("exit 0\n");
  CHECK(contains(unwritten.message, "ended well and wrote no whole object for "));
  CHECK_FALSE(contains(unwritten.message, "with status"));  // it is 0, and no error was to be named
  CHECK(
      contains(refused_by("exit 3\n").message, " with status 3, and named no error; check that it is a C++ compiler"));
  // A folder for an object, a pipe that nobody writes into, a device without an end, a file of holes, words.
  for (const char* made : {"/bin/mkdir \"$word\"", "/usr/bin/mkfifo \"$word\"", "/bin/ln -s /dev/zero \"$word\"",
                           "/usr/bin/truncate -s 200G \"$word\"", "echo object > \"$word\"", ": > \"$word\""}) {
    CAPTURE(std::string(made));
    const Error error =
        refused_by("for word; do [ \"$last\" = -o ] && " + std::string(made) + "; last=$word; done; exit 0\n");
    CHECK(contains(error.message, "ended well and wrote no whole object for "));
  }
  const Error wordy = refused_by("printf '%100000s\\n' error:\nexit 1\n");
  CHECK(wordy.message.size() < 2000);
  CHECK_FALSE(contains(wordy.message, "named no error"));
  CHECK(wordy.log.size() > 100000);
}

TEST_CASE("of a compiler that writes for ever, start and end are kept, and nothing stands on the disk") {
  const tj::support::PrivateDirectory directory;
  const Error error = outcome_of(
      [&] { tj::compile::run_process({"/bin/sh", "-c", "echo start; yes text & exec yes line"}, directory, 0.3); });
  CHECK(contains(error.message, "had not finished after 0.3 s"));
  CHECK(error.log.starts_with("start\n"));
  CHECK(contains(error.log, " bytes are left out here]\n"));
  CHECK(error.log.size() < (std::size_t{5} << 19));
  for (const std::string& name : tj::testing::names_in(directory.path())) CHECK(name == ".owner");
}

TEST_CASE("the environment of a caller does not reach the compiler") {
  const Variable cpath("CPATH", "/nonexistent"), options("CXXFLAGS", "-DBROKEN");
  const tj::support::PrivateDirectory directory;
  const auto result = tj::compile::run_process({"/usr/bin/env"}, directory);
  CHECK(result.status == 0);
  CHECK(contains(result.output, "LC_ALL=C"));
  CHECK_FALSE(contains(result.output, "CPATH"));
  CHECK_FALSE(contains(result.output, "BROKEN"));
  CHECK(outcome_of([&] { tj::compile::run_process({"/nonexistent/c++"}, directory); }).code == Code::io);
}

TEST_CASE("a compiler finds its linker where the caller has no PATH") {
  const Variable none("PATH", "");  // counts as unset
  const tj::support::PrivateDirectory directory;
  CHECK(contains(tj::compile::run_process({"/usr/bin/env"}, directory).output, "PATH=/usr/local/bin:/usr/bin:/bin\n"));
}

#ifndef TJ_SANITIZED  // the sanitizer looks at memory through a pipe, and here is no descriptor for one
TEST_CASE("a program that no descriptor is left for is refused with the limit of open files") {
  const tj::testing::Scratch scratch;
  CHECK(tj::testing::wait_for(tj::testing::start_child([&] {
          ::setenv("TMPDIR", scratch.path().c_str(), 1);
          const tj::support::PrivateDirectory directory;
          const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
          rlimit limit{};
          ::getrlimit(RLIMIT_NOFILE, &limit);
          const rlimit before = limit;
          limit.rlim_cur = static_cast<rlim_t>(next);
          ::setrlimit(RLIMIT_NOFILE, &limit);
          const Error unmade = outcome_of([&] { tj::compile::run_process({"/bin/true"}, directory); });
          ::setrlimit(RLIMIT_NOFILE, &before);
          return contains(unmade.message, "ulimit -n") && !contains(unmade.message, "executed") ? 0 : 1;
        })) == 0);
}
#endif

}  // namespace
