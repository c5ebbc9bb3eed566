// See imported_calls.hpp.
#include "support/imported_calls.hpp"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "support/fork_safe.hpp"

namespace tj::support {
namespace {

struct Image {
  std::uintptr_t inside = 0, base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  std::uintptr_t read_only = 0, read_only_end = 0;  ///< what the loader wrote before it took the right to write
};

/// For each library: 1 ends the search.
int find(dl_phdr_info* info, std::size_t, void* out) {
  Image& image = *static_cast<Image*>(out);
  Image here = image;
  here.base = info->dlpi_addr;
  bool found = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const std::uintptr_t at = here.base + part.p_vaddr;
    if (part.p_type == PT_LOAD) found = found || (image.inside >= at && image.inside - at < part.p_memsz);
    if (part.p_type == PT_DYNAMIC) here.dynamic = reinterpret_cast<const ElfW(Dyn)*>(at);
    if (part.p_type == PT_GNU_RELRO) here.read_only = at, here.read_only_end = at + part.p_memsz;
  }
  if (found) image = here;
  return found ? 1 : 0;
}

struct Table {
  const ElfW(Rela) * first = nullptr;
  std::size_t bytes = 0;
};

struct Tables {
  Table calls, data;  ///< of the procedure linkage table; of all else
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
};

Tables tables_of(const Image& image) {
  Tables out;
  if (image.dynamic == nullptr) return out;
  for (const ElfW(Dyn)* at = image.dynamic; at->d_tag != DT_NULL; ++at) {
    // The C library of GNU adds the base to these addresses as it loads; others leave them.
    const std::uintptr_t address = at->d_un.d_ptr < image.base ? image.base + at->d_un.d_ptr : at->d_un.d_ptr;
    if (at->d_tag == DT_JMPREL) out.calls.first = reinterpret_cast<const ElfW(Rela)*>(address);
    if (at->d_tag == DT_PLTRELSZ) out.calls.bytes = at->d_un.d_val;
    if (at->d_tag == DT_RELA) out.data.first = reinterpret_cast<const ElfW(Rela)*>(address);
    if (at->d_tag == DT_RELASZ) out.data.bytes = at->d_un.d_val;
    if (at->d_tag == DT_SYMTAB) out.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (at->d_tag == DT_STRTAB) out.names = reinterpret_cast<const char*>(address);
  }
  return out;
}

bool write(const Image& image, std::uintptr_t place, void* to) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t start = place / page * page;
  const bool closed = place >= image.read_only / page * page && place < image.read_only_end / page * page;
  if (closed && ::mprotect(reinterpret_cast<void*>(start), page, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(reinterpret_cast<void**>(place), to, __ATOMIC_RELEASE);
  if (closed) ::mprotect(reinterpret_cast<void*>(start), page, PROT_READ);
  return true;
}

bool lead(const Image& image, const Tables& tables, const Table& table, const char* name, void* to) {
  bool led = false;
  for (std::size_t i = 0; i < table.bytes / sizeof(ElfW(Rela)); ++i) {
    const ElfW(Rela)& each = table.first[i];
    const auto type = ELF64_R_TYPE(each.r_info);
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
    const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(each.r_info)];
    if (std::strcmp(tables.names + symbol.st_name, name) == 0)
      led = write(image, image.base + each.r_offset, to) || led;
  }
  return led;
}

}  // namespace

bool lead_calls(const void* inside, const char* name, void* to) noexcept {
  static constinit Mutex mutex;
  const std::lock_guard lock(mutex);
  Image image;
  image.inside = reinterpret_cast<std::uintptr_t>(inside);
  if (::dl_iterate_phdr(&find, &image) == 0) return false;
  const Tables tables = tables_of(image);
  if (tables.symbols == nullptr || tables.names == nullptr) return false;
  const bool calls = lead(image, tables, tables.calls, name, to);
  return lead(image, tables, tables.data, name, to) || calls;
}

}  // namespace tj::support
