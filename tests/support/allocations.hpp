// Counts what goes through operator new, and lets an allocation fail.
//
// An executable that calls any of these has every form of new and delete replaced: memory comes from malloc() and goes
// to free(). Not under the thread sanitizer, which brings its own: there nothing is counted. Invariant: nothing fails
// unless fail_allocation_after() or fail_allocations_from() asked for it.
#pragma once

namespace tj::testing {

/// Allocations of all threads since the program began. Thread safe.
long allocations() noexcept;
/// Allocations of the calling thread.
long thread_allocations() noexcept;
/// The allocation after `count` others fails, once; negative: none does. Thread safe.
void fail_allocation_after(long count) noexcept;
/// All allocations after `count` others fail, until it is called with a negative number. Thread safe.
void fail_allocations_from(long count) noexcept;

}  // namespace tj::testing
