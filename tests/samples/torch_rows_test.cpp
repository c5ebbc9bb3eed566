// Protects the rows of PyTorch's attention: each line of the child's goes to its row, and a row without one says why. A
// Python that is not there, or that fails, is no failure of the caller's.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/torch_rows.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

using namespace tj;
using testing::has;

namespace {

samples::TorchCall call_of(const std::string& python, const std::string& script) {
  samples::TorchCall call;
  call.python = python, call.script = script;
  call.rows = {"sdpa", "cudnn"};
  call.seq_lens = {64, 128};
  return call;
}

}  // namespace

TEST_CASE("lines are read by row and length; words of others, and lines of other types, are left alone") {
  const auto rows = samples::read_torch_rows(
      call_of("", ""),
      "a warning\n{\"row\": \"sdpa\", \"seq_len\": 128, \"latency_ms\": 2.5, \"graph_ms\": 2.0, \"error\": 1e-4, "
      "\"rows_compared\": 7, \"by\": \"PyTorch 9\"}\n{\"row\": \"cudnn\", \"seq_len\": 64, \"missing\": \"no such "
      "backend\"}\n{\"row\": 5, \"seq_len\": 64}\n{\"row\": \"sdpa\", \"seq_len\": 64}\n[1]\n",
      "");
  REQUIRE(rows.size() == 4);
  CHECK((rows[0].row == "sdpa" && rows[0].seq_len == 64 && rows[1].row == "cudnn" && rows[2].seq_len == 128));
  CHECK(rows[0].missing == "the child wrote no time");
  CHECK(rows[1].missing == "no such backend");
  CHECK(rows[2].missing.empty());
  CHECK(rows[2].latency_ms == 2.5);
  CHECK(rows[2].graph_ms == 2.0);
  CHECK(rows[2].rows_compared == 7);
  CHECK(rows[2].by == "PyTorch 9");
  CHECK(rows[3].missing == "the child left the row out");
}

TEST_CASE("an error that is no number is NaN, which is wrong, and the row keeps its times") {
  const auto rows = samples::read_torch_rows(
      call_of("", ""),
      "{\"row\": \"sdpa\", \"seq_len\": 64, \"latency_ms\": 2.5, \"error\": null, \"rows_compared\": 7}\n", "");
  CHECK(rows[0].missing.empty());
  CHECK(rows[0].latency_ms == 2.5);
  CHECK(rows[0].rows_compared == 7);
  CHECK(std::isnan(rows[0].error));
}

TEST_CASE("without torch each row says so; a child that ends badly is said with how") {
  for (const auto& row : samples::read_torch_rows(call_of("", ""), "{\"all_missing\": \"no torch: none\"}\n", ""))
    CHECK(row.missing == "no torch: none");
  for (const auto& row : samples::read_torch_rows(call_of("", ""), "", "Python ended with 1"))
    CHECK(row.missing == "Python ended with 1");
}

TEST_CASE("programs are called by their paths, whatever letters these have, and one that is not there is named") {
  const testing::Scratch scratch;
  const std::string script = scratch / "it's a \"script\" $HOME.sh";
  testing::write_bytes(script, "echo '{\"row\": \"sdpa\", \"seq_len\": 64, \"latency_ms\": '$#'}'\n");
  const auto rows = samples::time_torch(call_of("sh", script));
  CHECK(rows[0].latency_ms == 22);  // words behind the script
  CHECK(rows[1].missing == "the child left the row out");
  for (const auto& row : samples::time_torch(call_of(scratch / "absent", script)))
    CHECK_MESSAGE(has(row.missing, "cannot be run; give --python"), row.missing);
  testing::write_bytes(script, "exit 3\n");
  CHECK(samples::time_torch(call_of("sh", script))[0].missing == "Python ended with 3");
}
