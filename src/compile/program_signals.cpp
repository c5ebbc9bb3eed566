// See program_signals.hpp.
#include "compile/program_signals.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <csignal>
#include <iterator>

#include "support/imported_calls.hpp"
#include "support/signals_blocked.hpp"

namespace tj::compile {
namespace {

using Handler = void (*)(int);

/// The library of an address; null for what is none's, such as SIG_DFL.
const void* library_of(const void* address) {
  Dl_info info{};
  return address != nullptr && ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

/// May the caller say what this signal does? It may where its own handler was set before its calls were led here.
bool may_set(int number, const struct sigaction& now, const void* caller) {
  if (std::find(std::begin(support::kFaults), std::end(support::kFaults), number) != std::end(support::kFaults))
    return true;
  const void* owner = library_of(reinterpret_cast<const void*>(now.sa_handler));
  return owner != nullptr && owner == library_of(caller);
}

/// Both functions stand in for sigaction() and signal() of a library that may not change anything. They tell what there
/// is.
int keep_action(int number, const struct sigaction* wanted, struct sigaction* before) {
  struct sigaction now{};
  if (const int result = ::sigaction(number, nullptr, &now); result != 0) return result;
  return ::sigaction(number, may_set(number, now, __builtin_return_address(0)) ? wanted : nullptr, before);
}

Handler keep_handler(int number, Handler wanted) {
  struct sigaction now{};
  if (::sigaction(number, nullptr, &now) != 0) return SIG_ERR;
  return may_set(number, now, __builtin_return_address(0)) ? ::signal(number, wanted) : now.sa_handler;
}

}  // namespace

void keep_programs_signals(const void* inside) noexcept {
  support::lead_calls(inside, "sigaction", reinterpret_cast<void*>(&keep_action));
  support::lead_calls(inside, "signal", reinterpret_cast<void*>(&keep_handler));
}

}  // namespace tj::compile
