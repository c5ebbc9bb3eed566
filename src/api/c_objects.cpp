// Calls with a framework's tensor objects in C.
#include "api/objects.h"

#include <cstdarg>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/plan.hpp>

#include "api/c_errors.hpp"
#include "api/c_plan.hpp"
#include "api/c_runtime.hpp"
#include "api/object_calls.hpp"
#include "description.hpp"
#include "support/c_structs.hpp"
#include "support/fail.hpp"

struct tj_object_calls {
  tj::api::ObjectCalls calls;
};

struct tj_object_plan {
  tj::api::ObjectPlan plan;
};

namespace {

using namespace tj::c_api;
using namespace tj::support::c_structs;
using tj::api::ObjectCalls;
using tj::support::cat;
namespace dlpack = tj::api::dlpack;

/// The part of the framework's table that this library can call.
const dlpack::ExchangeApi& read_api(const void* given) {
  const auto* api = static_cast<const dlpack::ExchangeApi*>(given);
  if (api == nullptr) refuse("exchange_api is null; allowed: the table that a type's __dlpack_c_exchange_api__ holds");
  while (api->version.major > dlpack::kMajor && api->previous != nullptr) api = api->previous;
  if (api->version.major != dlpack::kMajor)
    refuse(cat("exchange_api is of DLPack ", api->version.major, ".", api->version.minor, "; allowed: ", dlpack::kMajor,
               ".x"),
           tj::Code::unsupported);
  if (api->tensor_of_object == nullptr || api->allocate == nullptr || api->object_of_managed == nullptr ||
      api->current_stream == nullptr)
    refuse("exchange_api lacks a function; allowed: a table with all that are called", tj::Code::unsupported);
  return *api;
}

tj_object_host read_host(const tj_object_host* given) {
  const tj_object_host host = read(given, "host");
  if (host.clear_error == nullptr || host.retain == nullptr || host.release == nullptr || host.pack == nullptr ||
      host.nothing == nullptr)
    refuse("host has a null member; allowed: all five of them");
  return host;
}

ObjectCalls& calls_of(tj_object_calls* calls) {
  if (calls == nullptr) refuse("calls is null; allowed: what tj_object_calls_create() gave");
  return calls->calls;
}

ObjectCalls::Objects listed(std::va_list& list, std::size_t count) {
  ObjectCalls::Objects objects{};
  for (std::size_t i = 0; i < count; ++i) objects[i] = va_arg(list, void*);
  return objects;
}

tj_status status_of(bool served) { return served ? tj_status{TJ_OK} : tj_status{TJ_NOT_KEPT}; }

bool is_current(const void* stream) { return stream == TJ_CURRENT_STREAM; }

}  // namespace

extern "C" {

tj_status tj_add_packages_folder(const char* folder) {
  return guarded([&] { tj::add_packages_folder(text_of(folder, "folder", "/usr/lib/python3/dist-packages")); });
}

tj_status tj_object_calls_create(const char* const* names, size_t count, size_t made, const void* exchange_api,
                                 const tj_object_host* host, tj_object_calls** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    if (names == nullptr) refuse("names is null; allowed: the addresses of the tensors' names");
    if (count == 0 || count > TJ_MAX_OBJECTS)
      refuse(cat("count is ", count, "; allowed: 1 to ", static_cast<int>(TJ_MAX_OBJECTS)));
    if (made > 2 || made >= count) refuse(cat("made is ", made, "; allowed: 0 to 2, and fewer than count"));
    std::vector<std::string> own;
    for (std::size_t i = 0; i < count; ++i) own.emplace_back(text_of(names[i], "names", "q"));
    *out = new tj_object_calls{{std::move(own), made, read_api(exchange_api), read_host(host)}};
  });
}

void tj_object_calls_destroy(tj_object_calls* calls) { delete calls; }

tj_status tj_object_calls_keep(tj_object_calls* calls, const tj_plan* plan, void* const* objects, int32_t* wanted) {
  return guarded([&] {
    ObjectCalls& of = calls_of(calls);
    if (objects == nullptr) refuse("objects is null; allowed: the addresses of one object for each name");
    const std::span<void* const> all{objects, of.given() + of.made()};
    if (plan != nullptr) return of.keep(plan->plan, all);
    need(wanted, "wanted");
    *wanted = of.wanted(all) ? 1 : 0;
  });
}

tj_status tj_object_calls_run(tj_object_calls* calls, void* stream, ...) {
  if (calls == nullptr || calls->calls.made() != 0) return TJ_NOT_KEPT;
  std::va_list list;
  va_start(list, stream);
  const ObjectCalls::Objects objects = listed(list, calls->calls.given());
  va_end(list);
  return status_of(calls->calls.run(objects, {stream}, is_current(stream)));
}

void* tj_object_calls_make(tj_object_calls* calls, void* stream, ...) {
  if (calls == nullptr) return nullptr;
  std::va_list list;
  va_start(list, stream);
  const ObjectCalls::Objects objects = listed(list, calls->calls.given());
  va_end(list);
  return calls->calls.make(objects, {stream}, is_current(stream));
}

int32_t tj_plan_is_current(const tj_plan* plan) { return plan != nullptr && plan->plan.current() ? 1 : 0; }

tj_status tj_object_plan_create(const tj_plan* plan, const void* exchange_api, const tj_object_host* host,
                                tj_object_plan** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    if (plan == nullptr) refuse("plan is null; allowed: what tj_plan_create() gave");
    if (plan->names.size() > TJ_MAX_OBJECTS)
      refuse(cat("plan has ", plan->names.size(), " tensors; allowed: at most ", static_cast<int>(TJ_MAX_OBJECTS)));
    *out = new tj_object_plan{{plan->plan, read_api(exchange_api), read_host(host)}};
  });
}

void tj_object_plan_destroy(tj_object_plan* plan) { delete plan; }

tj_status tj_object_plan_run(const tj_object_plan* plan, void* stream, ...) {
  if (plan == nullptr) return TJ_NOT_KEPT;
  std::va_list list;
  va_start(list, stream);
  const ObjectCalls::Objects objects = listed(list, plan->plan.tensors());
  va_end(list);
  return status_of(plan->plan.run(objects, {stream}, is_current(stream)));
}

}  // extern "C"
