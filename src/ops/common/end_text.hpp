// The end of a product by a user's text: a field of gemm, grouped_gemm, and of sum_parts once K was cut.
//
// Decides which texts and buffers may stand in a call, and how the text becomes a field and a function of Config. Does
// not decide when it is asked (kernel_templates/ops/own_end.cuh). Invariant: kernels whose texts differ have keys,
// requests and names that differ.
#pragma once

#include <span>

#include <tilejit/gemm.hpp>

#include "ops/common/fields.hpp"
#include "ops/common/own_texts.hpp"

namespace tj::ops {

/// The text in one number, 0 without. Allocates where a text is new. Throws tj::Error(argument) for more texts than the
/// hot key has numbers for.
unsigned end_text_number(const DeviceText& text);
DeviceText end_text_of(unsigned number);
std::span<const char* const> end_text_words();

/// The row of a kernel's member `end_text`. Requests have the text itself (end_text_fields).
template <class Kernel>
constexpr Field<Kernel> end_text_field() {
  return {.name = "end",
          .get = [](const Kernel& kernel) { return end_text_number(kernel.end_text); },
          .set = [](Kernel& kernel, unsigned number) { kernel.end_text = end_text_of(number); },
          .words = end_text_words,
          .bits = kOwnTextBits,
          .tagged = [](const Kernel&) { return false; },
          .optional = true};
}

/// Adds the text to a request and its name; nothing without one.
void add_end_text(Request& request, const DeviceText& text);
/// The text of a request's fields; none where they have none.
DeviceText end_text_of(const TextFields& fields);
/// Takes --end-text out of `flags`.
DeviceText take_end_text(Flags& flags);
/// " --end-text '...'" of a command line; nothing without a text.
std::string end_text_flag(const DeviceText& text);
/// The constant and the function of Config. grouped: the text is told a group, else a matrix of the batch.
void add_end_text(graph::Graph& graph, const DeviceText& text, bool grouped = false);

/// Throws tj::Error(argument) naming the text, and why it cannot be compiled.
void check_end_text(const char* op, const DeviceText& text, Activation activation);
/// Checks a call's text and its buffer, which overlaps nothing that is written. Passing allocates nothing.
void check_end_text(const char* op, const GemmArgs& product, const Named& d, const Range& d_range);

}  // namespace tj::ops
