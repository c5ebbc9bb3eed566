// See c_runtime.hpp.
#include "api/c_runtime.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "support/c_structs.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"

namespace tj::c_api {

using namespace support::c_structs;
using support::cat;

Runtime& runtime_of(tj_runtime* runtime) {
  if (runtime == nullptr) refuse("runtime is null; allowed: what tj_runtime_create() or tj_runtime_instance() gave");
  return *runtime->runtime;
}

const char* text_of(const char* text, const char* name, const char* example) {
  if (text == nullptr) refuse(cat(name, " is null; allowed: a text, for example \"", example, "\""));
  return text;
}

void write_report(KernelReport&& report, tj_kernel_report* out) {
  if (out == nullptr) return;
  std::uint64_t size = 0;
  std::memcpy(&size, out, sizeof size);
  thread_local constinit support::PerThread<KernelReport> place;
  KernelReport& kept = place.get();
  kept = std::move(report);
  tj_kernel_report filled{};
  filled.size = size;
  filled.name = kept.name.c_str();
  filled.target = kept.target.c_str();
  filled.schedule_json = kept.schedule_json.c_str();
  filled.source_path = kept.source_path.c_str();
  filled.schedule_ms = kept.schedule_ms;
  filled.codegen_ms = kept.codegen_ms;
  filled.compile_ms = kept.compile_ms;
  filled.load_ms = kept.load_ms;
  filled.origin = static_cast<std::int32_t>(kept.origin);
  filled.registers = kept.registers;
  std::memcpy(out, &filled, std::min<std::size_t>(size, sizeof filled));
}

void check_report(const tj_kernel_report* report) {
  if (report == nullptr) return;
  std::uint64_t size = 0;  // all that the caller sets; the rest may be uninitialised
  std::memcpy(&size, report, sizeof size);
  check_size(size, "report", sizeof(tj_kernel_report));
}

}  // namespace tj::c_api
