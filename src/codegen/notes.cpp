// See notes.hpp.
#include "codegen/notes.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "codegen/walk_text.hpp"
#include "support/fail.hpp"

namespace tj::codegen {
namespace {

using support::cat;

/// A JSON string. No '~' is left in it: the literals of the unit's text end at one.
std::string quoted(const std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || c == '~')
      result += cat("\\u00", std::string(1, kDigits[byte >> 4]), std::string(1, kDigits[byte & 15]));
    else
      result += (c == '"' || c == '\\') ? std::string{'\\', c} : std::string(1, c);
  }
  return result + "\"";
}

template <class Item, class Text>
std::string list(const std::vector<Item>& items, Text&& text) {
  std::string result = "[";
  for (const Item& item : items) result += cat(result.size() == 1 ? "" : ", ", text(item));
  return result + "]";
}
std::string numbers(const std::vector<int>& items) {
  return list(items, [](int item) { return cat(item); });
}

class Notes {
 public:
  Notes(const graph::Graph& graph, const sched::Schedule& schedule, const Layout& layout, const Sites& sites)
      : graph_(graph), schedule_(schedule), layout_(layout), sites_(sites) {}

  std::vector<std::string> lines() {
    lines_.push_back(cat("{\"name\": ", quoted(graph_.name), ", \"entry_registers\": ", layout_.entry_registers, ","));
    entries("roles", schedule_.roles.size(), [&](std::size_t r) { return role(r); });
    const std::size_t rings = schedule_.rings.size();
    const bool sliced = graph_.walk == graph::Walk::sliced;
    entries("rings", rings + (graph_.draws() || sliced ? 1 : 0), [&](std::size_t r) {
      return r < rings ? ring(r) : sliced ? slices() : places();
    });
    entries("sites", sites_.list().size(), [&](std::size_t s) { return site(sites_.list()[s]); });
    entries("calls", sites_.calls().size(), [&](std::size_t c) { return call(sites_.calls()[c]); });
    std::vector<const graph::Edge*>
        waits;  // registers have what the matrix unit writes only once the edge has been waited for
    for (const graph::Edge& edge : graph_.edges)
      if (edge.blocking && node(edge.src).async == graph::Async::matrix) waits.push_back(&edge);
    entries("waits", waits.size(), [&](std::size_t w) {
      return cat("{\"src\": ", quoted(node(waits[w]->src).name), ", \"dst\": ", quoted(node(waits[w]->dst).name),
                 ", \"distance\": ", waits[w]->distance, "}");
    });
    lines_.back().back() = '}';  // in place of the comma
    return lines_;
  }

 private:
  const graph::Node& node(int index) const { return graph_.nodes[static_cast<std::size_t>(index)]; }

  template <class Entry>
  void entries(const char* name, std::size_t count, Entry&& entry) {
    if (count == 0) return lines_.push_back(cat("\"", name, "\": [],"));
    lines_.push_back(cat("\"", name, "\": ["));
    for (std::size_t i = 0; i < count; ++i) lines_.push_back(cat("  ", entry(i), i + 1 < count ? "," : ""));
    lines_.push_back("],");
  }

  std::string role(std::size_t r) const {
    const sched::Role& role = schedule_.roles[r];
    const RolePlace& place = layout_.roles[r];
    return cat("{\"name\": ", quoted(role.name), ", \"first_warp\": ", place.first_warp, ", \"warps\": ", role.warps,
               ", \"single_thread\": ", place.single_thread ? "true" : "false", ", \"registers\": ", role.registers,
               "}");
  }

  /// Names of the roles that fill the value, or read it.
  std::string roles_of(int value, bool fill) const {
    std::vector<int> roles;
    for (const graph::Edge& edge : graph_.edges) {
      const int role = schedule_.role[static_cast<std::size_t>(fill ? edge.src : edge.dst)];
      if (edge.value == value && std::find(roles.begin(), roles.end(), role) == roles.end()) roles.push_back(role);
    }
    return list(roles, [&](int role) { return quoted(schedule_.roles[static_cast<std::size_t>(role)].name); });
  }
  /// The barrier that counts for both blocks of a pair, in the first block.
  const char* pair_text(int value) const {
    const OfPair pair = of_pair(graph_, value);
    return pair == OfPair::none ? "" : pair == OfPair::read ? ", \"of_pair\": \"full\"" : ", \"of_pair\": \"empty\"";
  }
  std::string ring(std::size_t r) const {
    const sched::Ring& ring = schedule_.rings[r];
    const RingPlace& place = layout_.rings[r];
    const graph::Value& value = graph_.values[static_cast<std::size_t>(ring.value)];
    const std::string barriers =
        graph_.machine.shared_barriers ? cat(", \"full\": ", place.full, ", \"empty\": ", place.empty) : "";
    const std::string columns = place.slot_columns > 0
                                    ? cat(", \"column\": ", place.column, ", \"slot_columns\": ", place.slot_columns,
                                          ", \"member_columns\": ", place.member_columns)
                                    : "";
    return cat("{\"value\": ", quoted(value.name), ", \"slots\": ", ring.slots,
               ", \"slot_bytes\": ", place.slot_columns > 0 ? 0 : value.slot_bytes, ", \"data\": ", place.data,
               barriers, columns, ", \"filled_once\": ", filled_once(graph_, value) ? "true" : "false",
               ", \"producers\": ", roles_of(ring.value, true), ", \"consumers\": ", roles_of(ring.value, false),
               ", \"shared_by\": ", value.shared_by, pair_text(ring.value), ", \"members\": ", place.members, "}");
  }

  /// The ring by which a role hands on the places that it draws, or a block the number that it has drawn.
  std::string places() const {
    const RingPlace& place = layout_.places;
    const std::string drawing =
        quoted(schedule_.roles[static_cast<std::size_t>(drawing_role(graph_, schedule_, layout_))].name);
    return cat("{\"value\": \"next tile\", \"slots\": ", graph::kPlaceSlots, ", \"slot_bytes\": ", graph::kPlaceBytes,
               ", \"data\": ", place.data,
               place.full_arrivals > 0 ? cat(", \"full\": ", place.full, ", \"empty\": ", place.empty) : "",
               ", \"filled_once\": ", graph_.walk == graph::Walk::split ? "true" : "false", ", \"producers\": [",
               drawing,
               "], \"consumers\": ", list(schedule_.roles, [](const sched::Role& role) { return quoted(role.name); }),
               ", \"shared_by\": 1, \"members\": 1", graph_.cluster > 1 ? ", \"of_first\": true" : "", "}");
  }

  /// The slot of the sums that other blocks of the cluster send: the roles that merge fill it there, and read it here.
  std::string slices() const {
    std::vector<std::string> merging;
    for (std::size_t r = 0; r < schedule_.roles.size(); ++r)
      if (std::any_of(schedule_.roles[r].nodes.begin(), schedule_.roles[r].nodes.end(),
                      [&](int index) { return node(index).merges; }))
        merging.push_back(schedule_.roles[r].name);
    const std::string roles = list(merging, quoted);
    return cat("{\"value\": \"slices\", \"slots\": 1, \"slot_bytes\": ", slices_bytes(graph_),
               ", \"data\": ", layout_.places.data, ", \"full\": ", layout_.places.full,
               ", \"empty\": ", layout_.places.empty, ", \"filled_once\": true, \"producers\": ", roles,
               ", \"consumers\": ", roles, ", \"shared_by\": 1, \"members\": 1}");
  }

  static std::string site(const Site& site, const std::string& node_name) {
    return cat("{\"id\": ", site.id, ", \"kind\": \"", name_of(site.kind), "\", \"text\": ", quoted(site.what),
               ", \"role\": ", numbers(site.roles), site.ring < 0 ? "" : cat(", \"ring\": ", site.ring),
               site.node < 0 ? "" : ", \"node\": " + quoted(node_name), "}");
  }
  std::string site(const Site& each) const { return site(each, each.node < 0 ? "" : node(each.node).name); }

  std::string call(const Call& call) const {
    const std::string nodes = call.nodes.empty() ? list(call.roles, [&](int) { return quoted(call.section); })
                                                 : list(call.nodes, [&](int n) { return quoted(node(n).name); });
    return cat("{\"id\": ", call.id, ", \"nodes\": ", nodes, ", \"role\": ", numbers(call.roles),
               ", \"section\": ", quoted(call.section), ", \"reads\": ", numbers(call.reads),
               ", \"writes\": ", numbers(call.writes), "}");
  }

  const graph::Graph& graph_;
  const sched::Schedule& schedule_;
  const Layout& layout_;
  const Sites& sites_;
  std::vector<std::string> lines_;
};

}  // namespace

std::string write_notes(Writer& writer, const char* symbol, const graph::Graph& graph, const sched::Schedule& schedule,
                        const Layout& layout, const Sites& sites) {
  std::string json;
  const std::vector<std::string> lines = Notes(graph, schedule, layout, sites).lines();
  writer.line("TJ_NOTES(", symbol, ",");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    writer.line("  R\"~(", lines[i], ")~\"", i + 1 < lines.size() ? "" : ")");
    json += lines[i];
  }
  return json;
}

}  // namespace tj::codegen
