// Calls with a framework's tensor objects in C.
#include "api/objects.h"

#include <algorithm>
#include <atomic>
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
using tj::api::Objects;
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

/// How the language's numbers become addresses. A process has one language, and a handle must be read to know its
/// table.
std::atomic<void* (*)(void*)> address_of_number{nullptr};

tj_object_host read_host(const tj_object_host* given) {
  const tj_object_host host = read(given, "host");
  const bool whole = host.clear_error != nullptr && host.retain != nullptr && host.release != nullptr &&
                     host.pack != nullptr && host.count != nullptr && host.item != nullptr && host.address != nullptr &&
                     host.type_of != nullptr && host.attribute != nullptr && host.call != nullptr &&
                     host.nothing != nullptr && host.yes != nullptr && host.no != nullptr && host.wants_grad != nullptr;
  if (!whole) refuse("host has a null member; allowed: all of them");
  address_of_number = host.address;
  return host;
}

ObjectCalls& calls_of(tj_object_calls* calls) {
  if (calls == nullptr) refuse("calls is null; allowed: what tj_object_calls_create() gave");
  return calls->calls;
}

template <class Handle>
Handle* handle_of(void* self) {
  return static_cast<Handle*>(address_of_number.load(std::memory_order_relaxed)(self));
}

/// A call's objects and its stream.
struct Given {
  Objects objects;
  tj::Stream stream;
  bool current;  ///< no stream was given

  /// False: the list has another number of objects.
  bool read(const tj_object_host& host, void* const* arguments, std::intptr_t count, std::size_t wanted) {
    if (count != 1 && count != 2) return false;
    void* const list = arguments[0];
    const std::intptr_t found = host.count(list);
    if (found < 0) host.clear_error();
    if (found != static_cast<std::intptr_t>(wanted)) return false;
    for (std::size_t i = 0; i < wanted; ++i) objects[i] = host.item(list, static_cast<std::intptr_t>(i));
    current = count == 1;
    if (!current) stream.handle = host.address(arguments[1]);
    return true;
  }
};

void* retained(const tj_object_host& host, void* object) {
  host.retain(object);
  return object;
}

}  // namespace

extern "C" {

tj_status tj_add_packages_folder(const char* folder) {
  return guarded([&] { tj::add_packages_folder(text_of(folder, "folder", "/usr/lib/python3/dist-packages")); });
}

tj_status tj_object_calls_create(const char* const* names, size_t count, size_t made, const void* exchange_api,
                                 const tj_object_host* host, void* records, tj_object_calls** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    if (names == nullptr) refuse("names is null; allowed: the addresses of the tensors' names");
    if (count == 0 || count > TJ_MAX_OBJECTS)
      refuse(cat("count is ", count, "; allowed: 1 to ", static_cast<int>(TJ_MAX_OBJECTS)));
    if (made > 2 || made >= count) refuse(cat("made is ", made, "; allowed: 0 to 2, and fewer than count"));
    std::vector<std::string> own;
    for (std::size_t i = 0; i < count; ++i) own.emplace_back(text_of(names[i], "names", "q"));
    *out = new tj_object_calls{{std::move(own), made, {read_api(exchange_api), read_host(host), records}}};
  });
}

void tj_object_calls_destroy(tj_object_calls* calls) { delete calls; }

tj_status tj_object_calls_keep(tj_object_calls* calls, const tj_plan* plan, void* const* objects, void* const* makers,
                               int32_t* wanted) {
  return guarded([&] {
    ObjectCalls& of = calls_of(calls);
    if (objects == nullptr) refuse("objects is null; allowed: the addresses of one object for each name");
    const std::span<void* const> all{objects, of.given() + of.made()};
    if (plan != nullptr) {
      if (makers == nullptr && of.made() != 0)
        refuse("makers is null; allowed: one function, or null, for each result");
      return of.keep(plan->plan, all, makers);
    }
    need(wanted, "wanted");
    *wanted = of.wanted(all) ? 1 : 0;
  });
}

void* tj_object_calls_serve(void* self, void* const* arguments, intptr_t count) {
  auto* const handle = handle_of<tj_object_calls>(self);
  if (handle == nullptr) return nullptr;
  ObjectCalls& calls = handle->calls;
  const tj_object_host& host = calls.host();
  Given given;
  if (!given.read(host, arguments, count, calls.given())) return retained(host, host.nothing);
  if (calls.made() != 0) return calls.make(given.objects, given.stream, given.current);
  return retained(host, calls.run(given.objects, given.stream, given.current) ? host.yes : host.nothing);
}

int32_t tj_plan_is_current(const tj_plan* plan) { return plan != nullptr && plan->plan.current() ? 1 : 0; }

int32_t tj_runtime_is_settled(tj_runtime* runtime) {
  int32_t settled = 1;
  static_cast<void>(guarded([&] {
    const tj::Counters counters = runtime_of(runtime).counters();
    settled = counters.quick_kernels == counters.quick_replaced ? 1 : 0;
  }));
  return settled;
}

tj_status tj_object_plan_create(const tj_plan* plan, void* const* types, const void* exchange_api,
                                const tj_object_host* host, void* records, tj_object_plan** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    if (plan == nullptr) refuse("plan is null; allowed: what tj_plan_create() gave");
    if (plan->names.size() > TJ_MAX_OBJECTS)
      refuse(cat("plan has ", plan->names.size(), " tensors; allowed: at most ", static_cast<int>(TJ_MAX_OBJECTS)));
    if (types == nullptr) refuse("types is null; allowed: the addresses of one type for each tensor");
    Objects own{};
    std::copy_n(types, plan->names.size(), own.begin());
    *out = new tj_object_plan{{plan->plan, own, {read_api(exchange_api), read_host(host), records}}};
  });
}

void tj_object_plan_destroy(tj_object_plan* plan) { delete plan; }

void* tj_object_plan_serve(void* self, void* const* arguments, intptr_t count) {
  const auto* const handle = handle_of<tj_object_plan>(self);
  if (handle == nullptr) return nullptr;
  const tj::api::ObjectPlan& plan = handle->plan;
  const tj_object_host& host = plan.host();
  Given given;
  const bool served =
      given.read(host, arguments, count, plan.tensors()) && plan.run(given.objects, given.stream, given.current);
  return retained(host, served ? host.yes : host.nothing);
}

}  // extern "C"
