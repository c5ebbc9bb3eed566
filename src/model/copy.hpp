// Bulk tensor copies of the model: boxes of a tensor into shared memory, finished later than they are issued.
//
// Decides the bytes of a tensor map, the layout that a box gets, and that the destination is poison until the copy is
// done. Does not decide when that is. Invariant: nothing outside the tensor is read; elements outside become zero.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/barrier.hpp"
#include "model/scheduler.hpp"
#include "model/shared.hpp"
#include "support/tensor_map.hpp"

namespace tj::model {

/// The content that the model's driver writes into the opaque bytes: self-contained.
struct TensorMap {
  static constexpr std::uint64_t kMagic = 0x70616d2d6c646d74ull;
  std::uint64_t magic;
  std::uint64_t base;
  std::array<std::uint64_t, 5> dims;
  std::array<std::uint64_t, 4> stride_bytes;  ///< strides of dimensions 1 to 4
  std::array<std::uint16_t, 5> box;
  std::uint8_t rank, element_bytes, swizzle_bytes;
};
static_assert(sizeof(TensorMap) <= support::kTensorMapBytes);

/// `desc` obeys the rules of check_tensor_map().
void encode(const support::TensorMapDesc& desc, void* out);
/// Another address in a map that encode() wrote.
void set_address(void* map, void* address);

/// Place of the byte at this address of an unswizzled layout. Address bits 4 and up are exclusive-or'ed with bits 7 and
/// up: 3 bits for 128-byte swizzle, 2 for 64, 1 for 32. Source: CUDA driver API manual, CUtensorMapSwizzle; PTX ISA
/// 8.7.
constexpr std::uint32_t swizzled(std::uint32_t address, std::uint32_t swizzle_bytes) {
  return swizzle_bytes == 0 ? address : address ^ ((address >> 3) & (swizzle_bytes - 16u));
}

/// A tensor map as an instruction was given it. Throws tj::Error(model_fault) naming `what` for one of another origin
/// or rank.
const TensorMap& read_map(const Thread& thread, const void* map, int rank, const char* what);
/// Throws for a first coordinate that is not a multiple of 16 bytes: an illegal instruction on an H200.
void check_first(const Thread& thread, const TensorMap& map, int first, const char* what);
std::uint32_t box_bytes(const TensorMap& map);
/// Distance of the rows of a box in shared memory: a swizzle pattern where they are shorter than that. Seen on an H200
/// (gpu.sm90a_primitives_gpu).
std::uint32_t row_pitch(const TensorMap& map);
std::uint32_t box_extent(const TensorMap& map);  ///< bytes of shared memory from the first to the last row's end
/// Calls visit(address, bytes) for all places of a box at `address`.
void for_each_place(const TensorMap& map, std::uint32_t address,
                    const std::function<void(std::uint32_t, std::uint32_t)>& visit);
/// Shared addresses of boxes are multiples of this.
inline constexpr std::uint32_t kBoxAlignment = 128;

/// One row of a box: where its left edge lies in the tensor, and which of its bytes are inside.
struct BoxRow {
  std::uint64_t global = 0;
  std::uint32_t offset = 0;         ///< offset of the row in an unswizzled box
  std::int64_t begin = 0, end = 0;  ///< bytes from the left edge; equal when the whole row is outside
};
/// Calls work(BoxRow) for each row of the box at `origin`, in the order of the box in shared memory.
void for_each_row(const TensorMap& map, const std::array<std::int64_t, 5>& origin,
                  const std::function<void(const BoxRow&)>& work);

class CopyEngine final : public AsyncUnit {
 public:
  CopyEngine(SharedMemory& shared, Monitor& monitor) : shared_(shared), monitor_(monitor) {}
  void reset() { pending_.clear(); }

  /// reports: the barriers, this block's or another's; the bytes complete on one of them. Throws tj::Error(model_fault)
  /// for a bad map, rank, destination or barrier.
  void issue(Thread& thread, std::uint32_t destination, const void* map, std::uint32_t barrier, const int* coordinates,
             int rank, Mbarriers& reports);

  /// One word or four that a thread, maybe of another block of the cluster, stores here; done later, like a copy.
  void issue_words(Thread& thread, std::uint32_t destination, const void* words, std::uint32_t bytes,
                   std::uint32_t barrier, Mbarriers& reports);

  /// Bytes that were announced and that no copy brings. Their place then holds neither what it held nor anything of
  /// use, as if a copy of unknown contents came. Done later, like a copy.
  void issue_nothing(Thread& thread, std::uint32_t destination, std::uint32_t bytes, std::uint32_t barrier,
                     Mbarriers& reports);

  std::size_t ready() const override { return pending_.size(); }
  void complete(std::size_t which) override;

 private:
  struct Copy {
    TensorMap map;  ///< without rank: words', or nothing's
    std::uint32_t destination, barrier, bytes;
    std::array<std::int64_t, 5> origin;
    Shadow::Id access;
    Mbarriers* reports;
    std::array<std::uint32_t, 4> words{};
    bool stored = false;  ///< what comes are words
  };
  void write_row(const Copy& copy, const BoxRow& row);

  SharedMemory& shared_;
  Monitor& monitor_;
  std::vector<Copy> pending_;
};

}  // namespace tj::model
