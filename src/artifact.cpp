// See artifact.hpp.
#include "artifact.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

#include "arch/arch.hpp"
#include "graph/graph.hpp"
#include "support/elf.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj {
namespace {

using support::cat;
using support::LaunchShape;

constexpr std::string_view kGeometryPrefix = "geometry.";

std::optional<std::int64_t> number(const cache::Entry& entry, std::string_view name) {
  const std::string* text = entry.find(name);
  std::int64_t value = 0;
  if (text == nullptr) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

constexpr std::array<std::pair<const char*, unsigned LaunchShape::*>, 5> kCounts = {
    {{"threads", &LaunchShape::threads},
     {"cluster", &LaunchShape::cluster},
     {"blocks_per_sm", &LaunchShape::blocks_per_sm},
     {"across_blocks", &LaunchShape::across_blocks},
     {"block_counters", &LaunchShape::block_counters}}};
constexpr std::array<std::pair<const char*, std::int64_t LaunchShape::*>, 2> kSizes = {
    {{"smem_bytes", &LaunchShape::smem_bytes}, {"piece_bytes", &LaunchShape::piece_bytes}}};

std::optional<LaunchShape> read_shape(const cache::Entry& entry) {
  LaunchShape shape;
  const std::string* symbol = entry.find("symbol");
  if (symbol == nullptr) return std::nullopt;
  shape.symbol = *symbol;
  for (const auto& [name, member] : kSizes) {
    const auto bytes = number(entry, name);
    if (!bytes || *bytes < 0) return std::nullopt;
    shape.*member = *bytes;
  }
  for (const auto& [name, member] : kCounts) {
    const auto count = number(entry, name);
    if (!count || *count < 0 || *count > std::numeric_limits<unsigned>::max()) return std::nullopt;
    shape.*member = static_cast<unsigned>(*count);
  }
  return shape;
}

/// Far beyond every device's, except for the threads of a block, where 1024 is what CUDA and HIP allow. They only tell
/// a number that a kernel can have from one that it cannot.
constexpr std::int64_t kMaxThreads = 1024, kMaxCluster = 64, kMaxBlocksPerSm = 64, kMaxRegisters = 4096,
                       kMaxSmemBytes = std::int64_t{1} << 20;
constexpr std::int64_t kWarp = 32;  // the smallest: a wave of AMD's has as many, or twice that

struct Range {
  const char* name;
  std::int64_t low, high, step = 1;
};
constexpr std::array<Range, 8> kRanges = {{{"threads", kWarp, kMaxThreads, kWarp},
                                           {"cluster", 1, kMaxCluster},
                                           {"blocks_per_sm", 1, kMaxBlocksPerSm},
                                           {"across_blocks", 0, 1},
                                           {"block_counters", 0, kMaxThreads / kWarp},
                                           {"piece_bytes", 0, graph::kMaxPieceBytes},
                                           {"smem_bytes", 0, kMaxSmemBytes},
                                           {"registers", 0, kMaxRegisters}}};

/// The arch that an entry's kernel is for; null for one that this library does not know.
const arch::Arch* arch_of(const std::string& target) {
  try {
    return arch::parse_target(target).arch;
  } catch (const Error&) {
    return nullptr;
  }
}

std::optional<ops::Geometry> read_geometry(const cache::Entry& entry, ops::GeometryFields fields,
                                           std::string& problem) {
  ops::Geometry geometry;
  for (const ops::GeometryField& field : fields) {
    const std::string name = cat(kGeometryPrefix, field.name);
    const auto value = number(entry, name);
    if (!value || !field.takes(*value)) {
      const std::string* text = entry.find(name);
      problem = cat("its ", name, " is ", text == nullptr ? "missing" : cat("'", support::shown(*text), "'"),
                    "; allowed: ", field.least, " to ", field.most);
      return std::nullopt;
    }
    field.set(geometry, *value);
  }
  for (const auto& [name, value] : entry.metadata) {
    const auto is_name = [&, n = std::string_view(name)](const ops::GeometryField& field) {
      return n.substr(kGeometryPrefix.size()) == field.name;
    };
    if (!name.starts_with(kGeometryPrefix) || std::any_of(fields.begin(), fields.end(), is_name)) continue;
    problem = cat("its ", support::shown(name), " is '", support::shown(value), "', which such a kernel has not");
    return std::nullopt;
  }
  return geometry;
}

}  // namespace

cache::Fields shape_fields(const LaunchShape& shape) {
  cache::Fields fields = {{"symbol", shape.symbol}};
  for (const auto& [name, member] : kCounts) fields.emplace_back(name, cat(shape.*member));
  for (const auto& [name, member] : kSizes) fields.emplace_back(name, cat(shape.*member));
  return fields;
}

cache::Entry to_entry(const Artifact& artifact, const ops::Maker& maker) {
  cache::Entry entry;
  entry.payload = artifact.binary;
  entry.metadata = {{"name", artifact.report.name}, {"target", artifact.report.target}};
  for (auto& field : shape_fields(artifact.shape)) entry.metadata.push_back(std::move(field));
  entry.metadata.insert(entry.metadata.end(), {{"registers", cat(artifact.report.registers)},
                                               {"schedule", artifact.report.schedule_json},
                                               {"source_sha256", artifact.source_sha256},
                                               {"compiler_version", artifact.compiler_version}});
  for (const ops::GeometryField& field : maker.geometry_fields())
    entry.metadata.emplace_back(cat(kGeometryPrefix, field.name), cat(field.get(artifact.geometry)));
  return entry;
}

std::string entry_problem(const cache::Entry& entry) {
  for (const char* field : {"name", "target", "symbol", "schedule"})
    if (entry.find(field) == nullptr) return cat("it has no field '", field, "', which every kernel has");
  const std::string& target = *entry.find("target");
  const arch::Arch* arch = arch_of(target);
  for (const Range& range : kRanges) {
    const std::string* text = entry.find(range.name);
    const auto value = number(entry, range.name);
    const bool own = arch != nullptr && std::string_view(range.name) == "smem_bytes";
    const std::int64_t high = own ? arch->smem_per_block_bytes : range.high;
    if (!value || *value < range.low || *value > high || *value % range.step != 0)
      return cat("its field '", range.name, "' is ", text == nullptr ? "missing" : cat("'", support::shown(*text), "'"),
                 "; allowed: ", range.step > 1 ? cat("multiples of ", range.step, ", ") : std::string(), range.low,
                 " to ", high);
  }
  if (entry.payload.empty()) return "it has no kernel in it";
  const std::string elf = target.starts_with("model:") ? support::elf_problem(entry.payload) : std::string();
  return elf.empty() ? elf : cat("its kernel is not whole: ", elf);
}

std::string other_kernel(const cache::Entry& entry, std::string_view name, std::string_view target) {
  for (const auto& [field, wanted] : {std::pair("name", name), std::pair("target", target)}) {
    const std::string* text = entry.find(field);
    if (text == nullptr || *text != wanted)
      return cat("its field '", field, "' is ", text == nullptr ? "missing" : cat("'", support::shown(*text), "'"),
                 "; allowed: '", wanted, "', as its file's name says");
  }
  return {};
}

std::optional<Artifact> from_entry(const cache::Entry& entry, ops::GeometryFields fields, std::string* problem) {
  std::string why;
  const std::string *name = entry.find("name"), *target = entry.find("target"), *schedule = entry.find("schedule");
  auto shape = read_shape(entry);
  const auto registers = number(entry, "registers");
  if (!name || !target || !schedule || !shape || !registers)
    why = "its name, target, schedule, shape or registers are missing, or no such thing";
  const auto geometry = why.empty() ? read_geometry(entry, fields, why) : std::nullopt;
  if (!geometry) {
    if (problem != nullptr) *problem = std::move(why);
    return std::nullopt;
  }
  Artifact artifact;
  artifact.binary = entry.payload;
  artifact.shape = std::move(*shape);
  artifact.geometry = *geometry;
  artifact.report.name = *name;
  artifact.report.target = *target;
  artifact.report.schedule_json = *schedule;
  artifact.report.registers = static_cast<int>(*registers);
  return artifact;
}

}  // namespace tj
