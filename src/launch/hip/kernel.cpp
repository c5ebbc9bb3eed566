// See kernel.hpp.
#include "launch/hip/kernel.hpp"

#include <algorithm>

#include "support/code_object.hpp"
#include "support/fail.hpp"

namespace tj::launch {

using support::cat;
using support::fail;

HipKernel::~HipKernel() {
  if (module_ == nullptr) return;
  const HipApi& api = devices_->api();
  const RelaxedHipCapture relaxed(api);
  const QuietHipDeviceScope scope(api, device_);
  if (scope.entered()) hip_quietly(api, api.module_unload(module_));
}

void HipKernel::check(std::string_view bytes, const std::string& symbol, std::int64_t smem_bytes) {
  std::string problem;
  const auto object = support::read_code_object(bytes, &problem);
  if (!object)
    fail(Stage::load, Code::unsupported,
         cat("the binary of kernel \"", symbol, "\" is no code object: ", problem, "; clear the kernel cache"));
  const HipProperties& device = devices_->properties(device_);
  const std::string processor = device.processor.substr(0, device.processor.find(':'));
  if (!object->processor.empty() && object->processor != processor)
    fail(Stage::load, Code::unsupported,
         cat("the binary of kernel \"", symbol, "\" is for ", object->processor, ", and hip:", device_, " (",
             device.name, ") is ", device.processor, "; check TJ_TARGET against the device"));
  const auto kernel = std::find_if(object->kernels.begin(), object->kernels.end(),
                                   [&](const support::CodeObjectKernel& each) { return each.name == symbol; });
  if (kernel == object->kernels.end())
    fail(Stage::load, Code::driver_error, cat("the binary has no kernel \"", symbol, "\"; clear the kernel cache"));
  if (smem_bytes < 0 || smem_bytes > device.shared_bytes_per_block - kernel->lds_bytes)
    fail(Stage::load, Code::driver_error,
         cat("kernel \"", symbol, "\" wants ", smem_bytes, " bytes of shared memory a block beyond ", kernel->lds_bytes,
             " of its own, more than the ", device.shared_bytes_per_block, " that hip:", device_,
             " allows; choose a smaller tile"));
  max_threads_ = static_cast<unsigned>(kernel->max_threads);
  params_bytes_ = static_cast<std::size_t>(std::max<std::int64_t>(kernel->params_bytes, 0));
}

void HipKernel::load(std::string_view bytes, const std::string& symbol, std::int64_t smem_bytes) {
  check(bytes, symbol, smem_bytes);
  bytes_ = bytes;
  const HipApi& api = devices_->api();
  const RelaxedHipCapture relaxed(api);
  const HipDeviceScope scope(api, device_, Stage::load);
  api.check(api.module_load_data(&module_, bytes_.data()), "hipModuleLoadData", Stage::load);
  api.check(api.module_get_function(&function_, module_, symbol.c_str()), "hipModuleGetFunction", Stage::load);
}

}  // namespace tj::launch
