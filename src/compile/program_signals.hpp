// The program's signal handlers, kept from a compiler's library.
//
// Decides who says what a signal does: the program alone. NVRTC's first front end of a process puts handlers of its own
// over the program's for 20 to 150 ms; they end the process by exit(). At its end it brings back those that it found,
// over what the program has set meanwhile. Its calls of signal() and sigaction() are therefore led here, where they
// change nothing. Signals of faults are left to it. Invariant: a library's own handler, set before, may be replaced.
#pragma once

namespace tj::compile {

/// For the library that has this address, until the process ends. Nothing where its calls cannot be led elsewhere, as
/// in a library that has a C library of its own inside. Thread safe.
void keep_programs_signals(const void* inside) noexcept;

}  // namespace tj::compile
