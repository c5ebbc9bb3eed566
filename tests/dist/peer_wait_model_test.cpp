// Protects the words of a wait for other ranks, on the CPU model: what a rank learns first is what it goes on saying.
#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "ops/peer_wait/peer_wait.hpp"
#include "ops/step_launcher.hpp"

using namespace tj;
using namespace tj::ops::peer_wait;

namespace {

/// The words of rank 1, of two ranks.
struct Words {
  std::array<unsigned, kMostRanks> epochs{}, come{}, calls{};
  std::array<Missed, kMostRanks + 1> missed{};
  unsigned broken = 0, broken_of_0 = 0;
  test::StepLauncher launcher{"sm_90a"};

  /// A wait for rank 0, in the slot's next turn.
  std::string next_turn() {
    ops::PeerWaitArgs args{};
    args.device = {DeviceKind::cpu, 0};
    Params& p = args.params;
    p.epochs = epochs.data();
    p.raise = 1;
    p.mask = 1;
    p.words = come.data();
    p.call = 7;
    p.calls = calls.data();
    p.own = 1;
    p.broken = &broken;
    p.broken_of[0] = &broken_of_0;
    p.missed = missed.data();
    p.limit_ns = 1'000'000'000;
    const ops::Op& op = ops::peer_wait_op();
    return launcher.launch({&op, &args, ops::resolve(op, &args, std::nullopt, *arch::find("sm_90a"))}, 1, 1);
  }
};

}  // namespace

TEST_CASE("a rank that was told of a broken group says the epoch at which it learnt of it, in later turns, too") {
  Words words;
  words.epochs.fill(40);
  words.broken = 1 | 0 << kRankBits | 1 << 2 * kRankBits;
  for (int turn = 0; turn < 3; ++turn) {
    CHECK(words.next_turn() == "");
    CHECK(words.missed[kMostRanks].segment == words.broken);
    CHECK(words.missed[kMostRanks].epoch == 41);
    CHECK(words.broken_of_0 == words.broken);
  }
}

TEST_CASE("a rank that came with another call is named with the first epoch of it") {
  Words words;
  words.epochs.fill(40);
  words.come.fill(60);
  words.calls.fill(8);
  for (int turn = 0; turn < 3; ++turn) {
    CHECK(words.next_turn() == "");
    CHECK(words.missed[0].segment == kOtherCall);
    CHECK(words.missed[0].epoch == 41);
    CHECK(words.missed[kMostRanks].segment == 0);
  }
}
