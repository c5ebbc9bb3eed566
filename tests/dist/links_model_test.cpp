// Protects the protocol of ranks on the CPU model with links, which deliver late and out of order. Calls are clean and
// right for each seed. The model reports each wait, word, copy and order that is left out.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "dist/linked_calls.hpp"
#include "support/expect.hpp"
#include "support/fail.hpp"
#include "support/full.hpp"

using namespace tj;
using model::LinkMutant;
using model::LinkWork;
using test::LinkedCalls;

TEST_CASE("each call of 2 and 3 ranks, at many orders of events: no report, and the bits of ranks without links") {
  int index = 0;
  for (const int ranks : {2, 3})
    for (const std::string call : test::kLinkedCalls) {
      if ((call == "heads" && ranks == 3) || testing::thinned_out(index++)) continue;
      CAPTURE(call);
      CAPTURE(ranks);
      LinkedCalls calls(call, ranks);
      const std::string wanted = calls.expected();
      for (std::uint64_t seed = 1; seed <= (testing::full_run() ? 8u : testing::share(2u)); ++seed) {
        CAPTURE(seed);
        CHECK(calls.run(4, seed) == "");
        CHECK((calls.results() == wanted));
      }
    }
}

namespace {

constexpr int kCalls = 5;

bool is_of(const LinkWork& work, int rank) { return work.queue.starts_with(support::cat("rank ", rank)); }

/// Contiguous, causal rows of two ranks: rank 1 copies nothing to rank 0, which awaits and lets go of nothing.
bool matters_to_contiguous(const LinkWork& work) {
  if (is_of(work, 0)) return !testing::has(work.text, "ends a turn");
  return work.kind == LinkWork::Kind::launch;
}

/// Changes that somebody has to notice. next: the work behind it in its queue.
std::vector<LinkMutant> mutants_of(const std::string& call, const LinkWork& work, const LinkWork& next) {
  using Kind = LinkMutant::Kind;
  std::vector<Kind> kinds;
  const bool contiguous = call == "contiguous";
  if (contiguous && !matters_to_contiguous(work)) return {};
  switch (work.kind) {
    case LinkWork::Kind::launch:
      if (work.loads_words) kinds = {Kind::left_out};
      if (testing::has(work.text, "waits for bytes")) kinds.push_back(Kind::deaf);
      // Bytes that a rank has waited for since tell it the same, where it waits for some of each rank.
      if (contiguous && testing::has(work.text, "begins a turn") && is_of(work, 0)) kinds.push_back(Kind::deaf);
      if (contiguous && testing::has(work.text, "ends a turn")) kinds.push_back(Kind::mute);
      break;
    case LinkWork::Kind::copy:
      kinds = {Kind::left_out};
      if (work.is_word) kinds.push_back(Kind::early);
      break;
    case LinkWork::Kind::wait:
      if (next.kind != work.kind || next.text != work.text) kinds = {Kind::left_out};  // else that one tells the same
      break;
    default:
      break;
  }
  std::vector<LinkMutant> all;
  for (const Kind kind : kinds) all.push_back({work.queue, work.index, kind});
  return all;
}

/// So many there are of a call, by src/dist/README.md 220 in all. Fewer are a sign that works have got other names.
int mutants_of(const std::string& call) {
  static const std::map<std::string, int> counts = {{"whole", 31},   {"own_first", 26}, {"contiguous", 15},
                                                    {"striped", 24}, {"heads", 58},     {"decode", 22},
                                                    {"gather", 22},  {"scatter", 22}};
  return counts.at(call);
}

std::string name_of(LinkMutant::Kind kind) {
  const char* const names[] = {"left out", "early", "deaf", "mute"};
  return names[static_cast<int>(kind)];
}

}  // namespace

TEST_CASE("each wait, word, copy and order of streams that is left out, weakened or early is reported") {
  int index = 0;
  for (const std::string call : test::kLinkedCalls) {
    CAPTURE(call);
    int mutants = 0;
    LinkedCalls calls(call, 2);
    REQUIRE(calls.run(kCalls, 1) == "");
    const std::vector<LinkWork> works = calls.of_third_call();
    for (const LinkWork& work : works) {
      const auto next = std::find_if(works.begin(), works.end(), [&](const LinkWork& each) {
        return each.queue == work.queue && each.index == work.index + 1;
      });
      for (const LinkMutant& mutant : mutants_of(call, work, next == works.end() ? LinkWork{} : *next)) {
        ++mutants;
        if (testing::sampled_out(index++, 8)) continue;
        std::string said;
        for (std::uint64_t seed = 1; seed <= 3 && said.empty(); ++seed) said = calls.run(kCalls, seed, mutant);
        CAPTURE(said);
        CAPTURE(work.text);
        CAPTURE(name_of(mutant.kind));
        REQUIRE(calls.mutant_was_there());
        CHECK_MESSAGE(said != "", work.queue, ", work ", work.index, ", ", work.text, ", ", name_of(mutant.kind));
      }
    }
    CHECK(mutants == mutants_of(call));
  }
}

TEST_CASE("reports say which rank, which segment, and what is missing between whom") {
  LinkedCalls calls("contiguous", 2);
  REQUIRE(calls.run(kCalls, 1) == "");
  const std::vector<LinkWork> works = calls.of_third_call();
  const auto work = [&](int rank, const char* text) {
    const auto found = std::find_if(works.begin(), works.end(), [&](const LinkWork& each) {
      return is_of(each, rank) && testing::has(each.text, text);
    });
    REQUIRE(found != works.end());
    return *found;
  };
  // "" where that is said for one of some seeds.
  const auto says = [&](const LinkWork& of, LinkMutant::Kind kind, const std::vector<std::string>& words) {
    std::string said;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      said = calls.run(kCalls, seed, LinkMutant{of.queue, of.index, kind});
      const auto in = [&](const std::string& each) { return testing::has(said, each); };
      if (std::all_of(words.begin(), words.end(), in)) return std::string();
    }
    return said;
  };
  CHECK(says(work(1, "waits for bytes"), LinkMutant::Kind::left_out,
             {"rank 1, stream ", ", launch of fmha_", " before it has arrived, which rank 0, stream ",
              "nothing orders the two: a wait for the word behind the copy is missing"}) == "");
  CHECK(says(work(1, "ends a turn"), LinkMutant::Kind::mute,
             {"rank 0, stream ", ", copy of ", " before it was let go, which rank 1, stream ",
              "a release is missing"}) == "");
  CHECK(says(work(0, "copy of a word"), LinkMutant::Kind::left_out,
             {"deadlock of ranks: no stream can go on and nothing is under way: ", "rank 1, stream ",
              "launch that waits for bytes of segment 0 of rank 0"}) == "");
}
