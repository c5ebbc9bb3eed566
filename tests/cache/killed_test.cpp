// Protects a cache whose processes are killed at any moment: over directories, layers and packs, by aliases and by
// texts. What is loaded is whole and the right kernel, each is made once, and what is left works and goes.
// TJ_TEST_ROUNDS=10000: as many rounds; then counts are printed.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/full.hpp"
#include "tests/cache/cache_fixture.hpp"

namespace {

using tj::cache::Key;
using tj::cache::Store;
using namespace tj::testing;

constexpr int kKilledProcesses = 8, kKilledKeys = 6;

Key kernel_number(int number) {
  return tj::cache::make_text_key({{"text", std::to_string(number)}}, {{"path", "nvrtc 13"}});
}
std::string binary_number(int number) {
  return std::string(3000 + 700 * static_cast<std::size_t>(number), static_cast<char>('a' + number));
}

/// Kernels that processes have stored, by their numbers; forked children share them.
struct Stored {
  std::array<std::atomic<int>, kKilledKeys> times;
  static Stored& shared() {
    static Stored* const one = [] {
      void* const memory = ::mmap(nullptr, sizeof(Stored), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      REQUIRE(memory != MAP_FAILED);
      return new (memory) Stored{};
    }();
    return *one;
  }
};

/// A runtime's way: the alias, then the text, then the lock and the compiler. False: something wrong was loaded.
bool get_once(Store& store, int number) {
  const Key request = key_of("request " + std::to_string(number)), kernel = kernel_number(number);
  std::string named;
  if (const auto entry = store.load_aliased(request, &named)) return entry->payload == binary_number(number);
  if (!named.empty() && named != kernel.request_hex) return false;
  if (const auto entry = store.load(kernel)) {
    store.store_alias(request.request_hex, kernel, {{"name", "k"}});
    return entry->payload == binary_number(number);
  }
  const auto lock = store.lock(kernel, {300, {}});
  if (const auto entry = store.load(kernel)) return entry->payload == binary_number(number);
  if (store.store(kernel, entry_of(binary_number(number)))) ++Stored::shared().times[static_cast<std::size_t>(number)];
  store.store_alias(request.request_hex, kernel, {{"name", "k"}});
  return true;
}

/// Files of killed writers. Once they are old, the next store removes them. Returns how many there were.
int check_leftovers(const std::string& directory) {
  namespace fs = std::filesystem;
  const auto left = [&] {
    std::vector<fs::path> files;
    for (const auto& file : fs::directory_iterator(directory))
      if (file.path().filename().string().rfind(".tmp-", 0) == 0) files.push_back(file.path());
    return files;
  };
  const std::vector<fs::path> files = left();
  for (const fs::path& file : files)
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(2));
  Store store(directory, 0, {});
  CHECK(store.store(kernel_number(0), entry_of(binary_number(0))));
  CHECK(left().empty());
  return static_cast<int>(files.size());
}

/// Eight processes, of which six may be killed. Returns how many came to their end. same: all want one kernel.
int run_and_kill(const std::string& layers, std::uint64_t bound, bool same, std::mt19937& random) {
  int ended = 0;
  std::vector<pid_t> children;
  std::array<unsigned, kKilledProcesses> delays{};
  for (unsigned& delay : delays) delay = static_cast<unsigned>(random() % 4000);
  for (int p = 0; p < kKilledProcesses; ++p)
    children.push_back(start_child([&] {
      Store store(layers, bound, {});
      for (int i = 0; i < 40; ++i)
        if (!get_once(store, same ? 3 : (i + p) % kKilledKeys)) return 1;
      return 0;
    }));
  for (int p = 0; p < kKilledProcesses; ++p) {
    std::this_thread::sleep_for(std::chrono::microseconds(delays[static_cast<std::size_t>(p)]));
    if (p % 4 != 3) ::kill(children[static_cast<std::size_t>(p)], SIGKILL);
  }
  for (const pid_t child : children) {
    const int status = wait_for(child);
    CHECK((status == 0 || status == -SIGKILL));
    ended += status == 0;
  }
  return ended;
}

TEST_CASE(
    "eight processes, killed at random: nothing wrong or torn is loaded, nothing is made twice, the cache works") {
  std::mt19937 random(20261128);
  const char* const given = std::getenv("TJ_TEST_ROUNDS");
  const int rounds = given != nullptr ? std::atoi(given) : drawn(200);  // of eight processes each
  const Scratch scratch;
  const std::string own = scratch / "own", pack = scratch / "model.tjp";
  {
    Store packed(scratch / "packed", 0, {});
    for (int number = 0; number < 2; ++number) REQUIRE(get_once(packed, number));
    REQUIRE(packed.pack(pack, nullptr).problem.empty());
  }
  int killed = 0, whole = 0, temporaries = 0, kernels = 0;
  bool evicted = false;
  const auto end_directory = [&] {
    if (!std::filesystem::exists(own)) return;
    for (std::atomic<int>& times : Stored::shared().times) {
      if (!evicted) CHECK(times.load() <= 1);
      kernels += times.exchange(0);
    }
    temporaries += check_leftovers(own);
    std::filesystem::remove_all(own);
    evicted = false;
  };
  for (std::atomic<int>& times : Stored::shared().times) times = 0;  // those of the pack
  for (int round = 0; round < rounds; ++round) {
    if (round % 4 == 0) end_directory();
    const std::string layers = round % 2 == 0 ? own : own + ":" + pack;
    const std::uint64_t bound = round % 5 == 0 ? 20000 : 0;
    evicted = evicted || bound != 0;
    const int ended = run_and_kill(layers, bound, round % 3 == 0, random);
    whole += ended;
    killed += kKilledProcesses - ended;
    Store store(layers, 0, {});
    for (const auto& item : store.list()) CHECK(item.entry.has_value());
    for (int number = 0; number < kKilledKeys; ++number) CHECK(get_once(store, number));
  }
  end_directory();
  CHECK(killed > 0);
  CHECK(whole > 0);
  if (given != nullptr)
    MESSAGE(rounds, " rounds of ", kKilledProcesses, " processes: ", killed, " were killed, ", whole,
            " ended; they left ", temporaries, " temporary files, and stored ", kernels, " kernels");
}

}  // namespace
