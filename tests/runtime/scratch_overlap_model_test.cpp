// Protects calls that need scratch memory from its stand-in while nothing is launched. A tensor may lie anywhere, also
// behind the library's own data, and overlaps nothing that is made up.
#include <doctest/doctest.h>

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "support/model_runtime.hpp"

using namespace tj;

namespace {

constexpr std::int64_t kRows = 40,
                       kDepth = 1001;  // rows of a and b begin between multiples of 16 bytes: they are copied first

/// Address of the last byte of this program's own data, the library's among it.
std::uintptr_t end_of_program() {
  std::uintptr_t end = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        if (*info->dlpi_name != '\0') return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (info->dlpi_phdr[i].p_type == PT_LOAD)
            *static_cast<std::uintptr_t*>(to) =
                std::max<std::uintptr_t>(*static_cast<std::uintptr_t*>(to),
                                         info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
        return 1;
      },
      &end);
  return end;
}

/// The first free page from there on.
void* page_behind(std::uintptr_t address) {
  constexpr std::uintptr_t kPage = 4096;
  for (std::uintptr_t at = (address + kPage - 1) / kPage * kPage; at < address + 64 * kPage; at += kPage)
    if (void* page = mmap(reinterpret_cast<void*>(at), kPage, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        page != MAP_FAILED)
      return page;
  return nullptr;
}

}  // namespace

TEST_CASE("d behind the library's own data, operands that are copied first") {
  void* d = page_behind(end_of_program());
  REQUIRE(d != nullptr);
  std::vector<std::uint16_t> a(kRows * kDepth, 0), b(kRows * kDepth, 0);
  const Device cpu{DeviceKind::cpu, 0};
  GemmArgs args;
  args.a = Tensor::contiguous(a.data(), cpu, DType::f16, {kRows, kDepth});
  args.b = Tensor::contiguous(b.data(), cpu, DType::f16, {kRows, kDepth});
  args.d = Tensor::contiguous(d, cpu, DType::f16, {kRows, kRows});
  CHECK_NOTHROW(testing::model_runtime().run(args));
}
