// Protects what many threads and processes do at once: one maker a key, no orphaned lock, no half entry, forks.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "tests/cache/cache_fixture.hpp"

using tj::cache::Key;
using tj::cache::Store;
using tj::testing::entry_of;
using tj::testing::key_of;
using tj::testing::payload;
using tj::testing::read_bytes;
using tj::testing::Scratch;
using tj::testing::start_child;
using tj::testing::wait_for;

namespace {

const std::string kBinary(20000, 'b');

/// Does as the runtime does: look, lock, look again, make. Each making leaves one byte in the file `made`.
bool get_or_make(Store& store, const Key& key, const std::string& made) {
  if (payload(store, key) == kBinary) return true;
  const auto lock = store.lock(key);
  if (lock == nullptr) return false;
  if (payload(store, key) == kBinary) return true;
  const int file = ::open(made.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const bool noted = ::write(file, "m", 1) == 1;
  ::close(file);
  return store.store(key, entry_of(kBinary)) && noted;
}

/// Children wait for it, so that they start together.
class Gate {
 public:
  Gate() { REQUIRE(::pipe2(ends_, O_CLOEXEC) == 0); }
  ~Gate() {
    ::close(ends_[0]);
    if (ends_[1] >= 0) ::close(ends_[1]);
  }
  void wait() {
    ::close(std::exchange(ends_[1], -1));
    char byte = 0;
    while (::read(ends_[0], &byte, 1) < 0) {
    }
  }
  void open() { ::close(std::exchange(ends_[1], -1)); }

 private:
  int ends_[2] = {-1, -1};
};

/// Descriptors of this process on the cache's lock file, or only those on one that was deleted.
int open_lock_files(const std::string& directory, bool deleted) {
  int count = 0;
  for (const auto& link : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string file = std::filesystem::read_symlink(link.path(), gone).string();
    count += file == directory + "/.lock" + (deleted ? " (deleted)" : "") ? 1 : 0;
  }
  return count;
}

/// News that a wait for a lock was told.
struct Told {
  std::string holder;
  int words = 0, ends = 0;
};

}  // namespace

TEST_CASE("many processes, few keys: each kernel is made exactly once") {
  const Scratch scratch;
  const std::string directory = scratch / "cache";
  constexpr int kProcesses = 16;
  constexpr int kKeys = 3;
  std::vector<pid_t> children;
  {
    Gate gate;
    for (int p = 0; p < kProcesses; ++p) {
      children.push_back(start_child([&] {
        gate.wait();
        Store store(directory, 0, {});
        for (int i = 0; i < kKeys; ++i) {
          const std::string name = std::to_string((i + p) % kKeys);
          if (!get_or_make(store, key_of(name), scratch / ("made" + name))) return 1;
        }
        return 0;
      }));
    }
    gate.open();
  }
  for (const pid_t child : children) CHECK(wait_for(child) == 0);
  for (int i = 0; i < kKeys; ++i) CHECK(read_bytes(scratch / ("made" + std::to_string(i))) == "m");
}

TEST_CASE("a hundred processes on one cold pack: each finds its kernels there, and nothing is made") {
  const Scratch scratch;
  const std::string pack = scratch / "model.tjp";
  REQUIRE(::mkdir((scratch / "own").c_str(), 0700) == 0);
  constexpr int kProcesses = 100, kKeys = 8;
  {
    Store full(scratch / "full", 0, {});
    for (int i = 0; i < kKeys; ++i) REQUIRE(full.store(key_of(std::to_string(i)), entry_of("x" + std::to_string(i))));
    REQUIRE(full.pack(pack, nullptr).problem.empty());
  }
  std::vector<pid_t> children;
  {
    Gate gate;
    for (int p = 0; p < kProcesses; ++p)
      children.push_back(start_child([&] {
        gate.wait();
        Store store((scratch / "own") + ":" + pack, 0, {});
        for (int i = 0; i < kKeys; ++i) {
          const std::string name = std::to_string((i + p) % kKeys);
          if (payload(store, key_of(name)) != "x" + name) return 1;
        }
        return 0;
      }));
    gate.open();
  }
  for (const pid_t child : children) CHECK(wait_for(child) == 0);
  CHECK(tj::testing::names_in(scratch / "own").empty());
}

TEST_CASE("many threads, shared and own stores: each kernel is made exactly once") {
  const Scratch scratch;
  const std::string directory = scratch / "cache";
  Store shared(directory, 0, {});
  constexpr int kThreads = 12;
  constexpr int kKeys = 3;
  std::barrier start(kThreads);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Store own(directory, 0, {});
      Store& store = t % 2 == 0 ? shared : own;
      start.arrive_and_wait();
      for (int i = 0; i < kKeys; ++i) {
        const std::string name = std::to_string((i + t) % kKeys);
        if (!get_or_make(store, key_of(name), scratch / ("made" + name))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  for (int i = 0; i < kKeys; ++i) CHECK(read_bytes(scratch / ("made" + std::to_string(i))) == "m");
}

TEST_CASE("a lock excludes others on its key only, and dies with its holder") {
  const Scratch scratch;
  Store store(scratch.path(), 0, {});
  int held[2];
  REQUIRE(::pipe2(held, O_CLOEXEC) == 0);
  const pid_t holder = start_child([&] {
    const auto lock = store.lock(key_of("k"));
    if (::write(held[1], "x", 1) != 1 || lock == nullptr) return 1;
    for (;;) ::pause();
    return 0;
  });
  char byte = 0;
  REQUIRE(::read(held[0], &byte, 1) == 1);
  CHECK(store.lock(key_of("other")) != nullptr);
  const int file = ::open((scratch / ".lock").c_str(), O_RDWR | O_CLOEXEC);
  struct flock everything{};
  everything.l_type = F_WRLCK;
  REQUIRE(::fcntl(file, F_OFD_GETLK, &everything) == 0);
  CHECK(everything.l_type == F_WRLCK);  // the holder's byte
  CHECK(everything.l_len == 1);
  REQUIRE(::kill(holder, SIGKILL) == 0);
  CHECK(wait_for(holder) == -SIGKILL);
  CHECK(store.lock(key_of("k")) != nullptr);
  CHECK(store.lock(key_of("k")) != nullptr);  // the first was released with its object
  ::close(file);
  ::close(held[0]);
  ::close(held[1]);
}

TEST_CASE("a forked child keeps no lock of its parent, and does not close the files that it opens instead") {
  const Scratch scratch;
  int told[2];
  REQUIRE(::pipe2(told, O_CLOEXEC) == 0);
  Gate gate;
  const pid_t parent = start_child([&] {
    Store store(scratch.path(), 0, {});
    auto lock = store.lock(key_of("k"));
    const pid_t child = start_child([&] {
      std::vector<int> files;
      for (int i = 0; i < 8; ++i) files.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      auto own = store.lock(key_of("other"));
      lock.reset();
      bool right = own != nullptr;
      for (const int file : files) right = right && ::fcntl(file, F_GETFD) >= 0;
      if (::write(told[1], right ? "y" : "n", 1) != 1) return 1;
      gate.wait();  // outlives its parent
      return 0;
    });
    char byte = 0;
    while (::read(told[0], &byte, 1) != 1) {
    }
    ::kill(::getpid(), SIGKILL);
    return byte == 'y' && child > 0 ? 0 : 1;
  });
  CHECK(wait_for(parent) == -SIGKILL);
  Store store(scratch.path(), 0, {});
  CHECK(store.lock(key_of("k")) != nullptr);  // would wait for ever
  gate.open();
  ::close(told[0]);
  ::close(told[1]);
}

TEST_CASE("deleting the lock file over and over stops nobody") {
  const Scratch scratch;
  Store store(scratch.path(), 0, {});
  std::atomic<bool> finished{false};
  std::thread deleter([&] {
    while (!finished) ::unlink((scratch / ".lock").c_str());
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) (void)store.lock(key_of("k"));  // null is allowed, waiting for ever is not
    });
  }
  for (std::thread& thread : threads) thread.join();
  finished = true;
  deleter.join();
  const auto lock = store.lock(key_of("k"));
  CHECK(lock != nullptr);
  CHECK(std::filesystem::exists(scratch / ".lock"));
}

TEST_CASE("who waits on a lock file that is deleted meanwhile is excluded by whoever has the new one") {
  const Scratch scratch;
  Store store(scratch.path(), 0, {});
  auto first = store.lock(key_of("k"));
  REQUIRE(first != nullptr);
  std::atomic<bool> got{false};
  std::thread waiter([&] {
    const auto lock = store.lock(key_of("k"));
    got = true;
  });
  while (open_lock_files(scratch.path(), false) < 2) std::this_thread::yield();
  REQUIRE(::unlink((scratch / ".lock").c_str()) == 0);
  auto second = store.lock(key_of("k"));  // on a file of its own
  REQUIRE(second != nullptr);
  first.reset();
  while (!got && open_lock_files(scratch.path(), true) > 0)
    std::this_thread::yield();  // until the waiter has looked again
  CHECK(!got);
  second.reset();
  waiter.join();
  CHECK(got);
}

TEST_CASE("a wait for a process that is stopped says whose lock it is, and ends with its limit") {
  const Scratch scratch;
  Store store(scratch.path(), 0, {});
  int ready[2];
  REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
  const pid_t holder = start_child([&] {
    const auto lock = store.lock(key_of("k"));
    if (::write(ready[1], "x", 1) != 1 || lock == nullptr) return 1;
    for (;;) ::pause();
    return 0;
  });
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  REQUIRE(::kill(holder, SIGSTOP) == 0);
  const auto waited = [&](double limit_s) {
    Told told;
    const auto lock = store.lock(key_of("k"), {limit_s, [&](double, const std::string& by, bool over) {
                                                 told.holder = by;
                                                 ++(over ? told.ends : told.words);
                                               }});
    CHECK(lock == nullptr);
    return told;
  };
  const Told brief = waited(0.02), longer = waited(1.2);
  for (const Told& told : {brief, longer}) {
    CHECK(told.holder.find("process " + std::to_string(holder) + " (") == 0);
    CHECK(told.ends == 1);
  }
  CHECK(longer.words == 1);
  // A note is not believed: it may be anything.
  const int notes = ::open((scratch / ".lock").c_str(), O_RDWR | O_CLOEXEC);
  const std::string noted = tj::testing::read_bytes(scratch / ".lock");
  const std::size_t place = noted.find_first_not_of('\0');
  REQUIRE(place != std::string::npos);
  const std::string offset = noted.substr(place, noted.find(' ', place) - place), most(64, 'p');
  const auto told_by = [&](std::string note) {
    note.resize(160, '\n');
    CHECK(::pwrite(notes, note.data(), note.size(), static_cast<off_t>(place)) == static_cast<ssize_t>(note.size()));
    return waited(0.02).holder;
  };
  CHECK(told_by(offset + " 77 program elsewhere\n") == "process 77 (program, host elsewhere)");
  CHECK(told_by(offset + " 77 " + most + " elsewhere\n") == "process 77 (" + most + ", host elsewhere)");
  CHECK(told_by(offset + " 77 " + most + "p elsewhere\n") == "process 77 (" + most + ", host elsewhere)");
  CHECK(told_by(offset + " 1 ~!\x7f\x1b\xc3 -\n") == "process 1 (~!???, host -)");
  CHECK(told_by(offset + " 0 program elsewhere\n") == "another process");
  CHECK(told_by(offset + " 77 program\n") == "another process");
  CHECK(told_by("1" + offset + " 77 program elsewhere\n") == "another process");
  const std::string wrong(256 * 160, '\n');
  REQUIRE(::pwrite(notes, wrong.data(), wrong.size(), 0) == static_cast<ssize_t>(wrong.size()));
  ::close(notes);
  CHECK(waited(0.02).holder == "another process");
  REQUIRE(::kill(holder, SIGKILL) == 0);
  CHECK(wait_for(holder) == -SIGKILL);
  CHECK(store.lock(key_of("k"), {0.02, {}}) != nullptr);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("readers beside writers, evictions and deletions see whole entries or none") {
  const Scratch scratch;
  const std::string first(30000, '1'), second(50000, '2');
  std::atomic<bool> finished{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (const std::string& binary : {first, second}) {
    threads.emplace_back([&, binary] {
      Store store(scratch.path(), 200000, {});
      for (int i = 0; i < 60; ++i) {
        if (!store.store(key_of("k"), entry_of(binary))) ++wrong;
        store.store(key_of("filler" + std::to_string(i)), entry_of(binary));
      }
    });
  }
  std::thread reader([&] {
    Store store(scratch.path(), 200000, [&](tj::LogLevel, std::string_view) { ++wrong; });
    while (!finished) {
      const std::string got = payload(store, key_of("k"));
      if (!got.empty() && got != first && got != second) ++wrong;
      for (const auto& item : store.list()) wrong += item.entry ? 0 : 1;
    }
  });
  for (std::thread& thread : threads) thread.join();
  finished = true;
  reader.join();
  CHECK(wrong == 0);
  std::uint64_t total = 0;
  for (const auto& item : Store(scratch.path(), 0, {}).list()) total += item.bytes;
  CHECK(total <= 200000);
}

TEST_CASE("a store made before fork() works on both sides") {
  const Scratch scratch;
  Store store(scratch.path(), 0, {});
  REQUIRE(store.store(key_of("before"), entry_of("before")));
  const pid_t child = start_child([&] {
    const auto lock = store.lock(key_of("child"));
    return lock && payload(store, key_of("before")) == "before" && store.store(key_of("child"), entry_of("child")) ? 0
                                                                                                                   : 1;
  });
  CHECK(store.store(key_of("parent"), entry_of("parent")));
  CHECK(wait_for(child) == 0);
  CHECK(payload(store, key_of("child")) == "child");
  CHECK(payload(store, key_of("parent")) == "parent");
}
