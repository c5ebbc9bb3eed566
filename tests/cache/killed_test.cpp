// Protects a cache whose processes are killed at any moment: over directories, layers and packs, by aliases and by
// texts, what is loaded is whole and the right kernel, and what is left works.
#include <doctest/doctest.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
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
  const auto lock = store.lock(kernel, {5, {}});
  if (const auto entry = store.load(kernel)) return entry->payload == binary_number(number);
  store.store(kernel, entry_of(binary_number(number)));
  store.store_alias(request.request_hex, kernel, {{"name", "k"}});
  return true;
}

TEST_CASE("eight processes, killed at random: nothing wrong or torn is loaded, and the cache works afterwards") {
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
  int killed = 0, whole = 0;
  for (int round = 0; round < rounds; ++round) {
    if (round % 4 == 0) std::filesystem::remove_all(own);
    const std::string layers = round % 2 == 0 ? own : own + ":" + pack;
    const bool same = round % 3 == 0;
    const std::uint64_t bound = round % 5 == 0 ? 20000 : 0;
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
      killed += status == -SIGKILL;
      whole += status == 0;
    }
    Store store(layers, 0, {});
    for (const auto& item : store.list()) CHECK(item.entry.has_value());
    for (int number = 0; number < kKilledKeys; ++number) CHECK(get_once(store, number));
  }
  CHECK(killed > 0);
  CHECK(whole > 0);
}

}  // namespace
