// See notes.hpp.
#include "check/notes.hpp"

#include <nlohmann/json.hpp>

#include "support/fail.hpp"

namespace tj::check {

std::vector<Site> sites_of(std::string_view notes) {
  if (notes.empty()) return {};
  std::vector<Site> sites;
  try {
    const auto document = nlohmann::json::parse(notes);
    for (const auto& site : document.at("sites")) sites.push_back({site.at("id").get<int>(), site.at("kind").get<std::string>(), site.at("text").get<std::string>()});
  } catch (const nlohmann::json::exception& e) {
    support::fail(Stage::load, Code::internal, support::cat("what a unit says of its sites cannot be read: ", e.what(), "; clear the kernel cache"));
  }
  return sites;
}

bool can_be_weakened(const Site& site) {
  // A group wait leaves one more under way, an announcement says half the bytes, a turn is not waited for but passed on.
  for (const char* kind : {"group_wait", "copies_wait", "expect", "turn_wait"})
    if (site.kind == kind) return true;
  return false;
}

}  // namespace tj::check
