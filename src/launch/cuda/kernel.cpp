// See kernel.hpp.
#include "launch/cuda/kernel.hpp"

#include <algorithm>
#include <utility>

#include "support/fail.hpp"
#include "support/seconds.hpp"

namespace tj::launch {

using support::cat;
using support::fail;

CudaModule::~CudaModule() {
  if (module_ == nullptr || !contexts_.alive(context_)) return;  // it went with its context
  const RelaxedCapture relaxed(contexts_.api());
  const QuietContextScope scope(contexts_.api(), context_.handle);
  if (scope.entered()) contexts_.api().module_unload(module_);
}

void CudaModule::load(const void* bytes, const std::string& symbol, std::int64_t smem_bytes) {
  const CudaApi& api = contexts_.api();
  const RelaxedCapture relaxed(api);
  const ContextScope scope(api, context_.handle, Stage::load);
  LoadTimes& times = contexts_.load_times();
  const support::Seconds taken;
  double before = 0;
  const auto count = [&](std::atomic<double>& share) {
    const double now = taken.so_far();
    share.fetch_add(now - std::exchange(before, now), std::memory_order_relaxed);
  };
  api.check(api.module_load_data(&module_, bytes), "cuModuleLoadData", Stage::load);
  count(times.module_s);
  const CUresult found = api.module_get_function(&function_, module_, symbol.c_str());
  if (found == CUDA_ERROR_NOT_FOUND)
    fail(Stage::load, Code::driver_error,
         cat("cuModuleGetFunction failed with ", api.explain(found), ": the binary has no kernel \"", symbol,
             "\"; clear the kernel cache"));
  api.check(found, "cuModuleGetFunction", Stage::load);
  count(times.function_s);
  // Drivers load lazily: the rest of the loading must not happen in the first launch, which may be inside a capture.
  if (api.func_load != nullptr) api.check(api.func_load(function_), "cuFuncLoad", Stage::load);
  count(times.code_s);
  raise_shared_memory(smem_bytes, symbol);
  std::size_t offset = 0;
  if (api.func_get_param_info != nullptr &&
      api.func_get_param_info(function_, 0, &offset, &params_bytes_) != CUDA_SUCCESS)
    params_bytes_ = 0;
  count(times.attributes_s);
}

void CudaModule::raise_shared_memory(std::int64_t smem_bytes, const std::string& symbol) {
  const CudaApi& api = contexts_.api();
  int limit = 0;
  api.check(api.func_get_attribute(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function_),
            "cuFuncGetAttribute", Stage::load);
  if (smem_bytes <= limit) return;
  const CUresult result = api.func_set_attribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                 static_cast<int>(std::min<std::int64_t>(smem_bytes, 1 << 30)));
  if (result == CUDA_ERROR_INVALID_VALUE)
    fail(Stage::load, Code::driver_error,
         cat("cuFuncSetAttribute failed with ", api.explain(result), ": kernel \"", symbol, "\" wants ", smem_bytes,
             " bytes of shared memory a block, more than the device allows; choose a smaller tile"));
  api.check(result, "cuFuncSetAttribute", Stage::load);
}

CudaKernel::CudaKernel(std::shared_ptr<CudaContexts> contexts, int device, std::string_view bytes, std::string symbol,
                       std::int64_t smem_bytes)
    : contexts_(std::move(contexts)),
      device_(device),
      bytes_(bytes),
      symbol_(std::move(symbol)),
      smem_bytes_(smem_bytes) {
  params_bytes_ = load(contexts_->context(device)).params_bytes();
}

const CudaModule& CudaKernel::load(const CudaContext& context) const {
  const std::lock_guard lock(mutex_);
  for (const auto& module : modules_)
    if (&module->context() == &context) return *module;
  auto module = std::make_unique<CudaModule>(*contexts_, context);
  module->load(bytes_.data(), symbol_, smem_bytes_);
  modules_.push_back(std::move(module));
  module_.store(modules_.back().get(), std::memory_order_release);
  return *modules_.back();
}

}  // namespace tj::launch
