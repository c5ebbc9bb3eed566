// The table of the fields that decide a kernel of an op: everything else that names a field is made from its row.
//
//   {.name = "causal", .get = ..., .set = ..., .words = words<kTruth>, .bits = 1,
//    .flags = {"both", "true", "false"}, .tag = "_causal", .tagged = ..., .constant = "kCausal"}
//
// gives the request's field "causal", its reading, the flag --causal, one bit of the hot key, "_causal" in the kernel's
// name and `static constexpr bool kCausal` in the unit's Config. Decides how rows are read and written; which rows an
// op has is the op's. Invariant: kernels with equal words in all rows are one kernel, with one key and one name.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.hpp"
#include "ops/common/op_flags.hpp"
#include "ops/op.hpp"

namespace tj::ops {

/// How a field stands in a unit's Config.
enum class Constant : std::uint8_t {
  none,
  boolean,  ///< static constexpr bool kName: whether the value is another than the first
  integer,  ///< static constexpr int kName = word
  place,    ///< static constexpr int kName = the value's place among the words
  element,  ///< using Name = the tag of an element type
};

/// Values that a field can have, in words; a value is its place among them.
using Words = std::span<const char* const>;
inline constexpr const char* kTruth[] = {"false", "true"};
template <const auto& kWords>
Words words() {
  return kWords;
}

/// The place of a value among those that a field's words stand for, in the order of the words. A value without a word
/// has a place behind the last.
template <const auto& kValues, class Value>
constexpr unsigned place_among(const Value& value) {
  return static_cast<unsigned>(std::find(std::begin(kValues), std::end(kValues), value) - std::begin(kValues));
}

/// At most so many words are offered on a command line without a function.
inline constexpr std::size_t kMostFlagWords = 6;

template <class Kernel>
struct Field {
  const char* name;  ///< "head-dim", in requests and on the command line
  unsigned (*get)(const Kernel&);
  void (*set)(Kernel&, unsigned);
  Words (*words)();
  Words (*also)() = nullptr;  ///< further spellings of the same values, in their order: read, never written
  unsigned bits;              ///< of the hot key; a test compares them with the number of words

  /// On the command line, in the order in which defaults are wanted: the first `defaults` of them are made when nothing
  /// is said. "both" is false and true.
  std::array<const char*, kMostFlagWords> flags{};
  std::size_t defaults = 1;
  std::vector<std::string> (*more_flags)() = nullptr;  ///< in place of flags, where they are many
  /// Sets what a word of the command line alone means, which is none of the field's: "same". Null where there is none.
  void (*set_other)(Kernel&) = nullptr;
  const char* other = nullptr;  ///< that word

  /// The field's part of the kernel's name, % for the word. It stands there where tagged() says so; always, without
  /// tagged().
  const char* tag = "";
  bool (*tagged)(const Kernel&) = nullptr;
  bool optional = false;  ///< left out of a request, too, where the name does not say it
  int tag_place = 0;      ///< fields of a lower place come first in the name; equal ones in the order of the table

  const char* constant = nullptr;
  Constant kind = Constant::none;
  bool constant_where_tagged = false;  ///< Config lacks the constant where the name does not say the field
};

/// The bits of all rows: at most 64, which the table of an op asserts.
template <class Kernel, std::size_t N>
constexpr unsigned key_bits(const std::array<Field<Kernel>, N>& fields) {
  unsigned sum = 0;
  for (const Field<Kernel>& field : fields) sum += field.bits;
  return sum;
}

/// All fields in 64 bits, without allocating; the first row has the highest bits.
template <const auto& kFields, class Kernel>
std::uint64_t key_of_fields(const Kernel& kernel) {
  static_assert(key_bits(kFields) <= 64, "the hot key of a kernel has 64 bits");
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    std::uint64_t key = 0;
    ((key = key << kFields[I].bits | kFields[I].get(kernel)), ...);
    return key;
  }(std::make_index_sequence<kFields.size()>());
}

template <class Kernel>
bool is_tagged(const Field<Kernel>& field, const Kernel& kernel) {
  return field.tagged == nullptr || field.tagged(kernel);
}

/// Does the field stand in requests and among the flags of a kernel?
template <class Kernel>
bool is_written(const Field<Kernel>& field, const Kernel& kernel) {
  return !field.optional || is_tagged(field, kernel);
}

template <class Kernel>
bool has_constant(const Field<Kernel>& field, const Kernel& kernel) {
  return field.kind != Constant::none && (!field.constant_where_tagged || is_tagged(field, kernel));
}

/// Throws tj::Error(argument, internal) for a place beyond the words: validate() has let something pass.
const char* word_at(const char* field, Words words, unsigned place);

/// The kernel of a key. Throws tj::Error(argument, internal) for bits that no kernel's key has.
template <const auto& kFields, class Kernel>
Kernel kernel_of_key(std::uint64_t key) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    Kernel kernel;
    unsigned left = key_bits(kFields);
    const auto next = [&](const Field<Kernel>& field) {
      left -= field.bits;
      const auto place = static_cast<unsigned>(key >> left & ((std::uint64_t{1} << field.bits) - 1));
      word_at(field.name, field.words(), place);
      field.set(kernel, place);
    };
    (next(kFields[I]), ...);
    return kernel;
  }(std::make_index_sequence<kFields.size()>());
}

template <class Kernel>
const char* word_of(const Field<Kernel>& field, const Kernel& kernel) {
  return word_at(field.name, field.words(), field.get(kernel));
}

/// "_d64" of "_d%".
std::string tag_text(std::string_view tag, std::string_view word);
/// The word's place among the words, or among their further spellings; throws tj::Error(argument) for another.
unsigned place_of(std::string_view op, const char* field, Words words, Words also, std::string_view word);
/// One line of a Config.
std::pair<std::string, std::string> constant_text(std::string_view op, const char* name, Constant kind, unsigned place,
                                                  std::string_view word);

/// "_f16_d128_causal": what the fields put into a kernel's name, but for some of them.
template <const auto& kFields, class Kernel>
std::string tags_of_fields(const Kernel& kernel, std::initializer_list<std::string_view> without) {
  std::array<const Field<Kernel>*, kFields.size()> in_name;
  std::transform(kFields.begin(), kFields.end(), in_name.begin(), [](const auto& field) { return &field; });
  std::stable_sort(in_name.begin(), in_name.end(),
                   [](const auto* x, const auto* y) { return x->tag_place < y->tag_place; });
  std::string tags;
  for (const Field<Kernel>* field : in_name)
    if (std::find(without.begin(), without.end(), field->name) == without.end() && is_tagged(*field, kernel))
      tags += tag_text(field->tag, word_of(*field, kernel));
  return tags;
}

/// The canonical request, under the kernel's name. without: a field that both leave out, as of kernels that are chosen
/// by it.
template <const auto& kFields, class Kernel>
Request request_of_fields(std::string_view op, const Kernel& kernel, std::string_view without = {}) {
  Request request;
  request.op = op;
  request.name = std::string(op) + tags_of_fields<kFields>(kernel, {without});
  for (const Field<Kernel>& field : kFields)
    if (without != field.name && is_written(field, kernel))
      request.fields.emplace_back(field.name, word_of(field, kernel));
  return request;
}

/// Sets a field by a word of its own; other names are none of the kernel's, and left alone.
template <const auto& kFields, class Kernel>
void set_field(std::string_view op, Kernel& kernel, std::string_view name, std::string_view word) {
  for (const Field<Kernel>& field : kFields)
    if (name == field.name)
      field.set(kernel, place_of(op, field.name, field.words(), field.also == nullptr ? Words{} : field.also(), word));
}

/// Sets a field from a word of the command line.
template <const auto& kFields, class Kernel>
void set_flag(std::string_view op, Kernel& kernel, std::string_view name, std::string_view word) {
  for (const Field<Kernel>& field : kFields)
    if (name == field.name && field.other != nullptr && word == field.other) return field.set_other(kernel);
  set_field<kFields>(op, kernel, name, word);
}

/// The kernel of a request; a field that is left out has the value of `kernel`.
template <const auto& kFields, class Kernel>
Kernel kernel_of_fields(const Request& request, Kernel kernel = {}) {
  for (const auto& [name, word] : request.fields) set_field<kFields>(request.op, kernel, name, word);
  return kernel;
}

/// The flags that a command line offers.
template <const auto& kFields>
std::vector<FlagChoice> choices_of_fields() {
  std::vector<FlagChoice> list;
  for (const auto& field : kFields) {
    FlagChoice choice{field.name, {}, field.defaults};
    if (field.more_flags != nullptr) choice.allowed = field.more_flags();
    for (const char* word : field.flags)
      if (word != nullptr) choice.allowed.emplace_back(word);
    if (!choice.allowed.empty()) list.push_back(std::move(choice));  // else the op reads it
  }
  return list;
}

/// The kernels of a command line: every combination of its words. `choices` are choices_of_fields(), or fewer of them.
template <const auto& kFields, class Kernel>
std::vector<Kernel> kernels_of_flags(std::string_view op, const Flags& flags, const std::vector<FlagChoice>& choices) {
  return combinations<Kernel>(op, flags, choices, [&](Kernel& kernel, std::string_view name, std::string_view word) {
    set_flag<kFields>(op, kernel, name, word);
  });
}

/// A kernel as it is written on a command line: "--dtype f16 --head-dim 64", without one of the fields or with all.
template <const auto& kFields, class Kernel>
std::string flags_of_fields(const Kernel& kernel, std::string_view without = {}) {
  std::string text;
  for (const Field<Kernel>& field : kFields)
    if (without != field.name && is_written(field, kernel))
      text += std::string(text.empty() ? "--" : " --") + field.name + " " + word_of(field, kernel);
  return text;
}

/// Config's lines of those fields that it has, in the order of the table.
template <const auto& kFields, class Kernel>
void add_constants(std::string_view op, const Kernel& kernel, graph::Graph& graph) {
  for (const Field<Kernel>& field : kFields)
    if (has_constant(field, kernel))
      graph.config.push_back(constant_text(op, field.constant, field.kind, field.get(kernel), word_of(field, kernel)));
}

/// Adds Config's lines of the fields, but not of those in `without`.
template <const auto& kFields, class Kernel>
void add_other_constants(std::string_view op, const Kernel& kernel, graph::Graph& graph,
                         std::initializer_list<std::string_view> without) {
  for (const Field<Kernel>& field : kFields)
    if (has_constant(field, kernel) && std::find(without.begin(), without.end(), field.name) == without.end())
      graph.config.push_back(constant_text(op, field.constant, field.kind, field.get(kernel), word_of(field, kernel)));
}

/// Adds Config's lines of the fields in `names`, in this order, for a Config with other lines between them.
template <const auto& kFields, class Kernel>
void add_constants(std::string_view op, const Kernel& kernel, graph::Graph& graph,
                   std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    for (const Field<Kernel>& field : kFields)
      if (name == field.name && has_constant(field, kernel))
        graph.config.push_back(
            constant_text(op, field.constant, field.kind, field.get(kernel), word_of(field, kernel)));
}

}  // namespace tj::ops
