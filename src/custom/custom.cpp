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

graph::Graph read_graph(const custom::Description& description) {
  graph::Graph graph = ops::read_graph(description.graph, description.name);
  graph.name = description.name;  // its own may have letters that the unit's text cannot show
  if (!graph::has_code(graph))
    fail(Stage::graph, Code::invalid_argument,
         cat("graph '", graph.name, "' has no 'code'; say namespace, includes and params_type of its kernel"));
  if (arch::find(graph.machine.name) == nullptr)
    fail(Stage::graph, Code::invalid_argument,
         cat("graph '", graph.name, "' is for the machine '", graph.machine.name,
             "', which is no target; give machine one of ", arch_names()));
  return graph;
}

}  // namespace

CustomMaker::CustomMaker(const custom::Description& description, graph::Graph graph,
                         std::vector<ops::TemplateText> templates)
    : graph_(std::move(graph)),
      templates_(std::move(templates)),
      max_stages_(description.max_stages),
      max_slots_(description.max_slots),
      turns_(description.turns) {
  support::FieldHash files;
  for (const ops::TemplateText& file : templates_) files.field(file.name, file.text);
  request_.op = kCustomOp;
  request_.name = description.name;
  const std::array<std::string, kFields.size()> values = {description.name,
                                                          support::to_hex(support::sha256(description.graph)),
                                                          support::to_hex(files.finish()),
                                                          cat(max_stages_),
                                                          cat(max_slots_),
                                                          turns_ ? "1" : "0"};
  for (std::size_t i = 0; i < values.size(); ++i) request_.fields.emplace_back(kFields[i], values[i]);
  support::FieldHash all;
  for (const auto& [field, value] : request_.fields) all.field(field, value);
  identity_ = support::to_hex(all.finish());
}

std::optional<ops::Request> custom_request(const std::vector<std::pair<std::string, std::string>>& fields) {
  const bool all =
      std::equal(fields.begin(), fields.end(), kFields.begin(), kFields.end(),
                 [](const auto& field, std::string_view name) { return field.first == name && !field.second.empty(); });
  if (!all) return std::nullopt;
  return ops::Request{kCustomOp, fields, fields.front().second};
}

std::vector<ops::Candidate> CustomMaker::candidates(const ops::Request&, const arch::Arch& arch) const {
  if (!ops::is_machine_of(graph_.machine.name, arch))
    fail(Stage::target, Code::unsupported,
         cat("graph '", graph_.name, "' is for the machine '", graph_.machine.name, "', the target is '", arch.name,
             "'; give a graph with the costs of '", arch.name, "'"));
  ops::Candidate candidate;
  candidate.graph = graph_;
  candidate.turns = turns_;
  candidate.max_stages = max_stages_;
  candidate.max_slots = max_slots_;
  return {std::move(candidate)};
}

std::unique_ptr<CustomMaker> read_custom(const custom::Description& description) {
  const support::Uncancelled whole;
  check_description(description);
  graph::Graph graph = read_graph(description);
  std::vector<ops::TemplateText> files = read_templates(description.folder);
  check_templates(graph, description.folder, files);
  return std::make_unique<CustomMaker>(description, std::move(graph), std::move(files));
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
