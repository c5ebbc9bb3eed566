// Findings in a compiler's log about the kernel that it made.
//
// Decides which lines matter. Knows the wording of ptxas and of the front ends. A line that it does not know is no
// error, since the wording changes between versions: a number that is not found stays 0.
#pragma once

#include <string>
#include <string_view>

#include "compile/compiler.hpp"

namespace tj::compile {

/// Fills registers (the largest of all entries), spill_bytes (all entries together) and warnings from binary.log.
void read_ptxas_log(Binary& binary);

/// Reads a code object in binary.bytes. Fills registers (the largest of all kernels), spill_bytes (scratch memory of a
/// lane, all kernels together) and warnings. Adds a line for each kernel to binary.log. Bytes that are no such object
/// stay as they are.
void read_code_object_use(Binary& binary);

/// The first line that reports an error, "unit.cu(12): error: ..."; the first line at all when none does. At most
/// 1000 bytes of it, on one line.
std::string first_error(std::string_view log);

}  // namespace tj::compile
