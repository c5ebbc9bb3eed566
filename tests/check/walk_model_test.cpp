// Protects that attention has the same bits whatever its walk: tiles drawn in any order, those of several heads mixed,
// sections that do not come out even.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "arch/arch.hpp"
#include "check/kernels.hpp"
#include "check/run.hpp"
#include "check/short_rings.hpp"
#include "support/scratch.hpp"

using namespace tj;

namespace {

/// Attention whose blocks draw their tiles; so many KB of keys and values make a section.
class Drawn final : public testing::ShortRings {
 public:
  Drawn(const ops::Op& op, int section_kb)
      : ShortRings(op, 0, graph::Walk::dynamic, testing::Shape::first), section_kb_(section_kb) {}

  ops::Geometry geometry(const ops::Request& request, const ops::Candidate& candidate) const override {
    ops::Geometry geometry = ShortRings::geometry(request, candidate);
    for (const ops::GeometryField& field : geometry_fields())
      if (std::string_view(field.name) == "section_kb") field.set(geometry, section_kb_);
    return geometry;
  }

 private:
  int section_kb_;
};

std::string results_of(const ops::Op& op, const char* target, const char* flags, std::uint64_t seed) {
  const testing::Scratch scratch;
  Options options;
  options.cache_dir = scratch.path();
  check::Kernels kernels(support::resolve_settings(options), arch::parse_target(target),
                         support::Log(LogLevel::off, {}));
  const check::Subject subject =
      check::make_subject(op, op.trials(ops::flags_of_text(flags), *kernels.target().arch).front(), kernels);
  check::Outcome outcome = check::Run(subject, 1)(seed, {});
  CHECK_MESSAGE(!outcome.fault, (outcome.fault ? outcome.fault->message : ""));
  return std::move(outcome.results);
}

}  // namespace

TEST_CASE("drawn tiles give the bits of a block for each, in sections of any number of heads") {
  const ops::Op& op = *ops::find("fmha");
  const std::string flags = "--dtype f16 --head-dim 64 --causal true";
  const auto agree = [&](const char* target, const std::string& sizes, std::initializer_list<int> sections_kb) {
    CAPTURE(std::string(target));
    CAPTURE(sizes);
    const std::string usual = results_of(op, target, (flags + sizes).c_str(), 1);
    REQUIRE(!usual.empty());
    for (const int kb : sections_kb)
      CHECK(results_of(Drawn(op, kb), target, (flags + sizes).c_str(), 2 + static_cast<std::uint64_t>(kb)) == usual);
  };
  // 600 keys of 64 elements take 150 KB a head: sections of one, of two, and one of all.
  for (const char* target : {"model:sm_90a", "model:gfx1100"})
    agree(target, " --heads 5 --kv-heads 5 --seq-q 300", {0, 320, 4096});
  // 130 keys take 32.5 KB: sections of 10 and 13 heads; of 8, 8 and 8, four of which read the same keys.
  agree("model:sm_90a", " --heads 23 --kv-heads 23 --seq-q 130 --seq-k 130", {430});
  agree("model:sm_90a", " --heads 24 --kv-heads 6 --seq-q 130 --seq-k 130", {70});
}
