// Protects the remote layer: what is taken from a store is what was asked for and vouched for; a store that fails, is
// slow, lies or never ends costs time and no call; and one that keeps failing is left alone.
#include "cache/remote.hpp"

#include <doctest/doctest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <thread>

#include <tilejit/error.hpp>

#include "cache/remote_format.hpp"
#include "support/expect.hpp"
#include "support/signature.hpp"
#include "tests/cache/cache_fixture.hpp"

namespace {

using tj::LogLevel;
using tj::Remote;
using tj::RemoteAnswer;
using tj::cache::encode;
using tj::cache::encode_remote;
using tj::cache::file_name;
using tj::cache::RemoteCounts;
using tj::cache::RemoteLayer;
using tj::support::SecretKey;
using namespace tj::testing;

SecretKey fresh_key() {
  std::string problem;
  return *SecretKey::make(&problem);
}

bool any_entry(const tj::cache::Entry&, std::string*) { return true; }

/// A store in memory, a folder for keys, and what was said.
struct Shelf {
  Scratch scratch;
  std::mutex mutex;
  std::map<std::string, std::string> values;
  std::atomic<int> gets{0}, puts{0}, asked{0};
  std::string keys = scratch / "keys", secret_file = scratch / "secret";
  SecretKey secret = fresh_key();
  LogRecord log;
  tj::support::Workers workers;

  Shelf() {
    write_bytes(keys, tj::support::line_of(secret.public_key()));
    write_bytes(secret_file, secret.line());
  }
  Remote functions(bool trusted) {
    Remote remote;
    remote.trusted = trusted;
    remote.time_limit_s = 30;
    remote.get = [this](std::string_view name, const tj::RemoteSink& sink) {
      ++gets;
      const std::lock_guard guard(mutex);
      const auto found = values.find(std::string(name));
      if (found == values.end()) return RemoteAnswer::absent;
      for (std::size_t at = 0; at < found->second.size(); at += 100)
        if (!sink(std::string_view(found->second).substr(at, 100))) return RemoteAnswer::failed;
      return RemoteAnswer::done;
    };
    remote.put = [this](std::string_view name, std::string_view bytes) {
      ++puts;
      const std::lock_guard guard(mutex);
      values[std::string(name)] = bytes;
      return RemoteAnswer::done;
    };
    remote.has = [this](std::string_view name) {
      ++asked;
      const std::lock_guard guard(mutex);
      return values.count(std::string(name)) != 0 ? RemoteAnswer::done : RemoteAnswer::absent;
    };
    return remote;
  }
  std::unique_ptr<RemoteLayer> layer(Remote remote, const std::string& keys_path = {}) {
    return std::make_unique<RemoteLayer>(std::move(remote), keys_path, log, workers.queue(2));
  }
  std::string refusal(Remote remote, const std::string& keys_path = {}) {
    return error_of([&] { layer(std::move(remote), keys_path); }).message;
  }
};

std::string got(RemoteLayer& layer, const tj::cache::Key& key) {
  const auto entry = layer.get(key, any_entry);
  return entry ? entry->payload : std::string();
}

TEST_CASE("a trusted store gives what was put there, and is put nothing twice") {
  Shelf s;
  const auto layer = s.layer(s.functions(true));
  CHECK(got(*layer, key_of("k")).empty());
  layer->put(key_of("k"), entry_of("binary"));
  CHECK(got(*layer, key_of("k")) == "binary");
  layer->put(key_of("k"), entry_of("binary"));
  CHECK(s.puts == 1);
  CHECK(s.asked == 2);
  CHECK(got(*layer, key_of("k", "")).empty());  // a store is asked for one name
  CHECK(s.gets == 2);
  const RemoteCounts counts = layer->counts();
  CHECK(counts.hits == 1);
  CHECK(counts.misses == 1);
  CHECK(counts.puts == 1);
  CHECK(counts.bytes_read == counts.bytes_written);
  CHECK(counts.failures + counts.rejected + counts.skipped == 0);
  CHECK(s.log.warnings() == 0);
}

TEST_CASE("a store that is not trusted is believed what a key has signed, under that name alone") {
  Shelf s;
  Remote remote = s.functions(false);
  const auto reader = s.layer(remote, s.keys);
  reader->put(key_of("k"), entry_of("binary"));
  CHECK(s.puts == 0);  // nobody would take it
  remote.sign_key = s.secret_file;
  const auto writer = s.layer(remote, s.keys);
  writer->put(key_of("k"), entry_of("binary"));
  CHECK(got(*reader, key_of("k")) == "binary");
  const std::string name = file_name(key_of("k")), other = file_name(key_of("other"));
  const std::string whole = encode(key_of("k"), entry_of("binary"));
  std::string problem;
  const std::vector<tj::support::PublicKey> keys = {s.secret.public_key()};
  CHECK(tj::cache::read_remote(name, s.values[name], &keys, &problem).has_value());
  CHECK_FALSE(tj::cache::read_remote(other, s.values[name], &keys, &problem).has_value());
  CHECK(problem == "its signature is not right");
  const SecretKey stranger = fresh_key();
  for (const std::string& value : {encode_remote(name, whole, nullptr), encode_remote(name, whole, &stranger)}) {
    Shelf fresh;
    fresh.values[name] = value;
    const auto layer = fresh.layer(fresh.functions(false), s.keys);
    CHECK(got(*layer, key_of("k")).empty());
    CHECK(layer->counts().rejected == 1);
    CHECK(fresh.log.warnings() == 1);
  }
}

TEST_CASE("no value that was changed by a bit, cut or lengthened is taken, trusted or signed") {
  Shelf s;
  const std::string name = file_name(key_of("k")), whole = encode(key_of("k"), entry_of("binary"));
  const std::vector<tj::support::PublicKey> keys = {s.secret.public_key()};
  for (const bool is_signed : {false, true}) {
    const std::string good = encode_remote(name, whole, is_signed ? &s.secret : nullptr);
    const auto taken = [&](const std::string& value) {
      std::string problem;
      const auto bytes = tj::cache::read_remote(name, value, is_signed ? &keys : nullptr, &problem);
      const tj::cache::Key key = key_of("k");
      return bytes && tj::cache::decode(*bytes, &key, &problem).has_value();
    };
    CHECK(taken(good));
    for (std::size_t i = 0; i < good.size(); ++i) {
      CAPTURE(i);
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
      CHECK_FALSE(taken(bad));
      CHECK_FALSE(taken(good.substr(0, i)));
    }
    CHECK_FALSE(taken(good + "x"));
  }
}

TEST_CASE("a value of another key, of no kernel, or one that the caller does not take, is rejected") {
  Shelf s;
  const std::string name = file_name(key_of("k"));
  const auto layer = s.layer(s.functions(true));
  s.values[name] = encode_remote(name, encode(key_of("other"), entry_of("wrong")), nullptr);
  CHECK(got(*layer, key_of("k")).empty());
  s.values[name] = encode_remote(name, "", nullptr);
  CHECK(got(*layer, key_of("k")).empty());
  CHECK(layer->counts().rejected == 2);
  layer->put(key_of("k"), entry_of("binary"));  // though it is there: no other machine could use it either
  CHECK(s.asked == 0);
  CHECK(got(*layer, key_of("k")) == "binary");
  Shelf t;
  const auto picky = t.layer(t.functions(true));
  t.values[name] = encode_remote(name, encode(key_of("k"), entry_of("binary")), nullptr);
  CHECK_FALSE(picky->get(key_of("k"), [](const tj::cache::Entry&, std::string* why) {
    *why = "its field is odd";
    return false;
  }));
  CHECK(picky->counts().rejected == 1);
  CHECK(has(t.log.at(LogLevel::warn).at(0), "its field is odd"));
}

TEST_CASE("a store that fails, throws or answers with an odd number is left alone after three times, said once") {
  Shelf s;
  int number = 0;
  Remote remote = s.functions(true);
  remote.get = [&](std::string_view, const tj::RemoteSink&) -> RemoteAnswer {
    switch (number++) {
      case 0:
        return RemoteAnswer::failed;
      case 1:
        throw std::runtime_error("connection\nrefused");
      default:
        return static_cast<RemoteAnswer>(77);
    }
  };
  const auto layer = s.layer(remote);
  for (int i = 0; i < 10; ++i) CHECK(got(*layer, key_of("k")).empty());
  layer->put(key_of("k"), entry_of("binary"));
  CHECK(number == 3);
  CHECK(s.asked + s.puts == 0);
  const RemoteCounts counts = layer->counts();
  CHECK(counts.failures == 3);
  CHECK(counts.skipped == 8);
  REQUIRE(s.log.warnings() == 1);
  CHECK_MESSAGE(has(s.log.at(LogLevel::warn)[0], "it is left alone for 30 s"), s.log.at(LogLevel::warn)[0]);
}

TEST_CASE("failures with an answer between them are no reason to leave a store alone") {
  Shelf s;
  int number = 0;
  Remote remote = s.functions(true);
  remote.get = [&](std::string_view, const tj::RemoteSink&) {
    return number++ % 3 == 2 ? RemoteAnswer::absent : RemoteAnswer::failed;
  };
  const auto layer = s.layer(remote);
  for (int i = 0; i < 12; ++i) CHECK(got(*layer, key_of("k")).empty());
  CHECK(number == 12);
  CHECK(layer->counts().skipped == 0);
  CHECK(s.log.warnings() == 0);
}

TEST_CASE("a store that lies three times is left alone, too") {
  Shelf s;
  const std::string name = file_name(key_of("k"));
  s.values[name] = "nonsense";
  const auto layer = s.layer(s.functions(true));
  for (int i = 0; i < 5; ++i) CHECK(got(*layer, key_of("k")).empty());
  CHECK(layer->counts().rejected == 3);
  CHECK(layer->counts().skipped == 2);
}

TEST_CASE("a value without end is not taken into memory") {
  Shelf s;
  std::size_t handed = 0;
  Remote remote = s.functions(true);
  remote.get = [&](std::string_view, const tj::RemoteSink& sink) {
    const std::string piece(1 << 20, 'x');
    for (;;) {
      if (!sink(piece)) return RemoteAnswer::done;
      handed += piece.size();
    }
  };
  const auto layer = s.layer(remote);
  CHECK(got(*layer, key_of("k")).empty());
  CHECK(handed <= std::size_t{65} << 20);
  CHECK(layer->counts().rejected == 1);
}

TEST_CASE("a sink that a store's function keeps takes nothing behind its end") {
  Shelf s;
  tj::RemoteSink kept;
  Remote remote = s.functions(true);
  remote.get = [&](std::string_view, const tj::RemoteSink& sink) {
    kept = sink;
    return RemoteAnswer::absent;
  };
  {
    const auto layer = s.layer(remote);
    CHECK(got(*layer, key_of("k")).empty());
    CHECK_FALSE(kept("late"));
  }
  CHECK_FALSE(kept("later"));
}

TEST_CASE("functions that hang are given up after the time limit, and hinder no others") {
  Shelf s;
  std::atomic<bool> go{false};
  std::atomic<int> inside{0};
  Remote remote = s.functions(true);
  remote.time_limit_s = 0.05;
  remote.get = [&](std::string_view, const tj::RemoteSink& sink) {
    ++inside;
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return sink("late") ? RemoteAnswer::done : RemoteAnswer::failed;
  };
  const auto layer = s.layer(remote);
  for (int i = 0; i < 5; ++i) CHECK(got(*layer, key_of("k")).empty());
  CHECK(inside <= 2);
  CHECK(layer->counts().failures == 3);
  CHECK(layer->counts().skipped == 2);
  CHECK(s.log.warnings() == 1);
  go = true;
  s.workers.stop();  // waits for them
  CHECK(got(*layer, key_of("k")).empty());
}

TEST_CASE("threads ask at once, and each gets its own value") {
  Shelf s;
  const auto layer = s.layer(s.functions(true));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      const std::string name = std::to_string(t % 4);
      layer->put(key_of(name), entry_of("payload " + name));
      for (int i = 0; i < 20; ++i) wrong += got(*layer, key_of(name)) == "payload " + name ? 0 : 1;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(layer->counts().hits == 160);
}

TEST_CASE("options of a remote store are refused by name, value and what is allowed") {
  Shelf s;
  CHECK(has(s.refusal({}), "Options::remote.get and put are empty"));
  Remote remote = s.functions(true);
  for (const double limit : {0.0, -1.0, 3601.0, std::numeric_limits<double>::quiet_NaN()}) {
    remote.time_limit_s = limit;
    CHECK(has(s.refusal(remote), "Options::remote.time_limit_s is "));
  }
  CHECK(has(s.refusal(s.functions(false)), "give Options::pack_keys"));
  CHECK(has(s.refusal(s.functions(false), s.scratch / "none"), "it does not exist"));
  write_bytes(s.scratch / "odd", "no key\n");
  CHECK(has(s.refusal(s.functions(false), s.scratch / "odd"), "TJ_PACK_KEYS"));
  remote = s.functions(true);
  remote.sign_key = s.keys;
  CHECK(has(s.refusal(remote), "Options::remote.sign_key is '"));
  remote.sign_key = s.secret_file;
  REQUIRE(::chmod(s.secret_file.c_str(), 0644) == 0);
  CHECK(has(s.refusal(remote), "others can read or write it"));
  remote = s.functions(false);
  remote.get = nullptr;  // who only writes checks nothing
  CHECK(s.layer(remote) != nullptr);
}

TEST_CASE("nobody waits for a store's function that has ended its thread") {
  Shelf s;
  Remote remote = s.functions(true);
  remote.time_limit_s = 3000;
  remote.get = [](std::string_view, const tj::RemoteSink&) -> RemoteAnswer { ::pthread_exit(nullptr); };
  const auto layer = s.layer(remote);
  const auto start = std::chrono::steady_clock::now();
  CHECK(got(*layer, key_of("k")).empty());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
  CHECK(layer->counts().failures == 1);
}

}  // namespace
