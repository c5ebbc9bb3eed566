// A matrix product's kernel in all its forms, from the table of its fields; see fields.hpp.
#include "ops/gemm/fields.hpp"

#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;
using support::fail;

/// Words that are made when the first asks.
struct Names {
  std::vector<std::string> texts;
  std::vector<const char*> words;
  template <class Range, class Name>
  Names(const Range& range, Name name) {
    for (const auto& each : range) texts.push_back(name(each));
    for (const std::string& text : texts) words.push_back(text.c_str());
  }
};

/// A rung's constraints, beside its name: one that is changed has other kernels.
std::vector<std::pair<std::string, std::string>> rung_fields(const GemmKernel& kernel) {
  if (kernel.rung == kNoGemmRung) return {};
  const GemmRung& rung = gemm_rung(kernel);
  const auto number = [](int value) { return value == kAnyOfRung ? std::string("any") : cat(value); };
  return {{"copies", rung.thread_copies ? "threads" : "engine"},
          {"slots", number(rung.max_slots)},
          {"stages", number(rung.max_stages)},
          {"roles", rung.one_role ? "1" : "any"},
          {"grid", rung.tile_a_block ? "tiles" : "persistent"},
          {"order", rung.tile_a_block ? "rows" : "groups"},
          {"cluster", cat(rung.cluster)},
          {"tiles", number(rung.max_tiles)},
          {"iterations", number(rung.max_iterations)}};
}

constexpr std::string_view kGroupsFlag = "groups";

std::vector<FlagChoice> choices_without(std::initializer_list<std::string_view> names) {
  std::vector<FlagChoice> choices = choices_of_fields<kGemmFields>();
  std::erase_if(choices, [&](const FlagChoice& choice) {
    return std::find(names.begin(), names.end(), choice.name) != names.end();
  });
  return choices;
}

/// As flags_of_fields(), of the fields that grouped_gemm has.
std::string grouped_flags(const GemmKernel& kernel) {
  std::string text;
  for (const Field<GemmKernel>& field : kGemmFields) {
    const auto here = [&](const FlagChoice& choice) { return choice.name == field.name; };
    if (std::ranges::any_of(grouped_gemm_flag_choices(), here) && is_written(field, kernel))
      text += cat(text.empty() ? "--" : " --", field.name, " ", word_of(field, kernel));
  }
  return text;
}

}  // namespace

std::string gemm_tile_name(const GemmTile& tile) {
  return cat(tile.block_m, "x", tile.block_n, "x", tile.block_k,
             tile.blocks() == 1 ? "" : cat("c", tile.cluster_m, "x", tile.cluster_n),
             tile.sliced() ? cat("x", tile.cluster_k) : "", tile.swapped ? "s" : "", tile.reads ? "r" : "");
}

Words gemm_tile_words() {
  static constinit support::Lasting<const Names> names;
  return names.get([] { return Names(gemm_tiles(), gemm_tile_name); }).words;
}
Words gemm_rung_words() {
  static constinit support::Lasting<const Names> names;
  return names.get([] { return Names(gemm_rungs(), [](const GemmRung& rung) { return rung.name; }); }).words;
}

std::vector<std::string> gemm_tile_flags() {
  std::vector<std::string> list;
  for (const bool wanted : {true, false})
    for (const GemmTile& tile : gemm_tiles())
      if (is_usual(tile) == wanted) list.push_back(gemm_tile_name(tile));
  return list;
}
std::vector<std::string> gemm_rung_flags() {
  const Words words = gemm_rung_words();
  return {words.begin(), words.end()};
}

Request gemm_request(const GemmKernel& given) {
  const GemmKernel kernel = canonical(given);
  Request request = request_of_fields<kGemmFields>(gemm_op_name(kernel), kernel);
  for (auto& field : rung_fields(kernel)) request.fields.push_back(std::move(field));
  add_end_text(request, kernel.end_text);
  return request;
}

Request gemm_kind_request(const GemmKernel& kernel) {
  return request_of_fields<kGemmFields>(gemm_op_name(kernel), canonical(kernel), "tile");
}

std::string gemm_flags(const GemmKernel& kernel) {
  if (kernel.groups != Groups::none) return grouped_flags(canonical(kernel));
  return flags_of_fields<kGemmFields>(canonical(kernel), kernel.rung == kNoGemmRung ? "" : "tile");
}

GemmKernel gemm_kernel(const Request& request) {
  auto kernel = kernel_of_fields<kGemmFields, GemmKernel>(request);
  kernel.end_text = end_text_of(request.fields);
  if (kernel.rung == kGemmOwnRung) kernel.rung = kNoGemmRung;  // the tile is told
  return kernel;
}

GemmKernel gemm_kernel(std::uint64_t small_key) { return kernel_of_key<kGemmFields, GemmKernel>(small_key); }

std::uint64_t gemm_small_key(const GemmKernel& kernel) { return key_of_fields<kGemmFields>(canonical(kernel)); }

const std::vector<FlagChoice>& gemm_flag_choices() {
  static constinit support::Lasting<const std::vector<FlagChoice>> all;
  return all.get([] { return choices_without({kGroupsFlag}); });
}
const std::vector<FlagChoice>& grouped_gemm_flag_choices() {
  static constinit support::Lasting<const std::vector<FlagChoice>> all;
  return all.get([] { return choices_without({"a-major", "b-major", "parts", "rung", "load-columns", "c-type"}); });
}

const FlagChoice& gemm_flag_choice(std::string_view name) {
  const std::vector<FlagChoice>& all = gemm_flag_choices();
  return *std::find_if(all.begin(), all.end(), [&](const FlagChoice& choice) { return name == choice.name; });
}

namespace {

std::vector<GemmKernel> combinations_of(const char* op, Flags flags, const std::vector<FlagChoice>& choices) {
  const DeviceText text = take_end_text(flags);
  std::vector<GemmKernel> kernels = kernels_of_flags<kGemmFields, GemmKernel>(op, flags, choices);
  for (GemmKernel& kernel : kernels)
    if (!kernel.parts) kernel.end_text = text;  // the launch that adds parts has the text
  if (text.given())
    std::erase_if(kernels, [](const GemmKernel& kernel) { return kernel.activation != Activation::none; });
  if (kernels.empty())
    fail(Stage::argument, Code::invalid_argument,
         "--end-text is given with --activation, whose place it takes: leave one of them out");
  return kernels;
}

}  // namespace

std::vector<GemmKernel> gemm_combinations(const Flags& flags) {
  Flags own = flags;
  take_end_text(own);
  check_flags("gemm", own, gemm_flag_choices(), {"m", "n", "k", "batch", "sizes"});
  return combinations_of("gemm", flags, gemm_flag_choices());
}
std::vector<GemmKernel> grouped_gemm_combinations(const Flags& flags) {
  return combinations_of("grouped_gemm", flags, grouped_gemm_flag_choices());
}

GemmKernel of_parts(GemmKernel kernel) {
  GemmKernel parts{kernel.dtype, DType::f32, kernel.left_mn, kernel.right_mn};
  parts.tile = kernel.tile;
  parts.rung = kernel.rung;  // only to be refused
  parts.walk = kernel.walk;
  parts.scales = kernel.scales;
  parts.left_scales_k = kernel.left_scales_k;
  parts.right_scales_k = kernel.right_scales_k;
  parts.packed_scales = kernel.packed_scales;
  parts.loads = kernel.loads;
  parts.parts = true;
  return parts;
}

void add_gemm_constants(const GemmKernel& kernel, graph::Graph& graph, std::initializer_list<std::string_view> fields) {
  add_constants<kGemmFields>("gemm", kernel, graph, fields);
}

}  // namespace tj::ops
