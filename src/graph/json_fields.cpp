// See json_fields.hpp.
#include "graph/json_fields.hpp"
#include "support/text.hpp"

#include <algorithm>
#include <cstddef>

namespace tj::graph {

using support::cat;
using support::shown;

namespace {

constexpr std::size_t kMaxNameBytes = 128;

std::string listed(std::initializer_list<const char*> words) {
  std::string text;
  for (const char* each : words) text += cat(text.empty() ? "" : ", ", each);
  return text;
}

}  // namespace

std::string value_text(const Json& json) {
  if (json.is_object()) return "an object";
  if (json.is_array()) return cat("an array of ", json.size());
  return shown(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void Fields::keys(const Json& json, const std::string& place, std::initializer_list<const char*> allowed) const {
  if (!json.is_object()) reject(place, " is ", value_text(json), "; it must be an object");
  for (const auto& [key, value] : json.items()) {
    if (std::any_of(allowed.begin(), allowed.end(), [&k = key](const char* each) { return k == each; })) continue;
    reject(place, " has the key '", shown(key), "'; allowed are ", listed(allowed));
  }
}

const Json* Fields::optional(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

const Json& Fields::required(const Json& object, const std::string& place, const char* key) const {
  const Json* found = optional(object, key);
  if (!found) reject(join(place, key), " is missing; give it");
  return *found;
}

const Json& Fields::list(const Json& json, const std::string& place, std::size_t most) const {
  if (!json.is_array()) reject(place, " is ", value_text(json), "; it must be an array");
  if (json.size() > most) reject(place, " has ", json.size(), " entries; at most ", most, " are allowed");
  return json;
}

const Json& Fields::object(const Json& json, const std::string& place) const {
  if (!json.is_object()) reject(place, " is ", value_text(json), "; it must be an object");
  return json;
}

std::int64_t Fields::integer(const Json& json, const std::string& place, std::int64_t low, std::int64_t high) const {
  const bool whole = json.is_number_integer();
  const bool wide = json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(high);
  if (!whole || wide || json.get<std::int64_t>() < low || json.get<std::int64_t>() > high)
    reject(place, " is ", value_text(json), "; it must be a whole number from ", low, " to ", high);
  return json.get<std::int64_t>();
}

int Fields::number(const Json& json, const std::string& place, std::int64_t low, std::int64_t high) const {
  return static_cast<int>(integer(json, place, low, high));
}

int Fields::number_or(const Json& object, const std::string& place, const char* key, int otherwise, std::int64_t low,
                      std::int64_t high) const {
  const Json* json = optional(object, key);
  return json ? number(*json, join(place, key), low, high) : otherwise;
}

double Fields::real_or(const Json& object, const std::string& place, const char* key, double otherwise) const {
  const Json* json = optional(object, key);
  if (!json) return otherwise;
  if (!json->is_number() || !(json->get<double>() >= 0 && json->get<double>() <= kMaxReal))
    reject(join(place, key), " is ", value_text(*json), "; it must be a number from 0 to ", kMaxReal);
  return json->get<double>();
}

bool Fields::flag(const Json& object, const std::string& place, const char* key, bool otherwise) const {
  const Json* json = optional(object, key);
  if (json && !json->is_boolean()) reject(join(place, key), " is ", value_text(*json), "; it must be true or false");
  return json ? json->get<bool>() : otherwise;
}

const std::string& Fields::text(const Json& json, const std::string& place) const {
  if (!json.is_string()) reject(place, " is ", value_text(json), "; it must be a string");
  return json.get_ref<const std::string&>();
}

std::string Fields::name(const std::string& given, const std::string& place) const {
  const bool plain = std::none_of(given.begin(), given.end(),
                                  [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (given.empty() || given.size() > kMaxNameBytes || !plain)
    reject(place, " is '", shown(given), "'; a name has 1 to ", kMaxNameBytes, " bytes and no control characters");
  return given;
}

int Fields::word(const Json& object, const std::string& place, const char* key,
                 std::initializer_list<const char*> allowed, int otherwise) const {
  const Json* json = optional(object, key);
  if (!json) return otherwise;
  const auto found =
      std::find_if(allowed.begin(), allowed.end(), [&](const char* each) { return support::is_text(*json, each); });
  if (found == allowed.end()) reject(join(place, key), " is ", value_text(*json), "; allowed are ", listed(allowed));
  return static_cast<int>(found - allowed.begin());
}

}  // namespace tj::graph
