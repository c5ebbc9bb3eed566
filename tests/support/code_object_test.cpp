// Protects: a code object's metadata is read as it is written, and damaged or foreign bytes are refused without a read
// outside of them.
#include <doctest/doctest.h>

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/code_object.hpp"

namespace {

using nlohmann::json;
using tj::support::read_code_object;

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string note(const std::string& owner, std::uint32_t type, const std::string& text) {
  std::string bytes;
  append(bytes, Elf64_Nhdr{static_cast<std::uint32_t>(owner.size()), static_cast<std::uint32_t>(text.size()), type});
  const auto padded = [](std::string part) { return part.append((4 - part.size() % 4) % 4, '\0'); };
  return bytes + padded(owner) + padded(text);
}

/// An ELF file of a header, the notes and two section headers: a foreign one and that of the notes.
std::string object_with(const std::string& notes) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = 224;
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

json kernel() {
  return {{".name", "some_kernel"}, {".symbol", "some_kernel.kd"}, {".vgpr_count", 180}, {".agpr_count", 4}, {".sgpr_count", 40}, {".vgpr_spill_count", 3},
          {".sgpr_spill_count", 2}, {".max_flat_workgroup_size", 128}, {".wavefront_size", 32}, {".private_segment_fixed_size", 16},
          {".group_segment_fixed_size", 16384}, {".kernarg_segment_size", 352}, {".uses_dynamic_stack", true}, {".workgroup_processor_mode", 1},
          {".args", {{{".offset", 0}, {".size", 90}, {".value_kind", "by_value"}}, {{".offset", 96}, {".size", 4}, {".value_kind", "hidden_block_count_x"}}}}};
}

std::string packed(const json& map) {
  const std::vector<std::uint8_t> bytes = json::to_msgpack(map);
  return {bytes.begin(), bytes.end()};
}

const std::string kOwner{"AMDGPU\0", 7};

std::string object_of(const json& map) { return object_with(note("GNU", 3, "12345") + note(kOwner, 32, packed(map))); }

TEST_CASE("every number of a kernel is read, among other notes and sections") {
  const auto object = read_code_object(object_of({{"amdhsa.target", "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"}, {"amdhsa.version", {1, 2}}, {"amdhsa.kernels", {kernel()}}}));
  REQUIRE(object.has_value());
  CHECK(object->processor == "gfx90a");
  CHECK(object->features == "sramecc+:xnack-");
  REQUIRE(object->kernels.size() == 1);
  const tj::support::CodeObjectKernel& read = object->kernels[0];
  CHECK(read.name == "some_kernel");
  CHECK(read.vgprs == 180);
  CHECK(read.agprs == 4);
  CHECK(read.sgprs == 40);
  CHECK(read.vgpr_spills == 3);
  CHECK(read.sgpr_spills == 2);
  CHECK(read.max_threads == 128);
  CHECK(read.wave == 32);
  CHECK(read.scratch_bytes == 16);
  CHECK(read.lds_bytes == 16384);
  CHECK(read.kernarg_bytes == 352);
  CHECK(read.params_bytes == 90);
  CHECK(read.hidden_arguments);
  CHECK(read.dynamic_stack);
  CHECK(read.two_units);
}

TEST_CASE("what a compiler leaves out or writes in another form is no error") {
  json other = kernel();
  other.erase(".agpr_count");
  other[".workgroup_processor_mode"] = false;
  other[".args"] = {{{".size", 8}, {".value_kind", "global_buffer"}}, {{".size", 8}, {".value_kind", "global_buffer"}}};
  other[".name"] = 7;
  const auto object = read_code_object(object_of({{"amdhsa.target", "amdgcn-amd-amdhsa--gfx1100"}, {"amdhsa.kernels", {other, 3, kernel()}}}));
  REQUIRE(object.has_value());
  CHECK(object->processor == "gfx1100");
  CHECK(object->features == "");
  REQUIRE(object->kernels.size() == 2);
  CHECK(object->kernels[0].name == "");
  CHECK(object->kernels[0].agprs == 0);
  CHECK_FALSE(object->kernels[0].two_units);
  CHECK(object->kernels[0].params_bytes == 0);  // two arguments
  CHECK_FALSE(object->kernels[0].hidden_arguments);
  REQUIRE(read_code_object(object_of(json::object())).has_value());
  CHECK(read_code_object(object_of(json::object()))->kernels.empty());
}

TEST_CASE("foreign and damaged bytes are refused with a reason") {
  const auto problem_of = [](const std::string& bytes) {
    std::string problem;
    CHECK_FALSE(read_code_object(bytes, &problem).has_value());
    return problem;
  };
  CHECK(problem_of("").find("no ELF file") != std::string::npos);
  CHECK(problem_of(std::string(100, 'x')).find("no ELF file") != std::string::npos);
  std::string nvidia = object_of({{"amdhsa.kernels", {kernel()}}});
  nvidia[18] = static_cast<char>(190);  // EM_CUDA
  CHECK(problem_of(nvidia).find("no ELF file") != std::string::npos);
  CHECK(problem_of(object_with(note("GNU", 3, "12345"))).find("no metadata") != std::string::npos);
  CHECK(problem_of(object_with(note(kOwner, 32, "\xc1 is no message"))).find("damaged") != std::string::npos);
  CHECK_FALSE(read_code_object("").has_value());  // and nobody asks why
}

TEST_CASE("cut off or changed anywhere, an object is read within its bytes or refused") {
  const std::string whole = object_of({{"amdhsa.target", "amdgcn-amd-amdhsa--gfx1100"}, {"amdhsa.kernels", {kernel()}}});
  for (std::size_t size = 0; size < whole.size(); ++size) read_code_object(std::string(whole, 0, size));
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      read_code_object(changed);
    }
  CHECK(read_code_object(whole).has_value());
}

}  // namespace
