// Protects the store's everyday behaviour: hits, misses, damage, the any-compiler look-up, the size bound, listing.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "cache/directory.hpp"
#include "cache/store_impl.hpp"
#include "support/process_end.hpp"
#include "tests/cache/cache_fixture.hpp"

using tj::LogLevel;
using tj::cache::file_name;
using tj::cache::Key;
using tj::cache::Store;
using tj::testing::entry_of;
using tj::testing::key_of;
using tj::testing::LogRecord;
using tj::testing::names_in;
using tj::testing::payload;
using tj::testing::read_bytes;
using tj::testing::Scratch;
using tj::testing::set_times;
using tj::testing::write_bytes;

TEST_CASE("a stored entry is found by another store, in files only the user can read") {
  const Scratch scratch;
  const std::string directory = scratch / "a/b/cache";
  LogRecord log;
  Store store(directory + "/", 0, log);
  CHECK(store.directory() == directory);
  CHECK_FALSE(store.load(key_of("k")).has_value());
  CHECK_FALSE(std::filesystem::exists(directory));  // a look-up makes nothing
  CHECK(store.store(key_of("k"), entry_of("binary")));
  const auto entry = Store(directory, 0, log).load(key_of("k"));
  REQUIRE(entry.has_value());
  CHECK(entry->payload == "binary");
  CHECK(entry->metadata == entry_of("").metadata);
  CHECK_FALSE(store.load(key_of("other")).has_value());
  CHECK_FALSE(store.load(key_of("k", "other compiler")).has_value());
  CHECK(log.warnings() == 0);
  for (const std::string& part : {scratch / "a", scratch / "a/b", directory}) {
    struct stat status{};
    REQUIRE(::stat(part.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0700);
  }
  struct stat status{};
  REQUIRE(::stat((directory + "/" + file_name(key_of("k"))).c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
}

TEST_CASE("a process that ends keeps nothing more, and does not speak of compiling") {
  const Scratch scratch;
  CHECK(tj::testing::wait_for(tj::testing::start_child([&] {
          static std::string said;
          static Store* const store =
              new Store(scratch.path(), 0, [](LogLevel, std::string_view text) { said += text; });
          std::atexit([] {  // behind the library's own, which is newer
            const bool stored = store->store(key_of("k"), entry_of("binary"));
            const bool told = said.find("this process is ending: nothing is written any more") != std::string::npos;
            ::_exit(!stored && told ? 0 : 1);
          });
          tj::support::end_first("this test");
          std::exit(2);
          return 3;
        })) == 0);
}

TEST_CASE("damage is a miss, said once, and the next store repairs it") {
  const Scratch scratch;
  LogRecord log;
  Store store(scratch.path(), 0, log);
  const Key key = key_of("k");
  const std::string path = scratch / file_name(key);
  REQUIRE(store.store(key, entry_of("binary")));
  const std::string good = read_bytes(path);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x20);
    write_bytes(path, bad);
    CHECK(payload(store, key).empty());
  }
  write_bytes(path, "");
  CHECK(payload(store, key).empty());
  write_bytes(path, encode(key_of("other"), entry_of("other binary")));
  CHECK(payload(store, key).empty());
  REQUIRE(log.warnings() == 1);
  CHECK(log.at(LogLevel::warn)[0].find(path + " is not used: ") != std::string::npos);
  CHECK(store.store(key, entry_of("binary")));
  CHECK(payload(store, key) == "binary");
  CHECK(read_bytes(path) == good);
}

TEST_CASE("a file that is larger than any entry is not read") {
  const Scratch scratch;
  LogRecord log;
  Store store(scratch.path(), 0, log);
  const std::string path = scratch / file_name(key_of("k"));
  REQUIRE(store.store(key_of("k"), entry_of("binary")));
  REQUIRE(::truncate(path.c_str(), (off_t{64} << 20) + 1) == 0);  // sparse: it takes no room
  CHECK(payload(store, key_of("k")).empty());
  REQUIRE(log.warnings() == 1);
  CHECK(log.at(LogLevel::warn)[0].find("it has 67108865 bytes; an entry has at most 67108864") != std::string::npos);
  const auto listed = store.list();
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].problem.find("67108865 bytes") != std::string::npos);
  CHECK(store.store(key_of("k"), entry_of("binary")));
  CHECK(payload(store, key_of("k")) == "binary");
}

namespace {

/// That this process has read so far: proc(5), /proc/[pid]/io.
std::uint64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::uint64_t bytes = 0;
  io >> name >> bytes;
  return name == "rchar:" ? bytes : 0;
}

}  // namespace

TEST_CASE("of a file that is larger than its header says no more than the header is read") {
  const Scratch scratch;
  LogRecord log;
  Store store(scratch.path(), 0, log);
  const std::string path = scratch / file_name(key_of("k"));
  REQUIRE(store.store(key_of("k"), entry_of("binary")));
  const std::string wanted = " bytes where " + std::to_string(std::filesystem::file_size(path)) + " were written";
  REQUIRE(::truncate(path.c_str(), off_t{48} << 20) == 0);
  const std::uint64_t before = bytes_read();
  CHECK(payload(store, key_of("k")).empty());
  CHECK(bytes_read() - before < 100'000);
  REQUIRE(log.warnings() == 1);
  CHECK_MESSAGE(log.at(LogLevel::warn)[0].find(wanted) != std::string::npos, log.at(LogLevel::warn)[0]);
}

TEST_CASE("what keeps entries off the disk is told beforehand, and why a list is not all there is") {
  const Scratch scratch;
  const auto reason = [](const std::string& directory) { return Store(directory, 0, {}).cannot_keep(); };
  const auto listing = [](const std::string& directory) {
    std::string problem = "stale";
    CHECK(Store(directory, 0, {}).list(&problem).empty());
    return problem;
  };
  CHECK(listing(scratch / "new") == "it does not exist");
  CHECK(reason(scratch / "new").empty());
  CHECK(names_in(scratch / "new").empty());
  CHECK(listing(scratch / "new").empty());
  write_bytes(scratch / "file", "");
  for (const std::string& directory : {scratch / "file", scratch / "file/below", std::string("/dev/null")}) {
    CHECK(reason(directory).find("Not a directory") != std::string::npos);
    CHECK(listing(directory).find("Not a directory") == 0);
  }
  CHECK(reason("").find("no directory") == 0);
  CHECK(listing("").find("no directory") == 0);
  REQUIRE(::symlink("new", (scratch / "link").c_str()) == 0);
  CHECK(reason(scratch / "link").find("symbolic link") != std::string::npos);
  CHECK(listing(scratch / "link").find("symbolic link") != std::string::npos);
  REQUIRE(::chmod((scratch / "new").c_str(), 0777) == 0);
  CHECK(reason(scratch / "new").find("others can write it") != std::string::npos);
  CHECK(listing(scratch / "new").find("others can write it") != std::string::npos);
  CHECK(reason("/proc/self/fdinfo").find("cannot create a temporary") != std::string::npos);
}

TEST_CASE("without a compiler the newest sound entry of the request is taken") {
  const Scratch scratch;
  Store store(scratch.path(), 0, {});
  CHECK(payload(store, key_of("k", "")).empty());
  for (const char* compiler : {"first", "second", "third"}) store.store(key_of("k", compiler), entry_of(compiler));
  store.store(key_of("unrelated", "third"), entry_of("unrelated"));
  set_times(scratch / file_name(key_of("k", "first")), 9000, 1000);  // last use does not matter here
  set_times(scratch / file_name(key_of("k", "second")), 1, 3000);
  set_times(scratch / file_name(key_of("k", "third")), 1, 2000);
  CHECK(payload(store, key_of("k", "")) == "second");
  write_bytes(scratch / file_name(key_of("k", "second")), "damaged");
  CHECK(payload(store, key_of("k", "")) == "third");
  // An entry under another compiler's name is damage, too.
  std::filesystem::copy_file(scratch / file_name(key_of("k", "first")), scratch / file_name(key_of("k", "third")),
                             std::filesystem::copy_options::overwrite_existing);
  CHECK(payload(store, key_of("k", "")) == "first");
  CHECK(payload(store, key_of("nothing", "")).empty());
}

TEST_CASE("the least recently used go first, a hit counts as use, and the newest stays") {
  const Scratch scratch;
  const std::string binary(1000, 'x');
  const std::uint64_t size = encode(key_of("a"), entry_of(binary)).size();
  Store store(scratch.path(), 3 * size, {});
  const auto path = [&](const char* request) { return scratch / file_name(key_of(request)); };
  const auto there = [&](const char* request) { return std::filesystem::exists(path(request)); };
  time_t time = 1000;
  for (const char* request : {"a", "b", "c"}) {
    REQUIRE(store.store(key_of(request), entry_of(binary)));
    set_times(path(request), time, 1000);
    time += 1000;
  }
  CHECK(payload(store, key_of("a")) == binary);
  struct stat status{};
  REQUIRE(::stat(path("a").c_str(), &status) == 0);
  CHECK(status.st_atim.tv_sec > 3000);
  CHECK(status.st_mtim.tv_sec == 1000);  // when it was made is kept
  write_bytes(scratch / "notes.txt", std::string(10 * size, 'n'));
  REQUIRE(store.store(key_of("d"), entry_of(binary)));
  CHECK(there("a"));
  CHECK_FALSE(there("b"));
  CHECK(there("c"));
  CHECK(there("d"));
  CHECK(std::filesystem::exists(scratch / "notes.txt"));

  LogRecord log;
  Store small(scratch.path(), size - 1, log);
  CHECK_FALSE(small.store(key_of("e"), entry_of(binary)));
  CHECK_FALSE(small.store(key_of("e"), entry_of(binary)));
  CHECK(log.warnings() == 1);
  CHECK(there("a"));
  Store one(scratch.path(), size, {});
  CHECK(one.store(key_of("e"), entry_of(binary)));
  CHECK(there("e"));
  CHECK_FALSE(there("a"));
}

TEST_CASE("an entry whose last use lies far ahead goes before entries in use; a clock that is ahead a little counts") {
  constexpr time_t kHour = 3600, kIn2300 = 10'413'792'000;
  const std::string binary(1000, 'x');
  const std::uint64_t size = encode(key_of("a"), entry_of(binary)).size();
  for (const time_t ahead : {::time(nullptr) + 48 * kHour, kIn2300}) {
    const Scratch scratch;
    Store store(scratch.path(), 3 * size, {});
    const auto path = [&](const char* request) { return scratch / file_name(key_of(request)); };
    for (const char* request : {"a", "b", "c"}) REQUIRE(store.store(key_of(request), entry_of(binary)));
    set_times(path("a"), ahead, 1000);
    set_times(path("b"), ::time(nullptr) + kHour, 1000);
    CHECK(payload(store, key_of("c")) == binary);
    REQUIRE(store.store(key_of("d"), entry_of(binary)));
    CHECK_FALSE(std::filesystem::exists(path("a")));
    REQUIRE(store.store(key_of("e"), entry_of(binary)));
    CHECK(std::filesystem::exists(path("b")));
    CHECK_FALSE(std::filesystem::exists(path("c")));
  }
}

TEST_CASE("a time that 64 bits of nanoseconds do not hold is the nearest that they hold") {
  const auto of = [](time_t seconds) { return tj::cache::nanoseconds({seconds, 7}); };
  CHECK(of(3) == 3'000'000'007);
  CHECK(of(-1) == 0);
  CHECK(of(9'223'372'035) == 9'223'372'035'000'000'007);
  CHECK(of(9'223'372'037) == std::numeric_limits<std::int64_t>::max());
  CHECK(of(std::numeric_limits<time_t>::max()) == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("temporaries of dead writers go, those of live ones stay") {
  const Scratch scratch;
  write_bytes(scratch / ".tmp-0000000000000001", "old");
  set_times(scratch / ".tmp-0000000000000001", 1000, 1000);
  write_bytes(scratch / ".tmp-0000000000000002", "being written");
  write_bytes(scratch / ".tmp-0000000000000003", "by a clock that was wrong");
  set_times(scratch / ".tmp-0000000000000003", 1000, ::time(nullptr) + 48 * 3600);
  for (const char* name : {".tmp-notes", ".tmp-000000000000000g", ".tmp-00000000000000011"}) {  // a user's own
    write_bytes(scratch / name, "old");
    set_times(scratch / name, 1000, 1000);
  }
  Store store(scratch.path(), 0, {});
  REQUIRE(store.store(key_of("k"), entry_of("binary")));
  CHECK_FALSE(std::filesystem::exists(scratch / ".tmp-0000000000000001"));
  CHECK_FALSE(std::filesystem::exists(scratch / ".tmp-0000000000000003"));
  for (const char* name : {".tmp-notes", ".tmp-000000000000000g", ".tmp-00000000000000011"})
    CHECK(std::filesystem::exists(scratch / name));
  CHECK(std::filesystem::exists(scratch / ".tmp-0000000000000002"));
}

TEST_CASE("a temporary is left over when it is old by both clocks, the file system's and the own one") {
  using tj::cache::is_left_over;
  constexpr std::int64_t kHour = std::int64_t{3600} * 1'000'000'000, kNow = std::int64_t{1'800'000'000} * 1'000'000'000;
  for (const std::int64_t off : {-40 * 365 * 24 * kHour, -2 * kHour, -kHour / 2, kHour / 2, 2 * kHour, 48 * kHour}) {
    CAPTURE(off);
    CHECK_FALSE(is_left_over(kNow, kNow, kNow + off));        // the time that the file system gave
    CHECK_FALSE(is_left_over(kNow + off, kNow, kNow + off));  // the time that its writer gave
    CHECK(is_left_over(std::min(kNow, kNow + off) - 2 * kHour, kNow, kNow + off));
    CHECK(is_left_over(std::max(kNow, kNow + off) + 25 * kHour, kNow, kNow + off));
  }
}

TEST_CASE("listing shows sound and damaged entries, latest use first, and changes no time") {
  const Scratch scratch;
  CHECK(Store("", 0, {}).list().empty());
  CHECK(Store(scratch / "missing", 0, {}).list().empty());
  Store store(scratch.path(), 0, {});
  for (const char* request : {"a", "b", "c"}) store.store(key_of(request), entry_of(request));
  write_bytes(scratch / file_name(key_of("b")), "damaged");
  write_bytes(scratch / "README", "not an entry");
  set_times(scratch / file_name(key_of("a")), 1000, 500);
  set_times(scratch / file_name(key_of("b")), 3000, 500);
  set_times(scratch / file_name(key_of("c")), 2000, 500);
  for (int round = 0; round < 2; ++round) {
    const auto listed = store.list();
    REQUIRE(listed.size() == 3);
    CHECK(listed[0].path == scratch / file_name(key_of("b")));
    CHECK_FALSE(listed[0].entry.has_value());
    CHECK(listed[0].problem == "too short: 7 bytes");
    CHECK(listed[1].entry->payload == "c");
    CHECK(listed[1].problem.empty());
    CHECK(listed[2].entry->payload == "a");
    CHECK(listed[2].last_use_ns == std::int64_t{1000} * 1'000'000'000);
    CHECK(listed[2].bytes == encode(key_of("a"), entry_of("a")).size());
  }
}

TEST_CASE("entries with the same second half come together, sound ones only, and count as used") {
  const Scratch scratch;
  LogRecord log;
  Store store(scratch.path(), 0, log);
  const auto half = [](const std::string& request, const std::string& compiler) {
    return tj::testing::key_of(request, compiler);
  };
  CHECK(store.load_all(half("a", "one").compiler_hex).empty());
  for (const char* request : {"a", "b", "c"}) REQUIRE(store.store(half(request, "one"), entry_of(request)));
  REQUIRE(store.store(half("a", "two"), entry_of("other")));
  std::string damaged = read_bytes(scratch / file_name(half("b", "one")));
  damaged[damaged.size() / 2] ^= 1;
  write_bytes(scratch / file_name(half("b", "one")), damaged);
  std::string payloads;
  for (const auto& [key, entry] : store.load_all(half("a", "one").compiler_hex)) {
    CHECK(key.compiler_hex == half("a", "one").compiler_hex);
    payloads += entry.payload;
  }
  CHECK((payloads == "ac" || payloads == "ca"));
  REQUIRE(log.warnings() == 1);
  CHECK(log.at(tj::LogLevel::warn).front().find("counts as absent") != std::string::npos);
  CHECK(store.load_all(half("a", "one").compiler_hex).size() == 2);
  CHECK(log.warnings() == 1);
  for (const char* no_half : {"", "../x", "none"}) CHECK(store.load_all(no_half).empty());
}

TEST_CASE("the time of the last change moves with entries, and is 0 where there is no directory") {
  const Scratch scratch;
  Store store(scratch / "cache", 0, {});
  CHECK(store.changed_ns() == 0);
  REQUIRE(store.store(tj::testing::key_of("a"), entry_of("x")));
  const auto first = store.changed_ns();
  CHECK(first > 0);
  ::usleep(20'000);  // the file system's clock may tick every 10 ms
  REQUIRE(store.store(tj::testing::key_of("b"), entry_of("x")));
  CHECK(store.changed_ns() > first);
}

TEST_CASE("a cache deleted under a running program comes back") {
  const Scratch scratch;
  Store store(scratch / "cache", 0, {});
  REQUIRE(store.store(key_of("k"), entry_of("binary")));
  std::filesystem::remove_all(scratch / "cache");
  CHECK(payload(store, key_of("k")).empty());
  CHECK(store.lock(key_of("k")) != nullptr);
  CHECK(store.store(key_of("k"), entry_of("binary")));
  CHECK(payload(store, key_of("k")) == "binary");
}

TEST_CASE("a key that is no key reaches no file") {
  const Scratch scratch;
  LogRecord log;
  Store store(scratch / "cache", 0, log);
  for (const Key& key : {Key{"", ""}, Key{"../x", "a"}, Key{"a", "/b"}, Key{std::string(65, 'a'), "b"}}) {
    CHECK_FALSE(store.store(key, entry_of("x")));
    CHECK_FALSE(store.load(key).has_value());
  }
  CHECK(names_in(scratch.path()).empty());
  CHECK(log.at(LogLevel::error).size() == 4);
}
