// ELF files: are all bytes of one there?
//
// Decides what a loader may touch: program headers, section headers, and what each of them has in the file. Does not
// read what lies there. A loader maps files without such a check, and the process that touches a page behind a file's
// end dies of SIGBUS. Invariant: bytes of any kind may be given; nothing outside of them is read.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tj::support {

/// A structure at an offset; false when it does not lie within the bytes.
template <class T>
bool read_at(std::string_view bytes, std::uint64_t offset, T& out) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
  std::memcpy(&out, bytes.data() + offset, sizeof(T));
  return true;
}

/// Why a loader of 64-bit objects must not be given these bytes: "segment 1 has 9000 bytes from byte 0 on, and the file
/// has 4500". Empty when all that the headers name lies in the file.
std::string elf_problem(std::string_view bytes);

}  // namespace tj::support
