// The end of an element of a product: a user's text, or the activation that the kernel is made with.
//
// Decides the order of a product's end, and what a text is told. Does not decide the text: Config has it as the
// function end_text (src/ops/common/end_text.cpp). Invariant: places are those of d, whatever a tile's rows are; a text
// is told none outside of d.
#pragma once

#include "ops/activation.cuh"
#include "ops/text_params.cuh"

namespace tj::ops {

/// Has the kernel a text?
template <class C, class = void>
inline constexpr bool kOwnEnd = false;
template <class C>
inline constexpr bool kOwnEnd<C, decltype(void(C::kEndText))> = C::kEndText;

/// An element's place in d. Places beyond the last row or column only fill a tile: they are told as the last.
struct EndPlace {
  int row, column, matrix;  ///< matrix: of the batch, or the group
};

/// The text's answer. Params are those of the product, with its buffer and d's sizes.
template <class C, class Params>
TJ_DEVICE float own_end(const Params& params, float value, const EndPlace& place) {
  return C::end_text(value, min(place.row, params.m - 1), min(place.column, params.n - 1), place.matrix,
                     TextParams(params.end_params, params.last_end_param));
}

/// Finishes an element of d. product: alpha and scales times the sum; added: the element of c. With a text d is
/// text(product + bias) + beta * c, else activation(product + beta * c + bias).
template <class C, class Params>
TJ_DEVICE float ended(const Params& params, float product, float added, float bias, const EndPlace& place) {
  if constexpr (kOwnEnd<C>) {
    float value = own_end<C>(params, product + bias, place);
    if constexpr (C::kAddC) value = dev::multiply_add(params.beta, added, value);
    return value;
  } else {
    if constexpr (C::kAddC) product = dev::multiply_add(params.beta, added, product);
    return activate<C::kActivation>(product + bias);
  }
}

}  // namespace tj::ops
