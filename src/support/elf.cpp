// See elf.hpp.
#include "support/elf.hpp"

#include <elf.h>

#include "support/fail.hpp"

namespace tj::support {
namespace {

std::string outside(const char* what, std::uint64_t index, std::uint64_t offset, std::uint64_t size,
                    std::uint64_t file_bytes) {
  if (offset <= file_bytes && size <= file_bytes - offset) return {};
  return cat(what, ' ', index, " has ", size, " bytes from byte ", offset, " on, and the file has ", file_bytes);
}

/// Each header of a table; `part` says what is wrong with the bytes that it names.
template <class Header, class Part>
std::string table_problem(std::string_view bytes, const char* what, std::uint64_t offset, std::uint64_t count,
                          std::uint64_t entry_bytes, const Part& part) {
  if (count > 0 && entry_bytes != sizeof(Header)) return cat("a header of a ", what, " has ", entry_bytes, " bytes");
  for (std::uint64_t i = 0; i < count; ++i) {
    Header header;
    if (offset > bytes.size() || !read_at(bytes, offset + i * sizeof(Header), header))
      return cat("the headers of its ", what, "s end behind the file's ", bytes.size(), " bytes");
    if (const std::string problem = part(header, i); !problem.empty()) return problem;
  }
  return {};
}

}  // namespace

std::string elf_problem(std::string_view bytes) {
  Elf64_Ehdr header;
  if (!read_at(bytes, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64)
    return cat("it is no 64-bit ELF file (", bytes.size(), " bytes)");
  const std::string segments =
      table_problem<Elf64_Phdr>(bytes, "segment", header.e_phoff, header.e_phnum, header.e_phentsize,
                                [&](const Elf64_Phdr& each, std::uint64_t i) {
                                  return outside("segment", i, each.p_offset, each.p_filesz, bytes.size());
                                });
  if (!segments.empty()) return segments;
  return table_problem<Elf64_Shdr>(bytes, "section", header.e_shoff, header.e_shnum, header.e_shentsize,
                                   [&](const Elf64_Shdr& each, std::uint64_t i) {
                                     if (each.sh_type == SHT_NOBITS || each.sh_type == SHT_NULL) return std::string();
                                     return outside("section", i, each.sh_offset, each.sh_size, bytes.size());
                                   });
}

}  // namespace tj::support
