// Protects publication under every accident: a writer killed before any of its system calls, and each file system call
// failing in turn. Whatever happens, the cache holds the old entry, the new one or none, and works afterwards.
//
// The child is traced, so that the code under test is the shipped one. Left out where tracing is not possible.
#include <doctest/doctest.h>

#if defined(__x86_64__) && defined(__linux__)
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "tests/cache/tracer.hpp"

using tj::cache::Store;
using tj::testing::Accident;
using tj::testing::can_trace;
using tj::testing::entry_of;
using tj::testing::key_of;
using tj::testing::kNotReached;
using tj::testing::payload_in;
using tj::testing::Scratch;
using tj::testing::Tracer;
using tj::testing::Which;

namespace {

const std::string kOld(9000, 'o'), kNew(12000, 'n');
/// Goes through all n until the work has no n-th call; `prepare` before and `check(status)` after each.
template <class Prepare, class Work, class Check>
void at_every_call(Accident accident, Prepare&& prepare, Work&& work, Check&& check) {
  int n = 0;
  for (;; ++n) {
    const Scratch scratch;
    prepare(scratch.path());
    const int status = Tracer::run([&] { return work(scratch.path()); }, accident, n);
    CAPTURE(n);
    if (status == kNotReached) break;
    check(scratch.path(), status);
    // Afterwards the cache works.
    Store store(scratch.path() + "/cache", 0, {});
    CHECK(store.lock(key_of("k")) != nullptr);
    CHECK(store.store(key_of("k"), entry_of("after")));
    CHECK(payload_in(scratch.path() + "/cache", key_of("k")) == "after");
    REQUIRE(n < 500);
  }
  CHECK(n > 10);  // the calls were seen at all
}

void with_old_entry(const std::string& scratch) {
  Store store(scratch + "/cache", 0, {});
  store.store(key_of("k"), entry_of(kOld));
  store.store(key_of("filler"), entry_of(kOld));
}

/// Locks, stores and evicts. Status 0: said to be stored, 1: said not to be.
int store_new(const std::string& scratch) {
  Store store(scratch + "/cache", kNew.size() + 1000, {});
  const auto lock = store.lock(key_of("k"));
  return store.store(key_of("k"), entry_of(kNew)) ? 0 : 1;
}

}  // namespace

TEST_CASE("a writer killed at any call leaves the old entry or the new one") {
  if (!can_trace()) return;
  int old_ones = 0, new_ones = 0;
  at_every_call(Accident::kill, with_old_entry, store_new, [&](const std::string& scratch, int status) {
    CHECK(status == -SIGKILL);
    const std::string got = payload_in(scratch + "/cache", key_of("k"));
    old_ones += got == kOld;
    new_ones += got == kNew;
    const bool whole = got == kOld || got == kNew;
    CHECK(whole);
    for (const auto& item : Store(scratch + "/cache", 0, {}).list()) CHECK(item.entry.has_value());
  });
  CHECK(old_ones > 0);
  CHECK(new_ones > 0);
}

TEST_CASE("a writer killed while it makes the directory leaves nothing or the new entry") {
  if (!can_trace()) return;
  at_every_call(
      Accident::kill, [](const std::string&) {}, store_new,
      [](const std::string& scratch, int) {
        const std::string got = payload_in(scratch + "/cache", key_of("k"));
        const bool whole = got.empty() || got == kNew;
        CHECK(whole);
      });
}

TEST_CASE("any failing call costs at most the new entry, and store() tells the truth") {
  if (!can_trace()) return;
  at_every_call(Accident::fail, with_old_entry, store_new, [](const std::string& scratch, int status) {
    CHECK((status == 0 || status == 1));
    const bool right = payload_in(scratch + "/cache", key_of("k")) == (status == 0 ? kNew : kOld);
    CHECK(right);
    for (const auto& item : Store(scratch + "/cache", 0, {}).list()) CHECK(item.entry.has_value());
  });
}

TEST_CASE("a file system without times keeps entries all the same") {
  if (!can_trace()) return;
  for (const int error : {EPERM, ENOSYS, EOPNOTSUPP}) {
    const Scratch scratch;
    const auto work = [&] {
      Store store(scratch.path() + "/cache", 0, {});
      return store.store(key_of("k"), entry_of(kNew)) && store.load(key_of("k")) ? 0 : 1;
    };
    CHECK(Tracer::run(work, Accident::fail, 0, {SYS_utimensat, error, Which::all}) == 0);
    CHECK(payload_in(scratch.path() + "/cache", key_of("k")) == kNew);
  }
}

TEST_CASE("a call that is interrupted for ever ends all the same") {
  if (!can_trace()) return;
  for (const int error : {EINTR, ESTALE}) {
    const Scratch scratch;
    with_old_entry(scratch.path());
    const auto look = [&] {
      const auto entry = Store(scratch.path() + "/cache", 0, {}).load(key_of("k"));
      return !entry || entry->payload == kOld ? 0 : 1;
    };
    CHECK(Tracer::run(look, Accident::fail, 0, {SYS_openat, error, Which::all}) == 0);
  }
}

TEST_CASE("one call that is interrupted, or finds a file replaced, costs no compile") {
  if (!can_trace()) return;
  for (const int error : {EINTR, ESTALE}) {
    const Scratch scratch;
    with_old_entry(scratch.path());
    const auto look = [&] { return Store(scratch.path() + "/cache", 0, {}).load(key_of("k")) ? 0 : 1; };
    CHECK(Tracer::run(look, Accident::fail, 1, {SYS_openat, error}) == 0);  // the directory is the first
  }
}

TEST_CASE("a writer whose temporary somebody has removed writes it again") {
  if (!can_trace()) return;
  const Scratch scratch;
  const auto work = [&] { return Store(scratch.path(), 0, {}).store(key_of("k"), entry_of("binary")) ? 0 : 1; };
  CHECK(Tracer::run(work, Accident::fail, 0, {SYS_renameat, ENOENT, Which::nth}) == 0);
  CHECK(payload_in(scratch.path(), key_of("k")) == "binary");
  CHECK(Tracer::run(work, Accident::fail, 0, {SYS_renameat, ENOENT, Which::all}) == 1);
}

TEST_CASE("any failing call of a look-up gives a miss or the right entry") {
  if (!can_trace()) return;
  const auto look = [](const std::string& scratch) {
    bool right = true;
    for (const char* compiler : {"nvrtc 13", ""}) {
      const auto entry = Store(scratch + "/cache", 0, {}).load(key_of("k", compiler));
      right = right && (!entry || entry->payload == kOld);
    }
    return right ? 0 : 1;
  };
  at_every_call(Accident::fail, with_old_entry, look, [](const std::string& scratch, int status) {
    CHECK(status == 0);
    const bool kept = payload_in(scratch + "/cache", key_of("k")) == kOld;
    CHECK(kept);
  });
}

TEST_CASE("any failing or last call of an alias's store leaves it right or absent, and its kernel whole") {
  if (!can_trace()) return;
  const tj::cache::Key kernel = tj::cache::make_text_key({{"text", "t"}}, {{"path", "nvrtc 13"}});
  const auto prepare = [&](const std::string& scratch) {
    REQUIRE(Store(scratch + "/cache", 0, {}).store(kernel, entry_of(kOld)));
  };
  const auto work = [&](const std::string& scratch) {
    return Store(scratch + "/cache", kOld.size() + 1000, {}).store_alias(key_of("r").request_hex, kernel, {}) ? 0 : 1;
  };
  for (const Accident accident : {Accident::fail, Accident::kill}) {
    int aliased = 0;
    at_every_call(accident, prepare, work, [&](const std::string& scratch, int status) {
      std::string named;
      Store store(scratch + "/cache", 0, {});
      const auto entry = store.load_aliased(key_of("r"), &named);
      const bool whole = payload_in(scratch + "/cache", kernel) == kOld && (!entry || entry->payload == kOld);
      CHECK(whole);
      CHECK(entry.has_value() == !named.empty());
      if (accident == Accident::fail) CHECK(entry.has_value() == (status == 0));
      aliased += entry ? 1 : 0;
      for (const auto& item : store.list()) CHECK(item.entry.has_value());
      CHECK(store.store_alias(key_of("r").request_hex, kernel, {}));
      CHECK(store.load_aliased(key_of("r"), &named).has_value());
    });
    CHECK(aliased > 0);
  }
}

TEST_CASE("any failing call of a look-up by an alias gives a miss or the right kernel") {
  if (!can_trace()) return;
  const tj::cache::Key kernel = tj::cache::make_text_key({{"text", "t"}}, {{"path", "nvrtc 13"}});
  const auto prepare = [&](const std::string& scratch) {
    Store store(scratch + "/cache", 0, {});
    REQUIRE(store.store(kernel, entry_of(kOld)));
    REQUIRE(store.store_alias(key_of("r").request_hex, kernel, {}));
  };
  const auto look = [](const std::string& scratch) {
    std::string named;
    bool right = true;
    for (const char* compiler : {"nvrtc 13", ""}) {
      const auto entry = Store(scratch + "/cache", 0, {}).load_aliased(key_of("r", compiler), &named);
      right = right && (!entry || entry->payload == kOld);
    }
    return right ? 0 : 1;
  };
  at_every_call(Accident::fail, prepare, look, [&](const std::string& scratch, int status) {
    CHECK(status == 0);
    std::string named;
    CHECK(Store(scratch + "/cache", 0, {}).load_aliased(key_of("r"), &named).has_value());
  });
}

TEST_CASE("any failing call over two layers gives a miss or the right entry, and leaves the second as it is") {
  if (!can_trace()) return;
  const auto prepare = [](const std::string& scratch) {
    with_old_entry(scratch);
    REQUIRE(Store(scratch + "/second", 0, {}).store(key_of("second"), entry_of(kOld)));
  };
  const auto work = [](const std::string& scratch) {
    Store store(scratch + "/cache:" + scratch + "/second", kNew.size() + 1000, {});
    bool right = true;
    for (const char* request : {"k", "second"}) {
      const auto entry = store.load(key_of(request));
      right = right && (!entry || entry->payload == kOld);
    }
    const auto lock = store.lock(key_of("k"));
    const bool said = store.store(key_of("k"), entry_of(kNew));
    const auto entry = store.load(key_of("k"));
    right = right && (!entry || entry->payload == kNew || (!said && entry->payload == kOld));
    return right ? 0 : 1;
  };
  for (const Accident accident : {Accident::fail, Accident::kill})
    at_every_call(accident, prepare, work, [&](const std::string& scratch, int status) {
      CHECK(status == (accident == Accident::fail ? 0 : -SIGKILL));
      CHECK(tj::testing::names_in(scratch + "/second").size() == 1);
      CHECK(payload_in(scratch + "/second", key_of("second")) == kOld);
    });
}

TEST_CASE(
    "a lock call that keeps failing, or keeps being interrupted, ends in no lock and a kernel that is stored all the "
    "same") {
  if (!can_trace()) return;
  for (const int error : {EIO, ENOLCK, EINVAL, EINTR}) {
    CAPTURE(error);
    const Scratch scratch;
    const auto lock_and_store = [&] {
      ::alarm(60);  // for a loop that would have no end
      Store store(scratch / "cache", 0, {});
      const auto lock = store.lock(key_of("k"));
      return lock == nullptr && store.store(key_of("k"), entry_of(kNew)) ? 0 : 1;
    };
    CHECK(Tracer::run(lock_and_store, Accident::fail, 0, {SYS_fcntl, error, Which::all}) == 0);
    const bool stored = payload_in(scratch / "cache", key_of("k")) == kNew;
    CHECK(stored);
  }
}

TEST_CASE("each call of a lock that is interrupted once is made again: there is a lock") {
  if (!can_trace()) return;
  for (const long call : {long{SYS_openat}, long{SYS_fcntl}}) {
    int calls = 0;
    for (int status = 0; status != kNotReached && calls < 100; ++calls) {
      const Scratch scratch;
      const auto lock = [&] {
        Store store(scratch / "cache", 0, {});
        return store.lock(key_of("k")) != nullptr ? 0 : 1;
      };
      status = Tracer::run(lock, Accident::fail, calls, {call, EINTR});
      CAPTURE(call);
      CAPTURE(calls);
      CHECK((status == 0 || status == kNotReached));
    }
    CHECK(calls > 1);
    CHECK(calls < 100);
  }
}

#else
TEST_CASE("accidents at every system call") { MESSAGE("only for x86-64 Linux; left out"); }
#endif
