// See copy.hpp.
#include "model/copy.hpp"

#include <algorithm>
#include <cstring>

#include "support/fail.hpp"

namespace tj::model {
namespace {

using support::cat;

constexpr std::uint32_t kChunkBytes = 16;  // bytes that a swizzle moves as one
constexpr const char* kWordStore = "store_shared_at: a destination";
constexpr const char* kNothing = "copy_nothing: a destination";
}  // namespace

const TensorMap& read_map(const Thread& thread, const void* map, int rank, const char* what) {
  const auto& found = *static_cast<const TensorMap*>(map);
  if (map == nullptr || found.magic != TensorMap::kMagic)
    fault(thread, cat(what, ": the tensor map was not encoded by the model's driver"));
  if (found.rank != rank)
    fault(thread, cat(what, ": the tensor map has rank ", int{found.rank}, ", the instruction ", rank));
  return found;
}

void check_first(const Thread& thread, const TensorMap& map, int first, const char* what) {
  if (std::int64_t{first} * map.element_bytes % 16 != 0)
    fault(thread, cat(what, ": the first coordinate is ", first, ", ", std::int64_t{first} * map.element_bytes,
                      " bytes; the hardware takes multiples of 16"));
}

std::uint32_t box_bytes(const TensorMap& map) {
  std::uint32_t bytes = map.element_bytes;
  for (std::size_t d = 0; d < map.rank; ++d) bytes *= map.box[d];
  return bytes;
}

std::uint32_t row_pitch(const TensorMap& map) {
  return std::max<std::uint32_t>(std::uint32_t{map.box[0]} * map.element_bytes, map.swizzle_bytes);
}

std::uint32_t box_extent(const TensorMap& map) {
  std::uint32_t bytes = row_pitch(map);
  for (std::size_t d = 1; d < map.rank; ++d) bytes *= map.box[d];
  return bytes;
}

void for_each_place(const TensorMap& map, std::uint32_t address,
                    const std::function<void(std::uint32_t, std::uint32_t)>& visit) {
  const std::uint32_t extent = box_extent(map), pitch = row_pitch(map),
                      row = std::uint32_t{map.box[0]} * map.element_bytes;
  if (pitch == row) return visit(address, extent);
  for (std::uint32_t at = 0; at < extent; at += pitch)
    for (std::uint32_t offset = 0; offset < row; offset += kChunkBytes)
      visit(swizzled(address + at + offset, map.swizzle_bytes), kChunkBytes);
}

void encode(const support::TensorMapDesc& desc, void* out) {
  TensorMap map{};
  map.magic = TensorMap::kMagic;
  map.base = reinterpret_cast<std::uint64_t>(desc.base);
  map.rank = static_cast<std::uint8_t>(desc.rank);
  map.element_bytes = static_cast<std::uint8_t>(desc.stride_bytes[0]);
  map.swizzle_bytes = static_cast<std::uint8_t>(desc.swizzle_bytes);
  for (std::size_t d = 0; d < map.rank; ++d) {
    map.dims[d] = desc.dims[d];
    map.box[d] = static_cast<std::uint16_t>(desc.box[d]);
    if (d > 0) map.stride_bytes[d - 1] = desc.stride_bytes[d];
  }
  std::memset(out, 0, support::kTensorMapBytes);
  std::memcpy(out, &map, sizeof(map));
}

void set_address(void* map, void* address) {
  TensorMap moved{};
  std::memcpy(&moved, map, sizeof(moved));
  moved.base = reinterpret_cast<std::uint64_t>(address);
  std::memcpy(map, &moved, sizeof(moved));
}

void CopyEngine::issue(Thread& thread, std::uint32_t destination, const void* map, std::uint32_t barrier,
                       const int* coordinates, int rank, Mbarriers& reports) {
  Copy copy{read_map(thread, map, rank, "copy_box"), destination, barrier, 0, {}, 0, &reports};
  check_first(thread, copy.map, coordinates[0], "copy_box");
  copy.bytes = box_bytes(copy.map);
  if (destination % kBoxAlignment != 0)
    fault(thread, cat("copy_box to shared address ", hex(destination), "; it must be a multiple of ", kBoxAlignment));
  // A missing wait shows: until the copy is done its destination is neither the old nor the new content.
  shared_.at(thread, destination, box_extent(copy.map), "copy_box: a destination");
  reports.begin_copy(thread, barrier);
  copy.access = monitor_.begin(thread, Access::By::bulk_copy, true, 0, Order::kNotDone, copy.map.swizzle_bytes);
  for_each_place(copy.map, destination, [&](std::uint32_t address, std::uint32_t bytes) {
    monitor_.write(thread, copy.access, address, bytes);
    std::memset(shared_.at(address, bytes, "copy_box: a destination"), SharedMemory::kPoison, bytes);
  });
  for (int d = 0; d < rank; ++d) copy.origin[static_cast<std::size_t>(d)] = coordinates[d];
  pending_.push_back(copy);
}

void CopyEngine::issue_words(Thread& thread, std::uint32_t destination, const void* words, std::uint32_t bytes,
                             std::uint32_t barrier, Mbarriers& reports) {
  Copy copy{{}, destination, barrier, bytes, {}, 0, &reports, {}, true};
  std::memcpy(copy.words.data(), words, bytes);
  if (destination % bytes != 0)
    fault(thread, cat("store_shared_at to shared address ", hex(destination), "; it must be a multiple of ", bytes));
  std::byte* const place = shared_.at(thread, destination, bytes, kWordStore);
  reports.begin_copy(thread, barrier);
  copy.access = monitor_.begin(thread, Access::By::bulk_copy, true, 0, Order::kNotDone, 0);
  monitor_.write(thread, copy.access, destination, bytes);
  std::memset(place, SharedMemory::kPoison, bytes);
  pending_.push_back(copy);
}

void CopyEngine::issue_nothing(Thread& thread, std::uint32_t destination, std::uint32_t bytes, std::uint32_t barrier,
                               Mbarriers& reports) {
  Copy copy{{}, destination, barrier, bytes, {}, 0, &reports, {}};
  std::byte* const place = shared_.at(thread, destination, bytes, kNothing);
  reports.begin_copy(thread, barrier);
  copy.access = monitor_.begin(thread, Access::By::bulk_copy, true, 0, Order::kNotDone, Access::kAnySwizzle);
  monitor_.write(thread, copy.access, destination, bytes);
  std::memset(place, SharedMemory::kPoison, bytes);
  pending_.push_back(copy);
}

void CopyEngine::complete(std::size_t which) {
  const Copy copy = pending_[which];
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(which));
  if (copy.stored)
    std::memcpy(shared_.at(copy.destination, copy.bytes, kWordStore), copy.words.data(), copy.bytes);
  else if (copy.map.rank > 0)
    for_each_row(copy.map, copy.origin, [&](const BoxRow& row) { write_row(copy, row); });
  const auto [agent, time] = copy.reports->complete_bytes(copy.barrier, copy.bytes);
  monitor_.set_time(copy.access, agent, time);
}

void for_each_row(const TensorMap& map, const std::array<std::int64_t, 5>& origin,
                  const std::function<void(const BoxRow&)>& work) {
  const std::int64_t element = map.element_bytes, row_bytes = std::int64_t{map.box[0]} * element;
  std::array<std::uint32_t, 5> extent{1, 1, 1, 1, 1}, i{};
  for (std::size_t d = 1; d < map.rank; ++d) extent[d] = map.box[d];
  BoxRow row;
  for (i[4] = 0; i[4] < extent[4]; ++i[4])
    for (i[3] = 0; i[3] < extent[3]; ++i[3])
      for (i[2] = 0; i[2] < extent[2]; ++i[2])
        for (i[1] = 0; i[1] < extent[1]; ++i[1], row.offset += row_pitch(map)) {
          bool outside = false;
          row.global = map.base + static_cast<std::uint64_t>(origin[0] * element);
          for (std::size_t d = 1; d < map.rank; ++d) {
            const std::int64_t at = origin[d] + i[d];
            outside = outside || at < 0 || static_cast<std::uint64_t>(at) >= map.dims[d];
            row.global += static_cast<std::uint64_t>(at) * map.stride_bytes[d - 1];
          }
          row.begin = std::clamp<std::int64_t>(-origin[0] * element, 0, row_bytes);
          row.end = outside ? row.begin
                            : std::clamp<std::int64_t>((static_cast<std::int64_t>(map.dims[0]) - origin[0]) * element,
                                                       row.begin, row_bytes);
          work(row);
        }
}

void CopyEngine::write_row(const Copy& copy, const BoxRow& row) {
  const TensorMap& map = copy.map;
  const std::uint32_t row_bytes = std::uint32_t{map.box[0]} * map.element_bytes;
  for (std::uint32_t offset = 0; offset < row_bytes; offset += kChunkBytes) {
    std::byte* to = shared_.at(swizzled(copy.destination + row.offset + offset, map.swizzle_bytes), kChunkBytes,
                               "copy_box: a write");
    const std::int64_t first = std::clamp<std::int64_t>(row.begin - offset, 0, kChunkBytes),
                       last = std::clamp<std::int64_t>(row.end - offset, 0, kChunkBytes);
    if (first > 0 || last < kChunkBytes) std::memset(to, 0, kChunkBytes);
    if (last > first)
      std::memcpy(to + first, reinterpret_cast<const std::byte*>(row.global) + (offset + first),
                  static_cast<std::size_t>(last - first));
  }
}

}  // namespace tj::model
