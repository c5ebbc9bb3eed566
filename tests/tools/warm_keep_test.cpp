// Protects what tj-warm says of a kernel that it does not find in the cache afterwards: an entry that cannot be read is
// told with its file and the reason, and no bound is blamed for it.
#include "tools/warm_keep.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "cache/cache.hpp"
#include "fakes/fake_nvrtc.hpp"
#include "support/scratch.hpp"

namespace {

using tj::testing::Scratch;

/// One kernel that was in the cache, or was made, and what the tool's checks say of it.
struct Kept {
  std::ostringstream out, err;
  tj::tools::Progress progress{out, err, false, false, tj::LogLevel::warn};
  std::vector<tj::tools::Job> jobs = std::vector<tj::tools::Job>(1);
  std::vector<tj::tools::Outcome> outcomes = std::vector<tj::tools::Outcome>(1);
  tj::support::Settings settings;

  explicit Kept(const std::string& layers) {
    jobs[0].request.name = "k";
    jobs[0].target = "sm_90a";
    outcomes[0].ok = true;
    settings.cache_dir = layers;
  }
  bool check(std::uint64_t evictions) {
    tj::tools::check_kept(settings, jobs, outcomes, evictions, progress);
    return outcomes[0].ok;
  }
};

/// The failure of a kernel that is not found in a folder.
std::string failure_in(const std::string& folder, std::uint64_t bound, std::uint64_t evictions) {
  Kept kept(folder);
  kept.settings.cache_max_size_bytes = bound;
  CHECK_FALSE(kept.check(evictions));
  return kept.outcomes[0].error;
}

TEST_CASE("an entry that cannot be read is told of with the reason") {
  const Scratch scratch;
  for (const std::uint64_t bound : {0, 1000})  // none was removed to stay within the bound
    CHECK(failure_in(scratch.path(), bound, 0).find("does something else remove files there?") != std::string::npos);
  CHECK(failure_in(scratch.path(), 1000, 1).find("raise TJ_CACHE_MAX_SIZE") != std::string::npos);
  tj::cache::Store store(scratch.path(), 0, {});
  REQUIRE(store.store({std::string(64, 'a'), std::string(64, 'b')}, {{{"name", "k"}, {"target", "sm_90a"}}, "bytes"}));
  REQUIRE(tj::testing::names_in(scratch.path()).size() == 1);
  const std::string path = scratch / tj::testing::names_in(scratch.path()).front();
  tj::testing::write_bytes(path, "short");
  for (const std::uint64_t bound : {0, 1000}) {
    const std::string said = failure_in(scratch.path(), bound, 1);
    CHECK_MESSAGE(said.find("which cannot all be read: '" + path + "': ") != std::string::npos, said);
  }
}

TEST_CASE(
    "a kernel of another compiler counts as there where it serves: in a pack, unless the own one is insisted on") {
  const tj::test::FakeNvrtc nvrtc;
  const Scratch scratch;
  const std::string folder = scratch / "folder", pack = scratch / "model.tjp";
  tj::cache::Store store(folder, 0, {});
  tj::cache::Entry entry{{{"name", "k"}, {"target", "sm_90a"}}, "bytes"};
  REQUIRE(store.store({std::string(64, 'a'), std::string(64, 'b')}, entry));
  REQUIRE(store.pack(pack, nullptr).problem.empty());
  const auto is_made = [&](const std::string& layers, tj::PackCompiler compiler) {
    Kept kept(layers);
    kept.settings.pack_compiler = compiler;
    const bool there = kept.check(0);
    const auto worth = tj::tools::jobs_worth_making(kept.settings, kept.jobs, kept.outcomes, kept.progress);
    if (layers == pack) CHECK(worth.size() == (there ? 1 : 0));  // nothing can be kept there
    return there;
  };
  CHECK(is_made(pack, tj::PackCompiler::any));
  CHECK_FALSE(is_made(pack, tj::PackCompiler::own));
  CHECK_FALSE(is_made(folder, tj::PackCompiler::any));
}

}  // namespace
