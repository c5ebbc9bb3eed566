// Values out of a JSON tree: each with its place, type and range, or a complaint that names all three.
//
// Decides what a number, name, flag or word of the format may be. Does not know which keys there are (json_reader,
// ...). Invariant: whatever the tree holds, the outcome is a value within its range or a tj::Error.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "graph/graph.hpp"
#include "graph/json_tree.hpp"
#include "support/fail.hpp"

namespace tj::graph {

inline constexpr std::int64_t kMaxSpaceBytes = std::int64_t{1} << 40;
inline constexpr std::int64_t kMaxRegisterCount = 65536;
inline constexpr std::int64_t kMaxSlots = 1024;
inline constexpr double kMaxReal = 1e18;

class Fields {
 public:
  /// `subject` begins every complaint: "graph 'mine'".
  explicit Fields(std::string subject, Stage stage = Stage::graph) : subject_(std::move(subject)), stage_(stage) {}

  template <class... Parts>
  [[noreturn]] void reject(const Parts&... parts) const {
    support::fail(stage_, Code::invalid_argument, support::cat(subject_, ": ", parts...));
  }
  static std::string join(const std::string& place, const std::string& key) {
    return place.empty() ? key : place + "." + key;
  }

  /// An object with no other keys.
  void keys(const Json& json, const std::string& place, std::initializer_list<const char*> allowed) const;
  /// Null when absent.
  static const Json* optional(const Json& object, const char* key);
  const Json& required(const Json& object, const std::string& place, const char* key) const;

  const Json& list(const Json& json, const std::string& place, std::size_t most) const;
  const Json& object(const Json& json, const std::string& place) const;
  std::int64_t integer(const Json& json, const std::string& place, std::int64_t low, std::int64_t high) const;
  int number(const Json& json, const std::string& place, std::int64_t low, std::int64_t high) const;
  /// An optional member of `object`; `otherwise` where it is absent.
  int number_or(const Json& object, const std::string& place, const char* key, int otherwise, std::int64_t low,
                std::int64_t high) const;
  /// An optional number of any kind, from 0 to kMaxReal.
  double real_or(const Json& object, const std::string& place, const char* key, double otherwise) const;
  bool flag(const Json& object, const std::string& place, const char* key, bool otherwise = false) const;
  const std::string& text(const Json& json, const std::string& place) const;
  /// 1 to 128 bytes without control characters.
  std::string name(const std::string& given, const std::string& place) const;
  /// The index of an optional member among the words allowed; `otherwise` where it is absent.
  int word(const Json& object, const std::string& place, const char* key, std::initializer_list<const char*> allowed,
           int otherwise) const;

 private:
  std::string subject_;
  Stage stage_;
};

/// A value for a message, whatever it is.
std::string value_text(const Json& json);

}  // namespace tj::graph
