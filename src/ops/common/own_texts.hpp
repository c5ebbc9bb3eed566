// Texts of device code that a call of an op brings along, as functions of a kernel's Config.
//
// Decides how a text becomes a field of a kernel, part of its name, a flag of command lines, and a function. Decides
// how the buffer that texts read is checked. Does not decide what a text is told: a row of OwnText does, which is an
// op's. Invariant: kernels whose texts differ have numbers, fields and tags that differ.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tilejit/device_text.hpp>

#include "graph/graph.hpp"
#include "ops/common/op_flags.hpp"
#include "ops/common/tensor_checks.hpp"
#include "support/fork_safe.hpp"

namespace tj::ops {

/// Bits of the hot key for the texts of a kernel. A process has at most 2^bits - 1 different sets of texts of an op.
inline constexpr unsigned kOwnTextBits = 12;
inline constexpr std::size_t kMostOwnTexts = 3;  ///< of a call

/// Names of texts in requests and on the command line.
inline constexpr const char kEndTextField[] = "end-text", kScoreModField[] = "score-mod", kMaskModField[] = "mask-mod",
                            kKeyRangeField[] = "key-range";
/// Is this flag's value a text? Then a comma in it separates no values.
bool is_text_flag(std::string_view flag);

/// A text that a call of an op may have.
struct OwnText {
  const char* name;         ///< of the argument, and of the function
  const char* field;        ///< one of the names above
  const char* constant;     ///< of Config: true where there is a text, else absent
  const char* declaration;  ///< of the function, without its storage
  const char* example;      ///< of a text that returns a value; null: the function has no value
};

using TextFields = std::vector<std::pair<std::string, std::string>>;

/// The sets of texts that a process has asked for, by numbers from 1 on. Thread safe.
class TextSets {
 public:
  using Set = std::array<DeviceText, kMostOwnTexts>;  ///< those that there are, in the op's order

  /// 0 without a text. Allocates where a set is new. Throws tj::Error(argument) for more sets than the hot key has
  /// numbers for. names: of the arguments, as in "end_text is another text"; buffer: what texts read.
  unsigned number(const char* op, const char* names, const char* buffer, const Set& set);
  /// The set of a number, of which 0 is empty.
  Set texts(unsigned number);
  /// An empty word for each set that there is, and one for none: requests have the texts. Takes no lock.
  std::span<const char* const> words();

 private:
  support::Mutex mutex_;
  std::map<std::array<const DeviceText::Kept*, kMostOwnTexts>, unsigned> numbers_;
  std::deque<Set> sets_;
  std::atomic<std::size_t> count_{0};  ///< of sets; hot calls ask for it
};

/// Throws tj::Error(argument, invalid_argument) naming the text, and why it cannot be compiled.
void check_own_text(const char* op, const OwnText& of, const DeviceText& text);
/// Throws tj::Error(argument, invalid_argument) where a text reads the buffer of that name, which is absent.
void check_text_reads(const char* op, const OwnText& of, const DeviceText& text, const char* buffer);
/// Checks the buffer of texts, f32 or i32 [N], on the device of `like`. Returns its place, for checks of what is
/// written.
Range check_text_params(const char* op, const char* name, const Tensor& tensor, const Named& like);

/// "_own0123456789abcdef" of a kernel with texts, else nothing.
std::string texts_tag(const TextFields& fields);
/// Takes a text's flag out of `flags`. No text where it is not given.
DeviceText take_text(Flags& flags, const OwnText& of);
/// The constant and the function of Config, where there is a text.
void add_text(graph::Graph& graph, const OwnText& of, const DeviceText& text);
/// Instructions of a text's call, counted from its operators; 0 without one.
int text_operations(const DeviceText& text);

/// Tells the device the buffer of texts. No text reads one that is not there.
template <class Params>
void set_text_params(const std::optional<Tensor>& tensor, const unsigned* Params::* words, unsigned Params::* last,
                     Params& params) {
  if (!tensor) return;
  params.*words = static_cast<const unsigned*>(tensor->data);
  params.*last = static_cast<unsigned>(tensor->shape[0] - 1);
}

}  // namespace tj::ops
