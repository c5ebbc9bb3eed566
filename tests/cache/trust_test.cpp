// Protects users from other people's binaries, and programs from caches that cannot be used. Such a cache costs one
// warning and a compilation, never an error.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include "tests/cache/cache_fixture.hpp"

using tj::LogLevel;
using tj::cache::file_name;
using tj::cache::Key;
using tj::cache::Store;
using tj::testing::as_plain_user;
using tj::testing::entry_of;
using tj::testing::give_to_plain_user;
using tj::testing::is_root;
using tj::testing::key_of;
using tj::testing::kSomebody;
using tj::testing::LogRecord;
using tj::testing::names_in;
using tj::testing::payload;
using tj::testing::payload_in;
using tj::testing::read_bytes;
using tj::testing::Scratch;
using tj::testing::write_bytes;

namespace {

/// Nothing is found, nothing is written, nothing is locked, and all of it is said once.
bool memory_only(const std::string& directory, const std::string& reason) {
  LogRecord log;
  Store store(directory, 0, log);
  bool right = true;
  for (int i = 0; i < 3; ++i) {
    right = right && !store.store(key_of("k"), entry_of("x")) && !store.load(key_of("k")).has_value();
    (void)store.lock(key_of("k"));
  }
  const auto warnings = log.at(LogLevel::warn);
  return right && warnings.size() == 1 && warnings[0].find(reason) != std::string::npos &&
         warnings[0].find("memory only") != std::string::npos;
}

}  // namespace

TEST_CASE("no directory at all") { CHECK(memory_only("", "Set TJ_CACHE_DIR")); }

TEST_CASE("a file where the directory or its parent should be") {
  const Scratch scratch;
  write_bytes(scratch / "file", "");
  CHECK(memory_only(scratch / "file", "Not a directory"));
  CHECK(memory_only(scratch / "file/cache", "Not a directory"));
}

TEST_CASE("a directory that cannot be made") {
  const Scratch scratch;
  give_to_plain_user(scratch.path());
  REQUIRE(::chmod(scratch.path().c_str(), 0500) == 0);
  CHECK(as_plain_user([&] { return memory_only(scratch / "cache", "cannot make it: Permission denied") ? 0 : 1; }) ==
        0);
  CHECK(memory_only("/proc/self/cache", "cannot make it"));
}

TEST_CASE("a directory that is a symbolic link, with or without a slash") {
  const Scratch scratch;
  REQUIRE(::mkdir((scratch / "real").c_str(), 0700) == 0);
  REQUIRE(::symlink("real", (scratch / "link").c_str()) == 0);
  CHECK(memory_only(scratch / "link", "symbolic link"));
  CHECK(memory_only(scratch / "link/", "symbolic link"));
  CHECK(names_in(scratch / "real").empty());
}

TEST_CASE("a directory that others can write") {
  const Scratch scratch;
  for (const mode_t mode : {0720, 0702, 0777, 01777}) {
    REQUIRE(::chmod(scratch.path().c_str(), mode) == 0);
    CHECK(memory_only(scratch.path(), "others can write it"));
  }
  REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
  CHECK(Store(scratch.path(), 0, {}).store(key_of("k"), entry_of("x")));
}

TEST_CASE("a directory or an entry of another user") {
  if (!is_root) {
    MESSAGE("not root: owners cannot be changed here; left out");
    return;
  }
  const Scratch scratch;
  REQUIRE(Store(scratch.path(), 0, {}).store(key_of("k"), entry_of("binary")));
  const std::string path = scratch / file_name(key_of("k"));
  REQUIRE(::chown(path.c_str(), kSomebody, kSomebody) == 0);
  LogRecord log;
  Store store(scratch.path(), 0, log);
  CHECK(payload(store, key_of("k")).empty());
  REQUIRE(log.warnings() == 1);
  CHECK(log.at(LogLevel::warn)[0].find("belongs to user 54321") != std::string::npos);
  CHECK(store.store(key_of("k"), entry_of("again")));
  CHECK(payload(store, key_of("k")) == "again");
  REQUIRE(::chown(scratch.path().c_str(), kSomebody, kSomebody) == 0);
  CHECK(memory_only(scratch.path(), "belongs to user 54321"));
}

TEST_CASE("entries that are not plain private files are misses and get replaced") {
  const Scratch scratch;
  const Key key = key_of("k");
  const std::string path = scratch / file_name(key);
  const std::string good = encode(key, entry_of("binary"));
  write_bytes(scratch / "elsewhere", good);
  const auto check = [&](const char* reason) {
    LogRecord log;
    Store store(scratch.path(), 0, log);
    CHECK(payload(store, key).empty());
    CHECK(payload(store, key).empty());
    REQUIRE(log.warnings() == 1);
    CAPTURE(log.at(LogLevel::warn)[0]);
    CHECK(log.at(LogLevel::warn)[0].find(reason) != std::string::npos);
    const auto listed = store.list();
    REQUIRE(listed.size() == 1);
    CHECK(listed[0].problem.find(reason) != std::string::npos);
    CHECK(store.store(key, entry_of("new")));
    CHECK(payload(store, key) == "new");
    REQUIRE(::unlink(path.c_str()) == 0);
  };
  REQUIRE(::symlink((scratch / "elsewhere").c_str(), path.c_str()) == 0);
  check("symbolic link");
  CHECK(read_bytes(scratch / "elsewhere") == good);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  check("not a regular file");
  for (const mode_t mode : {0620, 0602, 0666}) {
    write_bytes(path, good);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    check("others can write it");
  }
}

TEST_CASE("an empty directory in the place of an entry is a miss, and the entry takes its place") {
  const Scratch scratch;
  REQUIRE(::mkdir((scratch / file_name(key_of("k"))).c_str(), 0700) == 0);
  Store store(scratch.path(), 0, {});
  CHECK(payload(store, key_of("k")).empty());
  CHECK(store.store(key_of("k"), entry_of("x")));
  CHECK(payload(store, key_of("k")) == "x");
  CHECK(names_in(scratch.path()).size() == 1);
}

TEST_CASE(
    "a directory with files in the place of an entry is a miss; it goes aside, whole, and the entry takes its place") {
  const Scratch scratch;
  const std::string name = file_name(key_of("k"));
  for (const std::string& aside : {name + ".aside1", name + ".aside2"}) {
    LogRecord log;
    Store store(scratch.path(), 0, log);
    std::filesystem::remove(scratch / name);
    REQUIRE(::mkdir((scratch / name).c_str(), 0700) == 0);
    write_bytes(scratch / name + "/mine", aside);
    CHECK(payload(store, key_of("k")).empty());
    CHECK(store.store(key_of("k"), entry_of("x")));
    CHECK(payload(store, key_of("k")) == "x");
    CHECK(read_bytes(scratch / aside + "/mine") == aside);
    REQUIRE(log.warnings() == 2);  // the entry, and where the folder is now
    CHECK(log.at(tj::LogLevel::warn)[1].find(name + " was a folder with files in it, and is called " + aside) !=
          std::string::npos);
    CHECK(store.list().size() == 1);
    CHECK(payload_in(scratch.path(), key_of("k")) == "x");  // the next process has nothing to say or to make
  }
}

TEST_CASE("a directory in the place of an entry that cannot be renamed is told of with the remedy") {
  const Scratch scratch;
  const std::string name = file_name(key_of("k"));
  REQUIRE(::mkdir((scratch / name).c_str(), 0700) == 0);
  write_bytes(scratch / name + "/mine", "x");
  for (int i = 1; i <= 100; ++i) write_bytes(scratch / name + ".aside" + std::to_string(i), "");
  LogRecord log;
  Store store(scratch.path(), 0, log);
  CHECK_FALSE(store.store(key_of("k"), entry_of("x")));
  REQUIRE(log.warnings() == 1);
  CHECK(log.at(tj::LogLevel::warn)[0].find("which has files and cannot be renamed; remove it") != std::string::npos);
  CHECK(read_bytes(scratch / name + "/mine") == "x");
}

TEST_CASE("a lock file that is a link is not followed, and a missing lock is no error") {
  const Scratch scratch;
  REQUIRE(::symlink("victim", (scratch / ".lock").c_str()) == 0);
  LogRecord log;
  Store store(scratch.path(), 0, log);
  CHECK(store.lock(key_of("k")) == nullptr);
  CHECK_FALSE(std::filesystem::exists(scratch / "victim"));
  CHECK(store.store(key_of("k"), entry_of("x")));
}

TEST_CASE("a lock file that cannot be opened is told of once, with its path, the cause and the next step") {
  const auto told = [](const Scratch& scratch, const std::string& cause) {
    LogRecord log;
    Store store(scratch.path(), 0, log);
    bool right = true;
    for (int i = 0; i < 3; ++i) right = right && store.lock(key_of("k")) == nullptr;
    const auto warnings = log.at(LogLevel::warn);
    return right && warnings.size() == 1 && warnings[0].find(scratch / ".lock: " + cause) != std::string::npos &&
           warnings[0].find("remove this file") != std::string::npos;
  };
  const Scratch link, folder, foreign;
  REQUIRE(::symlink("victim", (link / ".lock").c_str()) == 0);
  CHECK(told(link, "it is a symbolic link"));
  REQUIRE(::mkdir((folder / ".lock").c_str(), 0700) == 0);
  CHECK(told(folder, "Is a directory"));
  give_to_plain_user(foreign.path());
  tj::testing::write_bytes(foreign / ".lock", "");
  REQUIRE(::chmod((foreign / ".lock").c_str(), 0) == 0);
  CHECK(as_plain_user([&] { return told(foreign, "Permission denied") ? 0 : 1; }) == 0);
  // The folder cannot be written either: whoever stores an entry says so, and nobody can remove the file.
  REQUIRE(::chmod(foreign.path().c_str(), 0500) == 0);
  CHECK(as_plain_user([&] {
          LogRecord log;
          Store store(foreign.path(), 0, log);
          return store.lock(key_of("k")) == nullptr && log.warnings() == 0 ? 0 : 1;
        }) == 0);
}

TEST_CASE("a read-only cache serves hits; what cannot be written is said once") {
  const Scratch scratch;
  REQUIRE(Store(scratch.path(), 0, {}).store(key_of("k"), entry_of("binary")));
  const auto hits_only = [&] {
    LogRecord log;
    Store store(scratch.path(), 0, log);
    bool right = store.lock(key_of("new")) == nullptr;
    for (int i = 0; i < 3; ++i) {
      right = right && payload(store, key_of("k")) == "binary" && !store.store(key_of("new"), entry_of("x"));
    }
    return right && log.warnings() == 1 ? 0 : 1;
  };
  if (is_root) {  // made by root, for everybody to read
    REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
    REQUIRE(::chmod((scratch / file_name(key_of("k"))).c_str(), 0644) == 0);
    CHECK(as_plain_user(hits_only) == 0);
  }
  give_to_plain_user(scratch.path());
  give_to_plain_user(scratch / file_name(key_of("k")));
  REQUIRE(::chmod(scratch.path().c_str(), 0500) == 0);
  CHECK(as_plain_user(hits_only) == 0);
  CHECK(names_in(scratch.path()).size() == 1);
}

TEST_CASE("a full disk keeps the old entry") {
  const Scratch scratch;
  REQUIRE(Store(scratch.path(), 0, {}).store(key_of("k"), entry_of("old")));
  const int status = tj::testing::wait_for(tj::testing::start_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    LogRecord log;
    Store store(scratch.path(), 0, log);
    const std::string large(100000, 'x');
    const bool right = !store.store(key_of("k"), entry_of(large)) && !store.store(key_of("l"), entry_of(large));
    return right && payload(store, key_of("k")) == "old" && log.warnings() == 1 ? 0 : 1;
  }));
  CHECK(status == 0);
  CHECK(payload_in(scratch.path(), key_of("k")) == "old");
  CHECK(names_in(scratch.path()).size() == 1);
}
