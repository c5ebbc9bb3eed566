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

/// The failure of a kernel that was in the cache, or was made, and is not found there.
std::string failure_in(const std::string& folder, std::uint64_t bound, std::uint64_t evictions) {
  std::ostringstream out, err;
  tj::tools::Progress progress(out, err, false, false, tj::LogLevel::warn);
  tj::tools::Job job;
  job.request.name = "k";
  job.target = "sm_90a";
  std::vector<tj::tools::Outcome> outcomes(1);
  outcomes[0].ok = true;
  tj::support::Settings settings;
  settings.cache_dir = folder;
  settings.cache_max_size_bytes = bound;
  tj::tools::check_kept(settings, {job}, outcomes, evictions, progress);
  CHECK_FALSE(outcomes[0].ok);
  return outcomes[0].error;
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
    std::ostringstream out, err;
    tj::tools::Progress progress(out, err, false, false, tj::LogLevel::warn);
    tj::tools::Job job;
    job.request.name = "k";
    job.target = "sm_90a";
    std::vector<tj::tools::Outcome> outcomes(1);
    outcomes[0].ok = true;
    tj::support::Settings settings;
    settings.cache_dir = layers;
    settings.pack_compiler = compiler;
    tj::tools::check_kept(settings, {job}, outcomes, 0, progress);
    const bool there = outcomes[0].ok;
    const auto worth = tj::tools::jobs_worth_making(settings, {job}, outcomes, progress);
    if (layers == pack) CHECK(worth.size() == (there ? 1 : 0));  // nothing can be kept there
    return there;
  };
  CHECK(is_made(pack, tj::PackCompiler::any));
  CHECK_FALSE(is_made(pack, tj::PackCompiler::own));
  CHECK_FALSE(is_made(folder, tj::PackCompiler::any));
}

}  // namespace
