// See made_code_object.hpp.
#include "made_code_object.hpp"

#include <elf.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

namespace tj::testing {
namespace {

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::string note(const std::string& owner, std::uint32_t type, const std::string& text) {
  std::string bytes;
  append(bytes, Elf64_Nhdr{static_cast<std::uint32_t>(owner.size()), static_cast<std::uint32_t>(text.size()), type});
  const auto padded = [](std::string part) { return part.append((4 - part.size() % 4) % 4, '\0'); };
  return bytes + padded(owner) + padded(text);
}

std::string object_with_notes(const std::string& notes) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = 224;  // EM_AMDGPU
  header.e_shoff = sizeof(header) + notes.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  Elf64_Shdr other{}, section{};
  other.sh_type = SHT_PROGBITS;
  section.sh_type = SHT_NOTE;
  section.sh_offset = sizeof(header);
  section.sh_size = notes.size();
  std::string bytes;
  append(bytes, header);
  bytes += notes;
  append(bytes, other);
  append(bytes, section);
  return bytes;
}

std::string made_code_object(const std::string& processor, const std::string& symbol, int params_bytes, int max_threads,
                             int lds_bytes, int scratch_bytes) {
  const nlohmann::json kernel = {{".name", symbol},
                                 {".vgpr_count", 64},
                                 {".sgpr_count", 32},
                                 {".max_flat_workgroup_size", max_threads},
                                 {".wavefront_size", 32},
                                 {".group_segment_fixed_size", lds_bytes},
                                 {".private_segment_fixed_size", scratch_bytes},
                                 {".kernarg_segment_size", params_bytes},
                                 {".args", {{{".offset", 0}, {".size", params_bytes}, {".value_kind", "by_value"}}}}};
  const std::vector<std::uint8_t> packed =
      nlohmann::json::to_msgpack({{"amdhsa.target", "amdgcn-amd-amdhsa--" + processor}, {"amdhsa.kernels", {kernel}}});
  return object_with_notes(note(kMetadataOwner, 32, std::string(packed.begin(), packed.end())));
}

}  // namespace tj::testing
