// See notes.hpp.
#include "check/notes.hpp"

#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/text.hpp"

namespace tj::check {
namespace {

/// use(document) of notes that say something.
template <class Use>
void read(std::string_view notes, const Use& use) {
  if (notes.empty()) return;
  try {
    use(support::SortedJson::parse(notes));
  } catch (const support::SortedJson::exception& e) {
    support::fail(Stage::load, Code::internal,
                  support::cat("what a unit says of itself cannot be read: ", e.what(), "; clear the kernel cache"));
  }
}

/// "qk_t" -> "RingQkT", as codegen names a value's ring.
std::string ring_name(const std::string& value) {
  std::string name = "Ring";
  bool begins = true;
  for (const char c : value) {
    const bool letter = support::is_word_letter(c) && c != '_';
    if (letter) name += begins ? support::upper(c) : c;
    begins = !letter;
  }
  return name;
}

}  // namespace

std::vector<Site> sites_of(std::string_view notes) {
  std::vector<Site> sites;
  read(notes, [&](const support::SortedJson& document) {
    for (const auto& site : document.at("sites"))
      sites.push_back(
          {site.at("id").get<int>(), site.at("kind").get<std::string>(), site.at("text").get<std::string>()});
  });
  return sites;
}

std::vector<std::string> rings_filled_once(std::string_view notes) {
  std::vector<std::string> names;
  read(notes, [&](const support::SortedJson& document) {
    for (const auto& ring : document.value("rings", support::SortedJson::array()))
      if (ring.value("filled_once", false)) names.push_back(ring_name(ring.at("value").get<std::string>()));
  });
  return names;
}

bool can_be_weakened(const Site& site) {
  // Weakened, a group wait leaves one more under way, an announcement says half the bytes, a turn is passed on without
  // a wait. A signal to other blocks releases nothing, and a wait for one acquires nothing.
  for (const char* kind : {"group_wait", "copies_wait", "expect", "turn_wait", "signal", "await"})
    if (site.kind == kind) return true;
  return false;
}

}  // namespace tj::check
