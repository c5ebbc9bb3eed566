// Protects the process from what a loader does with half a file: whatever the headers of an ELF file name lies in it.
#include "support/elf.hpp"

#include <doctest/doctest.h>
#include <elf.h>

#include <cstring>
#include <string>

#include "support/scratch.hpp"

using tj::support::elf_problem;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

template <class T>
void put(std::string& bytes, std::size_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

struct Parts {
  Elf64_Ehdr header{};
  Elf64_Phdr segment{};
  Elf64_Shdr section{};
  /// A header, one segment, one section, eight bytes that both have.
  Parts() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_phoff = sizeof header;
    header.e_phnum = header.e_shnum = 1;
    header.e_phentsize = sizeof segment;
    header.e_shoff = sizeof header + sizeof segment;
    header.e_shentsize = sizeof section;
    section.sh_type = SHT_PROGBITS;
    segment.p_offset = section.sh_offset = header.e_shoff + sizeof section;
    segment.p_filesz = section.sh_size = 8;
  }
  std::string bytes() const {
    std::string all(sizeof header + sizeof segment + sizeof section + 8, '\0');
    put(all, 0, header);
    put(all, sizeof header, segment);
    put(all, sizeof header + sizeof segment, section);
    return all;
  }
};

}  // namespace

TEST_CASE("a whole file is whole, and no shorter part of it is") {
  const std::string own = tj::testing::read_bytes("/proc/self/exe");
  CHECK(elf_problem(own) == "");
  CHECK(elf_problem(std::string_view(own).substr(0, own.size() / 2)) != "");
  const std::string bytes = Parts().bytes();
  CHECK(elf_problem(bytes) == "");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK(elf_problem(bytes.substr(0, size)) != "");
  }
}

TEST_CASE("what is no ELF file of 64 bits is told apart") {
  CHECK(has(elf_problem("not an object"), "it is no 64-bit ELF file (13 bytes)"));
  Parts narrow;
  narrow.header.e_ident[EI_CLASS] = ELFCLASS32;
  CHECK(has(elf_problem(narrow.bytes()), "no 64-bit ELF file"));
}

TEST_CASE("each header that leads out of the file is named, also where its sum overflows") {
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  Parts long_segment, far_segment, far_section, no_bits, far_table, other_size;
  long_segment.segment.p_filesz = 9;
  CHECK(elf_problem(long_segment.bytes()) == "segment 0 has 9 bytes from byte 184 on, and the file has 192");
  far_segment.segment.p_offset = kHuge;
  CHECK(has(elf_problem(far_segment.bytes()), "segment 0 has 8 bytes from byte 18446744073709551615 on"));
  far_section.section.sh_size = kHuge;
  CHECK(has(elf_problem(far_section.bytes()), "section 0 has 18446744073709551615 bytes"));
  std::string own = tj::testing::read_bytes("/proc/self/exe");  // not only the first of a table
  Elf64_Ehdr header;
  Elf64_Phdr last;
  std::memcpy(&header, own.data(), sizeof header);
  const std::size_t at = header.e_phoff + (header.e_phnum - 1u) * sizeof last;
  std::memcpy(&last, own.data() + at, sizeof last);
  last.p_filesz = kHuge;
  put(own, at, last);
  CHECK(has(elf_problem(own), "segment " + std::to_string(header.e_phnum - 1) + " has 18446744073709551615 bytes"));
  no_bits.section.sh_size = kHuge;
  no_bits.section.sh_type = SHT_NOBITS;
  CHECK(elf_problem(no_bits.bytes()) == "");
  far_table.header.e_shoff = kHuge;
  CHECK(has(elf_problem(far_table.bytes()), "the headers of its sections end behind the file's 192 bytes"));
  other_size.header.e_phentsize = 32;
  CHECK(has(elf_problem(other_size.bytes()), "a header of a segment has 32 bytes"));
}
