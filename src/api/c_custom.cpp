// Kernels of users' own in C.
#include <tilejit/tilejit.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>

#include <tilejit/custom.hpp>

#include "api/c_custom.hpp"
#include "api/c_errors.hpp"
#include "api/c_runtime.hpp"
#include "api/c_tune.hpp"
#include "support/c_structs.hpp"

namespace {

using namespace tj::c_api;
using namespace tj::support::c_structs;

}  // namespace

const tj::custom::Kernel& tj::c_api::kernel_of(const tj_custom* kernel) {
  if (kernel == nullptr) refuse("kernel is null; allowed: what tj_custom_create() gave");
  return kernel->kernel;
}

extern "C" {

tj_status tj_custom_create(tj_runtime* runtime, const tj_custom_description* description, tj_custom** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    tj::Runtime& of = runtime_of(runtime);
    const tj_custom_description d = read(description, "description");
    check_reserved(d.reserved, "description.reserved");
    tj::custom::Description own;
    own.name = text_of(d.name, "description.name", "my_kernel");
    own.graph = text_of(d.graph, "description.graph", "{\"machine\": ...}");
    own.folder = text_of(d.folder, "description.folder", "kernels/");
    own.max_stages = d.max_stages;
    own.max_slots = d.max_slots;
    own.turns = d.without_turns == 0;
    *out = std::make_unique<tj_custom>(tj_custom{tj::custom::Kernel(of, own)}).release();
  });
}

void tj_custom_destroy(tj_custom* kernel) { delete kernel; }

tj_status tj_custom_prepare(const tj_custom* kernel, tj_device device, tj_kernel_report* report) {
  return guarded([&] {
    check_report(report);
    write_report(kernel_of(kernel).prepare(to_device(device, "device")), report);
  });
}

tj_status tj_custom_warm(const tj_custom* kernel, const char* target, tj_kernel_report* report) {
  return guarded([&] {
    check_report(report);
    write_report(kernel_of(kernel).warm(text_of(target, "target", "sm_90a")), report);
  });
}

tj_status tj_custom_tune(const tj_custom* kernel, tj_device device, const tj_tune_options* options,
                         tj_tune_report* report) {
  return guarded([&] {
    check_tune_report(report);
    write_tuned(kernel_of(kernel).tune(to_device(device, "device"), to_tune_options(options)), report);
  });
}

tj_status tj_custom_tensor_map(const tj_custom* kernel, const tj_tensor* tensor, const tj_box* box, void* out) {
  return guarded([&] {
    need(out, "out");
    const tj_box b = read(box, "box");
    check_reserved(b.reserved, "box.reserved");
    tj::custom::Box own;
    std::copy(std::begin(b.shape), std::end(b.shape), own.shape.begin());
    own.swizzle_bytes = b.swizzle_bytes;
    const tj::TensorMap map = kernel_of(kernel).tensor_map(to_tensor(tensor, "tensor"), own);
    std::memcpy(out, &map, sizeof map);
  });
}

tj_status tj_custom_sm_count(const tj_custom* kernel, tj_device device, uint32_t* out) {
  return guarded([&] {
    need(out, "out");
    *out = kernel_of(kernel).sm_count(to_device(device, "device"));
  });
}

tj_status tj_custom_launch(const tj_custom* kernel, tj_device device, const void* params, size_t bytes, uint32_t blocks,
                           void* stream) {
  return guarded(
      [&] { kernel_of(kernel).launch_bytes(to_device(device, "device"), params, bytes, blocks, tj::Stream{stream}); });
}

}  // extern "C"
