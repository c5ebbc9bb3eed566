// See json_tree.hpp. The parser's callback follows along, so that limits and duplicates are reported where they occur.
#include "graph/json_tree.hpp"

#include <cstddef>
#include <set>
#include <vector>

#include "graph/json_reader.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::graph {
namespace {

using support::cat;
using support::shown;

constexpr std::size_t kMaxDepth = 16;       ///< the format itself has 5 levels
constexpr std::size_t kMaxKeys = 1024;      ///< keys of one object: looking a key up is linear
constexpr std::size_t kMaxEntries = 65536;  ///< entries of one array

/// The parser's place, and the keys of the open objects.
class Tracker {
 public:
  Tracker(const std::string& subject, Stage stage) : subject_(subject), stage_(stage) {}

  bool follow(Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        next_entry();
        if (frames_.size() == kMaxDepth) reject("is nested deeper than ", kMaxDepth, " levels; the format needs fewer");
        frames_.emplace_back();
        frames_.back().is_array = event == Event::array_start;
        break;
      case Event::object_end:
      case Event::array_end:
        frames_.pop_back();
        break;
      case Event::key:
        key(parsed.get_ref<const std::string&>());
        break;
      case Event::value:
        next_entry();
        break;
    }
    return true;
  }

  std::string place() const {
    std::string text;
    for (const Frame& frame : frames_) {
      if (frame.is_array) {
        if (frame.entries > 0) text += cat("[", frame.entries - 1, "]");
      } else if (!frame.keys.empty()) {
        text += cat(text.empty() ? "" : ".", shown(frame.key, 40));
      }
    }
    return text.empty() ? "the document" : text;
  }

 private:
  struct Frame {
    bool is_array = false;
    std::size_t entries = 0;
    std::string key;
    std::set<std::string> keys;
  };

  template <class... Parts>
  [[noreturn]] void reject(const Parts&... parts) const {
    support::fail(stage_, Code::invalid_argument, cat(subject_, ": ", place(), " ", parts...));
  }

  void next_entry() {
    if (frames_.empty() || !frames_.back().is_array) return;
    if (++frames_.back().entries > kMaxEntries) reject("is one entry too many; an array may have ", kMaxEntries);
  }

  void key(const std::string& name) {
    Frame& frame = frames_.back();
    const bool is_new = frame.keys.insert(name).second;
    frame.key = name;
    if (!is_new) reject("is given twice; keep one");
    if (frame.keys.size() > kMaxKeys) reject("is one key too many; an object may have ", kMaxKeys);
  }

  const std::string& subject_;
  const Stage stage_;
  std::vector<Frame> frames_;
};

/// The library's text without its exception's name.
std::string reason(const std::exception& e) {
  const std::string_view text = e.what();
  const std::size_t end = text.find("] ");
  return shown(end == std::string_view::npos ? text : text.substr(end + 2), 300);
}

}  // namespace

Json parse_json(std::string_view text, const std::string& subject, Stage stage) {
  if (text.size() > kMaxTextBytes)
    support::fail(stage, Code::invalid_argument,
                  cat(subject, ": the text has ", text.size(), " bytes; at most ", kMaxTextBytes, " are read"));
  Tracker tracker(subject, stage);
  try {
    return Json::parse(text.begin(), text.end(),
                       [&](int, Json::parse_event_t event, Json& parsed) { return tracker.follow(event, parsed); });
  } catch (const Json::exception& e) {
    support::fail(stage, Code::invalid_argument,
                  cat(subject, ": not JSON, at or after ", tracker.place(), ": ", reason(e)));
  }
}

}  // namespace tj::graph
