// The inputs of a product's end as launch parameters see them: c, bias, scales, a text's buffer. gemm reads them
// itself, or sum_parts does once K was cut.
//
// Decides strides and what is left out. The op decides how many elements a thread stores at once, which makes rows
// wide.
#pragma once

#include <tilejit/gemm.hpp>

#include "ops/common/own_texts.hpp"
#include "ops/common/tensor_args.hpp"

namespace tj::ops {

template <class Params>
void add_epilogue(const GemmArgs& args, bool (*wide)(const Tensor&), Params& p) {
  if (args.beta != 0) {
    p.c = args.c->data;
    p.c_stride_batch = batch_stride(*args.c, 3);
    p.c_stride_row = stride(*args.c, args.c->rank - 2);
    p.wide_c = wide(*args.c);
  }
  if (args.bias) {
    p.bias = args.bias->data;
    p.bias_stride_batch = batch_stride(*args.bias, 2);
    p.wide_bias = wide(*args.bias);
  }
  // One number each; scales of blocks are the loop's.
  const auto scale = [](const std::optional<Tensor>& tensor) {
    return tensor && tensor->rank < 2 ? static_cast<const float*>(tensor->data) : nullptr;
  };
  p.scale_a = scale(args.scale_a);
  p.scale_b = scale(args.scale_b);
  p.alpha = args.alpha;
  p.beta = args.beta;
  set_text_params(args.end_params, &Params::end_params, &Params::last_end_param, p);
}

}  // namespace tj::ops
