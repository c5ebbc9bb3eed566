// tj-bench on a machine of fakes: what its tests share.
#pragma once

#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/runtime_fixture.hpp"
#include "tools/bench.hpp"
#include "tools/options.hpp"

namespace tj::test {

struct BenchRun {
  int code = 0;
  std::string out, err;
  nlohmann::json json;  ///< null when none was written
};

/// A driver whose launches take as many microseconds as they have blocks.
struct BenchMachine : Machine {
  BenchMachine() {
    cuda.set_param_bytes(0);  // kernels of several kinds
    cuda.set_block_ms(0.001);
  }
  BenchRun run(std::vector<std::string> words, std::function<std::uint64_t()> allocations = {}) {
    const std::string file = scratch / "bench.json";
    std::filesystem::remove(file);
    words.insert(words.end(), {"--cache-dir", cache_dir(), "--json", file});
    std::ostringstream out, err;
    BenchRun result;
    result.code = tools::bench(words, out, err, std::move(allocations));
    result.out = out.str();
    result.err = err.str();
    if (std::filesystem::exists(file)) result.json = nlohmann::json::parse(std::ifstream(file));
    return result;
  }
  void refused(const std::vector<std::string>& words, const std::string& part) {
    const BenchRun result = run(words);
    CHECK_MESSAGE(result.code == tools::kExitBadUse, result.err);
    CHECK_MESSAGE(has(result.err, part), part, " is not in: ", result.err);
    CHECK(result.out.empty());
    CHECK(result.json.is_null());
  }
};

}  // namespace tj::test
