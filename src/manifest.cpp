// See manifest.hpp.
#include "manifest.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "custom/custom.hpp"
#include "ops/common/graph_choice.hpp"
#include "ops/known_ops.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/text.hpp"

namespace tj {
namespace {

using support::cat;
using support::Json;
using support::shown;
using Fields = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kMaxLineBytes = 16384;  // the longest that is written has less than a tenth of it

Json to_json(const Fields& fields) {
  Json json = Json::object();
  for (const auto& [name, value] : fields) json[name] = value;
  return json;
}

/// ASCII on one line; what is no UTF-8 is replaced.
std::string text_of(const Json& line) { return line.dump(-1, ' ', true, Json::error_handler_t::replace); }

[[noreturn]] void refuse(std::string problem) {
  support::fail(Stage::argument, Code::invalid_argument, std::move(problem));
}

/// Refuses an object that lacks a member, or has another. `may` names an optional member.
void need_members(const Json& line, std::initializer_list<const char*> names, std::string_view may = {}) {
  std::string all;
  for (const char* name : names) {
    all += cat(all.empty() ? "" : ", ", name);
    if (!line.contains(name)) refuse(cat("it has no member '", name, "'; such a line has one"));
  }
  for (const auto& [name, value] : line.items())
    if (name != may && std::find(names.begin(), names.end(), std::string_view(name)) == names.end())
      refuse(cat("its member '", shown(name), "' is not known; allowed: ", all));
}

std::string text_at(const Json& line, const char* name) {
  const Json& value = line.at(name);
  if (!value.is_string()) refuse(cat("its ", name, " is no text; allowed: a text"));
  return value.get<std::string>();
}

Fields fields_at(const Json& line) {
  const Json& given = line.at("fields");
  if (!given.is_object()) refuse("its fields are no object; allowed: an object of texts");
  Fields fields;
  for (const auto& [name, value] : given.items()) {
    if (!value.is_string()) refuse(cat("its field '", shown(name), "' is no text; allowed: a text"));
    fields.emplace_back(name, value.get<std::string>());
  }
  return fields;
}

const ops::Op& op_at(const Json& line, const char* name, const char* others) {
  const std::string given = text_at(line, name);
  const ops::Op* op = ops::find(given);
  if (op == nullptr) refuse(cat("its ", name, " is '", shown(given), "'; allowed: ", others, ops::known_ops(given)));
  return *op;
}

WantedKernel kernel_at(const Json& line) {
  need_members(line, {"kernel", "target", "fields"});
  WantedKernel kernel;
  kernel.target = arch::parse_target(text_at(line, "target"));
  const Fields fields = fields_at(line);
  if (text_at(line, "kernel") == kCustomOp) {
    auto request = custom_request(fields);
    if (!request) refuse("its fields are not those of a user's own kernel; record it again");
    kernel.request = std::move(*request);
    return kernel;
  }
  kernel.op = &op_at(line, "kernel", "custom, ");
  kernel.request =
      kernel.op->request_of(kernel.op->kernel_of(ops::Request{std::string(kernel.op->name()), fields, {}}));
  if (kernel.request.fields != fields)
    refuse(cat("its fields are not those of a kernel of ", kernel.op->name(), " in this version, which would write ",
               text_of(to_json(kernel.request.fields)), "; record it again"));
  if (!kernel.op->serves(*kernel.target.arch))
    refuse(cat("'", kernel.target.name(), "' has no kernel of ", kernel.op->name(), "; remove the line"));
  return kernel;
}

/// Ops that the arch does not serve are served by another arch of the same devices, as Backends has it.
TunedMachine machine_of(const arch::Arch& arch, const ops::Op& op) {
  TunedMachine machine{&arch, {}, 0};
  if (op.serves(arch)) return machine;
  for (const arch::Arch* each : arch::all())
    if (arch::same_devices(*each, arch) && op.serves(*each)) {
      machine.others.emplace_back(&op, each);
      return machine;
    }
  refuse(cat("'", arch.name, "' has no kernel of ", op.name(), "; remove the line"));
}

WantedTuning tuning_at(const Json& line) {
  need_members(line, {"tuning", "arch", "device", "sm_count", "fields", "choice"}, "driver");
  WantedTuning tuning;
  const bool of_graph = text_at(line, "tuning") == kCustomOp;
  tuning.op = of_graph ? &ops::graph_choice() : &op_at(line, "tuning", "custom, ");
  const ops::Tunable* tunable = tuning.op->tunable();
  if (tunable == nullptr)
    refuse(cat("its tuning is '", tuning.op->name(), "', an op without a choice; remove the line"));
  tuning.machine = machine_of(arch::parse_arch(text_at(line, "arch")), *tuning.op);
  tuning.machine.device = text_at(line, "device");
  const Json& sm_count = line.at("sm_count");
  constexpr int kMostSms = 65536;  // far beyond every device's
  if (!sm_count.is_number_integer() || sm_count.get<std::int64_t>() < 1 || sm_count.get<std::int64_t>() > kMostSms)
    refuse(cat("its sm_count is no number of multiprocessors; allowed: 1 to ", kMostSms));
  tuning.machine.sm_count = sm_count.get<int>();
  if (line.contains("driver")) tuning.machine.driver = text_at(line, "driver");
  auto problem = tunable->problem_of(fields_at(line));
  if (!problem) refuse(cat("its fields are not those of a problem of ", tuning.op->name(), "; record it again"));
  tuning.problem = std::move(*problem);
  tuning.choice = text_at(line, "choice");
  for (const ops::Variant& variant : tunable->variants(tuning.problem, tuning.machine.arch_of(*tuning.op)))
    if (variant.name == tuning.choice) return tuning;
  refuse(cat("its choice '", shown(tuning.choice), "' does not serve ", tuning.problem.name,
             " in this version; measure again, or remove the line"));
}

void read_line(std::string_view text, std::size_t number, Manifest& manifest) {
  if (text.size() > kMaxLineBytes) refuse(cat("it has ", text.size(), " bytes; allowed: at most ", kMaxLineBytes));
  support::JsonFault fault;
  const Json line = support::parse_distinct(text, &fault);
  if (fault.too_deep)
    refuse(cat("it is nested deeper than ", support::kMostJsonDepth, " levels; allowed: at most as many"));
  if (!fault.twice.empty()) refuse(cat("its member '", shown(fault.twice), "' stands there twice; allowed: once"));
  if (!line.is_object()) refuse("it is no JSON object, or is cut short; remove it, and record again what it was");
  if (line.contains("kernel")) {
    manifest.kernels.push_back(kernel_at(line));
    manifest.kernels.back().line = number;
  } else if (line.contains("tuning")) {
    manifest.tunings.push_back(tuning_at(line));
    manifest.tunings.back().line = number;
  } else {
    refuse(
        "it has neither a member 'kernel' nor one 'tuning'; such a line is of another version, or of another program");
  }
}

}  // namespace

std::string manifest_line(const ops::Request& request, const arch::Target& target) {
  return text_of({{"kernel", request.op}, {"target", target.name()}, {"fields", to_json(request.fields)}});
}

std::string manifest_line(const TunedMachine& machine, const ops::Op& op, const ops::Problem& problem,
                          const std::string& choice) {
  Json line = {{"tuning", std::string(op.name())}, {"arch", machine.arch->name},        {"device", machine.device},
               {"sm_count", machine.sm_count},     {"fields", to_json(problem.fields)}, {"choice", choice}};
  if (!machine.driver.empty()) line["driver"] = machine.driver;
  return text_of(line);
}

Tunings::Asked recording(support::RecordFile& record) {
  if (!record.wanted()) return {};
  return [&record](const TunedMachine& machine, const ops::Op& op, const ops::Problem& problem,
                   const std::string& choice) { record.add(manifest_line(machine, op, problem, choice)); };
}

Manifest read_manifest(std::string_view text) {
  Manifest manifest;
  std::set<std::string_view> seen;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#' || !seen.insert(line).second) continue;
    try {
      read_line(line, number, manifest);
    } catch (const Error& error) {
      manifest.bad.emplace_back(number, error.message);
    }
  }
  return manifest;
}

}  // namespace tj
