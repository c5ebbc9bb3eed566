// See graph_op.hpp.
#include "graph_op.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "ops/common/machine.hpp"
#include "pipeline.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/text.hpp"

namespace tj {
namespace {

using support::cat;
using support::fail;

/// A launch of a trial: what the op is called with. One form of it for each choice.
struct TrialCall {
  std::span<const std::shared_ptr<const ResolvedTrial>> forms;
  Device device;
  std::span<void* const> places;
};

template <class Number>
void put(std::byte* to, Number number) {
  std::memcpy(to, &number, sizeof number);
}

void put_number(std::byte* to, const ResolvedTrial::Param& param) {
  switch (param.kind) {
    case ResolvedTrial::Kind::i32:
      return put(to, static_cast<std::int32_t>(param.number));
    case ResolvedTrial::Kind::u32:
      return put(to, static_cast<std::uint32_t>(param.number));
    case ResolvedTrial::Kind::i64:
      return put(to, static_cast<std::int64_t>(param.number));
    case ResolvedTrial::Kind::f32:
      return put(to, static_cast<float>(param.number));
    case ResolvedTrial::Kind::f64:
      return put(to, param.number);
    case ResolvedTrial::Kind::pointer:
    case ResolvedTrial::Kind::map:
      return;
  }
}

ops::Trial op_trial(std::shared_ptr<const ResolvedTrial> own, const std::string& candidate, int choice) {
  ops::Trial trial;
  trial.name = cat("trial ", own->name);
  trial.flags = cat("--trial ", own->name, candidate.empty() ? "" : " --candidate ", candidate);
  trial.kernel_flags = candidate.empty() ? "" : cat("--candidate ", candidate);
  trial.choice = choice;
  for (std::size_t t = 0; t < own->tensors.size(); ++t) {
    const ResolvedTrial::Tensor& tensor = own->tensors[t];
    trial.tensors.push_back(ops::dense(tensor.name, tensor.dtype, tensor.shape, tensor.written));
    if (!tensor.fill.empty())
      trial.tensors.back().operand.fill = [own, t](std::uint64_t seed) { return own->content_of(t, seed); };
  }
  std::vector<std::shared_ptr<const ResolvedTrial>> forms(static_cast<std::size_t>(choice) + 1, own);
  trial.with_args = [forms = std::move(forms)](Device device, std::span<void* const> places,
                                               const std::function<void(const void* args)>& use) {
    const TrialCall call{forms, device, places};
    use(&call);
  };
  if (own->judges()) trial.judge = [own](std::span<const void* const> places) { return own->judge(places); };
  return trial;
}

}  // namespace

GraphOp::GraphOp(const custom::Description& description) : own_(read_custom(description)), maker_(own_.get()) {
  need_trials();
}

GraphOp::GraphOp(const CustomMaker& maker) : maker_(&maker) { need_trials(); }

void GraphOp::need_trials() const {
  if (!maker_->document().tree().contains("trials"))
    fail(Stage::argument, Code::invalid_argument,
         cat("graph '", maker_->request().name, "' has no 'trials'; say there by which launches its kernel is tried"));
}

Device GraphOp::device_of(const void* args) const { return static_cast<const TrialCall*>(args)->device; }

std::string GraphOp::candidate_of(int choice) const {
  return choice == 0 ? "" : maker_->document().candidates()[static_cast<std::size_t>(choice) - 1];
}

std::vector<ops::Request> GraphOp::requests(const ops::Flags&) const { return {maker_->request()}; }

void GraphOp::plan(const void* args, const ops::Kernel& kernel, const ops::Geometry&, ops::LaunchPlan& plan) const {
  const auto& call = *static_cast<const TrialCall*>(args);
  const ResolvedTrial& trial = *call.forms[static_cast<std::size_t>(kernel.choice)];
  plan.blocks = trial.blocks_of(std::max(1u, plan.resident_blocks()));
  plan.params_bytes = trial.params_bytes;
  for (const ResolvedTrial::Param& param : trial.params) {
    std::byte* const to = plan.params.data() + param.offset;
    void* const place = call.places[param.tensor];
    if (param.kind == ResolvedTrial::Kind::pointer)
      put(to, place);
    else if (param.kind == ResolvedTrial::Kind::map)
      plan.maps[plan.map_count++] = {
          param.offset, describe(trial.tensors[param.tensor].view(call.device, place, param.rank), param.box)};
    else
      put_number(to, param);
  }
}

std::string GraphOp::resolved(int choice, const arch::Arch& arch) const {
  return maker_->document()
      .resolved(target_of(arch), candidate_of(choice))
      .dump(-1, ' ', false, support::Json::error_handler_t::replace);
}

std::string GraphOp::target_of(const arch::Arch& arch) const {
  std::string known;
  for (const std::string& each : maker_->document().targets()) {
    if (ops::is_machine_of(each, arch)) return arch.name;
    known += cat(known.empty() ? "" : ", ", each);
  }
  fail(Stage::target, Code::unsupported,
       cat("graph '", maker_->request().name, "' is for ", known, ", the target is '", arch.name, "'"));
}

std::vector<int> GraphOp::choices(const ops::Flags& flags, const arch::Arch& arch) const {
  const std::vector<std::string>& names = maker_->document().candidates();
  const auto given = flags.find("candidate");
  if (names.empty()) {
    if (given != flags.end())
      fail(Stage::argument, Code::invalid_argument,
           cat("--candidate is '", support::shown(given->second.front()),
               "'; this graph has no candidates: leave it out"));
    return {0};
  }
  std::vector<int> chosen;
  for (const std::string& name : ops::values_of(flags, {"candidate", names, names.size()}))
    chosen.push_back(1 + static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin()));
  if (given != flags.end()) return chosen;
  // As for a call, a form without a schedule is left out.
  std::optional<Error> refused;
  std::erase_if(chosen, [&](int choice) {
    try {
      tj::choose(*this, maker_->request_of(choice), arch);
      return false;
    } catch (const Error& e) {
      if (e.stage != Stage::schedule || e.code == Code::invalid_argument) throw;
      refused = e;
      return true;
    }
  });
  if (chosen.empty() && refused) throw *refused;
  return chosen;
}

int GraphOp::usual_choice(const arch::Arch& arch) const {
  const std::vector<std::string>& names = maker_->document().candidates();
  if (names.empty()) return 0;
  const std::string best = best_form(maker_->document().forms(target_of(arch)), nullptr).form.candidate;
  return 1 + static_cast<int>(std::find(names.begin(), names.end(), best) - names.begin());
}

std::vector<ops::Trial> GraphOp::trials(const ops::Flags& flags, const arch::Arch& arch,
                                        const std::vector<int>& choices, bool timed) const {
  std::vector<ops::Trial> found;
  for (const int choice : choices) {
    std::vector<ResolvedTrial> own = maker_->document().trials(target_of(arch), candidate_of(choice));
    std::vector<std::string> names;
    for (const ResolvedTrial& each : own) names.push_back(each.name);
    const ops::FlagChoice flag{"trial", names, names.size()};
    ops::check_flags(name(), flags, {flag, {"candidate", {}, 0}});
    const bool named = flags.count("trial") > 0;
    const std::vector<std::string> wanted = ops::values_of(flags, flag);
    for (ResolvedTrial& each : own) {
      const bool asked = std::find(wanted.begin(), wanted.end(), each.name) != wanted.end();
      if (asked && (named || (timed ? each.times() : each.checks())))
        found.push_back(op_trial(std::make_shared<const ResolvedTrial>(std::move(each)), candidate_of(choice), choice));
    }
  }
  if (found.empty())
    fail(Stage::argument, Code::invalid_argument,
         cat("graph '", maker_->request().name, "' has no trial whose 'use' is ", timed ? "'time'" : "'check'",
             " or 'both'; give it one, or name a trial by --trial"));
  return found;
}

std::vector<ops::Trial> GraphOp::trials(const ops::Flags& flags, const arch::Arch& arch) const {
  return trials(flags, arch, choices(flags, arch), false);
}

std::vector<ops::Trial> GraphOp::timed_trials(const ops::Flags& flags, const arch::Arch& arch) const {
  const std::vector<int> one = {flags.count("candidate") > 0 ? choices(flags, arch).front() : usual_choice(arch)};
  return trials(flags, arch, one, true);
}

std::vector<ops::Variant> GraphOp::variants(const ops::Problem& problem, const arch::Arch& arch) const {
  const std::vector<int> with_schedule = choices({}, arch);
  {
    const std::lock_guard lock(mutex_);
    target_ = target_of(arch);
  }
  std::vector<ops::Variant> variants = ops::graph_variants(problem);
  std::erase_if(variants, [&](const ops::Variant& each) {
    return std::find(with_schedule.begin(), with_schedule.end(), each.kernel.choice) == with_schedule.end();
  });
  const int usual = usual_choice(arch);
  for (ops::Variant& each : variants) each.kernel = kernel_of(ops::ProblemKey(), each.kernel.choice);
  std::stable_partition(variants.begin(), variants.end(),
                        [&](const ops::Variant& each) { return each.kernel.choice == usual; });
  return variants;
}

std::optional<ops::Problem> GraphOp::problem_of(const std::vector<std::pair<std::string, std::string>>& fields) const {
  if (maker_->problem() == nullptr || maker_->problem()->fields != fields) return std::nullopt;
  return *maker_->problem();
}

GraphOp::Forms GraphOp::timed_forms() const {
  std::string target;
  {
    const std::lock_guard lock(mutex_);
    target = target_;
  }
  Forms forms(1);
  for (const std::string& candidate : maker_->document().candidates()) {
    std::vector<ResolvedTrial> trials = maker_->document().trials(target, candidate);
    const auto timed = std::find_if(trials.begin(), trials.end(), [](const auto& each) { return each.times(); });
    if (timed == trials.end())
      fail(Stage::argument, Code::invalid_argument,
           cat("graph '", maker_->request().name,
               "' has no trial whose 'use' is 'time' or 'both'; give it one, by which candidates are timed"));
    forms.push_back(std::make_shared<const ResolvedTrial>(std::move(*timed)));
  }
  return forms;
}

std::vector<ops::Operand> GraphOp::operands(const ops::Problem&) const {
  const Forms forms = timed_forms();
  for (const auto& each : forms)
    for (std::size_t t = 0; each != nullptr && t < each->tensors.size(); ++t)
      if (each->tensors[t].shape != forms[1]->tensors[t].shape)
        fail(Stage::argument, Code::invalid_argument,
             cat("trial '", each->name, "' of graph '", maker_->request().name, "' has other shapes of '",
                 each->tensors[t].name, "' in some candidate; allowed where candidates are timed: the same in all"));
  std::vector<ops::Operand> operands;
  for (const ops::TrialTensor& tensor : op_trial(forms[1], "", 1).tensors) operands.push_back(tensor.operand);
  return operands;
}

void GraphOp::with_args(const ops::Problem&, Device device, std::span<void* const> places,
                        const std::function<void(const void*)>& use) const {
  const Forms forms = timed_forms();
  const TrialCall call{forms, device, places};
  use(&call);
}

}  // namespace tj
