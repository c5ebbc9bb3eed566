// See artifact.hpp.
#include "artifact.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

#include "support/fail.hpp"

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

constexpr std::array<std::pair<const char*, unsigned LaunchShape::*>, 3> kCounts = {
    {{"threads", &LaunchShape::threads},
     {"cluster", &LaunchShape::cluster},
     {"blocks_per_sm", &LaunchShape::blocks_per_sm}}};

void write_shape(cache::Entry& entry, const LaunchShape& shape) {
  entry.metadata.emplace_back("symbol", shape.symbol);
  for (const auto& [name, member] : kCounts) entry.metadata.emplace_back(name, cat(shape.*member));
  entry.metadata.emplace_back("smem_bytes", cat(shape.smem_bytes));
}

std::optional<LaunchShape> read_shape(const cache::Entry& entry) {
  LaunchShape shape;
  const std::string* symbol = entry.find("symbol");
  const auto smem_bytes = number(entry, "smem_bytes");
  if (symbol == nullptr || !smem_bytes) return std::nullopt;
  shape.symbol = *symbol;
  shape.smem_bytes = *smem_bytes;
  for (const auto& [name, member] : kCounts) {
    const auto count = number(entry, name);
    if (!count || *count < 0 || *count > std::numeric_limits<unsigned>::max()) return std::nullopt;
    shape.*member = static_cast<unsigned>(*count);
  }
  return shape;
}

}  // namespace

cache::Entry to_entry(const Artifact& artifact) {
  cache::Entry entry;
  entry.payload = artifact.binary;
  entry.metadata = {{"name", artifact.report.name}, {"target", artifact.report.target}};
  write_shape(entry, artifact.shape);
  entry.metadata.insert(entry.metadata.end(), {{"registers", cat(artifact.report.registers)},
                                               {"schedule", artifact.report.schedule_json},
                                               {"source_sha256", artifact.source_sha256},
                                               {"compiler_version", artifact.compiler_version},
                                               {"geometry", cat(artifact.geometry.size())}});
  for (const auto& [name, value] : artifact.geometry)
    entry.metadata.emplace_back(cat(kGeometryPrefix, name), cat(value));
  return entry;
}

std::optional<Artifact> from_entry(const cache::Entry& entry) {
  const std::string *name = entry.find("name"), *target = entry.find("target"), *schedule = entry.find("schedule");
  auto shape = read_shape(entry);
  const auto registers = number(entry, "registers"), geometry = number(entry, "geometry");
  if (!name || !target || !schedule || !shape || !registers || !geometry) return std::nullopt;
  Artifact artifact;
  artifact.binary = entry.payload;
  artifact.shape = std::move(*shape);
  artifact.report.name = *name;
  artifact.report.target = *target;
  artifact.report.schedule_json = *schedule;
  artifact.report.registers = static_cast<int>(*registers);
  for (const auto& [key, value] : entry.metadata) {
    if (std::string_view(key).substr(0, kGeometryPrefix.size()) != kGeometryPrefix) continue;
    const auto parsed = number(entry, key);
    if (!parsed) return std::nullopt;
    artifact.geometry[key.substr(kGeometryPrefix.size())] = *parsed;
  }
  if (artifact.geometry.size() != static_cast<std::uint64_t>(*geometry)) return std::nullopt;
  return artifact;
}

}  // namespace tj
