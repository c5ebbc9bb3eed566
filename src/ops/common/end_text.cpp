// See end_text.hpp.
#include "ops/common/end_text.hpp"

#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::ops {
namespace {

using support::cat;

constexpr const char* kBuffer = "end_params";

constexpr OwnText kEndOfBatch{
    "end_text", kEndTextField, "kEndText",
    "float end_text([[maybe_unused]] float value, [[maybe_unused]] int row, [[maybe_unused]] "
    "int column, [[maybe_unused]] int batch, [[maybe_unused]] const tj::ops::TextParams& params)",
    "return value * 2;"},
    kEndOfGroup{"end_text", kEndTextField, "kEndText",
                "float end_text([[maybe_unused]] float value, [[maybe_unused]] int row, [[maybe_unused]] int column, "
                "[[maybe_unused]] int group, [[maybe_unused]] const tj::ops::TextParams& params)",
                "return value * 2;"};

TextSets& sets() {
  static constinit support::Lasting<TextSets> all;
  return all.get();
}

}  // namespace

unsigned end_text_number(const DeviceText& text) {
  if (!text.given()) return 0;  // most calls, on the hot path
  return sets().number("gemm", "end_text is another text", kBuffer, {text});
}
DeviceText end_text_of(unsigned number) { return sets().texts(number)[0]; }
std::span<const char* const> end_text_words() { return sets().words(); }

void add_end_text(Request& request, const DeviceText& text) {
  if (!text.given()) return;
  request.fields.emplace_back(kEndOfBatch.field, text.text());
  request.name += texts_tag({request.fields.back()});
}

DeviceText end_text_of(const TextFields& fields) {
  for (const auto& [name, text] : fields)
    if (name == kEndOfBatch.field) return text;
  return {};
}

DeviceText take_end_text(Flags& flags) {
  const DeviceText text = take_text(flags, kEndOfBatch);
  check_own_text("gemm", kEndOfBatch, text);
  return text;
}

std::string end_text_flag(const DeviceText& text) {
  return text.given() ? cat(" --", kEndOfBatch.field, " '", text.text(), "'") : std::string();
}

void add_end_text(graph::Graph& graph, const DeviceText& text, bool grouped) {
  add_text(graph, grouped ? kEndOfGroup : kEndOfBatch, text);
}

void check_end_text(const char* op, const DeviceText& text, Activation activation) {
  if (!text.given()) return;
  check_own_text(op, kEndOfBatch, text);
  if (activation != Activation::none)
    refuse(op, Code::invalid_argument,
           cat("activation is ", static_cast<int>(activation),
               "; allowed with end_text, which takes its place: 0 (none)"));
}

void check_end_text(const char* op, const GemmArgs& product, const Named& d, const Range& d_range) {
  check_end_text(op, product.end_text, product.activation);
  if (!product.end_params) return check_text_reads(op, kEndOfBatch, product.end_text, kBuffer);
  if (!product.end_text.given())
    refuse(op, Code::invalid_argument, cat(kBuffer, " is given; allowed: with end_text, which reads it"));
  const Range range = check_text_params(op, kBuffer, *product.end_params, d);
  const Named params{op, kBuffer, *product.end_params, nullptr, 1, "[N]"};
  check_apart(d, d_range, params, range);
  if (!product.scale_d) return;
  const Named scales{op, "scale_d", *product.scale_d, nullptr, product.scale_d->rank, ""};
  check_apart(scales, range_of(scales), params, range);
}

}  // namespace tj::ops
