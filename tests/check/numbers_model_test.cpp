// Protects the promise that a node body which uses a product's sums before their wait is reported, even if every order
// of events gives the same results. The sums that it reads are no numbers, and such results are a finding.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "check/full_set.hpp"
#include "check/kernels.hpp"
#include "check/seeds.hpp"
#include "support/environment.hpp"
#include "tests/support/scratch.hpp"

using namespace tj;

namespace {

/// `text` with `added` in front of the first `mark`.
std::string before(std::string text, const std::string& mark, const std::string& added) {
  const std::size_t at = text.find(mark);
  REQUIRE(at != std::string::npos);
  return text.insert(at, added);
}

}  // namespace

TEST_CASE(
    "sums that are read before their wait make results that are no numbers, and those are a finding; what is added to "
    "them is another") {
  const testing::Scratch scratch;
  Options options;
  options.cache_dir = scratch.path();
  check::Kernels kernels(support::resolve_settings(options), arch::parse_target("model:sm_90a"),
                         support::Log(LogLevel::off, {}));
  const ops::Op& op = *ops::find("gemm");
  std::vector<ops::Trial> trials =
      op.trials(ops::flags_of_text("--tile 64x32x128 --m 64 --n 32 --k 256"), *kernels.target().arch);
  const check::Subject subject = check::make_subject(op, std::move(trials.front()), kernels);
  check::Seeds seeds;
  seeds.count = 2;
  seeds.threads = 1;
  CHECK(check::try_seeds(subject, seeds, {}).empty());
  std::string text = kernels.text_of(subject.own());
  text = before(before(before(std::move(text), "begin(consumer0, tile);", "float early = 0.0f;\n"),
                       "dev::matrix_commit<", "early += 0.0f * consumer0.sums[0][1];\n"),
                "store(consumer0, tile);", "consumer0.sums[0][0] += early;\n");
  const std::vector<check::Change> changed = {{&subject.own(), {}, {}, kernels.compile(subject.own(), text)}};
  const std::vector<check::Finding> findings = check::try_seeds(subject, seeds, changed);
  REQUIRE(findings.size() == 1);
  CHECK(findings.front().seeds == 2);
  CHECK(findings.front().fault.message.find("element [0, 0] of d is NaN") == 0);

  // A number added to sums under way shows at their wait, and the report says which product they are of.
  const std::string added =
      before(kernels.text_of(subject.own()), "dev::matrix_commit<", "consumer0.sums[0][0] += 1000.0f;\n");
  const std::vector<check::Finding> of_sums =
      check::try_seeds(subject, seeds, {{&subject.own(), {}, {}, kernels.compile(subject.own(), added)}});
  REQUIRE(!of_sums.empty());
  const std::string& message = of_sums.front().fault.message;
  CHECK_MESSAGE(message.find(", role compute0, in or after node mma.0, ") != std::string::npos, message);
  CHECK_MESSAGE(message.find("accumulators of a matrix instruction changed between its issue and its wait; it was "
                             "issued in node mma.0, iteration ") != std::string::npos,
                message);
}
