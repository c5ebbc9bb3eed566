// See fields.hpp.
#include "ops/common/fields.hpp"

#include "ops/common/element.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::ops {

using support::cat;

namespace {

DType type_named(std::string_view word) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::i32, DType::e4m3})
    if (word == to_string(type)) return type;
  support::fail(Stage::argument, Code::internal, cat("'", word, "' is no type of elements"));
}

}  // namespace

const char* word_at(const char* field, Words words, unsigned place) {
  if (place >= words.size())
    support::fail(Stage::argument, Code::internal,
                  cat("field '", field, "' of a kernel has value ", place, " of ", words.size()));
  return words[place];
}

std::string tag_text(std::string_view tag, std::string_view word) {
  std::string text(tag);
  if (const std::size_t at = text.find('%'); at != std::string::npos) text.replace(at, 1, word);
  return text;
}

unsigned place_of(std::string_view op, const char* field, Words words, Words also, std::string_view word) {
  for (std::size_t i = 0; i < also.size(); ++i)
    if (also[i] == word) return static_cast<unsigned>(i);
  std::string known;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == word) return static_cast<unsigned>(i);
    known += cat(i == 0 ? "" : ", ", words[i]);
  }
  support::fail(Stage::argument, Code::invalid_argument,
                cat(op, ": ", field, " is '", support::shown(word), "'; allowed are ", known));
}

std::pair<std::string, std::string> constant_text(std::string_view op, const char* name, Constant kind, unsigned place,
                                                  std::string_view word) {
  switch (kind) {
    case Constant::boolean:
      return {cat("static constexpr bool ", name), place != 0 ? "true" : "false"};
    case Constant::integer:
      return {cat("static constexpr int ", name), std::string(word)};
    case Constant::place:
      return {cat("static constexpr int ", name), cat(place)};
    case Constant::element:
      return {cat("using ", name), element_text(op, type_named(word))};
    case Constant::none:
      break;
  }
  support::fail(Stage::argument, Code::internal, cat(op, ": field '", name, "' has no constant"));
}

}  // namespace tj::ops
