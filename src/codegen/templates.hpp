// The embedded kernel templates.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tj::codegen {

struct TemplateFile {
  std::string_view name;  ///< path below kernel_templates/, e.g. "pipeline.cuh"
  std::string_view text;
};

/// All files of kernel_templates/, embedded at build time, sorted by name.
const std::vector<TemplateFile>& templates();

}  // namespace tj::codegen
