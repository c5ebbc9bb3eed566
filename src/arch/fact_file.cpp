// See fact_file.hpp.
#include "arch/fact_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <mutex>

#include "arch/fact_limits.hpp"
#include "arch/options.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/hash.hpp"
#include "support/json.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"
#include "support/text_stream.hpp"

namespace tj::arch {
namespace {

using support::cat;
using support::Json;
using support::shown;

constexpr int kFormat = 1;
constexpr std::string_view kFactsOption = "+facts=";
constexpr std::size_t kHashDigits = 16;
constexpr const char* kClock = "clock_ghz";
constexpr const char* kSmCount = "sm_count";

std::string exact(double value) {
  support::TextStream text;
  text.precision(17);
  text << value;
  return text.str();
}

std::string short_text(double value) { return cat(value); }

/// A text, read.
class Reader {
 public:
  Reader(std::string_view text, const std::string& path, std::string_view from) : path_(path), from_(from) {
    if (text.size() > kMostFactFileBytes)
      refuse("it has more than ", kMostFactFileBytes, " bytes; allowed: at most as many");
    support::JsonFault fault;
    json_ = support::parse_distinct(text, &fault);
    if (fault.too_deep) refuse("it is nested deeper than ", support::kMostJsonDepth, " levels; allowed: as many");
    if (!fault.twice.empty()) refuse("'", shown(fault.twice), "' stands there twice; allowed: once");
    if (!json_.is_object()) refuse("it is no JSON object; allowed: what tj-bench --calibrate writes");
  }

  FactFile read() {
    keys(json_, "", {"tilejit_facts", "arch", "facts", "measured"});
    if (const Json& format = need("tilejit_facts");
        !format.is_number_integer() || format.get<std::int64_t>() != kFormat)
      refuse("'tilejit_facts' is ", value_of(format), "; allowed: ", kFormat, ", the format that this version reads");
    FactFile file;
    file.path = path_;
    file.arch = arch();
    const Arch& shipped = *find(file.arch);
    const std::string measured = about();
    const Json& facts = need("facts");
    if (!facts.is_object()) refuse("'facts' is ", value_of(facts), "; allowed: an object of facts");
    support::FieldHash hash;
    hash.field("arch", file.arch);
    for (const auto& [name, given] : facts.items()) file.facts[name] = fact(shipped, name, given, measured);
    for (const auto& [name, each] : file.facts) hash.field(name, exact(each.value));
    file.hash = support::to_hex(hash.finish()).substr(0, kHashDigits);
    return file;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    support::fail(Stage::argument, Code::invalid_argument,
                  cat(from_, ": facts of ", support::shown_path(path_), ": ", parts...));
  }
  static std::string value_of(const Json& json) {
    return cat("'", shown(json.dump(-1, ' ', true, Json::error_handler_t::replace)), "'");
  }
  const Json& need(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) refuse("it has no '", key, "'; allowed: files with tilejit_facts, arch and facts");
    return *found;
  }
  void keys(const Json& object, const std::string& place, std::initializer_list<const char*> allowed) const {
    const std::vector<std::string> names(allowed.begin(), allowed.end());
    std::string all;
    for (const std::string& name : names) all += cat(all.empty() ? "" : ", ", name);
    for (const auto& [name, value] : object.items())
      if (std::find(names.begin(), names.end(), name) == names.end())
        refuse("'", place, shown(name), "' is not known; allowed: ", all, support::meant(name, names));
  }

  std::string arch() const {
    const Json& given = need("arch");
    std::vector<std::string> names;
    std::string list;
    for (const Arch* each : all()) {
      names.push_back(each->name);
      list += cat(list.empty() ? "" : ", ", each->name);
    }
    if (!given.is_string()) refuse("'arch' is ", value_of(given), "; allowed: ", list);
    const auto& name = given.get_ref<const std::string&>();
    if (std::find(names.begin(), names.end(), name) == names.end())
      refuse("'arch' is '", shown(name), "'; allowed: ", list, support::meant(name, names));
    return name;
  }

  /// "NVIDIA H200, 2026-11-29": what "measured" says; empty where it is not there.
  std::string about() const {
    const auto found = json_.find("measured");
    if (found == json_.end()) return {};
    if (!found->is_object()) refuse("'measured' is ", value_of(*found), "; allowed: an object");
    keys(*found, "measured.", {"date", "device", "driver", "clock_mhz", "build", "seconds"});
    std::string text;
    for (const char* key : {"device", "date"})
      if (const auto each = found->find(key); each != found->end()) {
        if (!each->is_string()) refuse("'measured.", key, "' is ", value_of(*each), "; allowed: a text");
        text += cat(text.empty() ? "" : ", ", shown(each->get_ref<const std::string&>()));
      }
    return text;
  }

  Fact fact(const Arch& shipped, const std::string& name, const Json& given, const std::string& measured) const {
    const FactLimits* limits = limits_of(name);
    const bool member = name == kClock || name == kSmCount;
    if (limits == nullptr || (!member && !shipped.has_fact(name))) refuse_fact(shipped, name, given);
    if (limits->fixed)
      refuse("'facts.", name, "' is ", value_of(given),
             "; allowed: leave it out, as it says what the instructions of '", shipped.name,
             "' are, which no measurement changes");
    const Json* value = &given;
    if (given.is_object()) {
      keys(given, cat("facts.", name, "."), {"value", "spread", "source"});
      const auto found = given.find("value");
      if (found == given.end()) refuse("'facts.", name, "' has no 'value'; allowed: a number, or an object with one");
      value = &*found;
    }
    const std::string range = cat(limits->whole ? "whole numbers" : "numbers", " from ", short_text(limits->least),
                                  " to ", short_text(limits->most));
    if (!value->is_number()) refuse("'facts.", name, "' is ", value_of(*value), "; allowed: ", range);
    const double number = value->get<double>() + 0.0;  // -0 becomes 0, so that both have one hash
    if (!(number >= limits->least && number <= limits->most) || (limits->whole && number != std::floor(number)))
      refuse("'facts.", name, "' is ", value_of(*value), "; allowed: ", range);
    return {number, cat(support::shown_path(path_), measured.empty() ? "" : cat(" (", measured, ")"))};
  }
  [[noreturn]] void refuse_fact(const Arch& shipped, const std::string& name, const Json& given) const {
    std::vector<std::string> names;
    std::string list;
    for (const FactLimits& each : fact_limits())
      if (!each.fixed && (shipped.has_fact(each.name) || each.name == std::string_view(kClock) ||
                          each.name == std::string_view(kSmCount))) {
        names.emplace_back(each.name);
        list += cat(list.empty() ? "" : ", ", each.name);
      }
    refuse("'facts.", shown(name), "' is ", value_of(given), "; '", shipped.name, "' has no such fact",
           support::meant(name, names), "; allowed: ", list);
  }

  const std::string path_;
  const std::string from_;
  Json json_;
};

struct Known {
  support::Mutex mutex;
  std::map<std::string, std::unique_ptr<const FactFile>, std::less<>> by_hash;
};

Known& known() {
  static constinit support::Lasting<Known> all;
  return all.get();
}

/// The kind of a shipped fact, by the words that sources have: FactOrigin::kind.
std::string kind_of(std::string_view source) {
  const auto has = [&](std::string_view word) { return source.find(word) != std::string_view::npos; };
  if (source.starts_with("estimate")) return has("nobody here has run") ? "guess" : "estimate";
  for (const char* word : {"tests/", "tj-warm", "tj-bench", "fit of", "replays", "on an H", "by hand", "see spread",
                           "likewise", "calibrated", "icrobenchmark"})
    if (has(word)) return "measured";
  return "document";
}

}  // namespace

const FactFile& read_facts(std::string_view text, const std::string& path, std::string_view from) {
  auto file = std::make_unique<const FactFile>(Reader(text, path, from).read());
  const std::lock_guard lock(known().mutex);
  std::unique_ptr<const FactFile>& place = known().by_hash[file->hash];
  if (!place) place = std::move(file);
  return *place;
}

const FactFile& load_facts(const std::string& path, std::string_view from) {
  const auto refuse = [&](Code code, const char* why) {
    support::fail(Stage::argument, code,
                  cat(from, " is '", support::shown_path(path), "', ", why,
                      "; allowed: a file that tj-bench --calibrate wrote, or one like it"));
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) refuse(Code::not_found, "which is not there");
  if (!std::filesystem::is_regular_file(status)) refuse(Code::io, "which is no file");
  std::ifstream in(path, std::ios::binary);
  std::string text(kMostFactFileBytes + 1, '\0');
  if (in) in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad()) refuse(Code::io, "which cannot be read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  return read_facts(text, path, from);
}

const FactFile* find_facts(std::string_view hash) {
  const std::lock_guard lock(known().mutex);
  const auto found = known().by_hash.find(hash);
  return found == known().by_hash.end() ? nullptr : found->second.get();
}

bool fits(const Arch& arch, const FactFile& file) {
  return arch.facts_file == &file || (arch.facts_file == nullptr && name_before_options(arch.name) == file.arch);
}

const Arch& with_facts(const Arch& arch, const FactFile* file) {
  if (file == nullptr || arch.facts_file == file) return arch;
  const std::string which = cat("the facts of ", support::shown_path(file->path));
  if (arch.facts_file != nullptr)
    support::fail(Stage::target, Code::invalid_argument,
                  cat("target '", arch.name, "' has the facts of ", support::shown_path(arch.facts_file->path),
                      " already, and ", which, " are given; allowed: one of them"));
  if (!fits(arch, *file))
    support::fail(
        Stage::target, Code::invalid_argument,
        cat(which, " are of 'arch' '", file->arch, "', and the target is '", arch.name, "'; allowed: a file of '",
            name_before_options(arch.name), "', a target '", file->arch, "', or no file"));
  return parse_arch(cat(arch.name, kFactsOption, file->hash));
}

std::string shipped_name(const Arch& arch) { return shipped_name(std::string_view(arch.name)); }

std::string shipped_name(std::string_view target) { return std::string(target.substr(0, target.find(kFactsOption))); }

std::vector<FactOrigin> fact_origins(const Arch& arch) {
  std::vector<FactOrigin> list;
  const auto add = [&](const std::string& name, const Fact& fact) {
    const bool replaced = arch.facts_file != nullptr && arch.facts_file->facts.count(name) != 0;
    list.push_back({name, fact.value, replaced ? "file" : kind_of(fact.source), fact.source});
  };
  for (const auto& [name, fact] : arch.facts) add(name, fact);
  for (const char* name : {kClock, kSmCount})
    if (arch.facts_file != nullptr)
      if (const auto found = arch.facts_file->facts.find(name); found != arch.facts_file->facts.end())
        add(name, found->second);
  std::sort(list.begin(), list.end(), [](const FactOrigin& a, const FactOrigin& b) { return a.name < b.name; });
  return list;
}

}  // namespace tj::arch
