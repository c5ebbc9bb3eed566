// Protects which entries of the cache may be kernels: the fields that each has, and of each number's range the last
// value that passes and the first that does not, with the whole text of the refusal.
#include "artifact.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "arch/arch.hpp"

namespace {

using tj::cache::Entry;

constexpr const char* kFromNone[] = {"across_blocks", "block_counters", "piece_bytes", "smem_bytes", "registers"};

Entry good(const std::string& target) {
  Entry entry;
  entry.payload = "kernel";
  entry.metadata = {{"name", "k"}, {"target", target}, {"symbol", "s"}, {"schedule", "{}"}};
  for (const char* name : {"threads", "cluster", "blocks_per_sm"}) entry.metadata.emplace_back(name, "32");
  for (const char* name : kFromNone) entry.metadata.emplace_back(name, "0");
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
  std::vector<std::string> numbers(std::begin(kFromNone), std::end(kFromNone));
  numbers.insert(numbers.end(), {"threads", "cluster", "blocks_per_sm"});
  for (const std::string& name : numbers)
    CHECK(tj::entry_problem(without(entry, name)).starts_with("its field '" + name + "' is missing; allowed: "));
  Entry empty = entry;
  empty.payload.clear();
  CHECK(tj::entry_problem(empty) == "it has no kernel in it");
  CHECK(tj::entry_problem(good("model:sm_90a")).starts_with("its kernel is not whole: "));
}

TEST_CASE("each number of an entry is one that a kernel can have") {
  struct Row {
    const char *target, *name;
    std::int64_t least, most, step = 1;
  };
  const std::int64_t shared = tj::arch::find("sm_90a")->smem_per_block_bytes;
  for (const Row& row :
       {Row{"sm_90a", "threads", 32, 1024, 32}, Row{"sm_90a", "cluster", 1, 64}, Row{"sm_90a", "blocks_per_sm", 1, 64},
        Row{"sm_90a", "across_blocks", 0, 1}, Row{"sm_90a", "block_counters", 0, 32},
        Row{"sm_90a", "piece_bytes", 0, 16777216}, Row{"sm_90a", "registers", 0, 4096},
        Row{"sm_90a", "smem_bytes", 0, shared}, Row{"of a later version", "smem_bytes", 0, 1048576}}) {
    const std::string name = row.name,
                      multiples = row.step > 1 ? "multiples of " + std::to_string(row.step) + ", " : "",
                      allowed =
                          "; allowed: " + multiples + std::to_string(row.least) + " to " + std::to_string(row.most);
    CAPTURE(name);
    const Entry entry = good(row.target);
    for (const std::int64_t value : {row.least, row.least + row.step, row.most})
      CHECK(tj::entry_problem(with(entry, name, std::to_string(value))) == "");
    for (const std::string& value : {std::to_string(row.least - 1), std::to_string(row.most + 1), std::string("48x"),
                                     std::string(), std::string("99999999999999999999")})
      CHECK(tj::entry_problem(with(entry, name, value)) == "its field '" + name + "' is '" + value + "'" + allowed);
  }
}

TEST_CASE("threads are whole warps") {
  CHECK(tj::entry_problem(with(good("sm_90a"), "threads", "100")) ==
        "its field 'threads' is '100'; allowed: multiples of 32, 32 to 1024");
}

TEST_CASE("an entry is the kernel that it was looked up for") {
  const Entry entry = good("sm_90a");
  CHECK(tj::other_kernel(entry, "k", "sm_90a") == "");
  CHECK(tj::other_kernel(entry, "l", "sm_90a") == "its field 'name' is 'k'; allowed: 'l', as its file's name says");
  CHECK(tj::other_kernel(entry, "k", "sm_80") ==
        "its field 'target' is 'sm_90a'; allowed: 'sm_80', as its file's name says");
  CHECK(tj::other_kernel(without(entry, "name"), "k", "sm_90a") ==
        "its field 'name' is missing; allowed: 'k', as its file's name says");
}
