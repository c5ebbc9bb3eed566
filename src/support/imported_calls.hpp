// Calls that a loaded library makes to a function of another one, led elsewhere.
//
// Decides which word of the library has such a function's address, and how it is written. Knows no function by name.
// Invariant: nobody else's calls change, and what the loader has made read-only is read-only afterwards.
#pragma once

namespace tj::support {

/// From now on the library that has the address `inside` calls `to` where it called `name`. False when it has no such
/// call that goes through the loader. The library that has `to` may not be unloaded; this one never is (-z nodelete).
/// Thread safe; a call that is under way goes on where it is.
bool lead_calls(const void* inside, const char* name, void* to) noexcept;

}  // namespace tj::support
