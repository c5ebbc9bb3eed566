// Protects packs: equal contents are equal bytes; what is read is what was packed; no changed byte, no cut and no
// foreign owner gets past; and where keys are given, nothing but what one of them has signed.
#include "cache/pack.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "cache/pack_format.hpp"
#include "support/signature.hpp"
#include "tests/cache/cache_fixture.hpp"

namespace {

using tj::LogLevel;
using tj::cache::file_name;
using tj::cache::PackReport;
using tj::cache::Store;
using tj::support::SecretKey;
using namespace tj::testing;

/// A cache with three entries, and room for packs.
struct Packs {
  Scratch scratch;
  std::string full = scratch / "full", own = scratch / "own", pack = scratch / "model.tjp", keys = scratch / "keys";
  LogRecord log;

  Packs() {
    for (const char* name : {"one", "two", "three"})
      REQUIRE(Store(full, 0, {}).store(key_of(name), entry_of(std::string("payload of ") + name)));
  }
  PackReport write(const SecretKey* secret = nullptr) const {
    PackReport report = Store(full, 0, {}).pack(pack, secret);
    REQUIRE_MESSAGE(report.problem.empty(), report.problem);
    return report;
  }
  static SecretKey new_key() {
    std::string problem;
    return *SecretKey::make(&problem);
  }
  void trust(const SecretKey& secret) const { write_bytes(keys, tj::support::line_of(secret.public_key())); }
  /// What a store of this pack alone has to say.
  std::string problem(const std::string& keys_path = {}) const {
    return Store(own + ":" + pack, 0, {}, keys_path).layers()[1].problem;
  }
};

TEST_CASE("what was packed is found in place, behind the written layer, and the pack stays as it is") {
  Packs p;
  const PackReport report = p.write();
  CHECK(report.entries == 3);
  CHECK(report.left_out.empty());
  CHECK(report.bytes == std::filesystem::file_size(p.pack));
  const std::string before = read_bytes(p.pack);
  Store store(p.own + ":" + p.pack, 0, p.log);
  CHECK(payload(store, key_of("two")) == "payload of two");
  CHECK(store.load(key_of("two"))->layer == 1);
  CHECK(payload(store, key_of("two", "")) == "payload of two");  // whatever compiler made it
  CHECK(payload(store, key_of("two", "another")).empty());
  CHECK(payload(store, key_of("four")).empty());
  REQUIRE(store.store(key_of("two"), entry_of("newer")));
  CHECK(payload(store, key_of("two")) == "newer");
  CHECK(store.counts().layers[1].bytes_read > 0);
  std::string problem;
  CHECK(store.look(key_of("one"), &problem)->payload == "payload of one");
  CHECK(store.list(&problem).size() == 4);
  CHECK(problem.empty());
  CHECK(store.layers()[1].pack);
  CHECK_FALSE(store.layers()[1].written);
  CHECK(store.cannot_keep().empty());
  CHECK(store.load_all(key_of("one").compiler_hex).size() == 3);
  CHECK(p.log.warnings() == 0);
  CHECK(read_bytes(p.pack) == before);
}

TEST_CASE("a pack serves under any compiler where that is wanted, behind all that the own one made; folders do not") {
  using tj::cache::Served;
  Packs p;
  p.write();
  const tj::cache::Key key = key_of("two", "another");
  const std::string own_layer = p.scratch / "layer";
  Store store(p.own + ":" + p.pack + ":" + own_layer, 0, p.log);
  std::string problem;
  CHECK_FALSE(store.load(key));
  CHECK_FALSE(store.look(key, &problem));
  const auto found = store.load(key, Served::any_packed), seen = store.look(key, &problem, Served::any_packed);
  REQUIRE(found);
  REQUIRE(seen);
  CHECK(problem.empty());
  CHECK(found->payload == "payload of two");
  CHECK(seen->payload == found->payload);
  CHECK(found->layer == 1);
  CHECK(found->compiler_hex == key_of("two").compiler_hex);
  CHECK_FALSE(store.load(key_of("four", "another"), Served::any_packed));
  CHECK_FALSE(store.load(tj::cache::alias_key(key.request_hex), Served::any_packed));
  REQUIRE(Store(own_layer, 0, {}).store(key, entry_of("the own one's")));
  CHECK(store.load(key, Served::any_packed)->payload == "the own one's");
  CHECK(store.look(key, &problem, Served::any_packed)->payload == "the own one's");
  CHECK_FALSE(Store(p.own + ":" + p.full, 0, p.log).load(key, Served::any_packed));
  std::string bytes = read_bytes(p.pack);
  bytes[bytes.find("payload of one")] ^= 1;
  write_bytes(p.pack, bytes);
  CHECK_FALSE(store.load(key_of("one", "another"), Served::any_packed));
  CHECK_FALSE(store.look(key_of("one", "another"), &problem, Served::any_packed));
  CHECK_FALSE(problem.empty());
}

TEST_CASE("a pack alone serves, and what is new stays in memory, with one warning") {
  Packs p;
  p.write();
  Store store(p.pack, 0, p.log);
  CHECK(payload(store, key_of("one")) == "payload of one");
  CHECK_FALSE(store.store(key_of("four"), entry_of("x")));
  CHECK_FALSE(store.store(key_of("five"), entry_of("x")));
  CHECK(store.lock(key_of("four")) == nullptr);
  REQUIRE(p.log.warnings() == 1);
  CHECK(p.log.at(LogLevel::warn)[0].find("a pack, cannot be written. New kernels are kept in memory only") !=
        std::string::npos);
  CHECK(store.cannot_keep() == "it is a pack, which is only read");
}

TEST_CASE("equal contents are equal bytes, whoever packs them and from where") {
  Packs p;
  p.write();
  const std::string first = read_bytes(p.pack);
  for (const std::string& name : names_in(p.full)) set_times(p.full + "/" + name, 1000, 1000);
  p.write();
  CHECK(read_bytes(p.pack) == first);
  Store other(p.own, 0, {});
  for (const char* name : {"three", "one", "two"})
    REQUIRE(other.store(key_of(name), entry_of(std::string("payload of ") + name)));
  REQUIRE(other.pack(p.scratch / "again", nullptr).problem.empty());
  CHECK(read_bytes(p.scratch / "again") == first);
  REQUIRE(Store(p.pack, 0, {}).pack(p.scratch / "of a pack", nullptr).entries == 3);
  CHECK(read_bytes(p.scratch / "of a pack") == first);
  const SecretKey secret = Packs::new_key();
  p.write(&secret);
  const std::string with_signature = read_bytes(p.pack);
  p.write(&secret);
  CHECK(read_bytes(p.pack) == with_signature);
  CHECK(with_signature.size() == first.size());
}

TEST_CASE("unpacking writes what is not there, as it was") {
  Packs p;
  p.write();
  Store store(p.own, 0, {});
  REQUIRE(store.store(key_of("two"), entry_of("own")));
  const auto report = store.unpack(p.pack);
  CHECK(report.problem.empty());
  CHECK(report.written == 2);
  CHECK(report.there == 1);
  CHECK(report.failed.empty());
  CHECK(payload(store, key_of("two")) == "own");
  const std::string name = file_name(key_of("one"));
  CHECK(read_bytes(p.own + "/" + name) == read_bytes(p.full + "/" + name));
  CHECK(store.unpack(p.scratch / "none").problem == "No such file or directory");
}

TEST_CASE("entries that the bound has removed again are counted as gone, and as nothing else") {
  Packs p;
  p.write();
  const std::uint64_t each = std::filesystem::file_size(p.full + "/" + file_name(key_of("three")));
  const auto report = Store(p.own, each, {}).unpack(p.pack);
  CHECK(report.problem.empty());
  CHECK(report.written == 1);
  CHECK(report.there == 0);
  CHECK(report.failed.empty());
  REQUIRE(report.gone.size() == 2);
  for (const auto& [entry, why] : report.gone) {
    CHECK_FALSE(std::filesystem::exists(p.own + "/" + entry));
    CHECK(why.empty());
  }
  const auto again = Store(p.own, each, {}).unpack(p.pack);
  CHECK(again.written + again.there == 1);
  CHECK(again.gone.size() == 2);
}

TEST_CASE("damaged entries are not packed, and told") {
  Packs p;
  const std::string path = p.full + "/" + file_name(key_of("two"));
  std::string bytes = read_bytes(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_bytes(path, bytes);
  const PackReport report = p.write();
  CHECK(report.entries == 2);
  REQUIRE(report.left_out.size() == 1);
  CHECK(report.left_out[0].first == path);
  CHECK(report.left_out[0].second == "checksum does not match");
}

TEST_CASE("every changed byte and every cut is seen: never a wrong payload, mostly a miss") {
  Packs p;
  p.write();
  const std::string good = read_bytes(p.pack);
  const auto check = [&](const std::string& bytes) {
    write_bytes(p.pack, bytes);
    Store store(p.own + ":" + p.pack, 0, {});
    int found = 0;
    for (const char* name : {"one", "two", "three"}) {
      const std::string got = payload(store, key_of(name));
      if (got.empty()) continue;
      REQUIRE(got == std::string("payload of ") + name);
      ++found;
    }
    return found;
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    CHECK_MESSAGE(check(bytes) <= (at < 8 ? 3 : at < good.size() - tj::cache::kPackEndBytes ? 2 : 3), at);
  }
  for (std::size_t size = 0; size < good.size(); size += size < 64 || size + 200 > good.size() ? std::size_t{1} : 13)
    CHECK(check(good.substr(0, size)) == 0);
  CHECK(check(good + "x") == 0);
  CHECK(check(good) == 3);
}

TEST_CASE("without keys a pack is trusted by its owner and mode; a link is not followed") {
  Packs p;
  p.write();
  CHECK(p.problem().empty());
  REQUIRE(::chmod(p.pack.c_str(), 0666) == 0);
  CHECK(p.problem().find("others can write it") != std::string::npos);
  REQUIRE(::chmod(p.pack.c_str(), 0444) == 0);
  CHECK(p.problem().empty());
  std::filesystem::create_symlink(p.pack, p.scratch / "link");
  CHECK_FALSE(Store(p.own + ":" + (p.scratch / "link"), 0, {}).layers()[1].problem.empty());
  if (!is_root) return;
  give_to_plain_user(p.pack);
  CHECK(p.problem().find("it belongs to user") != std::string::npos);
}

TEST_CASE("a pack whose key or signature was changed is left out, also without keys") {
  Packs p;
  const SecretKey secret = Packs::new_key();
  for (const SecretKey* signer : {static_cast<const SecretKey*>(nullptr), &secret}) {
    p.write(signer);
    const std::string whole = read_bytes(p.pack);
    for (std::size_t from_end = 1; from_end <= 64 + 32; from_end += 5) {
      std::string bytes = whole;
      bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 1);
      write_bytes(p.pack, bytes);
      CHECK_MESSAGE(!p.problem().empty(), from_end);
    }
    write_bytes(p.pack, whole);
    CHECK(p.problem().empty());
  }
}

TEST_CASE("with keys a pack is taken when one of them has signed it, whoever owns it, and else left out") {
  Packs p;
  const SecretKey secret = Packs::new_key(), other = Packs::new_key();
  p.write();
  p.trust(secret);
  CHECK(p.problem(p.keys).find("it is not signed") != std::string::npos);
  p.write(&other);
  CHECK(p.problem(p.keys).find("it is signed by the key " + tj::support::name_of(other.public_key())) !=
        std::string::npos);
  p.write(&secret);
  CHECK(p.problem(p.keys).empty());
  CHECK(p.problem().empty());  // a signature harms nobody
  REQUIRE(::chmod(p.pack.c_str(), 0666) == 0);
  give_to_plain_user(p.pack);
  CHECK(p.problem(p.keys).empty());
  Store store(p.own + ":" + p.pack, 0, p.log, p.keys);
  CHECK(payload(store, key_of("one")) == "payload of one");
  std::string bytes = read_bytes(p.pack);  // a signature of another pack
  bytes[bytes.size() - 20] = static_cast<char>(bytes[bytes.size() - 20] ^ 1);
  write_bytes(p.pack, bytes);
  CHECK(p.problem(p.keys).find("its signature is not right") != std::string::npos);
  p.write(&secret);
  for (const std::string& bad : {std::string("no key\n"), std::string()}) {
    write_bytes(p.keys, bad);
    CHECK(p.problem(p.keys).find("the file of keys cannot be used: ") != std::string::npos);
  }
  std::filesystem::remove(p.keys);
  CHECK(p.problem(p.keys).find("the file of keys cannot be used: it does not exist") != std::string::npos);
}

TEST_CASE("a pack that is replaced while a store is open is read anew; one that goes away is a miss") {
  Packs p;
  p.write();
  Store store(p.own + ":" + p.pack, 0, p.log);
  CHECK(payload(store, key_of("one")) == "payload of one");
  REQUIRE(Store(p.full, 0, {}).store(key_of("four"), entry_of("payload of four")));
  p.write();
  CHECK(payload(store, key_of("four")) == "payload of four");
  std::filesystem::remove(p.pack);
  CHECK(payload(store, key_of("one")).empty());
  CHECK(p.log.warnings() == 1);
}

TEST_CASE("an empty pack, and packs that no pack may be written to") {
  Packs p;
  Store empty(p.scratch / "nothing", 0, {});
  CHECK(empty.pack(p.pack, nullptr).entries == 0);
  CHECK(p.problem().empty());
  CHECK(Store(p.full, 0, {}).pack("/proc/none/x", nullptr).problem == "No such file or directory");
  const std::string pipe = p.scratch / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& taken : {pipe, p.full}) {
    CHECK(Store(p.full, 0, {}).pack(taken, nullptr).problem == "it is there, and no file; give another name");
    CHECK_FALSE(std::filesystem::is_regular_file(taken));
  }
}

}  // namespace
