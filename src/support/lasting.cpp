// See lasting.hpp.
#include "support/lasting.hpp"

#include <cxxabi.h>

extern "C" void* __dso_handle;  // by the C++ ABI: this library's, which stays loaded until the thread has ended

namespace tj::support {

void at_thread_end(void (*drop)(void*), void* object) { abi::__cxa_thread_atexit(drop, object, &__dso_handle); }

}  // namespace tj::support
