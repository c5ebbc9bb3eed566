// ELF sections, notes, MessagePack; see the header.
#include "support/code_object.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "support/elf.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/lasting.hpp"

namespace tj::support {
namespace {

constexpr std::string_view kNoteOwner{"AMDGPU\0", 7};
constexpr std::uint32_t kNoteType = 32;  // NT_AMDGPU_METADATA

std::string_view part_of(std::string_view bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return {};
  return bytes.substr(offset, size);
}

constexpr std::uint64_t aligned(std::uint64_t size) { return (size + 3) / 4 * 4; }

/// The content of the metadata note of a notes section; empty without one.
std::string_view metadata_in(std::string_view notes) {
  Elf64_Nhdr note;
  for (std::uint64_t at = 0; read_at(notes, at, note);) {
    const std::uint64_t name = at + sizeof(note), text = name + aligned(note.n_namesz);
    if (note.n_type == kNoteType && part_of(notes, name, note.n_namesz) == kNoteOwner)
      return part_of(notes, text, note.n_descsz);
    at = text + aligned(note.n_descsz);
  }
  return {};
}

std::string_view find_metadata(std::string_view bytes, const Elf64_Ehdr& header) {
  Elf64_Shdr section;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    if (!read_at(bytes, header.e_shoff + i * sizeof(section), section)) break;
    if (section.sh_type != SHT_NOTE) continue;
    const std::string_view found = metadata_in(part_of(bytes, section.sh_offset, section.sh_size));
    if (!found.empty()) return found;
  }
  return {};
}

std::int64_t number(const SortedJson& map, const char* name) {
  const auto found = map.find(name);
  return found != map.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}
std::string text(const SortedJson& map, const char* name) {
  const auto found = map.find(name);
  return found != map.end() && found->is_string() ? found->get<std::string>() : std::string();
}
/// Booleans are written as such or, in some releases, as numbers.
bool flag(const SortedJson& map, const char* name) {
  const auto found = map.find(name);
  return found != map.end() && (found->is_boolean() ? found->get<bool>() : number(map, name) != 0);
}
const SortedJson& list(const SortedJson& map, const char* name) {
  static constinit Lasting<const SortedJson> none;
  const auto found = map.find(name);
  return found != map.end() && found->is_array() ? *found : none.get([] { return SortedJson::array(); });
}

void read_arguments(const SortedJson& map, CodeObjectKernel& kernel) {
  int own = 0;
  for (const SortedJson& argument : list(map, ".args")) {
    if (!argument.is_object()) continue;
    const bool hidden = text(argument, ".value_kind").starts_with("hidden_");
    kernel.hidden_arguments = kernel.hidden_arguments || hidden;
    if (!hidden && ++own == 1) kernel.params_bytes = number(argument, ".size");
  }
  if (own != 1) kernel.params_bytes = 0;
}

CodeObjectKernel read_kernel(const SortedJson& map) {
  CodeObjectKernel kernel;
  const auto count = [&](const char* name) { return static_cast<int>(number(map, name)); };
  kernel.name = text(map, ".name");
  kernel.vgprs = count(".vgpr_count");
  kernel.agprs = count(".agpr_count");
  kernel.sgprs = count(".sgpr_count");
  kernel.vgpr_spills = count(".vgpr_spill_count");
  kernel.sgpr_spills = count(".sgpr_spill_count");
  kernel.max_threads = count(".max_flat_workgroup_size");
  kernel.wave = count(".wavefront_size");
  kernel.scratch_bytes = number(map, ".private_segment_fixed_size");
  kernel.lds_bytes = number(map, ".group_segment_fixed_size");
  kernel.kernarg_bytes = number(map, ".kernarg_segment_size");
  kernel.dynamic_stack = flag(map, ".uses_dynamic_stack");
  kernel.two_units = flag(map, ".workgroup_processor_mode");
  read_arguments(map, kernel);
  return kernel;
}

/// "amdgcn-amd-amdhsa--gfx90a:sramecc+" in its two parts.
void read_target(const std::string& target, CodeObject& object) {
  const std::string isa = target.substr(std::min(target.find("gfx"), target.size()));
  const std::size_t colon = isa.find(':');
  object.processor = isa.substr(0, colon);
  if (colon != std::string::npos) object.features = isa.substr(colon + 1);
}

/// Walks a document without keeping it, and stops where it is nested too deep: the reader goes by recursion.
class Shallow final : public nlohmann::json_sax<SortedJson> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= kMostJsonDepth; }
  bool start_array(std::size_t) override { return ++depth_ <= kMostJsonDepth; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  int depth_ = 0;
};

bool is_shallow(std::string_view metadata) {
  Shallow shallow;
  return SortedJson::sax_parse(metadata.begin(), metadata.end(), &shallow, SortedJson::input_format_t::msgpack);
}

bool is_amd(const Elf64_Ehdr& header) {
  constexpr Elf64_Half kMachine = 224;  // EM_AMDGPU
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_machine == kMachine;
}

}  // namespace

std::optional<CodeObject> read_code_object(std::string_view bytes, std::string* problem) {
  const auto refuse = [&](std::string why) {
    if (problem != nullptr) *problem = std::move(why);
    return std::nullopt;
  };
  Elf64_Ehdr header;
  if (!read_at(bytes, 0, header) || !is_amd(header))
    return refuse(cat("it is no ELF file for AMD GPUs (", bytes.size(), " bytes)"));
  if (header.e_shentsize != sizeof(Elf64_Shdr)) return refuse("its section headers are of another size");
  const std::string_view metadata = find_metadata(bytes, header);
  if (metadata.empty()) return refuse("it has no metadata note");
  if (!is_shallow(metadata)) return refuse("its metadata note is damaged");
  const SortedJson map = SortedJson::from_msgpack(metadata.begin(), metadata.end(), true, false);
  if (!map.is_object()) return refuse("its metadata note is damaged");
  CodeObject object;
  read_target(text(map, "amdhsa.target"), object);
  for (const SortedJson& kernel : list(map, "amdhsa.kernels"))
    if (kernel.is_object()) object.kernels.push_back(read_kernel(kernel));
  return object;
}

}  // namespace tj::support
