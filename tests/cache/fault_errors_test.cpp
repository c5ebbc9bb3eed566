// Protects the cache against each error at each system call, once and from there on: of a store with an eviction, a
// look-up, packs that are written, searched and unpacked, and a manifest's line. Each ends with the truth, and the next
// call heals.
#include <doctest/doctest.h>

#if defined(__x86_64__) && defined(__linux__)
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>

#include "support/log.hpp"
#include "support/record_file.hpp"
#include "support/signature.hpp"
#include "tests/cache/tracer.hpp"
#include "tests/support/full.hpp"

namespace {

using tj::cache::Store;
using tj::support::SecretKey;
using namespace tj::testing;

const std::string kFirst(9000, 'o'), kSecond(12000, 'n');
constexpr double kShortWait = 0.02;

struct Way {
  int error;
  Which which;
};
constexpr std::array<Way, 12> kWays = {{{ENOSPC, Which::nth},
                                        {EIO, Which::from_nth},
                                        {EINTR, Which::nth},
                                        {EACCES, Which::from_nth},
                                        {ESTALE, Which::nth},
                                        {EXDEV, Which::from_nth},
                                        {EIO, Which::nth},
                                        {ENOSPC, Which::from_nth},
                                        {EACCES, Which::nth},
                                        {EINTR, Which::from_nth},
                                        {EXDEV, Which::nth},
                                        {ESTALE, Which::from_nth}}};

/// Every way runs at each call with TJ_TEST_FULL=1, else some at each, others at the next.
bool runs(int call, int way) {
  if (full_run()) return true;
  return kSanitized ? (call + way) % 12 == 0 : (call + way) % 6 == 0;
}

/// Two kernels in full, packed and signed as model.tjp; the key is in keys.
class Places {
 public:
  Places() {
    Store store(full(), 0, {});
    REQUIRE(store.store(key_of("k"), entry_of(kFirst)));
    REQUIRE(store.store(key_of("filler"), entry_of(kFirst)));
    std::string problem;
    const auto secret = SecretKey::make(&problem);
    REQUIRE(secret);
    write_bytes(keys(), tj::support::line_of(secret->public_key()));
    REQUIRE(store.pack(pack(), &*secret).problem.empty());
  }
  std::string full() const { return scratch_ / "full"; }
  std::string own() const { return scratch_ / "own"; }
  std::string pack() const { return scratch_ / "model.tjp"; }
  std::string keys() const { return scratch_ / "keys"; }

 private:
  Scratch scratch_;
};

/// work(places): in the child. check(places, its status): afterwards.
template <class Work, class Check>
void at_each_call_by_each_error(Work&& work, Check&& check, int fewest = 10) {
  int n = 0;
  for (bool reached = true; reached && n < 500; ++n)
    for (int way = 0; way < static_cast<int>(kWays.size()); ++way) {
      if (!runs(n, way)) continue;
      const int error = kWays[static_cast<std::size_t>(way)].error;
      const Which which = kWays[static_cast<std::size_t>(way)].which;
      const Places places;
      const int status = Tracer::run(
          [&] {
            ::alarm(20);  // for a loop that would have no end
            return work(places);
          },
          Accident::fail, n, {0, error, which});
      if (status == kNotReached) {
        reached = false;
        break;
      }
      CAPTURE(n);
      CAPTURE(error);
      CAPTURE((which == Which::from_nth));
      check(places, status);
    }
  CHECK(n > fewest);  // the calls were seen at all
  CHECK(n < 500);
}

TEST_CASE("each error at each call of a store with an eviction: store() tells the truth, and the next store works") {
  if (!can_trace()) return;
  const auto work = [](const Places& places) {
    Store store(places.full(), kSecond.size() + 1000, {});
    const auto lock = store.lock(key_of("k"), {kShortWait, {}});
    return store.store(key_of("k"), entry_of(kSecond)) ? 0 : 1;
  };
  at_each_call_by_each_error(work, [](const Places& places, int status) {
    CHECK((status == 0 || status == 1));
    const bool right = payload_in(places.full(), key_of("k")) == (status == 0 ? kSecond : kFirst);
    CHECK(right);
    Store store(places.full(), 0, {});
    for (const auto& item : store.list()) CHECK(item.entry.has_value());
    CHECK(store.lock(key_of("k"), {kShortWait, {}}) != nullptr);
    CHECK(store.store(key_of("k"), entry_of("after")));
    CHECK(payload_in(places.full(), key_of("k")) == "after");
  });
}

TEST_CASE("each error at each call of a look-up, in a folder and in a signed pack behind it: the entry or a miss") {
  if (!can_trace()) return;
  const auto work = [](const Places& places) {
    Store store(places.own() + ":" + places.pack(), 0, {}, places.keys());
    const auto packed = store.load(key_of("k"));
    if (packed && packed->payload != kFirst) return 2;
    const auto found = Store(places.full(), 0, {}).load(key_of("k"));
    return !found || found->payload == kFirst ? 0 : 3;
  };
  at_each_call_by_each_error(work, [](const Places& places, int status) {
    CHECK(status == 0);
    Store store(places.own() + ":" + places.pack(), 0, {}, places.keys());
    const bool right = payload(store, key_of("k")) == kFirst;
    CHECK(right);
  });
}

TEST_CASE("each error at each call of packing: a whole pack, or the old one and the reason; what lacks is named") {
  if (!can_trace()) return;
  enum { whole, none, part };
  const auto work = [](const Places& places) {
    const tj::cache::PackReport report = Store(places.full(), 0, {}).pack(places.pack(), nullptr);
    if (!report.problem.empty()) return static_cast<int>(none);
    return static_cast<int>(report.left_out.empty() ? whole : part);
  };
  at_each_call_by_each_error(work, [](const Places& places, int status) {
    const std::string made = read_bytes(places.pack());
    Store cache(places.full(), 0, {});
    const std::string again = places.pack() + ".again";
    const tj::cache::PackReport report = cache.pack(again, nullptr);
    CHECK(report.problem.empty());
    CHECK(report.entries == 2);
    const bool right = made == read_bytes(again);  // only one without a signature is
    CHECK((status == whole || status == none || status == part));
    if (status != part) CHECK(right == (status == whole));  // a folder's end may be unknown behind its last entry
    if (status == none)
      CHECK(Store(places.own() + ":" + places.pack(), 0, {}, places.keys()).layers()[1].problem == "");
    if (status == part) CHECK(Store(places.own() + ":" + places.pack(), 0, {}).layers()[1].problem == "");
  });
}

TEST_CASE("each error at each call of unpacking: each entry is written or named, and the next time brings the rest") {
  if (!can_trace()) return;
  const auto work = [](const Places& places) {
    const tj::cache::UnpackReport report = Store(places.own(), 0, {}).unpack(places.pack());
    if (!report.problem.empty()) return 3;
    if (report.written + report.there + report.failed.size() + report.gone.size() != 2) return 4;
    for (const auto& [entry, why] : report.gone)
      if (why.empty()) return 5;  // nothing removes it
    return static_cast<int>(report.failed.size());
  };
  at_each_call_by_each_error(work, [](const Places& places, int status) {
    CHECK((status >= 0 && status <= 3));
    Store store(places.own(), 0, {});
    int there = 0;
    for (const char* name : {"k", "filler"}) {
      const std::string got = payload(store, key_of(name));
      const bool right = got.empty() || got == kFirst;
      CHECK(right);
      there += !got.empty();
    }
    CHECK(there == (status == 3 ? 0 : 2 - status));
    const tj::cache::UnpackReport rest = store.unpack(places.pack());
    CHECK(rest.problem.empty());
    CHECK(rest.failed.empty());
    CHECK(rest.written + rest.there == 2);
  });
}

TEST_CASE("each error at each call of adding to a manifest: the line is whole or not there, and that is told") {
  if (!can_trace()) return;
  const auto work = [](const Places& places) {
    int warnings = 0;
    const tj::support::Log log(tj::LogLevel::warn, [&](tj::LogLevel, std::string_view) { ++warnings; });
    tj::support::RecordFile record(places.full() + "/run.tjm", log);
    record.add("a line");
    return warnings;
  };
  const auto check = [](const Places& places, int status) {
    CHECK((status == 0 || status == 1));
    const std::string path = places.full() + "/run.tjm";
    const bool there = std::filesystem::exists(path) && read_bytes(path) == "a line\n";
    CHECK(there == (status == 0));
    const tj::support::Log log(tj::LogLevel::off, {});
    tj::support::RecordFile again(path, log);
    again.add("the next line");
    CHECK(read_bytes(path) == (there ? "a line\nthe next line\n" : "the next line\n"));
  };
  at_each_call_by_each_error(work, check, 2);
}

}  // namespace
#else
TEST_CASE("each error at each system call") { MESSAGE("only for x86-64 Linux; left out"); }
#endif
