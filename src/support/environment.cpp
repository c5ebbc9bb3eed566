// The only reader of the process environment.
//
// Decides defaults, parsing and precedence (Options, variable, default). Does not decide whether a target exists or a
// directory can be used.
#include "support/environment.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <system_error>
#include <vector>

#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::support {
namespace {

constexpr std::uint64_t kDefaultCacheBytes = std::uint64_t{4} << 30;
// Some kernels take their compiler a minute on a loaded machine; nobody should wait for a stopped process much longer.
constexpr double kDefaultWaitSeconds = 300, kDefaultCompileSeconds = 600;
constexpr double kMostSeconds = 1e6;  // about eleven days: what clocks count in nanoseconds holds it

[[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& allowed) {
  fail(Stage::argument, Code::invalid_argument,
       cat(name, " is '", shown(value), "'; allowed: ", allowed, ". Correct it or leave it unset."));
}

/// A path without NUL and without a leading ~: the system would cut it at the NUL, and a shell should have replaced the
/// ~.
const std::string& checked_path(const std::string& name, const std::string& path) {
  if (path.find('\0') != std::string::npos) refuse(name, path, "a path without a NUL character");
  if (path.front() == '~')
    refuse(name, path,
           "a whole path: '~' is replaced by shells only, and not within quotes (./~ is a folder of that name)");
  return path;
}

/// Relative directories mean: relative to where the process is now, whatever it changes to later. No trailing slash:
/// with one, the last component would be followed where it is a symbolic link.
std::string absolute(const std::string& name, const std::string& path) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(checked_path(name, path), error);
  std::string text = (error ? std::filesystem::path(path) : full).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

std::string home_directory() {
  if (const auto home = environment_variable("HOME"); home && home->front() == '/') return *home;
  const long suggested = ::sysconf(_SC_GETPW_R_SIZE_MAX);
  std::vector<char> buffer(suggested > 0 ? static_cast<std::size_t>(suggested) : 1024);
  for (;;) {
    passwd record{};
    passwd* found = nullptr;
    const int status = ::getpwuid_r(::geteuid(), &record, buffer.data(), buffer.size(), &found);
    if (status == ERANGE && buffer.size() < (std::size_t{1} << 20)) {
      buffer.resize(buffer.size() * 2);
      continue;
    }
    if (status != 0 || found == nullptr || found->pw_dir == nullptr || found->pw_dir[0] != '/') return {};
    return found->pw_dir;
  }
}

/// A list of folders with colons between them: each absolute, each once. An empty one is a variable of the shell that
/// was not set.
std::string absolute_list(const std::string& name, const std::string& list) {
  std::vector<std::string> folders;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (const std::string each = list.substr(begin, end - begin); !each.empty()) {
      std::string folder = absolute(name, each);
      if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(std::move(folder));
    }
    begin = end + 1;
  }
  if (folders.empty()) refuse(name, list, "a folder, or several with ':' between them");
  std::string joined;
  for (const std::string& folder : folders) joined += (joined.empty() ? "" : ":") + folder;
  return joined;
}

/// A default is one folder. With a colon in its name it would be read as two.
std::string one_folder(const char* name, const std::string& path) {
  return path.find(':') == std::string::npos ? absolute(name, path) : std::string();
}

std::string resolve_cache_dir(const Options& options) {
  if (options.cache_dir)
    return options.cache_dir->empty() ? std::string() : absolute_list("Options::cache_dir", *options.cache_dir);
  if (const auto given = environment_variable("TJ_CACHE_DIR")) return absolute_list("TJ_CACHE_DIR", *given);
  // The XDG base directory specification: a relative value is to be ignored.
  if (const auto xdg = environment_variable("XDG_CACHE_HOME"); xdg && xdg->front() == '/') {
    return one_folder("XDG_CACHE_HOME", *xdg + "/tilejit");
  }
  const std::string home = home_directory();
  return home.empty() ? home : one_folder("HOME", home + "/.cache/tilejit");
}

/// Empty where neither says anything.
std::string resolve_path(const std::optional<std::string>& option, const char* field, const char* variable) {
  const std::string path = option ? *option : environment_variable(variable).value_or("");
  return path.empty() ? path : absolute(option ? field : variable, path);
}

std::uint64_t parse_size(const std::string& name, const std::string& text) {
  const std::string allowed =
      "a number of bytes, with K, M or G for multiples of 1024 (such as 512M or 4G), below 16 EiB; 0 for no bound";
  std::size_t digits = 0;
  std::uint64_t value = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    const auto digit = static_cast<std::uint64_t>(text[digits] - '0');
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value) || __builtin_add_overflow(value, digit, &value)) {
      refuse(name, text, allowed);
    }
  }
  if (digits == 0 || text.size() > digits + 1) refuse(name, text, allowed);
  int shift = 0;
  if (digits < text.size()) {
    switch (upper(text[digits])) {
      case 'K':
        shift = 10;
        break;
      case 'M':
        shift = 20;
        break;
      case 'G':
        shift = 30;
        break;
      default:
        refuse(name, text, allowed);
    }
  }
  if (value > (std::numeric_limits<std::uint64_t>::max() >> shift)) refuse(name, text, allowed);
  return value << shift;
}

std::uint64_t resolve_size(const std::optional<std::uint64_t>& option, const char* variable, std::uint64_t otherwise) {
  if (option) return *option;
  const auto size = environment_variable(variable);
  return size ? parse_size(variable, *size) : otherwise;
}

LogLevel parse_log_level(const std::string& name, const std::string& text) {
  constexpr std::pair<const char*, LogLevel> kLevels[] = {
      {"trace", LogLevel::trace}, {"debug", LogLevel::debug}, {"info", LogLevel::info},
      {"warn", LogLevel::warn},   {"error", LogLevel::error}, {"off", LogLevel::off},
  };
  for (const auto& [word, level] : kLevels) {
    if (text == word) return level;
  }
  refuse(name, text, "trace, debug, info, warn, error, off");
}

LogLevel checked_log_level(LogLevel level) {
  if (level < LogLevel::trace || level > LogLevel::off)
    refuse("Options::log_level", cat(static_cast<int>(level)), "LogLevel::trace (0) to LogLevel::off (5)");
  return level;
}

std::string checked_hip_compiler(const std::string& name, const std::string& text) {
  if (text == "auto" || text == "hiprtc" || text == "clang") return text;
  refuse(name, text, "auto, hiprtc, clang");
}

bool parse_switch(const std::string& name, const std::string& text) {
  if (text == "on" || text == "off") return text == "on";
  refuse(name, text, "on, off");
}

bool parse_check(const std::string& name, const std::string& text) {
  if (text == "1" || text == "0") return text == "1";
  refuse(name, text, "1, 0");
}

MissPolicy parse_miss_policy(const std::string& name, const std::string& text) {
  constexpr std::pair<const char*, MissPolicy> kPolicies[] = {
      {"wait", MissPolicy::wait}, {"error", MissPolicy::error}, {"quick", MissPolicy::quick}};
  for (const auto& [word, policy] : kPolicies)
    if (text == word) return policy;
  refuse(name, text, "wait, error, quick");
}

MissPolicy checked_miss_policy(MissPolicy policy) {
  if (policy < MissPolicy::wait || policy > MissPolicy::quick)
    refuse("Options::on_miss", cat(static_cast<int>(policy)), "MissPolicy::wait (0) to MissPolicy::quick (2)");
  return policy;
}

PackCompiler resolve_pack_compiler(const Options& options) {
  if (options.pack_compiler) {
    const PackCompiler compiler = *options.pack_compiler;
    if (compiler == PackCompiler::any || compiler == PackCompiler::own) return compiler;
    refuse("Options::pack_compiler", cat(static_cast<int>(compiler)), "PackCompiler::any (0), PackCompiler::own (1)");
  }
  const std::string text = environment_variable("TJ_PACK_COMPILER").value_or("any");
  if (text == "any" || text == "own") return text == "own" ? PackCompiler::own : PackCompiler::any;
  refuse("TJ_PACK_COMPILER", text, "any, own");
}

std::uint64_t parse_seed(const std::string& name, const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse(name, text, "a number from 0 to 2^64 - 1");
  return value;
}

double checked_seconds(const char* name, double seconds, const std::string& text) {
  if (seconds >= 0 && seconds <= kMostSeconds) return seconds;  // NaN is neither
  refuse(name, text, "seconds from 0 (no limit) to 1000000, such as 300 or 0.5");
}

double parse_seconds(const char* name, const std::string& text) {
  double seconds = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::fixed);
  const bool number = error == std::errc() && end == text.data() + text.size();
  return checked_seconds(name, number ? seconds : -1, text);
}

double resolve_seconds(const std::optional<double>& option, const char* field, const char* variable, double otherwise) {
  if (option) return checked_seconds(field, *option, cat(*option));
  const auto text = environment_variable(variable);
  return text ? parse_seconds(variable, *text) : otherwise;
}

ModelSettings resolve_model(const Options& options) {
  ModelSettings model;
  if (options.model_seed)
    model.seed = *options.model_seed;
  else if (const auto seed = environment_variable("TJ_MODEL_SEED"))
    model.seed = parse_seed("TJ_MODEL_SEED", *seed);
  const auto sites = [](const std::optional<std::string>& option, const char* field, const char* variable) {
    if (option) return option->empty() ? std::vector<SiteName>() : parse_sites(field, *option);
    const auto text = environment_variable(variable);
    return text ? parse_sites(variable, *text) : std::vector<SiteName>();
  };
  model.disabled = sites(options.model_disable, "Options::model_disable", "TJ_MODEL_DISABLE");
  model.weakened = sites(options.model_weaken, "Options::model_weaken", "TJ_MODEL_WEAKEN");
  model.report = resolve_path(options.model_report, "Options::model_report", "TJ_MODEL_REPORT");
  return model;
}

}  // namespace

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> all;
  for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const auto is_changed = [&](const auto& change) {
      return text.compare(0, change.first.size() + 1, change.first + "=") == 0;
    };
    if (std::none_of(changes.begin(), changes.end(), is_changed)) all.push_back(text);
  }
  for (const auto& [name, value] : changes)
    if (!value.empty()) all.push_back(name + "=" + value);
  return all;
}

std::optional<std::string> environment_variable(const char* name) {
  // Nothing from the environment may steer a set-user-id program.
  const char* value = ::secure_getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

Settings resolve_settings(const Options& options) {
  Settings settings;
  settings.use_disk_cache = options.use_disk_cache;
  settings.cache_dir = resolve_cache_dir(options);

  settings.cache_max_size_bytes = resolve_size(options.cache_max_size_bytes, "TJ_CACHE_MAX_SIZE", kDefaultCacheBytes);
  settings.code_max_size_bytes = resolve_size(options.code_max_size_bytes, "TJ_CODE_MAX_SIZE", 0);

  settings.target_from_variable = !options.target;
  settings.target = options.target ? *options.target : environment_variable("TJ_TARGET").value_or("");

  settings.facts_file = resolve_path(options.facts_file, "Options::facts_file", "TJ_FACTS");
  settings.facts_from = options.facts_file ? "Options::facts_file" : "TJ_FACTS";

  settings.dump_dir = resolve_path(options.dump_dir, "Options::dump_dir", "TJ_DUMP_DIR");
  settings.record_file = resolve_path(options.record_file, "Options::record_file", "TJ_RECORD");

  if (options.use_tuning) {
    settings.use_tuning = *options.use_tuning;
  } else if (const auto tuning = environment_variable("TJ_TUNE")) {
    settings.use_tuning = parse_switch("TJ_TUNE", *tuning);
  }

  if (options.check_lists) {
    settings.check_lists = *options.check_lists;
  } else if (const auto check = environment_variable("TJ_CHECK")) {
    settings.check_lists = parse_check("TJ_CHECK", *check);
  }

  if (options.log_level) {
    settings.log_level = checked_log_level(*options.log_level);
  } else if (const auto level = environment_variable("TJ_LOG_LEVEL")) {
    settings.log_level = parse_log_level("TJ_LOG_LEVEL", *level);
  }

  if (options.hip_compiler) {
    settings.hip_compiler = checked_hip_compiler("Options::hip_compiler", *options.hip_compiler);
  } else if (const auto choice = environment_variable("TJ_HIP_COMPILER")) {
    settings.hip_compiler = checked_hip_compiler("TJ_HIP_COMPILER", *choice);
  }
  settings.wait_limit_s =
      resolve_seconds(options.wait_limit_s, "Options::wait_limit_s", "TJ_WAIT_LIMIT", kDefaultWaitSeconds);
  settings.compile_limit_s =
      resolve_seconds(options.compile_limit_s, "Options::compile_limit_s", "TJ_COMPILE_LIMIT", kDefaultCompileSeconds);
  if (options.on_miss) {
    settings.on_miss = checked_miss_policy(*options.on_miss);
  } else if (const auto policy = environment_variable("TJ_ON_MISS")) {
    settings.on_miss = parse_miss_policy("TJ_ON_MISS", *policy);
  }
  settings.pack_keys = resolve_path(options.pack_keys, "Options::pack_keys", "TJ_PACK_KEYS");
  settings.pack_compiler = resolve_pack_compiler(options);
  settings.model = resolve_model(options);
  return settings;
}

}  // namespace tj::support
