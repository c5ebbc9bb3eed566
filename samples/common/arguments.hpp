// Command lines of samples: "--name value", "--switch" and positional words.
//
// Decides nothing about meanings. Invariant: a word that nobody asked for, or a value that is no number, is an error
// that names it; nothing is ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tj::samples {

class Arguments {
 public:
  Arguments(int argc, const char* const* argv) : words_(argv + (argc > 0 ? 1 : 0), argv + argc) {}

  /// Each call takes its words away. Throw tj::Error(argument, invalid_argument).
  bool take_switch(const std::string& name);
  std::optional<std::string> take(const std::string& name);
  std::optional<std::uint64_t> take_number(const std::string& name, std::uint64_t least, std::uint64_t most);
  /// The first word that is left is neither an option nor absent.
  bool first_is_positional() const { return !words_.empty() && words_[0].substr(0, 1) != "-"; }
  /// The words that are left, once all options were taken; throws when one of them begins with "-".
  std::vector<std::string> rest();

 private:
  std::vector<std::string> words_;
};

}  // namespace tj::samples
