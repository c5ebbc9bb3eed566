// Protects tj-check --graph: a user's kernel is run by its trials, with mutants, in each candidate; results that differ
// from what is expected are findings, and mistakes are named.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "tools/check.hpp"
#include "tools/options.hpp"
#include "tools/tried_product.hpp"

namespace {

using tj::test::TriedProduct;
using tj::testing::has;

struct GraphCheck {
  int code = 0;
  std::string out, err;
};

GraphCheck run_check(const TriedProduct& product, const std::string& more) {
  std::istringstream split("--graph " + product.path() + " --seeds 2 " + more);
  std::vector<std::string> words;
  for (std::string word; split >> word;) words.push_back(word);
  std::ostringstream out, err;
  GraphCheck done;
  done.code = tj::tools::check(words, out, err, false);
  done.out = out.str();
  done.err = err.str();
  return done;
}

}  // namespace

TEST_CASE("a graph's kernel is checked by its trials in each candidate, and compared with what they expect") {
  const TriedProduct product;
  const GraphCheck done = run_check(product, "");
  CHECK_MESSAGE(done.code == tj::tools::kExitOk, done.out, done.err);
  CHECK_MESSAGE(has(done.out, "clean: product_two on model:sm_80, trial deep"), done.out);
  CHECK_MESSAGE(has(done.out, "clean: product_three on model:sm_80, trial deep"), done.out);
  const TriedProduct wrong("1 + sum(l, k, a[i0, l] * b[i1, l])");
  const GraphCheck found = run_check(wrong, "--candidate two");
  CHECK(found.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(has(found.out, " is expected, within "), found.out);
  CHECK_MESSAGE(has(found.out, "of 4096 elements are wrong"), found.out);
  CHECK_MESSAGE(
      has(found.out, "tj-check --graph " + wrong.path() + " --target model:sm_80 --trial deep --candidate two"),
      found.out);
  const GraphCheck unclean = run_check(wrong, "--candidate two --mutate");
  CHECK(unclean.code == tj::tools::kExitFailures);
  CHECK_MESSAGE(has(unclean.err, "is not clean itself"), unclean.err);
}

TEST_CASE("each barrier less of a graph's kernel is found") {
  const GraphCheck done = run_check(TriedProduct(), "--mutate --candidate two");
  CHECK_MESSAGE(done.code == tj::tools::kExitOk, done.out, done.err);
  CHECK_MESSAGE(has(done.out, "product_two model:sm_80"), done.out);
  CHECK_MESSAGE(has(done.out, "100.0%"), done.out);
}

TEST_CASE("each barrier less of a kernel with ranges of iterations is found, whatever loops they make") {
  for (const char* ranges : {"peeled", "guarded"}) {
    const TriedProduct product;
    product.give_ranges(ranges);
    const GraphCheck done = run_check(product, "--mutate --candidate two");
    CHECK_MESSAGE(done.code == tj::tools::kExitOk, done.out, done.err);
    CHECK_MESSAGE(has(done.out, "100.0%"), done.out);
  }
}

TEST_CASE("mistakes around a graph are named") {
  const TriedProduct product;
  const auto refused = [&](const std::string& more, const std::string& words) {
    const GraphCheck done = run_check(product, more);
    CHECK(done.code == tj::tools::kExitBadUse);
    CHECK_MESSAGE(has(done.err, words), done.err);
  };
  refused("--trial none", "--trial is 'none'; allowed are deep");
  refused("--candidate one", "--candidate is 'one'; allowed are two, three");
  refused("--op gemm", "give one of --op, --graph, --all and a program behind --");
  refused("--dtype f16", "--dtype");
  refused("--target sm_90a", "is for the machine 'sm_80', the target is 'sm_90a'");
  std::ostringstream out, err;
  const std::string plain = TJ_REPO_DIR "/tests/graph/data/fa_hopper.json";
  CHECK(tj::tools::check({"--graph", plain}, out, err, false) == tj::tools::kExitBadUse);
  CHECK_MESSAGE(has(err.str(), "--graph " + plain + ": "), err.str());
}
