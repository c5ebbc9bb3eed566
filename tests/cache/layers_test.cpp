// Protects caches of several layers. The first that can be written is, and the others stay as they are to the last
// byte and time. Each is trusted by the rules of a single one. A layer that is left out costs one warning, no hit of
// the others.
#include "cache/layers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "tests/cache/cache_fixture.hpp"

namespace {

using tj::LogLevel;
using tj::cache::file_name;
using tj::cache::Store;
using namespace tj::testing;

/// Three layers in a folder.
struct Layers {
  Scratch scratch;
  std::string a = scratch / "a", b = scratch / "b", c = scratch / "c", all = a + ":" + b + ":" + c;
  LogRecord log;

  static void put(const std::string& directory, const std::string& request, const std::string& payload,
                  const std::string& compiler = "nvrtc 13") {
    REQUIRE(Store(directory, 0, {}).store(key_of(request, compiler), entry_of(payload)));
  }
  std::vector<std::string> warnings() const { return log.at(LogLevel::warn); }
};

/// Names, sizes and times of everything in a directory. Readers that do not own a file move its time of access: then
/// it is left out.
std::map<std::string, std::string> state_of(const std::string& directory, bool with_access = true) {
  std::map<std::string, std::string> state;
  std::vector<std::string> names = names_in(directory);
  names.emplace_back(".");
  const auto text = [](const timespec& time) {
    return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec) + " ";
  };
  for (const std::string& name : names) {
    struct stat s{};
    REQUIRE(::lstat((directory + "/" + name).c_str(), &s) == 0);
    state[name] = text(s.st_mtim) + text(s.st_ctim) + std::to_string(s.st_ino) + " " + std::to_string(s.st_size);
    if (with_access && S_ISREG(s.st_mode)) state[name] += " " + text(s.st_atim);
  }
  return state;
}

TEST_CASE("lists of directories: empty ones and slashes at the end go") {
  using List = std::vector<std::string>;
  CHECK(tj::cache::split_layers("").empty());
  CHECK(tj::cache::split_layers("::").empty());
  CHECK(tj::cache::split_layers("/a//:/:b/c/::/d") == List{"/a", "/", "b/c", "/d"});
}

TEST_CASE("the first layer is written; the others are searched in their order and stay as they are, writable or not") {
  Layers l;
  Layers::put(l.b, "both", "b's");
  Layers::put(l.c, "both", "c's");
  Layers::put(l.c, "last", "only c's");
  for (const std::string& directory : {l.b, l.c})
    for (const std::string& name : names_in(directory)) set_times(directory + "/" + name, 1000, 1000);
  const auto b = state_of(l.b), c = state_of(l.c);
  Store store(l.all, 3000, l.log);
  CHECK(payload(store, key_of("both")) == "b's");
  CHECK(payload(store, key_of("last")) == "only c's");
  CHECK(payload(store, key_of("none")).empty());
  CHECK_FALSE(std::filesystem::exists(l.a));  // nothing was to be written yet
  CHECK(store.lock(key_of("last")) != nullptr);
  CHECK(store.store(key_of("last"), entry_of("a's")));
  CHECK(payload(store, key_of("last")) == "a's");
  for (int i = 0; i < 6; ++i) CHECK(store.store(key_of(std::to_string(i)), entry_of(std::string(1000, 'x'))));
  CHECK(names_in(l.a).size() < 6);  // evicted, to stay within the bound: it counts the written layer alone
  CHECK(payload(store, key_of("last")) == "only c's");
  CHECK(store.load_all(key_of("both").compiler_hex).size() >= 2);
  (void)store.list();
  std::string problem;
  CHECK(store.look(key_of("both"), &problem)->payload == "b's");
  CHECK(state_of(l.b) == b);
  CHECK(state_of(l.c) == c);
  CHECK(l.warnings().empty());
}

TEST_CASE("a first layer that can only be read is searched; the next that can be written is, and is searched first") {
  Layers l;
  Layers::put(l.a, "k", "a's");
  for (const std::string& name : names_in(l.a)) REQUIRE(::chmod((l.a + "/" + name).c_str(), 0644) == 0);
  if (is_root) REQUIRE(::chmod(l.scratch.path().c_str(), 0755) == 0);
  REQUIRE(::mkdir(l.b.c_str(), 0700) == 0);
  give_to_plain_user(l.b);
  REQUIRE(::chmod(l.a.c_str(), 0555) == 0);
  const auto a = state_of(l.a, false);
  CHECK(as_plain_user([&] {
          LogRecord log;
          Store store(l.a + ":" + l.b, 0, log);
          bool right = payload(store, key_of("k")) == "a's" && store.lock(key_of("k")) != nullptr;
          right = right && store.store(key_of("k"), entry_of("b's")) && payload(store, key_of("k")) == "b's";
          const auto layers = store.layers();
          right = right && layers.size() == 2 && layers[0].directory == l.b && layers[0].written && !layers[1].written;
          return right && log.warnings() == 0 ? 0 : 1;
        }) == 0);
  CHECK(names_in(l.b).size() == 2);
  CHECK(state_of(l.a, false) == a);
}

TEST_CASE("where no layer can be written each serves its hits; nothing is locked, and that is said once") {
  Layers l;
  Layers::put(l.a, "k", "a's");
  Layers::put(l.b, "l", "b's");
  for (const std::string& directory : {l.a, l.b}) {
    write_bytes(directory + "/.lock", "");
    for (const std::string& name : names_in(directory)) REQUIRE(::chmod((directory + "/" + name).c_str(), 0644) == 0);
    REQUIRE(::chmod(directory.c_str(), 0555) == 0);
  }
  REQUIRE(::chmod(l.scratch.path().c_str(), 0755) == 0);
  const auto a = state_of(l.a, false), b = state_of(l.b, false);
  CHECK(as_plain_user([&] {
          LogRecord log;
          Store store(l.a + ":" + l.b, 0, log);
          bool right = true;
          for (int i = 0; i < 2; ++i)
            right = right && payload(store, key_of("k")) == "a's" && payload(store, key_of("l")) == "b's" &&
                    store.lock(key_of("new")) == nullptr && !store.store(key_of("new"), entry_of("x"));
          const auto warnings = log.at(LogLevel::warn);
          const std::string reason = store.cannot_keep();
          return right && warnings.size() == 1 && warnings[0].find("none of the layers") != std::string::npos &&
                         warnings[0].find("memory only") != std::string::npos &&
                         reason == "no layer can be written: layer '" + l.a + "': it can only be read; layer '" + l.b +
                                       "': it can only be read"
                     ? 0
                     : 1;
        }) == 0);
  CHECK(state_of(l.a, false) == a);
  CHECK(state_of(l.b, false) == b);
}

TEST_CASE("a layer that is missing or not trusted is one warning that says which and why; the others go on") {
  Layers l;
  Layers::put(l.c, "k", "c's");
  const auto check = [&](const std::string& given, const std::string& bad, const std::string& why) {
    LogRecord log;
    Store store(given, 0, log);
    for (int i = 0; i < 3; ++i) {
      CHECK(payload(store, key_of("k")) == "c's");
      CHECK(store.store(key_of("other"), entry_of("x")));
      CHECK(store.lock(key_of("k")) != nullptr);
    }
    const auto warnings = log.at(LogLevel::warn);
    REQUIRE_MESSAGE(warnings.size() == 1, why);
    CHECK_MESSAGE(warnings[0].find("the layer " + bad + " is left out: " + why) != std::string::npos, warnings[0]);
    CHECK(warnings[0].find("TJ_CACHE_DIR") != std::string::npos);
    std::string problem;
    CHECK(store.list(&problem).size() >= 2);
    CHECK_MESSAGE(problem.find("layer '" + bad + "': " + why) == 0, problem);
    CHECK(store.look(key_of("k"), &problem).has_value());
    CHECK(problem.empty());
    CHECK_FALSE(store.look(key_of("none"), &problem).has_value());
    CHECK(problem.empty());
    const auto layers = store.layers();
    CHECK(std::count_if(layers.begin(), layers.end(), [&](const auto& layer) {
            return layer.directory == bad && layer.problem.find(why) == 0;
          }) == 1);
  };
  check(l.a + ":" + l.scratch / "none:" + l.c, l.scratch / "none", "it does not exist");
  write_bytes(l.scratch / "file", "");
  check(l.scratch / "file:" + l.a + ":" + l.c, l.scratch / "file", "Not a directory");
  REQUIRE(::symlink("c", (l.scratch / "link").c_str()) == 0);
  check(l.scratch / "link:" + l.c, l.scratch / "link", "it is a symbolic link");
  check(l.scratch / "link/:" + l.c, l.scratch / "link", "it is a symbolic link");
  for (const mode_t mode : {0777, 01777, 0720}) {
    REQUIRE(::mkdir(l.b.c_str(), 0700) == 0);
    Layers::put(l.b, "k", "somebody's");
    REQUIRE(::chmod(l.b.c_str(), mode) == 0);
    check(l.b + ":" + l.c, l.b, "others can write it");
    check(l.c + ":" + l.b, l.b, "others can write it");
    std::filesystem::remove_all(l.b);
  }
  {
    LogRecord log;  // it looks as if it could be made
    Store store("/proc/none:" + l.c, 0, log);
    CHECK(payload(store, key_of("k")) == "c's");
    for (int i = 0; i < 2; ++i) CHECK(store.store(key_of("other"), entry_of("x")));
    REQUIRE(log.warnings() == 1);
    CHECK(log.at(LogLevel::warn)[0].find("/proc/none is left out: cannot make it: ") != std::string::npos);
  }
  if (!is_root) return;
  Layers::put(l.b, "k", "somebody's");
  REQUIRE(::chown(l.b.c_str(), kSomebody, kSomebody) == 0);
  check(l.b + ":" + l.c, l.b, "it belongs to user 54321");
  REQUIRE(::chown(l.b.c_str(), 0, 0) == 0);
  REQUIRE(::chown((l.b + "/" + file_name(key_of("k"))).c_str(), kSomebody, kSomebody) == 0);
  Store store(l.a + ":" + l.b + ":" + l.c, 0, l.log);
  CHECK(payload(store, key_of("k")) == "c's");
  REQUIRE(l.log.warnings() == 1);
  CHECK(l.warnings()[0].find("it belongs to user 54321") != std::string::npos);
}

TEST_CASE("a damaged entry of a layer that is only searched stays; the next layer serves, then the written one") {
  Layers l;
  Layers::put(l.b, "k", "b's");
  Layers::put(l.c, "k", "c's");
  const std::string path = l.b + "/" + file_name(key_of("k"));
  std::string bytes = read_bytes(path);
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(path, bytes);
  Store store(l.all, 0, l.log);
  for (int i = 0; i < 2; ++i) CHECK(payload(store, key_of("k")) == "c's");
  REQUIRE(l.log.warnings() == 1);
  CHECK_MESSAGE(
      l.warnings()[0].find(path + " is not used: checksum does not match. The file stays") != std::string::npos,
      l.warnings()[0]);
  std::string problem;
  CHECK(store.look(key_of("k"), &problem)->payload == "c's");
  CHECK(store.store(key_of("k"), entry_of("a's")));
  CHECK(payload(store, key_of("k")) == "a's");
  CHECK(read_bytes(path) == bytes);
}

TEST_CASE("records of all layers come together, the first layer's of each key; any compiler's entry is found") {
  Layers l;
  Layers::put(l.a, "one", "a1");
  Layers::put(l.b, "one", "b1");
  Layers::put(l.b, "two", "b2");
  Layers::put(l.c, "three", "c3", "nvrtc 12");
  Store store(l.all, 0, l.log);
  std::string all;
  for (const auto& [key, entry] : store.load_all(key_of("one").compiler_hex)) all += entry.payload + " ";
  CHECK((all == "a1 b2 " || all == "b2 a1 "));
  CHECK(payload(store, key_of("three", "")) == "c3");
  CHECK(payload(store, key_of("one", "")) == "a1");
  CHECK(store.changed_ns() >= Store(l.c, 0, {}).changed_ns());
}

TEST_CASE("listing names the layer of each entry, and says of each layer what it is for") {
  Layers l;
  Layers::put(l.b, "one", "b1");
  Layers::put(l.c, "two", "c2");
  const Store store(l.all, 0, l.log);
  const auto layers = store.layers();
  REQUIRE(layers.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(layers[i].directory == std::vector<std::string>{l.a, l.b, l.c}[i]);
    CHECK(layers[i].written == (i == 0));
    CHECK(layers[i].problem.empty());
  }
  std::string problem = "stale";
  const auto listed = store.list(&problem);
  CHECK(problem.empty());  // the first can be made
  REQUIRE(listed.size() == 2);
  for (const auto& entry : listed) {
    REQUIRE(entry.entry.has_value());
    CHECK(entry.layer == (entry.entry->payload == "b1" ? 1 : 2));
    CHECK(entry.path.find(layers[entry.layer].directory) == 0);
  }
  CHECK(store.cannot_keep().empty());
  CHECK(names_in(l.a).empty());
  CHECK(l.warnings().empty());
}

}  // namespace
