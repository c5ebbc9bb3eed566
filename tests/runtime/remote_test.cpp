// Protects a runtime with a remote store: what one machine compiled, another takes, verified as its own kernels are;
// and whatever the store does, calls get the right kernel.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include <tilejit/tilejit.h>

#include "cache/cache.hpp"
#include "cache/remote_format.hpp"
#include "runtime/runtime_fixture.hpp"
#include "support/signature.hpp"

namespace {

using namespace tj::test;
using tj::Counters;
using tj::KernelOrigin;
using tj::MissPolicy;
using tj::Options;
using tj::RemoteAnswer;
using tj::Runtime;

/// A machine beside others that share a store.
struct Depot : Machine {
  std::mutex values_mutex;
  std::map<std::string, std::string> values;
  int caches = 0;

  tj::Remote store() {
    tj::Remote remote;
    remote.trusted = true;
    remote.time_limit_s = 60;
    remote.get = [this](std::string_view name, const tj::RemoteSink& sink) {
      const std::lock_guard lock(values_mutex);
      const auto found = values.find(std::string(name));
      if (found == values.end()) return RemoteAnswer::absent;
      return sink(found->second) ? RemoteAnswer::done : RemoteAnswer::failed;
    };
    remote.put = [this](std::string_view name, std::string_view bytes) {
      const std::lock_guard lock(values_mutex);
      values[std::string(name)] = bytes;
      return RemoteAnswer::done;
    };
    return remote;
  }
  /// Options of a machine whose cache is empty.
  Options fresh(MissPolicy policy = MissPolicy::wait) {
    Options options = this->options();
    options.cache_dir = scratch / "cache" + std::to_string(++caches);
    options.on_miss = policy;
    options.remote = store();
    return options;
  }
};

TEST_CASE("what one machine compiled another takes from the store, keeps, and puts no second time") {
  Depot depot;
  {
    Runtime first(depot.fresh());
    CHECK(first.prepare(attention()).origin == KernelOrigin::compiled);
    CHECK(first.counters().remote_misses == 1);
    CHECK(first.counters().remote_puts == 1);
  }
  for (const MissPolicy policy : {MissPolicy::wait, MissPolicy::error, MissPolicy::quick}) {
    Options options = depot.fresh(policy);
    {
      Runtime second(options);
      second.run(attention());
      const Counters counters = second.counters();
      CHECK(counters.misses == 1);
      CHECK(counters.remote_hits == 1);
      CHECK(counters.compiles + counters.quick_kernels + counters.refused + counters.remote_puts == 0);
      CHECK(counters.stores == 1);
      CHECK(counters.remote_bytes_read > 0);
    }
    options.remote.reset();
    Runtime third(options);
    CHECK(third.prepare(attention()).origin == KernelOrigin::disk);
    CHECK(third.counters().alias_hits == 1);
  }
  CHECK(depot.nvrtc.compiles() == 1);
  CHECK(depot.warnings.empty());
}

TEST_CASE("without a disk the store serves, for all devices of a runtime") {
  Depot depot;
  depot.cuda.set_devices(2);
  Runtime(depot.fresh()).prepare(config_of(true), {tj::DeviceKind::cuda, 0});
  const int compiles = depot.nvrtc.compiles();
  Options options = depot.fresh();
  options.use_disk_cache = false;
  Runtime runtime(options);
  for (const int device : {0, 1}) runtime.prepare(config_of(true), {tj::DeviceKind::cuda, device});
  CHECK(depot.nvrtc.compiles() == compiles);
  CHECK(runtime.counters().remote_hits == static_cast<std::uint64_t>(compiles));
}

TEST_CASE("no value that is another kernel's, damaged or cut is taken: the kernel is compiled") {
  Depot depot;
  Runtime(depot.fresh()).prepare(attention());
  const std::string name = depot.values.begin()->first, good = depot.values.begin()->second;
  depot.values.clear();
  Runtime(depot.fresh()).prepare(attention({}, true));
  const std::string foreign = depot.values.begin()->second;
  // A whole entry under the right key that is another kernel all the same.
  const auto entry = tj::cache::decode(foreign.substr(tj::cache::kRemoteHeaderBytes), nullptr, nullptr);
  REQUIRE(entry);
  const tj::cache::Key key{name.substr(0, 64), name.substr(65, 64)};
  const std::string forged = tj::cache::encode_remote(name, tj::cache::encode(key, *entry), nullptr);
  std::string flipped = good;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  for (const std::string& bad :
       {foreign, forged, flipped, good.substr(0, good.size() - 1), std::string(), good + "x"}) {
    depot.values[name] = bad;
    depot.warnings.clear();
    Runtime runtime(depot.fresh());
    CHECK(runtime.prepare(attention()).name == "fmha_f16_d128");
    const Counters counters = runtime.counters();
    CHECK(counters.remote_hits == 0);
    CHECK(counters.remote_rejected == 1);
    CHECK(counters.compiles == 1);
    CHECK(depot.warnings.size() == 1);
    Runtime later(depot.fresh());  // what was made replaces it
    CHECK(later.prepare(attention()).origin == KernelOrigin::disk);
    CHECK(later.counters().remote_hits == 1);
  }
}

TEST_CASE("a store that is not trusted serves what a key has signed, and nothing else") {
  Depot depot;
  std::string problem;
  const auto secret = *tj::support::SecretKey::make(&problem);
  tj::testing::write_bytes(depot.scratch / "secret", secret.line());
  tj::testing::write_bytes(depot.scratch / "keys", tj::support::line_of(secret.public_key()));
  Runtime(depot.fresh()).prepare(attention());  // unsigned
  const auto options = [&](bool signs) {
    Options each = depot.fresh();
    each.pack_keys = depot.scratch / "keys";
    each.remote->trusted = false;
    if (signs) each.remote->sign_key = depot.scratch / "secret";
    return each;
  };
  {
    Runtime reader(options(false));
    CHECK(reader.prepare(attention()).origin == KernelOrigin::compiled);
    CHECK(reader.counters().remote_rejected == 1);
    CHECK(reader.counters().remote_puts == 0);
  }
  Runtime(options(true)).prepare(attention());
  Runtime reader(options(false));
  CHECK(reader.prepare(attention()).origin == KernelOrigin::disk);
  CHECK(reader.counters().remote_hits == 1);
  CHECK(has(error_of([&] {
              Options none = depot.fresh();
              none.remote->trusted = false;
              Runtime runtime(none);
            }).message,
            "give Options::pack_keys"));
}

TEST_CASE("a store that fails or hangs costs its time limit, and no call") {
  Depot depot;
  Options options = depot.fresh();
  std::atomic<bool> go{false};
  options.remote->time_limit_s = 0.02;
  options.remote->get = [&](std::string_view, const tj::RemoteSink&) {
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return RemoteAnswer::failed;
  };
  {
    Runtime runtime(options);
    CHECK(runtime.prepare(attention()).origin == KernelOrigin::compiled);
    CHECK(runtime.prepare(attention({}, true)).origin == KernelOrigin::compiled);
    CHECK(runtime.counters().remote_failures >= 2);
    go = true;  // the runtime's end waits for it
  }
  options = depot.fresh(MissPolicy::error);
  options.remote->get = [](std::string_view, const tj::RemoteSink&) -> RemoteAnswer { throw 7; };
  Runtime runtime(options);
  CHECK(error_of([&] { runtime.run(attention()); }).code == tj::Code::not_in_cache);
  CHECK(runtime.counters().refused == 1);
}

TEST_CASE("threads on one kernel of the store: it is asked once, and each call runs") {
  Depot depot;
  Runtime(depot.fresh()).prepare(attention());
  Runtime runtime(depot.fresh());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) threads.emplace_back([&] { runtime.run(attention()); });
  for (std::thread& each : threads) each.join();
  const Counters counters = runtime.counters();
  CHECK(counters.remote_hits == 1);
  CHECK(counters.compiles == 0);
  CHECK(counters.misses == counters.shared + counters.remote_hits);
  CHECK(count_calls(depot.cuda, "cuLaunchKernelEx") == 8);
}

/// A store of C's, whose answers are numbers.
struct CStore {
  std::map<std::string, std::string> values;
  int answer = TJ_REMOTE_DONE;
  bool gives_null = false;

  static int32_t get(void* user, const char* name, tj_remote_sink sink, void* sink_user) {
    const auto& self = *static_cast<CStore*>(user);
    const auto found = self.values.find(name);
    if (self.gives_null) return sink(sink_user, nullptr, 5) == 0 ? TJ_REMOTE_DONE : TJ_REMOTE_FAILED;
    if (found == self.values.end()) return TJ_REMOTE_ABSENT;
    if (sink(sink_user, found->second.data(), 10) != 0 || sink(sink_user, nullptr, 0) != 0) return TJ_REMOTE_FAILED;
    return sink(sink_user, found->second.data() + 10, found->second.size() - 10) == 0 ? self.answer : TJ_REMOTE_FAILED;
  }
  static int32_t put(void* user, const char* name, const void* bytes, size_t count) {
    static_cast<CStore*>(user)->values[name] = std::string(static_cast<const char*>(bytes), count);
    return TJ_REMOTE_DONE;
  }
  static int32_t has(void* user, const char* name) {
    return static_cast<CStore*>(user)->values.count(name) != 0 ? TJ_REMOTE_DONE : TJ_REMOTE_ABSENT;
  }
};

TEST_CASE(
    "in C: three functions with a user's pointer; odd answers are failures, and bad structures are refused by name") {
  Depot depot;
  CStore store;
  tj_remote remote{};
  remote.size = sizeof(remote);
  remote.get = CStore::get;
  remote.put = CStore::put;
  remote.has = CStore::has;
  remote.user = &store;
  remote.time_limit_s = 60;
  remote.trusted = 1;
  const auto counted = [&] {
    tj_options options;
    tj_options_init(&options);
    const std::string folder = depot.scratch / "c" + std::to_string(++depot.caches);
    options.cache_dir = folder.c_str();
    options.target = "sm_90a";
    options.log_level = TJ_LOG_OFF;
    options.remote = &remote;
    tj_runtime* runtime = nullptr;
    std::string text = tj_runtime_create(&options, &runtime) == TJ_OK ? "" : tj_last_error();
    const char* json = nullptr;
    if (text.empty()) {
      CHECK(tj_warm_flags(runtime, "chunk_indices", "", "sm_90a", nullptr, nullptr) == TJ_OK);
      CHECK(tj_counters(runtime, nullptr, &json) == TJ_OK);
      text = json;
    }
    tj_runtime_destroy(runtime);
    return text;
  };
  CHECK(has(counted(), "\"remote_puts\": 1"));
  CHECK(has(counted(), "\"remote_hits\": 1"));
  store.answer = 77;
  CHECK(has(counted(), "\"remote_failures\": 1"));
  store.gives_null = true;
  CHECK(has(counted(), "\"remote_failures\": 1"));
  remote.trusted = 2;
  CHECK(has(counted(), "options.remote.trusted is 2"));
  remote.trusted = 1;
  remote.reserved = 1;
  CHECK(has(counted(), "options.remote.reserved"));
  remote.reserved = 0;
  remote.size = 8;
  CHECK(has(counted(), "options.remote"));
  remote.size = sizeof(remote);
  remote.get = nullptr;
  remote.put = nullptr;
  CHECK(has(counted(), "get and put are empty"));
}

}  // namespace
