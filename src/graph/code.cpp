// See code.hpp.
#include "graph/code.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

#include "support/fail.hpp"

namespace tj::graph {
namespace {

using support::cat;

template <class... Parts>
[[noreturn]] void reject(const Graph& graph, const Parts&... parts) {
  support::fail(Stage::graph, Code::invalid_argument, cat("graph '", graph.name, "': ", parts...));
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Fit for a comment of the unit and, without its dots, for a name.
bool is_plain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-'; });
}

/// Is the path below one folder, by names that need no escape?
bool is_include(std::string_view text) {
  if (text.empty() || text.front() == '/' || text.find("..") != std::string_view::npos ||
      text.find("//") != std::string_view::npos)
    return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '/'; });
}

/// The characters of a type or a number: no statement, no comment, no second declaration.
bool is_expression(std::string_view text) {
  return !text.empty() && text.find("//") == std::string_view::npos && text.find("/*") == std::string_view::npos &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return c >= 0x20 && c < 0x7F && std::string_view(";{}\"'\\#").find(c) == std::string_view::npos;
         });
}

/// "static constexpr int kRows" -> "kRows", "using Element" -> "Element".
std::string member_name(const std::string& member) {
  static constexpr std::string_view kConstant = "static constexpr ", kType = "using ";
  if (member.compare(0, kType.size(), kType) == 0) return member.substr(kType.size());
  if (member.compare(0, kConstant.size(), kConstant) != 0) return member;
  const std::size_t space = member.find(' ', kConstant.size());
  return space == std::string::npos ? member : member.substr(space + 1);
}

void check_node_code(const Graph& graph, const Node& node) {
  if (!is_plain(node.name))
    reject(graph, "node '", node.name, "' has a name that code cannot show; use letters, digits, '_', '-' and '.'");
  if (!is_identifier(node.body))
    reject(graph, "node '", node.name, "' has body '", node.body, "'; it must be the name of a device function");
  if (!is_identifier(node.context))
    reject(graph, "node '", node.name, "' has context '", node.context, "'; it must be the name of a class template");
  if (node.range && !is_identifier(node.range.variant))
    reject(graph, "node '", node.name, "' has variant '", node.range.variant, "'; it must be the name of a type");
  for (const std::string& bound : {node.range.begin, node.range.end})
    if (!bound.empty() && !is_identifier(bound))
      reject(graph, "node '", node.name, "' has the bound '", bound,
             "' of its variant's range; it must be the name of a device function");
}

void check_value_code(const Graph& graph, std::size_t index) {
  const Value& value = graph.values[index];
  if (!is_plain(value.name))
    reject(graph, "value '", value.name, "' has a name that code cannot show; use letters, digits, '_', '-' and '.'");
  for (const Edge& edge : graph.edges) {
    if (edge.value != static_cast<int>(index)) continue;
    const Node& source = graph.nodes[static_cast<std::size_t>(edge.src)];
    const bool sum = value.scope == Scope::tile_end && source.scope == Scope::iteration;
    if (source.scope != value.scope && !sum)
      reject(graph, "value '", value.name, "' and node '", source.name,
             "', which fills it, differ in scope; give both the same");
    const Node& reader = graph.nodes[static_cast<std::size_t>(edge.dst)];
    if (sum && reader.scope != Scope::tile_end)
      reject(graph, "value '", value.name, "' is a sum over the loop and read by node '", reader.name,
             "' within it; allowed are nodes at the tile's end");
    const bool behind = std::any_of(graph.edges.begin(), graph.edges.end(), [&](const Edge& other) {
      return other.value == edge.value && other.distance == 1;
    });
    if (value.scope == Scope::iteration && reader.scope != Scope::iteration && !behind)
      reject(graph, "value '", value.name, "' is filled in every iteration and read by node '", reader.name,
             "' once a tile; hand over what is left at the end in a value of the tile's end, or where a node of the "
             "loop reads it an iteration later");
    if (value.scope == Scope::iteration && edge.distance > 1)
      reject(graph, "value '", value.name, "' is read by node '", reader.name, "' ", edge.distance,
             " iterations later; allowed are 0 and 1");
    if (value.space == Space::tensor && source.async != Async::unit && source.async != Async::none)
      reject(graph, "value '", value.name, "' is in tensor memory and filled by node '", source.name,
             "', which copies; allowed are async unit and none");
    if (value.space == Space::tensor && reader.async != Async::unit && reader.async != Async::none)
      reject(graph, "value '", value.name, "' is in tensor memory and read by node '", reader.name,
             "', whose async cannot; allowed are unit and none");
    if (edge.updates && value.space != Space::tensor)
      reject(graph, "value '", value.name, "' is updated by node '", reader.name,
             "'; allowed are values in tensor memory");
    if (source.async == Async::unit && value.space != Space::tensor)
      reject(graph, "value '", value.name, "' is filled by node '", source.name,
             "', a product in tensor memory; give the value that space");
    if (source.async == Async::threads && reads_by_itself(reader.async))
      reject(graph, "value '", value.name, "' is filled by copies of threads (node '", source.name,
             "') and read by node '", reader.name,
             "', which hardware does by itself: nothing orders the two; give the source async copy or none, or the "
             "reader async none");
    if (value.shared_by > 1 && source.async != Async::copy)
      reject(graph, "value '", value.name, "' is shared by ", value.shared_by, " blocks, but node '", source.name,
             "', which fills it, is no copy; allowed is 1, or a node with async copy");
  }
}

/// One block's thread asks for the products of both blocks of a pair. It learns of what copies bring there, and of no
/// other filling.
void check_pair_code(const Graph& graph, const Edge& edge) {
  if (edge.value < 0) return;
  const Value& value = graph.values[static_cast<std::size_t>(edge.value)];
  const Node &source = graph.nodes[static_cast<std::size_t>(edge.src)],
             &reader = graph.nodes[static_cast<std::size_t>(edge.dst)];
  if (reader.async == Async::unit && (source.async != Async::copy || value.shared_by != 1))
    reject(
        graph, "value '", value.name, "' is read by node '", reader.name,
        "', a product of a pair of blocks, and filled by node '", source.name, "', ",
        source.async == Async::copy ? cat("which ", value.shared_by, " blocks share") : std::string("which is no copy"),
        "; allowed are copies of each block's own");
  for (const Edge& other : graph.edges) {
    const Node& also = graph.nodes[static_cast<std::size_t>(other.dst)];
    if (other.value == edge.value && reader.async == Async::unit && also.async != Async::unit)
      reject(graph, "value '", value.name, "' is read by node '", reader.name,
             "', a product of a pair of blocks, and by node '", also.name,
             "', which is none: only the first block of a pair learns that it is there");
  }
}

/// A node that waits for another cannot come before it: there would be nothing yet to wait for.
void check_edge_code(const Graph& graph, const Edge& edge) {
  if (edge.delay >= 0 || !(edge.blocking || edge.value >= 0)) return;
  reject(graph, "edge '", graph.nodes[static_cast<std::size_t>(edge.src)].name, "' -> '",
         graph.nodes[static_cast<std::size_t>(edge.dst)].name, "' ", edge.blocking ? "is blocking" : "carries a value",
         " and has delay ", edge.delay, "; in code it must be at least 0");
}

}  // namespace

bool is_identifier(std::string_view text) {
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

bool is_qualified_name(std::string_view text) {
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find("::", begin);
    if (!is_identifier(text.substr(begin, end == std::string_view::npos ? end : end - begin))) return false;
    if (end == std::string_view::npos) return true;
    begin = end + 2;
  }
}

bool has_code(const Graph& graph) {
  return !graph.namespace_name.empty() || !graph.includes.empty() || !graph.params_type.empty() ||
         !graph.config.empty();
}

void check_code(const Graph& graph) {
  if (!is_qualified_name(graph.namespace_name))
    reject(graph, "its namespace is '", graph.namespace_name, "'; it must be a name such as my::kernel");
  if (!is_qualified_name(graph.params_type))
    reject(graph, "its params_type is '", graph.params_type, "'; it must be a type's name such as my::kernel::Params");
  if (graph.includes.empty()) reject(graph, "has no includes; name the file of its node bodies");
  for (const std::string& include : graph.includes)
    if (!is_include(include))
      reject(graph, "includes '", include,
             "'; it must be a path below the template folder, of letters, digits, '_', '-', '.' and '/'");
  std::set<std::string> members;
  for (const auto& [member, value] : graph.config) {
    const std::string name = member_name(member);
    if (!is_identifier(name)) reject(graph, "config has the member '", name, "'; it must be a C++ name");
    if (!members.insert(name).second) reject(graph, "config has the member '", name, "' twice; keep one");
    if (!is_expression(value))
      reject(graph, "config member '", name, "' is '", value, "'; it must be a number, a flag or a type");
  }
  for (const Node& node : graph.nodes) check_node_code(graph, node);
  for (const Edge& edge : graph.edges) {
    check_edge_code(graph, edge);
    if (graph.pairs) check_pair_code(graph, edge);
  }
  for (std::size_t v = 0; v < graph.values.size(); ++v) check_value_code(graph, v);
}

}  // namespace tj::graph
