// The tree of a JSON document, whose destructor takes no memory.
//
// Decides how documents are held everywhere in the library and its tools. Does not know what is in them. nlohmann's own
// destructor moves children to a list on the heap. When memory is out that throws within a destructor, and the process
// ends. Here children go by recursion, as deep as the document: texts from anywhere are read by parse_shallow(), or
// with a limit of the reader's own. Invariant: a tree can be built in part and dropped while memory is out,
// in builds with NDEBUG; in others nlohmann's own assertions take such a tree for a broken one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tj::support {

/// std::allocator by another name, which makes the trees types of our own.
template <class T>
struct JsonAllocator : std::allocator<T> {
  JsonAllocator() = default;
  template <class U>
  JsonAllocator(const JsonAllocator<U>&) noexcept {}
};

/// Members stay in the order in which they came. To find one takes as many steps as there are members.
using Json = nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool, std::int64_t, std::uint64_t,
                                  double, JsonAllocator>;
/// Members are sorted, so that documents of any width are read fast.
using SortedJson =
    nlohmann::basic_json<std::map, std::vector, std::string, bool, std::int64_t, std::uint64_t, double, JsonAllocator>;

namespace json_detail {

/// Null where an allocation failed before there was a child.
template <class T>
void drop(T* child) noexcept {
  if (child == nullptr) return;
  std::destroy_at(child);
  JsonAllocator<T>().deallocate(child, 1);
}

template <class Value>
void drop(Value& value, nlohmann::detail::value_t type) noexcept {
  using Type = nlohmann::detail::value_t;
  if (type == Type::object) drop(value.object);
  if (type == Type::array) drop(value.array);
  if (type == Type::string) drop(value.string);
  if (type == Type::binary) drop(value.binary);
}

}  // namespace json_detail

inline constexpr int kMostJsonDepth = 64;  ///< objects and arrays in each other, far beyond what the library writes

namespace json_detail {

/// The depth that nlohmann gives with an event is the number of objects and arrays around it. One that begins is a
/// level of its own; a number, a text and a name are none.
inline bool is_shallow(int depth, nlohmann::detail::parse_event_t event) {
  using Event = nlohmann::detail::parse_event_t;
  const bool begins = event == Event::object_start || event == Event::array_start;
  return begins ? depth < kMostJsonDepth : depth <= kMostJsonDepth;
}

}  // namespace json_detail

/// Drops what is nested deeper than kMostJsonDepth. A text that is no JSON is an exception, or a discarded value.
template <class Tree = Json>
Tree parse_shallow(std::string_view text, bool throws = true) {
  const auto keep = [](int depth, typename Tree::parse_event_t event, Tree&) {
    return json_detail::is_shallow(depth, event);
  };
  return Tree::parse(text.begin(), text.end(), keep, throws);
}

/// Faults that parse_distinct() finds besides texts that are no JSON.
struct JsonFault {
  std::string twice;      ///< the first member that stands twice in an object
  bool too_deep = false;  ///< nested deeper than kMostJsonDepth
  bool any() const { return too_deep || !twice.empty(); }
};

/// The whole tree of a text in whose objects no member stands twice, and which is not too deep; else a discarded value.
inline Json parse_distinct(std::string_view text, JsonFault* fault) {
  using Event = Json::parse_event_t;
  std::vector<std::set<std::string>> open;
  const auto keep = [&](int depth, Event event, Json& given) {
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end && !open.empty()) open.pop_back();
    if (event == Event::key && !open.empty() && fault->twice.empty()) {
      const std::string& name = given.get_ref<const std::string&>();
      if (!open.back().insert(name).second) fault->twice = name;
    }
    const bool kept = json_detail::is_shallow(depth, event);
    fault->too_deep = fault->too_deep || !kept;
    return kept;
  };
  Json tree = Json::parse(text.begin(), text.end(), keep, false);
  return fault->any() ? Json(Json::value_t::discarded) : tree;
}

/// `tree == text` would make a tree of the text, in a function that may not throw.
template <class Tree>
bool is_text(const Tree& tree, std::string_view text) {
  return tree.is_string() && tree.template get_ref<const std::string&>() == text;
}

}  // namespace tj::support

template <>
inline void tj::support::Json::json_value::destroy(value_t type) {
  tj::support::json_detail::drop(*this, type);
}
template <>
inline void tj::support::SortedJson::json_value::destroy(value_t type) {
  tj::support::json_detail::drop(*this, type);
}
