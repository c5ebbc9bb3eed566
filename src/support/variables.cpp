// See variables.hpp.
#include "support/variables.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "support/fail.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"

namespace tj::support {
namespace {

constexpr std::string_view kPrefix = "TJ_", kOfTests = "TJ_TEST_";
constexpr const char* kNames[] = {"TJ_CACHE_DIR",     "TJ_CACHE_MAX_SIZE", "TJ_CHECK",        "TJ_CODE_MAX_SIZE",
                                  "TJ_COMPILE_LIMIT", "TJ_DIST_ORDER",     "TJ_DIST_PIECES",  "TJ_DIST_TRANSPORT",
                                  "TJ_DUMP_DIR",      "TJ_FACTS",          "TJ_HIP_COMPILER", "TJ_LOG_LEVEL",
                                  "TJ_MODEL_DISABLE", "TJ_MODEL_REPORT",   "TJ_MODEL_SEED",   "TJ_MODEL_WEAKEN",
                                  "TJ_ON_MISS",       "TJ_PACK_COMPILER",  "TJ_PACK_KEYS",    "TJ_RECORD",
                                  "TJ_TARGET",        "TJ_TUNE",           "TJ_WAIT_LIMIT"};

std::string advice(const std::string& name) {
  const std::string near = meant(name, known_variables());
  if (!near.empty()) return near;
  std::string all = "; those that do are";
  for (const std::string& each : known_variables()) all += (all.back() == 'e' ? " " : ", ") + each;
  return all;
}

}  // namespace

const std::vector<std::string>& known_variables() {
  static constinit Lasting<std::vector<std::string>> names;
  return names.get([] { return std::vector<std::string>(std::begin(kNames), std::end(kNames)); });
}

std::vector<std::string> unknown_variables() {
  std::vector<std::string> unknown;
  for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with(kPrefix) || name.starts_with(kOfTests)) continue;
    if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) continue;
    if (::secure_getenv(name.c_str()) != nullptr) unknown.push_back(name);
  }
  return unknown;
}

void warn_of_unknown_variables(const Log& log) {
  static constinit std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  for (const std::string& name : unknown_variables())
    log(LogLevel::warn, cat("the variable ", shown(name), " is set and means nothing to tilejit", advice(name)));
}

}  // namespace tj::support
