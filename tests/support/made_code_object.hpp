// Code objects made by hand, for tests that need no compiler: what they say of themselves, and no code.
#pragma once

#include <cstdint>
#include <string>

namespace tj::testing {

/// One ELF note.
std::string note(const std::string& owner, std::uint32_t type, const std::string& text);
inline const std::string kMetadataOwner{"AMDGPU\0", 7};

/// An ELF file of a header, the notes and two section headers: a foreign one and that of the notes.
std::string object_with_notes(const std::string& notes);

/// A code object of one kernel with one parameter.
std::string made_code_object(const std::string& processor, const std::string& symbol, int params_bytes, int max_threads,
                             int lds_bytes = 0, int scratch_bytes = 0);

}  // namespace tj::testing
