// The end of a sample's main(): whether all that was printed has been written.
//
// Decides the exit status of a sample whose output is closed, full or read by nobody. Invariant: 0 is given only of
// what was also written.
#pragma once

namespace tj::samples {

/// Flushes standard output. Returns `code`, or 2 where it cannot be written, which is said on standard error.
int all_written(const char* sample, int code);

}  // namespace tj::samples
