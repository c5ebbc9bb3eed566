// See trials.hpp.
#include "custom/trials.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <utility>

#include "custom/custom.hpp"
#include "graph/code.hpp"
#include "support/fail.hpp"
#include "support/random_values.hpp"
#include "support/text.hpp"

namespace tj {
namespace {

using graph::Fields;
using graph::Json;
using support::cat;
using support::shown;

constexpr std::size_t kMaxTrials = 64, kMaxSizes = 64, kMaxTensors = 16, kMaxParams = 64;
constexpr double kMostElements = 1 << 28;  ///< of a tensor
constexpr std::int64_t kMostSteps = std::int64_t{1} << 31;
constexpr double kTolerances[] = {4e-3, 2e-2, 1e-3, 0, 0.13};  ///< of f16, bf16, f32, i32, e4m3
constexpr const char* kAtOnce = "blocks_at_once";

/// The index of a word; `otherwise` where the key is left out, which may be none.
template <std::size_t kCount>
std::size_t word_of(const Fields& fields, const Json& object, const std::string& place, const char* key,
                    const char* const (&words)[kCount], std::size_t otherwise = kCount) {
  const Json* given = Fields::optional(object, key);
  if (given == nullptr && otherwise < kCount) return otherwise;
  const std::string& text = fields.text(fields.required(object, place, key), Fields::join(place, key));
  std::string known;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (text == words[i]) return i;
    known += cat(i == 0 ? "" : ", ", words[i]);
  }
  fields.reject(place, ".", key, " is '", shown(text), "'; allowed are ", known);
}

class TrialReader {
 public:
  TrialReader(const Fields& fields, const Json& json, std::string place, NumberReader numbers)
      : fields_(fields), json_(json), numbers_(std::move(numbers)) {
    trial_.fields = fields;
    trial_.place = std::move(place);
  }

  ResolvedTrial read() {
    const std::string& place = trial_.place;
    fields_.keys(json_, place, {"name", "use", "sizes", "tensors", "params", "blocks"});
    trial_.name = fields_.text(fields_.required(json_, place, "name"), place + ".name");
    const auto plain = [](char c) { return support::is_word_letter(c) || c == '-' || c == '.'; };
    if (trial_.name.empty() || trial_.name.size() > 64 || !std::all_of(trial_.name.begin(), trial_.name.end(), plain))
      fields_.reject(place, ".name is '", shown(trial_.name),
                     "'; allowed are 1 to 64 letters, digits, '_', '-' and '.'");
    trial_.use = static_cast<ResolvedTrial::Use>(word_of(fields_, json_, place, "use", kTrialUses, 0));
    sizes();
    tensors();
    params();
    blocks();
    return std::move(trial_);
  }

 private:
  void sizes() {
    const Json* given = Fields::optional(json_, "sizes");
    if (given == nullptr) return;
    const std::string place = trial_.place + ".sizes";
    if (fields_.object(*given, place).size() > kMaxSizes)
      fields_.reject(place, " has ", given->size(), " members; at most ", kMaxSizes, " are allowed");
    for (const auto& [name, value] : given->items())
      if (!graph::is_identifier(name))
        fields_.reject(place, ".", shown(name), " is no name; allowed are letters, digits and '_', no digit first");
    numbers_.add(*given, place);
    numbers_.of_more("the trial's sizes");
  }

  void tensors() {
    const std::string list = trial_.place + ".tensors";
    for (const Json& each : fields_.list(fields_.required(json_, trial_.place, "tensors"), list, kMaxTensors)) {
      const std::string place = cat(list, "[", trial_.tensors.size(), "]");
      fields_.keys(each, place, {"name", "dtype", "shape", "fill", "written", "expected", "tolerance"});
      ResolvedTrial::Tensor tensor;
      tensor.name = fields_.text(fields_.required(each, place, "name"), place + ".name");
      if (!graph::is_identifier(tensor.name))
        fields_.reject(place, ".name is '", shown(tensor.name),
                       "'; allowed are letters, digits and '_', no digit first");
      for (const ResolvedTrial::Tensor& before : trial_.tensors)
        if (before.name == tensor.name)
          fields_.reject(place, ".name is '", tensor.name, "', as of a tensor before it; names must be unique");
      tensor.dtype = static_cast<DType>(word_of(fields_, each, place, "dtype", kTrialTypes));
      tensor.shape = shape(fields_.required(each, place, "shape"), place + ".shape");
      tensor.written = fields_.flag(each, place, "written", false);
      tensor.tolerance = fields_.real_or(each, place, "tolerance", kTolerances[static_cast<int>(tensor.dtype)]);
      trial_.tensors.push_back(std::move(tensor));
    }
    if (std::none_of(trial_.tensors.begin(), trial_.tensors.end(), [](const auto& each) { return each.written; }))
      fields_.reject(list, " has no tensor that is written; say \"written\": true of what the kernel writes");
    for (std::size_t t = 0; t < trial_.tensors.size(); ++t)
      formulas(json_["tensors"][t], cat(list, "[", t, "]"), trial_.tensors[t]);
  }

  std::vector<std::int64_t> shape(const Json& given, const std::string& place) const {
    std::vector<std::int64_t> extents;
    double elements = 1;
    for (const Json& each : fields_.list(given, place, static_cast<std::size_t>(kMaxRank))) {
      const std::string at = cat(place, "[", extents.size(), "]");
      extents.push_back(numbers_.whole(each, at, false));
      if (extents.back() < 1) fields_.reject(at, " is ", extents.back(), "; allowed are 1 and more");
      elements *= static_cast<double>(extents.back());
    }
    if (extents.empty()) fields_.reject(place, " is empty; give 1 to ", kMaxRank, " dimensions");
    if (elements > kMostElements)
      fields_.reject(place, " has ", elements, " elements; at most ", kMostElements, " are allowed");
    return extents;
  }

  void formulas(const Json& each, const std::string& place, ResolvedTrial::Tensor& tensor) const {
    FormulaScope scope;
    scope.indices = tensor.shape.size();
    scope.random = true;
    if (const Json* fill = Fields::optional(each, "fill"))
      tensor.fill = formula(*fill, place + ".fill", scope);
    else if (tensor.dtype == DType::i32 && !tensor.written)
      fields_.reject(place, ".fill is missing; numbers of i32 are never random: give it, such as \"i0\"");
    const Json* expected = Fields::optional(each, "expected");
    if (expected == nullptr) return;
    if (!tensor.written)
      fields_.reject(place, ".expected is given of '", tensor.name,
                     "', which the kernel does not write; allowed where "
                     "\"written\" is true");
    scope.random = false;
    for (const ResolvedTrial::Tensor& other : trial_.tensors)
      scope.tensors.emplace_back(other.written && !has_fill(other.name) ? "" : other.name, other.shape.size());
    tensor.expected = formula(*expected, place + ".expected", scope);
  }
  bool has_fill(const std::string& name) const {
    for (const Json& each : json_["tensors"])
      if (each["name"] == name) return each.contains("fill");
    return false;
  }
  Formula formula(const Json& json, const std::string& place, const FormulaScope& scope) const {
    const std::string text = json.is_number() ? json.dump() : fields_.text(json, place);
    return Formula(text, numbers_.names(), fields_, place, &scope);
  }

  void params() {
    const std::string list = trial_.place + ".params";
    std::size_t alignment = 1;
    for (const Json& each : fields_.list(fields_.required(json_, trial_.place, "params"), list, kMaxParams)) {
      const std::string place = cat(list, "[", trial_.params.size(), "]");
      fields_.keys(each, place, {"kind", "of", "box", "swizzle_bytes"});
      ResolvedTrial::Param param;
      param.kind = static_cast<ResolvedTrial::Kind>(word_of(fields_, each, place, "kind", kTrialParams));
      const bool of_tensor = param.kind == ResolvedTrial::Kind::pointer || param.kind == ResolvedTrial::Kind::map;
      const Json& of = fields_.required(each, place, "of");
      if (of_tensor)
        param.tensor = tensor_of(of, place + ".of");
      else
        param.number = number_of(of, place + ".of", param.kind);
      if (param.kind == ResolvedTrial::Kind::map) map(each, place, param);
      const auto [bytes, own] = layout(param.kind);
      alignment = std::max(alignment, own);
      param.offset = (trial_.params_bytes + own - 1) / own * own;
      trial_.params_bytes = param.offset + bytes;
      trial_.params.push_back(param);
    }
    if (trial_.params.empty()) fields_.reject(list, " is empty; give the members of params_type, in their order");
    trial_.params_bytes = (trial_.params_bytes + alignment - 1) / alignment * alignment;
    constexpr std::size_t kMost = ops::LaunchPlan::kMaxOwnBytes;
    if (trial_.params_bytes > kMost)
      fields_.reject(list, " have ", trial_.params_bytes, " bytes; at most ", kMost, " are allowed in a trial");
    const auto maps = std::count_if(trial_.params.begin(), trial_.params.end(),
                                    [](const auto& each) { return each.kind == ResolvedTrial::Kind::map; });
    if (maps > static_cast<std::ptrdiff_t>(ops::LaunchPlan::kMaxMaps))
      fields_.reject(list, " have ", maps, " maps; at most ", ops::LaunchPlan::kMaxMaps, " are allowed in a trial");
  }

  /// Bytes and alignment, as C++ has them.
  static std::pair<std::size_t, std::size_t> layout(ResolvedTrial::Kind kind) {
    switch (kind) {
      case ResolvedTrial::Kind::map:
        return {sizeof(TensorMap), alignof(TensorMap)};
      case ResolvedTrial::Kind::i32:
      case ResolvedTrial::Kind::u32:
      case ResolvedTrial::Kind::f32:
        return {4, 4};
      case ResolvedTrial::Kind::pointer:
      case ResolvedTrial::Kind::i64:
      case ResolvedTrial::Kind::f64:
        break;
    }
    return {8, 8};
  }

  std::size_t tensor_of(const Json& json, const std::string& place) const {
    const std::string& name = fields_.text(json, place);
    std::string known;
    for (std::size_t t = 0; t < trial_.tensors.size(); ++t) {
      if (trial_.tensors[t].name == name) return t;
      known += cat(t == 0 ? "" : ", ", trial_.tensors[t].name);
    }
    fields_.reject(place, " is '", shown(name), "', which is no tensor of the trial; it has ", known);
  }

  double number_of(const Json& json, const std::string& place, ResolvedTrial::Kind kind) const {
    const double value = kind == ResolvedTrial::Kind::f32 || kind == ResolvedTrial::Kind::f64
                             ? numbers_.number(json, place)
                             : static_cast<double>(numbers_.whole(json, place, kind != ResolvedTrial::Kind::u32));
    const auto within = [&](double low, double high) {
      if (value < low || value > high) fields_.reject(place, " is ", value, "; allowed are ", low, " to ", high);
    };
    if (kind == ResolvedTrial::Kind::i32)
      within(std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max());
    if (kind == ResolvedTrial::Kind::u32) within(0, std::numeric_limits<std::uint32_t>::max());
    return value;
  }

  void map(const Json& each, const std::string& place, ResolvedTrial::Param& param) const {
    const ResolvedTrial::Tensor& tensor = trial_.tensors[param.tensor];
    const std::vector<std::int64_t> box = shape(fields_.required(each, place, "box"), place + ".box");
    if (box.size() < tensor.shape.size())
      fields_.reject(place, ".box has ", box.size(), " dimensions, and '", tensor.name, "' has ", tensor.shape.size(),
                     "; give as many, or more");
    param.rank = box.size();
    std::copy(box.begin(), box.end(), param.box.shape.begin());
    param.box.swizzle_bytes = fields_.number_or(each, place, "swizzle_bytes", 128, 0, 128);
    try {
      describe(tensor.view({}, nullptr, param.rank), param.box);
    } catch (const Error& e) {
      fields_.reject(place, ": ", e.message);
    }
  }

  void blocks() {
    const Json* given = Fields::optional(json_, "blocks");
    if (given == nullptr) fields_.required(json_, trial_.place, "blocks");
    trial_.blocks = given->is_number() ? given->dump() : fields_.text(*given, trial_.place + ".blocks");
    if (numbers_.names().values.count(kAtOnce) != 0)
      fields_.reject(trial_.place, ": '", kAtOnce, "' is the name of a number of its own; take another");
    trial_.numbers = numbers_.names();
    trial_.blocks_of(1);
  }

  const Fields& fields_;
  const Json& json_;
  NumberReader numbers_;
  ResolvedTrial trial_;
};

/// Calls use(at, index) for each element.
template <class Use>
void each_element(const std::vector<std::int64_t>& shape, const Use& use) {
  std::vector<std::int64_t> at(shape.size(), 0);
  for (std::size_t index = 0;; ++index) {
    use(std::span<const std::int64_t>(at), index);
    std::size_t d = shape.size();
    while (d > 0 && ++at[d - 1] == shape[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

/// The values of a tensor without gaps.
std::vector<double> values_of(const ResolvedTrial::Tensor& tensor, const void* place) {
  std::vector<double> values(tensor.elements());
  const auto size = static_cast<std::size_t>(size_of(tensor.dtype));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = value_of(tensor.dtype, static_cast<const char*>(place) + i * size);
  return values;
}

}  // namespace

std::size_t ResolvedTrial::Tensor::elements() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

Tensor ResolvedTrial::Tensor::view(Device device, void* data, std::size_t rank) const {
  tj::Tensor tensor;
  tensor.data = data;
  tensor.device = device;
  tensor.dtype = dtype;
  tensor.rank = static_cast<int>(rank);
  std::int64_t stride = 1;
  for (std::size_t d = rank; d-- > 0;) {
    const std::size_t before = rank - shape.size();
    tensor.shape[d] = d < before ? 1 : shape[d - before];
    tensor.strides[d] = stride;
    stride *= tensor.shape[d];
  }
  return tensor;
}

unsigned ResolvedTrial::blocks_of(unsigned at_once) const {
  NumberReader reader(fields, numbers);
  reader.set(kAtOnce, at_once);
  const std::int64_t count = reader.whole(graph::Json(blocks), place + ".blocks", true);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (count < 1 || count > kMost)
    fields.reject(place, ".blocks is '", shown(blocks), "', which is ", count, "; allowed are 1 to ", kMost);
  return static_cast<unsigned>(count);
}

std::string ResolvedTrial::content_of(std::size_t index, std::uint64_t seed) const {
  const Tensor& tensor = tensors[index];
  if (tensor.fill.empty()) return tensor.written ? std::string() : normal_values(tensor.dtype, tensor.elements(), seed);
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const auto size = static_cast<std::size_t>(size_of(tensor.dtype));
  std::string bytes(tensor.bytes(), '\0');
  std::int64_t budget = kMostSteps;
  each_element(tensor.shape, [&](std::span<const std::int64_t> at, std::size_t i) {
    FormulaElement element{at, {}, normal(generator), uniform(generator)};
    const double value = tensor.fill.value(element, budget);
    if (std::abs(value) > most_of(tensor.dtype))
      fields.reject(place, ".tensors[", index, "].fill gives ", value, ", which ", to_string(tensor.dtype),
                    " does not have; allowed are numbers up to ", most_of(tensor.dtype));
    const std::uint32_t bits = bits_of(tensor.dtype, value);
    std::memcpy(bytes.data() + i * size, &bits, size);
  });
  return bytes;
}

bool ResolvedTrial::judges() const {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& each) { return !each.expected.empty(); });
}

ResolvedTrial::Judge ResolvedTrial::judge(std::span<const void* const> places) const {
  std::vector<FormulaTensor> before;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    before.push_back({tensors[t].shape, values_of(tensors[t], places[t])});
  auto wanted = std::make_shared<std::vector<std::vector<double>>>(tensors.size());
  std::int64_t budget = kMostSteps;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].expected.empty()) continue;
    (*wanted)[t].resize(tensors[t].elements());
    each_element(tensors[t].shape, [&](std::span<const std::int64_t> at, std::size_t i) {
      (*wanted)[t][i] = tensors[t].expected.value({at, before, 0, 0}, budget);
    });
  }
  return [this, wanted = std::move(wanted)](std::span<const void* const> results) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if ((*wanted)[t].empty()) continue;
      const std::vector<double> got = values_of(tensors[t], results[t]);
      std::string worst;
      double most = 0;
      std::size_t count = 0;
      each_element(tensors[t].shape, [&](std::span<const std::int64_t> at, std::size_t i) {
        const double want = (*wanted)[t][i], allowed = tensors[t].tolerance * std::max(1.0, std::abs(want));
        const double off = std::abs(got[i] - want);
        if (off <= allowed) return;  // false for NaN
        ++count;
        const double share = std::isnan(off) ? std::numeric_limits<double>::infinity() : off - allowed;
        if (!worst.empty() && share <= most) return;
        most = share;
        std::string indices;
        for (const std::int64_t index : at) indices += cat(indices.empty() ? "" : ", ", index);
        worst = cat("element [", indices, "] of ", tensors[t].name, " is ", got[i], ", and ", want,
                    " is expected, within ", allowed);
      });
      if (count > 0) return cat(worst, "; ", count, " of ", got.size(), " elements are wrong");
    }
    return std::string();
  };
}

std::vector<ResolvedTrial> read_trials(const Fields& fields, const Json& list, const NumberReader& numbers) {
  std::vector<ResolvedTrial> trials;
  for (const Json& each : fields.list(list, "trials", kMaxTrials)) {
    trials.push_back(TrialReader(fields, each, cat("trials[", trials.size(), "]"), numbers).read());
    for (std::size_t t = 0; t + 1 < trials.size(); ++t)
      if (trials[t].name == trials.back().name)
        fields.reject("trials[", trials.size() - 1, "].name is '", trials[t].name,
                      "', as of a trial before it; names must be unique");
  }
  return trials;
}

}  // namespace tj
