// Reading sizes; see trial.hpp.
#include "ops/common/trial.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;

constexpr std::int64_t kMostSize = 1 << 20;  // the model runs every thread: more would not end
constexpr std::int64_t kMostSum = std::numeric_limits<std::int32_t>::max();  // ends of sequences are i32

std::int64_t number(const std::string& flag, const std::string& text, std::int64_t least) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > kMostSize)
    fail(Stage::argument, Code::invalid_argument,
         cat("--", flag, " is '", support::shown(text), "'; allowed: ", least, " to ", kMostSize));
  return value;
}

}  // namespace

std::vector<Trial> Op::trials(const std::map<std::string, std::vector<std::string>>&, const arch::Arch&) const {
  fail(Stage::argument, Code::unsupported,
       cat("op '", name(), "' brings no problems to check it by; give it an Op::trials (src/ops/common/trial.hpp)"));
}

std::size_t TrialTensor::elements() const {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < operand.shape.size(); ++i) count += (operand.shape[i] - 1) * operand.strides[i];
  return std::max(static_cast<std::size_t>(count), room);
}

TrialTensor dense(std::string name, DType dtype, std::vector<std::int64_t> shape, bool written) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0; stride *= shape[i]) strides[i] = stride;
  return {std::move(name), {dtype, std::move(shape), std::move(strides)}, written};
}

TrialTensor list_of(std::string name, std::vector<std::int64_t> shape, std::vector<std::int32_t> numbers) {
  TrialTensor tensor = dense(std::move(name), DType::i32, std::move(shape));
  tensor.operand.numbers = std::move(numbers);
  return tensor;
}

Sizes::Sizes(std::string_view op, Flags& flags, std::vector<std::pair<const char*, std::int64_t>> defaults) {
  for (const auto& [name, value] : defaults) {
    Size size{name, value, false};
    if (const auto found = flags.find(name); found != flags.end()) {
      if (found->second.size() != 1)
        fail(Stage::argument, Code::invalid_argument,
             cat("--", name, " is '", joined(found->second), "'; allowed: one size of ", op));
      size.value = number(name, found->second.front(), 1);
      size.given = true;
      flags.erase(found);
    }
    sizes_.push_back(size);
  }
}

std::int64_t Sizes::at(std::string_view name) const {
  for (const Size& size : sizes_)
    if (name == size.name) return size.value;
  fail(Stage::argument, Code::internal, cat("there is no size '", name, "'"));
}

bool Sizes::given(std::string_view name) const {
  return std::any_of(sizes_.begin(), sizes_.end(), [&](const Size& size) { return name == size.name && size.given; });
}

bool Sizes::any_given() const {
  return std::any_of(sizes_.begin(), sizes_.end(), [](const Size& size) { return size.given; });
}

void Sizes::set_default(std::string_view name, std::int64_t value) {
  for (Size& size : sizes_)
    if (name == size.name && !size.given) size.value = value;
}

std::string Sizes::flags() const {
  std::string text;
  for (const Size& size : sizes_) text += cat(text.empty() ? "" : " ", "--", size.name, " ", size.value);
  return text;
}

std::vector<std::int64_t> take_list(Flags& flags, const char* name, std::vector<std::int64_t> otherwise) {
  const auto found = flags.find(name);
  if (found == flags.end()) return otherwise;
  std::vector<std::int64_t> list;
  std::int64_t sum = 0;
  for (const std::string& word : found->second) sum += list.emplace_back(number(name, word, 0));
  if (sum > kMostSum)
    fail(Stage::argument, Code::invalid_argument, cat("--", name, " add up to ", sum, "; allowed: at most ", kMostSum));
  flags.erase(found);
  return list;
}

std::vector<FlagChoice> first_of_each(std::vector<FlagChoice> choices) {
  for (FlagChoice& choice : choices) {
    if (const auto both = std::find(choice.allowed.begin(), choice.allowed.end(), "both");
        both != choice.allowed.end()) {
      choice.allowed.erase(both);
      choice.allowed.emplace_back("both");
    }
    choice.defaults = std::min<std::size_t>(choice.defaults, 1);
  }
  return choices;
}

}  // namespace tj::ops
