// Symbol visibility. Invariant: only what carries TJ_API leaves libtilejit.
#pragma once

#if defined(__GNUC__)
#define TJ_API __attribute__((visibility("default")))
#else
#define TJ_API
#endif
