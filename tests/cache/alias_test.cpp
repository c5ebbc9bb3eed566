// Protects aliases: a request's alias names the kernel by its text, in directories, layers and packs; one that is
// damaged, forged or not trusted is a miss that heals; aliases have a bound of their own and evict no kernel.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/cache/cache_fixture.hpp"

namespace {

using tj::cache::alias_key;
using tj::cache::file_name;
using tj::cache::Key;
using tj::cache::Store;
using namespace tj::testing;

/// A kernel by its text, and the request that stands for it.
struct Aliased {
  Scratch scratch;
  std::string directory = scratch / "cache";
  Key request = key_of("request"), kernel = tj::cache::make_text_key({{"text", "t"}}, {{"path", "nvrtc 13"}});
  LogRecord log;

  Aliased() {
    Store store(directory, 0, {});
    REQUIRE(store.store(kernel, entry_of("binary")));
    REQUIRE(store.store_alias(request.request_hex, kernel, {{"name", "fmha"}}));
  }
  std::string path() const { return directory + "/" + file_name(alias_key(request.request_hex)); }
  std::string found(const std::string& layers = {}, std::string* named = nullptr) const {
    std::string half;
    const auto entry = Store(layers.empty() ? directory : layers, 0, log).load_aliased(request, &half);
    if (named != nullptr) *named = half;
    return entry ? entry->payload : std::string();
  }
  void heal() { REQUIRE(Store(directory, 0, {}).store_alias(request.request_hex, kernel, {{"name", "fmha"}})); }
};

TEST_CASE("an alias leads from the request to the kernel of its text, for any compiler where none is named") {
  Aliased a;
  CHECK(a.request.compiler_hex == a.kernel.compiler_hex);
  CHECK(a.request.request_hex != a.kernel.request_hex);
  std::string named;
  CHECK(a.found({}, &named) == "binary");
  CHECK(named == a.kernel.request_hex);
  CHECK(std::filesystem::file_size(a.path()) < 300);
  Store store(a.directory, 0, {});
  CHECK(store.load_aliased({a.request.request_hex, ""}, &named)->payload == "binary");
  CHECK_FALSE(store.load_aliased({a.request.request_hex, key_of("x", "another").compiler_hex}, &named));
  CHECK(named == a.kernel.request_hex);  // the alias is there, its kernel is not
  CHECK_FALSE(store.load_aliased(key_of("another"), &named));
  CHECK(named.empty());
  CHECK_FALSE(store.load({a.request.request_hex, ""}));  // an alias is no kernel of the request
  std::string problem;
  CHECK(store.look_aliased(a.request, &problem)->payload == "binary");
  CHECK(problem.empty());
  CHECK(store.counts().alias_stores == 0);
  int aliases = 0;
  for (const auto& item : store.list()) aliases += item.alias ? 1 : 0;
  CHECK(aliases == 1);
  CHECK(a.log.warnings() == 0);
}

TEST_CASE("each byte of an alias that is changed, and each cut, is a miss, and the kernel is found by its text") {
  Aliased a;
  const std::string good = read_bytes(a.path());
  const auto missed = [&](const std::string& bytes) {
    write_bytes(a.path(), bytes);
    std::string named;
    const bool none = a.found({}, &named).empty() && named.empty();
    return none && payload_in(a.directory, a.kernel) == "binary";
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    CAPTURE(i);
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    CHECK(missed(bad));
    CHECK(missed(good.substr(0, i)));
  }
  CHECK(missed(good + "x"));
  CHECK(a.log.warnings() > 0);
  a.heal();
  CHECK(read_bytes(a.path()) == good);
  CHECK(a.found() == "binary");
}

TEST_CASE("a whole alias that names no half of a key, carries a payload or has another's name is not followed") {
  Aliased a;
  const Key own = alias_key(a.request.request_hex);
  const auto followed = [&](const tj::cache::Entry& entry, const Key& key) {
    write_bytes(a.path(), tj::cache::encode(key, entry));
    std::string named;
    return !a.found({}, &named).empty() || !named.empty();
  };
  CHECK(followed(tj::cache::alias_entry(a.kernel.request_hex, {}), own));
  for (const std::string& half : {std::string(), std::string("../x"), std::string(63, 'a'), std::string(65, 'a'),
                                  std::string(63, 'a') + "/", a.kernel.request_hex + "\n"})
    CHECK_FALSE(followed(tj::cache::alias_entry(half, {}), own));
  tj::cache::Entry loaded = tj::cache::alias_entry(a.kernel.request_hex, {});
  loaded.payload = "code";
  CHECK_FALSE(followed(loaded, own));
  CHECK_FALSE(followed(tj::cache::alias_entry(a.kernel.request_hex, {}), alias_key(key_of("other").request_hex)));
}

TEST_CASE("an alias is trusted as an entry is: by its owner, its mode, and as a file of its own") {
  Aliased a;
  REQUIRE(::chmod(a.path().c_str(), 0666) == 0);
  CHECK(a.found().empty());
  a.heal();
  CHECK(a.found() == "binary");
  if (is_root) {
    REQUIRE(::chown(a.path().c_str(), kSomebody, kSomebody) == 0);
    CHECK(a.found().empty());
    a.heal();
  }
  std::filesystem::rename(a.path(), a.scratch / "elsewhere");
  std::filesystem::create_symlink(a.scratch / "elsewhere", a.path());
  CHECK(a.found().empty());
  a.heal();
  CHECK(a.found() == "binary");
  CHECK(a.log.warnings() >= 2);
}

TEST_CASE("an alias and its kernel may lie in different layers, and one without its kernel hides no other") {
  Aliased a;
  const std::string own = a.scratch / "own", stale = a.scratch / "stale";
  REQUIRE(Store(own, 0, {}).store_alias(a.request.request_hex, tj::cache::make_text_key({{"text", "gone"}}, {}), {}));
  CHECK(a.found(own + ":" + a.directory) == "binary");
  REQUIRE(Store(stale, 0, {}).store_alias(a.request.request_hex, a.kernel, {}));
  std::filesystem::remove(a.path());
  CHECK(a.found(stale + ":" + a.directory) == "binary");
  CHECK(a.found(a.directory).empty());
}

TEST_CASE("a pack has aliases, and serves by the text a request of a build that has none") {
  Aliased a;
  const std::string pack = a.scratch / "model.tjp", own = a.scratch / "own";
  CHECK(Store(a.directory, 0, {}).pack(pack, nullptr).entries == 2);
  CHECK(a.found(own + ":" + pack) == "binary");
  Store store(own + ":" + pack, 0, {});
  std::string named;
  CHECK_FALSE(store.load_aliased(key_of("another build"), &named));
  CHECK(payload(store, a.kernel) == "binary");
  REQUIRE(store.store_alias(key_of("another build").request_hex, a.kernel, {}));
  CHECK(store.load_aliased(key_of("another build"), &named)->payload == "binary");
  CHECK(store.counts().alias_stores == 1);
  CHECK(store.counts().stores == 0);
  Store all(own, 0, {});
  CHECK(all.unpack(pack).written == 2);
  CHECK(all.load_aliased(a.request, &named)->payload == "binary");
}

TEST_CASE(
    "two versions of the library on one directory: an alias for each, one binary, and neither disturbs the other") {
  Aliased a;
  const Key other = key_of("request of another build");
  const auto found_by = [&](const Key& request) {
    std::string named;
    const auto entry = Store(a.directory, 0, a.log).load_aliased(request, &named);
    return entry ? entry->payload : std::string();
  };
  REQUIRE(Store(a.directory, 0, {}).store_alias(other.request_hex, a.kernel, {}));
  CHECK(names_in(a.directory).size() == 3);
  write_bytes(a.path(), "of a version with another format");
  CHECK(found_by(a.request).empty());
  CHECK(found_by(other) == "binary");
  a.heal();
  CHECK(found_by(a.request) == "binary");
  CHECK(found_by(other) == "binary");
}

TEST_CASE("an alias that cannot be written costs nothing but the text: no warning") {
  Aliased a;
  const std::string pack = a.scratch / "model.tjp";
  REQUIRE(Store(a.directory, 0, {}).pack(pack, nullptr).problem.empty());
  Store store(pack, 0, a.log);
  CHECK_FALSE(store.store_alias(key_of("another build").request_hex, a.kernel, {}));
  CHECK(a.log.warnings() == 0);
  CHECK_FALSE(Store(a.directory, 0, {}).store_alias("../x", a.kernel, {}));
  CHECK_FALSE(Store(a.directory, 0, {}).store_alias(a.request.request_hex, {"short", ""}, {}));
}

TEST_CASE("within a bound an alias never evicts its own kernel, and goes with what is used least") {
  Aliased a;
  const auto size = std::filesystem::file_size(a.directory + "/" + file_name(a.kernel));
  std::filesystem::remove(a.path());
  Store tight(a.directory, size, {});
  CHECK(tight.store_alias(a.request.request_hex, a.kernel, {}));
  CHECK(payload(tight, a.kernel) == "binary");
  CHECK_FALSE(std::filesystem::exists(a.path()));
  a.heal();
  set_times(a.path(), 1000, 1000);
  Store roomy(a.directory, 2 * size + 100, {});
  REQUIRE(roomy.store(key_of("new"), entry_of("binary")));
  CHECK_FALSE(std::filesystem::exists(a.path()));
  CHECK(payload(roomy, a.kernel) == "binary");
}

TEST_CASE("aliases have a bound of their own: those used longest ago go, kernels stay") {
  Aliased a;
  constexpr int kMost = 16384, kBeyond = 20;
  const auto name = [](int i) {
    std::string hex = std::to_string(i);
    return hex.insert(0, 64 - hex.size(), '0');
  };
  for (int i = 0; i < kMost + kBeyond; ++i) {
    const std::string path = a.directory + "/" + name(i) + "-alias.tjk";
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const timespec times[2] = {{1000 + i, 0}, {1000, 0}};
    REQUIRE(::futimens(file, times) == 0);
    ::close(file);
  }
  a.heal();
  int aliases = 0;
  for (const std::string& each : names_in(a.directory)) aliases += each.ends_with("-alias.tjk") ? 1 : 0;
  CHECK(aliases == kMost);
  CHECK_FALSE(std::filesystem::exists(a.directory + "/" + name(kBeyond) + "-alias.tjk"));
  CHECK(std::filesystem::exists(a.directory + "/" + name(kBeyond + 1) + "-alias.tjk"));
  CHECK(a.found() == "binary");
}

}  // namespace
