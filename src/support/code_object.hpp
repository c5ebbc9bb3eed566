// AMD code objects: what one says about its kernels.
//
// Decides how the metadata note is read: the ELF file's "AMDGPU" note holds a MessagePack map, described as "Code
// Object Metadata" in LLVM's "User Guide for AMDGPU Backend". Knows no compiler and no driver. Invariant: bytes of any
// kind may be given; nothing outside of them is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tj::support {

struct CodeObjectKernel {
  std::string name;
  int vgprs = 0;  ///< a lane, AGPRs included where both come from one file
  int agprs = 0;
  int sgprs = 0;  ///< a wave
  int vgpr_spills = 0, sgpr_spills = 0;
  int max_threads = 0;             ///< of a work-group
  int wave = 0;                    ///< lanes
  std::int64_t scratch_bytes = 0;  ///< a lane
  std::int64_t lds_bytes = 0;      ///< a work-group, without what a launch adds
  std::int64_t kernarg_bytes = 0;  ///< hidden arguments included
  std::int64_t params_bytes = 0;   ///< of its one own argument; 0 where it has none or several
  bool hidden_arguments = false;   ///< it reads the launch's shape or the like
  bool dynamic_stack = false;
  bool two_units = false;  ///< made for work-groups on two compute units (WGP mode)
};

struct CodeObject {
  std::string processor;  ///< "gfx90a"
  std::string features;   ///< "sramecc+:xnack-"; empty: any
  std::vector<CodeObjectKernel> kernels;
};

/// Empty when the bytes are no such object; then `problem` says why.
std::optional<CodeObject> read_code_object(std::string_view bytes, std::string* problem = nullptr);

}  // namespace tj::support
