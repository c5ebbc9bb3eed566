// See custom.hpp.
#include "custom/custom.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "graph/code.hpp"
#include "ops/common/machine.hpp"
#include "support/fail.hpp"
#include "support/hash.hpp"
#include "support/text.hpp"
#include "support/uncancelled.hpp"

namespace tj {
namespace {

using support::cat;
using support::fail;

constexpr std::size_t kMaxNameBytes = 64;
/// The fields of a request, in its order.
constexpr std::array kFields = {"name", "graph", "templates", "max_stages", "max_slots", "turns"};
constexpr const char* kCandidate = "candidate";  ///< a further field, where the request is of one

static_assert(sizeof(TensorMap) == support::kTensorMapBytes && alignof(TensorMap) == 64);

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(Stage::argument, Code::invalid_argument, cat(parts...));
}

void check_description(const custom::Description& description) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  const std::string& name = description.name;
  if (name.empty() || name.size() > kMaxNameBytes || name.front() == '.' ||
      !std::all_of(name.begin(), name.end(), plain))
    refuse("name is '", support::shown(name), "'; allowed are 1 to ", kMaxNameBytes,
           " letters, digits, '_', '-' and '.', not beginning with '.'");
  if (description.max_stages < 0) refuse("max_stages is ", description.max_stages, "; it must be 0 (any) or more");
  if (description.max_slots < 0) refuse("max_slots is ", description.max_slots, "; it must be 0 (any) or more");
}

std::string arch_names() {
  std::string names;
  for (const arch::Arch* each : arch::all()) names += cat(names.empty() ? "" : ", ", each->name);
  return names;
}

/// Refuses options of a graph that no kernel can have.
void check_options(const std::string& name, const ScheduleOptions& options) {
  const auto reject = [&](const auto&... parts) {
    fail(Stage::graph, Code::invalid_argument, cat("graph '", name, "': options.", parts...));
  };
  if (options.min_ii != 0) reject("min_ii is ", options.min_ii, "; allowed for a kernel: 0");
  if (options.streaming_latency_zero) reject("streaming_latency_zero is true; allowed for a kernel: false");
  if (!options.joint) reject("joint is false; allowed for a kernel: true");
  if (options.max_roles != (options.mixed_roles ? 1 : 0))
    reject("max_roles is ", options.max_roles, " and mixed_roles is ", options.mixed_roles ? "true" : "false",
           "; allowed for a kernel: 0 and false, or 1 and true (one role)");
}

Document read_document(const custom::Description& description) {
  Document document(description.graph, description.name);
  for (const std::string& target : document.targets().empty() ? std::vector<std::string>{""} : document.targets())
    for (const Form& form : document.forms(target)) {
      if (!graph::has_code(form.graph))
        fail(
            Stage::graph, Code::invalid_argument,
            cat("graph '", description.name, "' has no 'code'; say namespace, includes and params_type of its kernel"));
      if (arch::find(form.graph.machine.name) == nullptr)
        fail(Stage::graph, Code::invalid_argument,
             cat("graph '", description.name, "' is for the machine '", form.graph.machine.name,
                 "', which is no target; give machine one of ", arch_names()));
      check_options(description.name, form.options);
    }
  return document;
}

}  // namespace

CustomMaker::CustomMaker(const custom::Description& description, Document document,
                         std::vector<ops::TemplateText> templates)
    : description_(description), document_(std::move(document)), templates_(std::move(templates)) {
  support::FieldHash files;
  for (const ops::TemplateText& file : templates_) files.field(file.name, file.text);
  request_.op = kCustomOp;
  request_.name = description.name;
  const std::array<std::string, kFields.size()> values = {description.name,
                                                          support::to_hex(support::sha256(description.graph)),
                                                          support::to_hex(files.finish()),
                                                          cat(description.max_stages),
                                                          cat(description.max_slots),
                                                          description.turns ? "1" : "0"};
  for (std::size_t i = 0; i < values.size(); ++i) request_.fields.emplace_back(kFields[i], values[i]);
  support::FieldHash all;
  for (const auto& [field, value] : request_.fields) all.field(field, value);
  identity_ = support::to_hex(all.finish());
  if (document_.candidates().empty()) return;
  problem_ = ops::graph_problem(request_, document_.candidates());
  problem_key_ = ops::graph_problem_key(*problem_);
}

std::optional<ops::Request> custom_request(const std::vector<std::pair<std::string, std::string>>& fields) {
  const bool of_one = fields.size() == kFields.size() + 1 && fields.back().first == kCandidate;
  const bool all =
      std::equal(fields.begin(), fields.end() - (of_one ? 1 : 0), kFields.begin(), kFields.end(),
                 [](const auto& field, std::string_view name) { return field.first == name && !field.second.empty(); });
  if (!all || (of_one && fields.back().second.empty())) return std::nullopt;
  return ops::Request{kCustomOp, fields, fields.front().second + (of_one ? "_" + fields.back().second : "")};
}

std::string candidate_of(const ops::Request& request) {
  return !request.fields.empty() && request.fields.back().first == kCandidate ? request.fields.back().second : "";
}

ops::Request CustomMaker::request_of(int choice) const {
  return choice == 0 ? request_ : request_of(document_.candidates()[static_cast<std::size_t>(choice) - 1]);
}

ops::Request CustomMaker::request_of(const std::string& candidate) const {
  ops::Request request = request_;
  request.name += "_" + candidate;
  request.fields.emplace_back(kCandidate, candidate);
  return request;
}

std::vector<ops::Candidate> CustomMaker::candidates(const ops::Request& request, const arch::Arch& arch) const {
  std::string known, own;
  for (const std::string& each : document_.targets()) {
    if (ops::is_machine_of(each, arch)) own = arch.name;  // with the facts of a file, where there is one
    known += cat(known.empty() ? "'" : "', '", each);
  }
  if (own.empty())
    fail(Stage::target, Code::unsupported,
         cat("graph '", description_.name, "' is for the machine ", known, "', the target is '", arch.name,
             "'; give a graph with the costs of '", arch.name, "'"));
  std::vector<ops::Candidate> candidates;
  const std::string only = candidate_of(request);
  std::vector<Form> forms;
  if (only.empty())
    forms = document_.forms(own);
  else
    forms.push_back(document_.form(own, only));
  for (Form& form : forms) {
    ops::Candidate& candidate = candidates.emplace_back();
    candidate.graph = std::move(form.graph);
    // Its own name may have letters that the unit's text cannot show.
    candidate.graph.name = description_.name + (form.candidate.empty() ? "" : "_" + form.candidate);
    candidate.typical_iterations = form.typical_iterations;
    candidate.useful_flops = form.useful_flops;
    candidate.turns = description_.turns && form.options.turns;
    candidate.max_stages = description_.max_stages != 0 ? description_.max_stages : form.options.max_stages;
    candidate.max_slots = description_.max_slots != 0 ? description_.max_slots : form.options.max_slots;
    candidate.one_role = form.options.mixed_roles;
    candidate.copies_apart = form.options.copies_apart;
    candidate.node_budget = form.options.node_budget.value_or(0);
    candidate.definitions = std::move(form.definitions);
  }
  return candidates;
}

std::unique_ptr<CustomMaker> read_custom(const custom::Description& description) {
  const support::Uncancelled whole;
  check_description(description);
  Document document = read_document(description);
  std::vector<ops::TemplateText> files = read_templates(description.folder);
  for (const std::string& target : document.targets())
    for (const Form& form : document.forms(target)) check_templates(form.graph, description.folder, files);
  return std::make_unique<CustomMaker>(description, std::move(document), std::move(files));
}

support::TensorMapDesc describe(const Tensor& tensor, const custom::Box& box) {
  if (tensor.rank < 1 || tensor.rank > kMaxRank)
    refuse("tensor has rank ", tensor.rank, "; allowed are 1 to ", kMaxRank);
  if (tensor.dtype < DType::f16 || tensor.dtype > DType::e4m3)
    refuse("tensor.dtype is ", static_cast<int>(tensor.dtype), "; allowed: f16, bf16, f32, i32, e4m3");
  if (tensor.device.kind < DeviceKind::cpu || tensor.device.kind > DeviceKind::hip)
    refuse("tensor.device.kind is ", static_cast<int>(tensor.device.kind), "; allowed: 0 (cpu), 1 (cuda), 2 (hip)");
  if (const int swizzle = box.swizzle_bytes; swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
    refuse("box.swizzle_bytes is ", swizzle, "; allowed: 0 (none), 32, 64, 128");
  const auto rank = static_cast<std::size_t>(tensor.rank);
  const auto element_bytes = static_cast<std::uint64_t>(size_of(tensor.dtype));
  support::TensorMapDesc desc;
  desc.base = tensor.data;
  desc.dtype = tensor.dtype;
  desc.rank = tensor.rank;
  desc.swizzle_bytes = box.swizzle_bytes;
  std::uint64_t span = element_bytes;          // a legal stride for a dimension whose own is never used
  for (std::size_t to = 0; to < rank; ++to) {  // the engine counts from the innermost dimension
    const std::size_t from = rank - 1 - to;
    const std::int64_t size = tensor.shape[from], stride = tensor.strides[from];
    if (size < 1) refuse("tensor.shape[", from, "] is ", size, "; it must be at least 1");
    if (box.shape[from] < 1 || box.shape[from] > 256)
      refuse("box.shape[", from, "] is ", box.shape[from], "; allowed are 1 to 256");
    if (to == 0 && stride != 1 && size != 1)
      refuse("tensor.strides[", from, "] is ", stride, "; the last dimension must be contiguous");
    if (to > 0 && size > 1 && stride < 0) refuse("tensor.strides[", from, "] is ", stride, "; it must not be negative");
    desc.dims[to] = static_cast<std::uint64_t>(size);
    desc.box[to] = static_cast<std::uint32_t>(box.shape[from]);
    desc.stride_bytes[to] = to == 0     ? element_bytes
                            : size == 1 ? (span + 15) / 16 * 16
                                        : static_cast<std::uint64_t>(stride) * element_bytes;
    span = std::max(span, desc.stride_bytes[to] * desc.dims[to]);
  }
  return desc;
}

}  // namespace tj
