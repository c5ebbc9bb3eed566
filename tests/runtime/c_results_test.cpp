// Protects what a call in C leaves behind when it fails: a null result, whatever stood there, and a text that says why.
#include <doctest/doctest.h>

#include <tilejit/tilejit.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "api/objects.h"
#include "runtime/runtime_fixture.hpp"

namespace {

using namespace tj::test;

TEST_CASE("bounds of bytes below -1 are refused by name") {
  tj_options how;
  tj_options_init(&how);
  const auto refusal = [&how](std::int64_t& bound, std::int64_t bytes) {
    const std::int64_t before = std::exchange(bound, bytes);
    tj_runtime* runtime = nullptr;
    const tj_status status = tj_runtime_create(&how, &runtime);
    bound = before;
    if (status == TJ_OK) tj_runtime_destroy(runtime);
    return status == TJ_OK ? std::string() : std::string(tj_last_error());
  };
  CHECK(has(refusal(how.cache_max_size_bytes, -7), "options.cache_max_size_bytes is -7; allowed: -1 (default), 0 ("));
  CHECK(has(refusal(how.code_max_size_bytes, -7), "options.code_max_size_bytes is -7; allowed: -1 (default), 0 ("));
  CHECK(refusal(how.cache_max_size_bytes, 0) == "");
}

TEST_CASE("a call that fails leaves null where its result would be") {
  Machine machine;
  const std::string cache = machine.cache_dir();
  tj_options how;
  tj_options_init(&how);
  how.cache_dir = cache.c_str();
  how.log_level = TJ_LOG_OFF;
  tj_runtime* runtime = nullptr;
  REQUIRE(tj_runtime_create(&how, &runtime) == TJ_OK);
  tj_options bad = how;
  bad.target = "nothing";
  const tj_device nowhere{9, 0}, device{TJ_CUDA, 0};
  const auto left = [](const std::function<tj_status(void** out)>& call) {
    int other = 0;
    void* out = &other;
    const tj_status status = call(&out);
    CHECK(status != TJ_OK);
    CHECK_FALSE(std::string(tj_last_error()).empty());
    return out;
  };
  const auto text = [](void** out) { return const_cast<const char**>(reinterpret_cast<char**>(out)); };
  const std::vector<std::pair<const char*, std::function<tj_status(void**)>>> calls = {
      {"runtime", [&](void** out) { return tj_runtime_create(&bad, reinterpret_cast<tj_runtime**>(out)); }},
      {"target", [&](void** out) { return tj_target_of(runtime, nowhere, text(out)); }},
      {"no bytes", [&](void** out) { return tj_allocate(runtime, device, 0, out); }},
      {"no device", [&](void** out) { return tj_allocate(runtime, nowhere, 1, out); }},
      {"plan", [&](void** out) { return tj_plan_create(runtime, "nothing", &how, reinterpret_cast<tj_plan**>(out)); }},
      {"custom", [&](void** out) { return tj_custom_create(runtime, nullptr, reinterpret_cast<tj_custom**>(out)); }},
      {"schedule", [&](void** out) { return tj_schedule(nullptr, nullptr, nullptr, text(out)); }},
      {"no graph", [&](void** out) { return tj_graph("{", nullptr, text(out)); }},
      {"objects",
       [&](void** out) {
         return tj_object_calls_create(nullptr, 1, 0, nullptr, nullptr, nullptr,
                                       reinterpret_cast<tj_object_calls**>(out));
       }},
      {"object plan",
       [&](void** out) {
         return tj_object_plan_create(nullptr, nullptr, nullptr, nullptr, nullptr,
                                      reinterpret_cast<tj_object_plan**>(out));
       }},
      {"graph", [&](void** out) { return tj_graph(nullptr, nullptr, text(out)); }}};
  for (const auto& each : calls) {
    const std::string name = each.first;
    CAPTURE(name);
    CHECK(left(each.second) == nullptr);
  }
  tj_runtime_destroy(runtime);
}

}  // namespace
