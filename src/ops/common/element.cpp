// See element.hpp.
#include "ops/common/element.hpp"

#include "support/fail.hpp"

namespace tj::ops {

using support::cat;
using support::fail;

std::string element_text(std::string_view op, DType dtype) {
  switch (dtype) {
    case DType::f16:
      return "tj::dev::F16";
    case DType::bf16:
      return "tj::dev::Bf16";
    case DType::f32:
      return "tj::dev::F32";
    case DType::e4m3:
      return "tj::dev::E4m3";
    case DType::i32:
      break;
  }
  fail(Stage::codegen, Code::internal, cat(op, ": there is no text of a kernel for elements of ", to_string(dtype)));
}

void require_two_bytes(std::string_view op, DType dtype) {
  if (size_of(dtype) != 2) [[unlikely]]
    fail(Stage::codegen, Code::internal,
         cat(op, ": elements of ", to_string(dtype), " have ", size_of(dtype),
             " bytes, and what is computed here is for those of 2"));
}

}  // namespace tj::ops
