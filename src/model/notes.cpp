// See notes.hpp.
#include "model/notes.hpp"

#include <algorithm>

#include "support/fail.hpp"
#include "support/json.hpp"

namespace tj::model {
namespace {

using json = support::SortedJson;

constexpr std::uint32_t kBarrierBytes = 8;

std::vector<std::string> names(const json& from, const char* key) {
  return from.value(key, std::vector<std::string>{});
}

Notes::Ring ring_of(const json& from) {
  Notes::Ring ring;
  ring.value = from.value("value", "");
  ring.slots = from.value("slots", 1u);
  ring.slot_bytes = from.value("slot_bytes", 0u);
  ring.data = from.value("data", 0u);
  ring.barriers = from.contains("full");
  ring.full = from.value("full", 0u);
  ring.empty = from.value("empty", 0u);
  ring.column = from.value("column", 0u);
  ring.slot_columns = from.value("slot_columns", 0u);
  ring.member_columns = from.value("member_columns", 0u);
  ring.members = from.value("members", 1u);
  ring.filled_once = from.value("filled_once", false);
  ring.full_of_pair = from.value("of_pair", "") == "full";
  ring.empty_of_pair = from.value("of_pair", "") == "empty";
  ring.of_first = from.value("of_first", false);
  ring.producers = names(from, "producers");
  ring.consumers = names(from, "consumers");
  return ring;
}

Notes read(const json& from) {
  Notes notes;
  notes.name = from.value("name", "");
  notes.entry_registers = from.value("entry_registers", 0);
  for (const json& site : from.value("sites", json::array())) {
    const std::string text = site.value("text", "");
    notes.sites[site.at("id")] = {site.value("kind", ""), text,
                                  site.value("node", ""), site.value("role", std::vector<int>{}),
                                  site.value("ring", -1), text.find("release ring") != std::string::npos};
  }
  for (const json& role : from.value("roles", json::array()))
    notes.roles.push_back(
        {role.value("name", ""), role.value("first_warp", 0u), role.value("warps", 0u), role.value("registers", 0)});
  for (const json& ring : from.value("rings", json::array())) notes.rings.push_back(ring_of(ring));
  for (const json& call : from.value("calls", json::array()))
    notes.calls[call.at("id")] = {names(call, "nodes"), call.value("role", std::vector<int>{}),
                                  call.value("reads", std::vector<int>{}), call.value("writes", std::vector<int>{})};
  for (const json& wait : from.value("waits", json::array()))
    notes.waits.push_back({wait.value("src", ""), wait.value("dst", ""), wait.value("distance", 0)});
  return notes;
}

// Barriers of member m's ring lie behind those of the one before: see barriers_of() in pipeline.cuh.
std::optional<Notes::Place> barrier_of(const Notes::Ring& ring, std::uint32_t offset) {
  const std::uint32_t stride = ring.slots * 2 * kBarrierBytes;
  for (std::uint32_t member = 0; member < ring.members; ++member)
    for (const bool full : {true, false}) {
      const std::uint32_t first = (full ? ring.full : ring.empty) + member * stride;
      if (offset >= first && offset < first + ring.slots * kBarrierBytes)
        return Notes::Place{&ring, (offset - first) / kBarrierBytes, member, full};
    }
  return std::nullopt;
}

/// The slot of the ring that has the byte.
std::optional<Notes::Place> place_in(const Notes::Ring& ring, std::uint32_t offset) {
  if (ring.slot_bytes == 0 || offset < ring.data || offset >= ring.data + ring.members * ring.slots * ring.slot_bytes)
    return std::nullopt;
  const std::uint32_t slot = (offset - ring.data) / ring.slot_bytes;
  return Notes::Place{&ring, slot % ring.slots, slot / ring.slots};
}

}  // namespace

Notes Notes::parse(const char* text) {
  if (text == nullptr || *text == '\0') return {};
  try {
    return read(json::parse(text));
  } catch (const json::exception& e) {
    support::fail(Stage::load, Code::internal, support::cat("the unit's notes cannot be read: ", e.what()));
  }
}

const Notes::Role* Notes::role_of(unsigned warp) const {
  for (const Role& role : roles)
    if (warp >= role.first_warp && warp < role.first_warp + role.warps) return &role;
  return nullptr;
}

std::string Notes::node(int call, unsigned warp) const {
  const auto found = calls.find(call);
  if (found == calls.end() || found->second.nodes.empty()) return {};
  const Role* role = role_of(warp);
  for (std::size_t i = 0; i < found->second.nodes.size() && i < found->second.roles.size(); ++i)
    if (role != nullptr && role == &roles[static_cast<std::size_t>(found->second.roles[i])])
      return found->second.nodes[i];
  return found->second.nodes.front();
}

std::string Notes::site(int id) const {
  const auto found = sites.find(id);
  return found == sites.end() ? std::string() : found->second.text;
}

bool Notes::reads(int call, const Ring& ring) const {
  const auto found = calls.find(call);
  return found != calls.end() && std::any_of(found->second.reads.begin(), found->second.reads.end(), [&](int read) {
           return &rings.at(static_cast<std::size_t>(read)) == &ring;
         });
}

std::vector<int> Notes::givers(const Place& barrier) const {
  const std::vector<std::string>& of = barrier.full ? barrier.ring->producers : barrier.ring->consumers;
  const auto gives = [&](int role) {
    return std::find(of.begin(), of.end(), roles.at(static_cast<std::size_t>(role)).name) != of.end();
  };
  std::vector<int> ids;
  for (const auto& [id, site] : sites) {
    const bool arrives =
        (site.kind == "arrive" && site.hands_back != barrier.full) || (site.kind == "expect" && barrier.full);
    const bool here = site.ring >= 0 && static_cast<std::size_t>(site.ring) < rings.size() &&
                      &rings[static_cast<std::size_t>(site.ring)] == barrier.ring;
    if (arrives && here && std::any_of(site.roles.begin(), site.roles.end(), gives)) ids.push_back(id);
  }
  return ids;
}

std::optional<Notes::Place> Notes::slot_at(std::uint32_t offset, int call) const {
  const auto uses = [&](int ring) {
    const auto found = calls.find(call);
    if (found == calls.end()) return false;
    const auto among = [ring](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), ring) != list.end();
    };
    return among(found->second.writes) || among(found->second.reads);
  };
  std::optional<Place> place;
  int first = -1;
  for (int r = 0; r < static_cast<int>(rings.size()); ++r) {
    const auto here = place_in(rings[static_cast<std::size_t>(r)], offset);
    if (!here || (place && (uses(first) || !uses(r)))) continue;
    place = here;
    first = r;
  }
  return place;
}

std::vector<Notes::Place> Notes::others_at(std::uint32_t offset, const Ring& own) const {
  std::vector<Place> found;
  for (const Ring& ring : rings)
    if (const auto here = &ring == &own ? std::nullopt : place_in(ring, offset)) found.push_back(*here);
  return found;
}

std::optional<Notes::Place> Notes::columns_at(int call, bool fills, std::uint32_t column) const {
  const auto found = calls.find(call);
  if (found == calls.end()) return std::nullopt;
  for (const int index : fills ? found->second.writes : found->second.reads) {
    const Ring& ring = rings.at(static_cast<std::size_t>(index));
    for (std::uint32_t member = 0; ring.slot_columns > 0 && member < ring.members; ++member) {
      const std::uint32_t begin = ring.column + member * ring.member_columns;
      if (column >= begin && column < begin + ring.slots * ring.slot_columns)
        return Place{&ring, (column - begin) / ring.slot_columns, member};
    }
  }
  return std::nullopt;
}

std::optional<Notes::Place> Notes::barrier_at(std::uint32_t offset) const {
  for (const Ring& ring : rings)
    if (ring.barriers)
      if (const auto place = barrier_of(ring, offset)) return place;
  return std::nullopt;
}

}  // namespace tj::model
