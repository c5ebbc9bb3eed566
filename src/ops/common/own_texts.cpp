// See own_texts.hpp.
#include "ops/common/own_texts.hpp"

#include <mutex>

#include "support/device_texts.hpp"
#include "support/fail.hpp"
#include "support/hash.hpp"

namespace tj::ops {

using support::cat;

unsigned TextSets::number(const char* op, const char* names, const char* buffer, const Set& set) {
  std::array<const DeviceText::Kept*, kMostOwnTexts> kept{};
  bool any = false;
  for (std::size_t i = 0; i < kMostOwnTexts; ++i) {
    kept[i] = set[i].kept();
    any = any || set[i].given();
  }
  if (!any) return 0;
  constexpr std::size_t kMost = (std::size_t{1} << kOwnTextBits) - 1;
  const std::lock_guard lock(mutex_);
  const auto found = numbers_.find(kept);
  if (found != numbers_.end()) return found->second;
  if (sets_.size() == kMost)
    refuse(op, Code::unsupported, cat(names, "; allowed: ", kMost, " in one process, with what changes in ", buffer));
  sets_.push_back(set);
  count_.store(sets_.size(), std::memory_order_release);
  return numbers_[kept] = static_cast<unsigned>(sets_.size());
}

TextSets::Set TextSets::texts(unsigned number) {
  if (number == 0) return {};
  const std::lock_guard lock(mutex_);
  return sets_.at(number - 1);
}

std::span<const char* const> TextSets::words() {
  static constexpr std::array<const char*, 1u << kOwnTextBits> kWords = [] {
    std::array<const char*, 1u << kOwnTextBits> words{};
    words.fill("");
    return words;
  }();
  return {kWords.data(), count_.load(std::memory_order_acquire) + 1};
}

void check_own_text(const char* op, const OwnText& of, const DeviceText& text) {
  if (!text.given()) return;
  const DeviceText::Kept& kept = *text.kept();
  const auto example = [&] { return of.example != nullptr ? cat(", such as ", of.example) : std::string(); };
  if (!kept.problem.empty())
    refuse(op, Code::invalid_argument, cat(of.name, " ", kept.problem, kept.empty ? example() : ""));
  if (of.example != nullptr && !kept.returns)
    refuse(op, Code::invalid_argument, cat(of.name, " has no return; allowed: the body of a function", example()));
}

void check_text_reads(const char* op, const OwnText& of, const DeviceText& text, const char* buffer) {
  if (text.given() && text.kept()->reads_params)
    refuse(op, Code::invalid_argument,
           cat(buffer, " is absent; allowed: a tensor of f32 or i32, as ", of.name, " reads params"));
}

Range check_text_params(const char* op, const char* name, const Tensor& tensor, const Named& like) {
  static constexpr const char* kAxes[] = {"N"};
  const Named params{op, name, tensor, kAxes, 1, "[N]"};
  check_form(params);
  if (tensor.dtype != DType::i32) check_dtype(params, DType::f32, ", or i32");
  check_device(params, like.tensor.device, like.name);
  check_strides(params, size_of(DType::f32), 0);
  check_alignment(params, size_of(DType::f32));
  return range_of(params);
}

std::string texts_tag(const TextFields& fields) {
  if (fields.empty()) return {};
  support::FieldHash hash;
  for (const auto& [name, text] : fields) hash.field(name, text);
  return "_own" + support::to_hex(hash.finish()).substr(0, 16);
}

bool is_text_flag(std::string_view flag) {
  return flag == kEndTextField || flag == kScoreModField || flag == kMaskModField || flag == kKeyRangeField;
}

DeviceText take_text(Flags& flags, const OwnText& of) {
  const auto found = flags.find(of.field);
  if (found == flags.end()) return {};
  std::string text;  // a text has commas, too
  for (std::size_t i = 0; i < found->second.size(); ++i) text += (i == 0 ? "" : ",") + found->second[i];
  flags.erase(found);
  return text;
}

void add_text(graph::Graph& graph, const OwnText& of, const DeviceText& text) {
  if (!text.given()) return;
  graph.config.emplace_back(cat("static constexpr bool ", of.constant), "true");
  graph.functions.push_back({of.name, cat("static TJ_DEVICE ", of.declaration), std::string(text.text())});
}

int text_operations(const DeviceText& text) { return text.given() ? 2 + text.kept()->operations : 0; }

}  // namespace tj::ops
