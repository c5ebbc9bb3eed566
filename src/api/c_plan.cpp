// Plans in C.
#include <tilejit/tilejit.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <tilejit/runtime.hpp>

#include "api/c_errors.hpp"
#include "api/c_plan.hpp"
#include "api/c_runtime.hpp"
#include "ops/op.hpp"
#include "support/c_structs.hpp"

namespace {

using namespace tj::c_api;
using namespace tj::support::c_structs;

void check_plan(const tj_plan* plan) {
  if (plan == nullptr) refuse("plan is null; allowed: what tj_plan_create() gave");
}

}  // namespace

extern "C" {

tj_status tj_plan_create(tj_runtime* runtime, const char* op, const void* args, tj_plan** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    tj::Runtime& of = runtime_of(runtime);
    const tj::ops::Op& found = tj::detail::find_op(text_of(op, "op", "fmha"));
    found.from_c(args, [&](const void* own) {
      auto made = std::make_unique<tj_plan>(tj_plan{of.plan(found.name(), own), {}});
      for (const std::string& name : made->plan.tensors()) made->names.push_back(name.c_str());
      *out = made.release();
    });
  });
}

void tj_plan_destroy(tj_plan* plan) { delete plan; }

tj_status tj_plan_get_info(const tj_plan* plan, tj_plan_info* info) {
  return guarded([&] {
    check_plan(plan);
    need(info, "info");
    std::uint64_t size = 0;
    std::memcpy(&size, info, sizeof size);
    check_size(size, "info", sizeof(tj_plan_info));
    tj_plan_info filled{};
    filled.size = size;
    filled.tensors = plan->names.data();
    filled.tensor_count = plan->names.size();
    filled.workspace_bytes = plan->plan.workspace_bytes();
    filled.workspace_alignment = plan->plan.workspace_alignment();
    filled.workspace_zeroed = plan->plan.workspace_zeroed() ? 1 : 0;
    filled.registers = plan->plan.report().registers;
    filled.device = {static_cast<std::int32_t>(plan->plan.device().kind), plan->plan.device().index};
    filled.kernel = plan->plan.report().name.c_str();
    filled.target = plan->plan.report().target.c_str();
    std::memcpy(info, &filled, std::min<std::size_t>(size, sizeof filled));
  });
}

tj_status tj_plan_run(const tj_plan* plan, void* const* addresses, size_t count, void* workspace, void* stream) {
  return guarded([&] {
    check_plan(plan);
    if (addresses == nullptr && count > 0) refuse("addresses is null; allowed: the address of count addresses");
    plan->plan.run({addresses, count}, tj::Stream{stream}, workspace);
  });
}

}  // extern "C"
