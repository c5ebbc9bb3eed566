// See arguments.hpp.
#include "common/arguments.hpp"

#include <algorithm>
#include <charconv>

#include <tilejit/error.hpp>

namespace tj::samples {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(Stage::argument, Code::invalid_argument, message); }

}  // namespace

bool Arguments::take_switch(const std::string& name) {
  const auto end = std::remove(words_.begin(), words_.end(), name);
  const bool found = end != words_.end();
  words_.erase(end, words_.end());
  return found;
}

std::optional<std::string> Arguments::take(const std::string& name) {
  const auto at = std::find(words_.begin(), words_.end(), name);
  if (at == words_.end()) return std::nullopt;
  if (at + 1 == words_.end()) refuse(name + " needs a value");
  std::string value = *(at + 1);
  if (value.empty()) refuse(name + " needs a value, and what it is given is empty");
  words_.erase(at, at + 2);
  if (std::find(words_.begin(), words_.end(), name) != words_.end()) refuse(name + " is given twice");
  return value;
}

std::optional<std::uint64_t> Arguments::take_number(const std::string& name, std::uint64_t least, std::uint64_t most) {
  const std::optional<std::string> text = take(name);
  if (!text) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < least || value > most)
    refuse(name + " is '" + *text + "'; allowed: " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

std::vector<std::string> Arguments::rest() {
  for (const std::string& word : words_)
    if (!word.empty() && word[0] == '-') refuse("'" + word + "' is no option of this sample; see --help");
  return words_;
}

}  // namespace tj::samples
