// Protects which entries of the cache may be kernels: the fields that each has, and of each number's range the last
// value that passes and the first that does not, with the whole text of the refusal.
#include "artifact.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arch/arch.hpp"

namespace {

using tj::cache::Entry;

Entry good(const std::string& target) {
  Entry entry;
  entry.payload = "kernel";
  entry.metadata = {{"name", "k"},       {"target", target},     {"symbol", "s"},
                    {"schedule", "{}"},  {"threads", "128"},     {"cluster", "1"},
                    {"smem_bytes", "0"}, {"blocks_per_sm", "1"}, {"registers", "100"}};
  return entry;
}

Entry with(Entry entry, const std::string& name, const std::string& value) {
  std::erase_if(entry.metadata, [&](const auto& field) { return field.first == name; });
  entry.metadata.emplace_back(name, value);
  return entry;
}

Entry without(Entry entry, const std::string& name) {
  std::erase_if(entry.metadata, [&](const auto& field) { return field.first == name; });
  return entry;
}

}  // namespace

TEST_CASE("an entry has each of its fields, and a kernel") {
  const Entry entry = good("sm_90a");
  CHECK(tj::entry_problem(entry) == "");
  for (const std::string name : {"name", "target", "symbol", "schedule"})
    CHECK(tj::entry_problem(without(entry, name)) == "it has no field '" + name + "', which every kernel has");
  for (const std::string name : {"threads", "cluster", "blocks_per_sm", "smem_bytes", "registers"})
    CHECK(tj::entry_problem(without(entry, name)).starts_with("its field '" + name + "' is missing; allowed: "));
  Entry empty = entry;
  empty.payload.clear();
  CHECK(tj::entry_problem(empty) == "it has no kernel in it");
  CHECK(tj::entry_problem(good("model:sm_90a")).starts_with("its kernel is not whole: "));
}

TEST_CASE("each number of an entry is one that a kernel can have") {
  struct Row {
    const char *target, *name;
    std::int64_t least, most;
  };
  const std::int64_t shared = tj::arch::find("sm_90a")->smem_per_block_bytes;
  for (const Row& row : {Row{"sm_90a", "threads", 1, 1024}, Row{"sm_90a", "cluster", 1, 64},
                         Row{"sm_90a", "blocks_per_sm", 1, 64}, Row{"sm_90a", "registers", 0, 4096},
                         Row{"sm_90a", "smem_bytes", 0, shared}, Row{"of a later version", "smem_bytes", 0, 1048576}}) {
    const std::string name = row.name,
                      allowed = "; allowed: " + std::to_string(row.least) + " to " + std::to_string(row.most);
    CAPTURE(name);
    const Entry entry = good(row.target);
    for (const std::int64_t value : {row.least, row.most})
      CHECK(tj::entry_problem(with(entry, name, std::to_string(value))) == "");
    for (const std::string& value : {std::to_string(row.least - 1), std::to_string(row.most + 1), std::string("4x"),
                                     std::string(), std::string("99999999999999999999")})
      CHECK(tj::entry_problem(with(entry, name, value)) == "its field '" + name + "' is '" + value + "'" + allowed);
  }
}
