// A unit as the library emits it, compiled and loaded on the model.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "compile/compiler.hpp"
#include "model/model.hpp"
#include "pipeline.hpp"

namespace tj::test {

/// own: headers beside the library's, names and texts.
inline std::shared_ptr<launch::Kernel> load_unit(model::ModelDriver& driver, const codegen::Unit& unit,
                                                 std::string_view arch, std::vector<compile::Header> own = {}) {
  compile::Job job;
  job.name = "unit.cpp";
  job.text = unit.text;
  job.headers = headers_for({arch::find(arch), true});
  for (compile::Header& header : own) job.headers.push_back(std::move(header));
  return driver.load(0, compile::make_compiler("host", {})->compile(job).bytes, unit.shape.symbol,
                     unit.shape.smem_bytes);
}

}  // namespace tj::test
