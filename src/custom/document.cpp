// See document.hpp.
#include "custom/document.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "custom/numbers.hpp"
#include "graph/code.hpp"
#include "ops/common/machine.hpp"
#include "ops/op.hpp"
#include "sched/user_options.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj {
namespace {

using graph::Fields;
using graph::Json;
using support::cat;
using support::shown;
using Keys = std::span<const char* const>;

constexpr std::size_t kMaxTargets = 32, kMaxParameters = 64, kMaxCandidates = 64, kMaxDefinitions = 64;
constexpr std::size_t kMaxForms = 256;  ///< of all targets

// Members that may be expressions.
constexpr const char* kOfInstruction[] = {"cycles",      "latency", "issue_cycles", "registers",
                                          "warp_cycles", "copy",    "warps",        "max_variant_begin"};
constexpr const char* kOfEdge[] = {"delay", "delta", "spill_cycles"};
constexpr const char* kOfValue[] = {"slot_bytes", "copied_bytes", "alignment",    "min_slots",
                                    "max_slots",  "shared_by",    "shared_stride"};
constexpr const char* kOfGraph[] = {"cluster", "blocks_per_sm",   "piece_bytes",
                                    "slices",  "most_iterations", "least_smem_bytes"};
constexpr const char* kRealOfGraph[] = {"flops_per_iteration", "overhead_cycles", "typical_iterations", "useful_flops"};
/// Keys beside a graph: the reader of graphs does not see them.
constexpr const char* kBeside[] = {"options",     "targets", "parameters", "candidates", "trials", "typical_iterations",
                                   "useful_flops"};

constexpr std::string_view kMemory = "memory.";
constexpr char kConfigMark = '=';

bool among(Keys keys, std::string_view key) {
  return std::any_of(keys.begin(), keys.end(), [&](const char* each) { return key == each; });
}

Json without(Json object, Keys keys) {
  return graph::members_kept(std::move(object), [&](const std::string& key, const Json&) { return !among(keys, key); });
}

/// The numbers of one form put into the tree.
class Resolver {
 public:
  explicit Resolver(const NumberReader& numbers) : numbers_(numbers) {}

  void members(Json& object, const std::string& place, Keys whole_keys, Keys real_keys = {}) const {
    if (!object.is_object()) return;  // the reader complains
    for (auto& [key, member] : object.items()) {
      if (!member.is_string()) continue;
      if (among(whole_keys, key))
        member = numbers_.whole(member, Fields::join(place, key), key == "delay");
      else if (among(real_keys, key))
        member = numbers_.number(member, Fields::join(place, key));
    }
  }

  void list(Json& tree, const char* key, Keys keys) const {
    const auto found = tree.find(key);
    if (found == tree.end() || !found->is_array()) return;
    for (std::size_t i = 0; i < found->size(); ++i) {
      const std::string place = cat(key, "[", i, "]");
      members((*found)[i], place, keys);
      if (!(*found)[i].is_object()) continue;
      if (const auto memory = (*found)[i].find("memory"); memory != (*found)[i].end() && memory->is_object())
        for (auto& [space, bytes] : memory->items())
          if (bytes.is_string()) bytes = numbers_.whole(bytes, cat(place, ".memory.", shown(space)), false);
    }
  }

  void config(Json& tree) const {
    const auto code = tree.find("code");
    if (code == tree.end() || !code->is_object()) return;
    const auto config = code->find("config");
    if (config == code->end() || !config->is_object()) return;
    for (auto& [key, value] : config->items()) {
      if (!value.is_string() || value.get_ref<const std::string&>().substr(0, 1) != std::string(1, kConfigMark))
        continue;
      value =
          numbers_.whole(Json(value.get_ref<const std::string&>().substr(1)), cat("code.config.", shown(key)), true);
    }
  }

 private:
  const NumberReader& numbers_;
};

std::vector<std::string> read_definitions(const Fields& fields, const Json& tree) {
  std::vector<std::string> definitions;
  const auto code = tree.find("code");
  if (code == tree.end() || !code->is_object()) return definitions;
  const Json* given = Fields::optional(*code, "definitions");
  if (given == nullptr) return definitions;
  for (const Json& each : fields.list(*given, "code.definitions", kMaxDefinitions)) {
    const std::string place = cat("code.definitions[", definitions.size(), "]");
    const std::string& text = fields.text(each, place);
    const std::size_t split = std::min(text.find('='), text.size());
    const std::string_view value = std::string_view(text).substr(std::min(split + 1, text.size()));
    if (!graph::is_identifier(std::string_view(text).substr(0, split)) || text.size() > 128 || text.back() == '=' ||
        !std::all_of(value.begin(), value.end(), support::is_word_letter))
      fields.reject(place, " is '", shown(text),
                    "'; allowed are names, such as WIDE, and names with a word, such as PARTS=4");
    for (const std::string& before : definitions)
      if (before.substr(0, before.find('=')) == text.substr(0, split))
        fields.reject(place, " is '", shown(text), "', and '", shown(before), "' before it has its name; keep one");
    definitions.push_back(text);
  }
  return definitions;
}

}  // namespace

bool may_be_expression(std::string_view list, std::string_view member) {
  if (list == "instructions") return among(kOfInstruction, member) || member.substr(0, kMemory.size()) == kMemory;
  if (list == "edges") return among(kOfEdge, member);
  if (list == "values") return among(kOfValue, member);
  return among(kOfGraph, member) || among(kRealOfGraph, member);
}

Document::Document(std::string_view text, std::string_view name)
    : name_(name),
      text_(text),
      fields_(cat("graph '", name, "'")),
      tree_(graph::parse_json(text, cat("graph '", name, "'"))) {
  if (!tree_.is_object()) ops::read_graph(text_, name_);  // says so
  read_targets();
  read_candidates();
  const std::size_t count = (1 + candidates_.size()) * std::max<std::size_t>(1, targets_.size());
  if (count > kMaxForms)
    fields_.reject("the document has ", count, " forms, counted for each target; at most ", kMaxForms, " are allowed");
  form("", "");
  for (const std::string& candidate : candidates_) form("", candidate);
  for (std::size_t t = 1; t < targets_.size(); ++t) forms(targets_[t]);
  check_trials();
}

void Document::check_trials() const {
  if (Fields::optional(tree_, "trials") == nullptr) return;
  const std::vector<std::string> none(1);
  for (const std::string& target : targets_.empty() ? none : targets_)
    for (const std::string& candidate : candidates_.empty() ? none : candidates_) trials(target, candidate);
}

void Document::read_targets() {
  const Json& machine = fields_.required(tree_, "", "machine");
  if (!machine.is_string() && !machine.is_object())
    fields_.reject("machine is ", graph::value_text(machine), "; allowed are a name, such as \"hopper\", or an object");
  // The name as the machine has it, before facts of it are missed.
  const auto known = [&](const std::string& name, const std::string& place) {
    const arch::Arch* const arch = ops::arch_named(name);
    if (arch == nullptr) ops::need_machine(fields_, place, name);
    return arch == nullptr ? name : arch->name;
  };
  if (machine.is_string()) targets_.push_back(known(machine.get_ref<const std::string&>(), "machine"));
  const Json* given = Fields::optional(tree_, "targets");
  if (given == nullptr || fields_.list(*given, "targets", kMaxTargets).empty()) return;
  if (targets_.empty()) fields_.reject("targets are given, and the machine has no name; give machine a name as well");
  for (const Json& each : fields_.list(*given, "targets", kMaxTargets)) {
    const std::string place = cat("targets[", targets_.size() - 1, "]");
    const std::string name = known(fields_.name(fields_.text(each, place), place), place);
    if (std::find(targets_.begin(), targets_.end(), name) != targets_.end())
      fields_.reject(place, " is '", shown(name), "', which stands before it, or is the machine; keep one");
    targets_.push_back(name);
  }
}

void Document::read_candidates() {
  const Json none = Json::object();
  const Json* parameters = Fields::optional(tree_, "parameters");
  if (parameters != nullptr && fields_.object(*parameters, "parameters").size() > kMaxParameters)
    fields_.reject("parameters has ", parameters->size(), " members; at most ", kMaxParameters, " are allowed");
  const Json& known = parameters != nullptr ? *parameters : none;
  for (const auto& [name, value] : known.items())
    if (!graph::is_identifier(name))
      fields_.reject("parameters.", shown(name), " is no name; allowed are letters, digits and '_', no digit first");
  const Json* given = Fields::optional(tree_, "candidates");
  if (given == nullptr) return;
  for (const Json& each : fields_.list(*given, "candidates", kMaxCandidates)) {
    const std::string place = cat("candidates[", candidates_.size(), "]");
    fields_.keys(each, place, {"name", "parameters"});
    const std::string name = fields_.text(fields_.required(each, place, "name"), place + ".name");
    const auto plain = [](char c) { return support::is_word_letter(c) || c == '-' || c == '.'; };
    if (name.empty() || name.size() > 64 || !std::all_of(name.begin(), name.end(), plain))
      fields_.reject(place, ".name is '", shown(name), "'; allowed are 1 to 64 letters, digits, '_', '-' and '.'");
    if (std::find(candidates_.begin(), candidates_.end(), name) != candidates_.end())
      fields_.reject(place, ".name is '", name, "', as of a candidate before it; names must be unique");
    const Json& own = fields_.object(fields_.required(each, place, "parameters"), place + ".parameters");
    for (const auto& [parameter, value] : own.items())
      if (!known.contains(parameter))
        fields_.reject(place, ".parameters.", shown(parameter), " is no entry of parameters; give it a value there");
    candidates_.push_back(name);
  }
}

std::string Document::machine_for(std::string_view target) const {
  std::string known;
  const arch::Arch* const arch = ops::arch_named(target);
  for (const std::string& each : targets_) {
    if (arch != nullptr && ops::is_machine_of(each, *arch)) return arch->name;
    if (each == target) return each;
    known += (known.empty() ? "" : ", ") + each;
  }
  fields_.reject("the target is '", shown(target), "'; this graph is for ",
                 known.empty() ? "a machine of its own" : known);
}

Json Document::machine_of(std::string_view target) const {
  if (!target.empty()) return machine_for(target);
  if (!targets_.empty()) return Json(targets_[0]);
  const Json* machine = Fields::optional(tree_, "machine");
  return machine != nullptr ? *machine : Json();
}

NumberReader Document::numbers(const Json& machine, std::string_view candidate) const {
  NumberReader numbers(fields_, facts_of(machine));
  const Json* instead = nullptr;
  if (!candidate.empty()) {
    const auto found = std::find(candidates_.begin(), candidates_.end(), candidate);
    if (found == candidates_.end()) {
      std::string known;
      for (const std::string& each : candidates_) known += (known.empty() ? "" : ", ") + each;
      fields_.reject("the candidate is '", shown(candidate), "'; this graph has ", known.empty() ? "none" : known);
    }
    instead = &tree_["candidates"][static_cast<std::size_t>(found - candidates_.begin())]["parameters"];
  }
  if (const Json* parameters = Fields::optional(tree_, "parameters"); parameters != nullptr && !parameters->empty()) {
    numbers.add(*parameters, "parameters", instead, std::string(candidate));
    numbers.of_more("the graph's parameters");
  }
  return numbers;
}

Json Document::resolved(std::string_view target, std::string_view candidate) const {
  Json tree = tree_;
  tree["machine"] = machine_of(target);
  const NumberReader found = numbers(tree["machine"], candidate);  // before the tree is moved from
  return with_numbers(std::move(tree), found);
}

Json Document::with_numbers(Json tree, const NumberReader& numbers) {
  const Resolver resolver(numbers);
  resolver.members(tree, "", kOfGraph, kRealOfGraph);
  resolver.list(tree, "instructions", kOfInstruction);
  resolver.list(tree, "values", kOfValue);
  resolver.list(tree, "edges", kOfEdge);
  resolver.config(tree);
  static constexpr const char* kOfForms[] = {"targets", "parameters", "candidates", "trials"};
  return without(std::move(tree), kOfForms);
}

std::vector<ResolvedTrial> Document::trials(std::string_view target, std::string_view candidate) const {
  const Json* given = Fields::optional(tree_, "trials");
  if (given == nullptr) return {};
  return read_trials(fields_, *given, numbers(machine_of(target), candidate));
}

Form Document::form(std::string_view target, std::string_view candidate) const {
  Form form;
  form.candidate = candidate;
  Json tree = resolved(target, candidate);
  if (const Json* options = Fields::optional(tree, "options"))
    form.options = read_options(fields_, *options, "options", {});
  form.definitions = read_definitions(fields_, tree);
  form.typical_iterations = fields_.real_or(tree, "", "typical_iterations", 1);
  if (form.typical_iterations < 1)
    fields_.reject("typical_iterations is ", form.typical_iterations, "; allowed are 1 and more");
  form.useful_flops = fields_.real_or(tree, "", "useful_flops", 0);
  tree = without(std::move(tree), kBeside);
  static constexpr const char* kDefinitions[] = {"definitions"};
  if (const auto code = tree.find("code"); code != tree.end() && code->is_object())
    *code = without(std::move(*code), kDefinitions);
  // A document that is a graph and nothing else is read as it was written.
  form.graph = tree == tree_ ? ops::read_graph(text_, name_)
                             : ops::read_graph(tree.dump(-1, ' ', false, Json::error_handler_t::replace), name_);
  if (form.useful_flops == 0) form.useful_flops = form.graph.flops_per_iteration * form.typical_iterations;
  if (form.useful_flops == 0) form.useful_flops = 1;
  return form;
}

std::vector<Form> Document::forms(std::string_view target) const {
  std::vector<Form> forms;
  for (const std::string& candidate : candidates_) forms.push_back(form(target, candidate));
  if (forms.empty()) forms.push_back(form(target, ""));
  return forms;
}

ScheduledForm best_form(std::vector<Form> forms, const ScheduleOptions* options) {
  std::optional<ScheduledForm> best;
  std::optional<Error> refused;
  double best_rate = 0;
  for (Form& form : forms) {
    try {
      sched::Schedule schedule =
          sched::schedule(form.graph, sched::to_options(options != nullptr ? *options : form.options));
      graph::Graph one = form.graph;
      one.flops_per_iteration = 1;
      const double rate = form.useful_flops / form.typical_iterations *
                          sched::predict_tflops(one, schedule, 1, 1, form.typical_iterations);
      if (best && rate <= best_rate) continue;
      best_rate = rate;
      best = ScheduledForm{std::move(form), std::move(schedule)};
    } catch (const Error& e) {
      if (forms.size() == 1 || e.code == Code::invalid_argument) throw;
      if (!refused) refused = e;  // another form may fit
    }
  }
  if (!best) throw *refused;
  return std::move(*best);
}

}  // namespace tj
