// Ties a program in C++ to the minor version whose headers it was compiled with.
//
// Decides that the loader refuses such a program with a library of another minor version. Only the sources of classes
// are stable: their sizes may have changed by then. Programs in C are not concerned. Invariant: the name below has the
// project's version; a test compares them.
#pragma once

#include <tilejit/export.hpp>

namespace tj::detail {

/// The library of each minor version defines a symbol of its own name. If a loader says "undefined symbol" and this
/// name, compile the program again.
TJ_API extern const char compiled_with_tilejit_0_2;
[[gnu::used]] inline const char* const kCompiledWith = &compiled_with_tilejit_0_2;

}  // namespace tj::detail
