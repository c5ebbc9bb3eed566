// Tiles of products whose rows come in groups, each with a matrix of b of its own, or of groups along K: for every
// family. Included by kernels with kGroups, after the family's node bodies.
//
// Decides which group a tile belongs to, from lists in the device's memory: no launch depends on what they say.
// Invariant: lists may hold anything. No row outside a and d is read or written, and each tile is found in as many
// steps as there are groups. Lanes that look together, and a thread by itself, find the same.
#pragma once

namespace tj::ops::gemm {

/// The rows of a group: those of a, or of the group's matrix.
struct GroupRows {
  int begin, end;
  template <int Rows>
  TJ_DEVICE int tiles() const {
    return (end - begin + Rows - 1) / Rows;
  }
};
/// A number of the list, an end or a count, as a row of the matrix.
TJ_DEVICE int told_row(const Params& params, u32 told) { return max(0, min(static_cast<int>(told), params.m)); }

/// No lists of one's own ask for so many blocks (the host's validate.cpp). Lists that hold anything may, beyond all
/// numbers: tiles behind so many are left out.
inline constexpr int kMostBlocks = 1 << 30;

/// Is it one of the next four groups? Their numbers are asked for together: one after the other, each would take a
/// round trip. `rows` begin as the group of `place` does. A group that ends before it begins is empty.
template <class C>
TJ_DEVICE bool found_in_next(const Params& params, int index, GroupPlace& place, GroupRows& rows) {
  constexpr int kTogether = 4;
  u32 told[kTogether];
#pragma unroll
  for (int i = 0; i < kTogether; ++i)
    told[i] = dev::load_global_u32(params.groups + min(place.group + i, params.group_count - 1));
#pragma unroll
  for (int i = 0; i < kTogether; ++i) {
    rows.end = told_row(params, told[i]);
    const int own = max(0, rows.template tiles<C::kClusterM * C::kBlockM>()) * params.column_tiles;
    const int behind = min(place.before + own, kMostBlocks / kBlocks<C>);
    if (index < behind) return true;
    place.before = behind;
    if (kGroups<C> == kGroupEnds) rows.begin = rows.end;
    if (++place.group >= params.group_count) return true;
  }
  return false;
}

/// No rows, which begin as the group of `place` does.
template <class C>
TJ_DEVICE GroupRows first_rows(const Params& params, const GroupPlace& place) {
  GroupRows rows{0, 0};
  if (kGroups<C> == kGroupEnds && place.group > 0)
    rows.begin = told_row(params, dev::load_global_u32(params.groups + place.group - 1));
  return rows;
}

/// The group of the cluster's tile `index`, from `place` on; behind the last group there is none.
template <class C>
TJ_DEVICE GroupRows find_group(const Params& params, int index, GroupPlace& place) {
  GroupRows rows = first_rows<C>(params, place);
#pragma unroll 1
  while (place.group < params.group_count)
    if (found_in_next<C>(params, index, place, rows)) break;
  return rows;
}

/// Lanes that look for a group together: of kernels whose roles walk as whole warps.
template <class C, class = void>
inline constexpr int kFindingLanes = 1;
template <class C>
inline constexpr int kFindingLanes<C, decltype(void(C::kFindingLanes))> = C::kFindingLanes;

/// Tiles of a cluster's columns that rows have, at most so many that sums stay in range.
template <class C>
TJ_DEVICE u32 tiles_of(const Params& params, const GroupRows& rows) {
  const int down = max(0, rows.template tiles<C::kClusterM * C::kBlockM>());
  return min(static_cast<u32>(down * params.column_tiles), static_cast<u32>(kMostBlocks / kBlocks<C>));
}
/// Sums stay there, in whatever order they are formed.
template <class C>
TJ_DEVICE u32 added(u32 one, u32 other) {
  return min(one + other, static_cast<u32>(kMostBlocks / kBlocks<C>));
}

/// The rows of group `group`; none behind the last one.
template <class C>
TJ_DEVICE GroupRows rows_of_group(const Params& params, int group, u32 before, u32 told) {
  if (group >= params.group_count) return {0, 0};
  const bool follows = kGroups<C> == kGroupEnds && group > 0;
  return {follows ? told_row(params, before) : 0, told_row(params, told)};
}

/// find_group() by all lanes of a warp. Most blocks go on in the group that they were in, or in one of the next, which
/// asks for no sum over lanes. Behind those, each lane has four groups' numbers, and their tiles are added up.
template <class C>
TJ_DEVICE GroupRows find_group_together(const Params& params, int index, GroupPlace& place) {
  constexpr int kEach = 4, kLanes = kFindingLanes<C>;
  const int lane = static_cast<int>(dev::lane_index()), last = params.group_count - 1;
  const auto number = [&](int group) { return dev::load_global_u32(params.groups + max(0, min(group, last))); };
  GroupRows rows = first_rows<C>(params, place);
  if (place.group >= params.group_count || found_in_next<C>(params, index, place, rows)) return rows;
#pragma unroll 1
  while (place.group < params.group_count) {
    const int first = place.group + lane * kEach;
    u32 told[kEach + 1];  // behind the one before
#pragma unroll
    for (int i = 0; i <= kEach; ++i) told[i] = number(first + i - 1);
    const u32 from = static_cast<u32>(place.before), wanted = static_cast<u32>(index);
    u32 sum = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      sum = added<C>(sum, tiles_of<C>(params, rows_of_group<C>(params, first + i, told[i], told[i + 1])));
    u32 behind = sum;
#pragma unroll
    for (int d = 1; d < kLanes; d *= 2) {
      const u32 other = dev::shuffle_from(behind, (lane - d) & (kLanes - 1));
      if (lane >= d) behind = added<C>(behind, other);
    }
    behind = added<C>(behind, from);
    const int found = dev::count_in_warp(behind <= wanted);
    if (found == kLanes) {  // of none of these
      place.before = static_cast<int>(dev::shuffle_from(behind, kLanes - 1));
      place.group += kEach * kLanes;
      continue;
    }
    const u32 begin = dev::shuffle_from(behind, max(0, lane - 1));
    u32 before = lane == 0 ? from : begin;
    int group = first;
    rows = rows_of_group<C>(params, group, told[0], told[1]);
#pragma unroll
    for (int i = 1; i < kEach; ++i) {
      const u32 next = added<C>(before, tiles_of<C>(params, rows));
      if (group != first + i - 1 || wanted < next) continue;
      before = next;
      group = first + i;
      rows = rows_of_group<C>(params, group, told[i], told[i + 1]);
    }
    place.group = static_cast<int>(dev::shuffle_from(static_cast<u32>(group), found));
    place.before = static_cast<int>(dev::shuffle_from(before, found));
    rows.begin = static_cast<int>(dev::shuffle_from(static_cast<u32>(rows.begin), found));
    rows.end = static_cast<int>(dev::shuffle_from(static_cast<u32>(rows.end), found));
    return rows;
  }
  return rows;
}

/// Tiles of all groups, for clusters that draw theirs.
template <class C>
TJ_DEVICE int group_tiles(const Params& params) {
  GroupPlace place;
  find_group<C>(params, 0x7fffffff, place);
  return place.before;
}

/// Rows that boxes bring of so many that are inside, at most those of a tile.
template <class C>
TJ_DEVICE int group_rows(const Params& params, int inside) {
  if constexpr (!kSkips<C>) return C::kBlockM;
  return inside >= C::kBlockM ? kLeftRows<C> : divided(max(inside, 0) + params.a_box - 1, params.by_box) * params.a_box;
}

/// Tiles of a group follow each other as those of a product do: down group_rows of them, then one to the right. Where
/// fewer are left of the group, they go to the right first: that takes no number that the host does not know.
template <class C>
TJ_DEVICE Tile group_tile(const Params& params, int block, const GroupPlace& from) {
  constexpr int kRows = C::kClusterM * C::kBlockM;
  Tile tile;
  tile.index = block;
  tile.place = from;
  const int index = block / kBlocks<C>;
  GroupRows group;
  if constexpr (kFindingLanes<C> > 1)
    group = find_group_together<C>(params, index, tile.place);
  else
    group = find_group<C>(params, index, tile.place);
  const GroupPlace& place = tile.place;
  tile.valid = place.group < params.group_count;
  if (!tile.valid) return tile;
  const int number = index - place.before, first_row = divided(number, params.by_group) * params.group_rows,
            inside = number - first_row * params.column_tiles;
  const bool whole = first_row + params.group_rows <= group.template tiles<kRows>();
  const int quotient = divided(inside, whole ? params.by_rows : params.by_columns);
  const int rest = inside - quotient * (whole ? params.group_rows : params.column_tiles);
  tile.row = group.begin + (first_row + (whole ? rest : quotient)) * kRows;
  tile.column = (whole ? quotient : rest) * C::kClusterN * kTileColumns<C>;
  if constexpr (kBlocks<C> > 1) {
    const int rank = static_cast<int>(dev::cluster_rank());
    tile.row += rank / C::kClusterN * C::kBlockM;
    tile.column += rank % C::kClusterN * kTileColumns<C>;
  }
  tile.row_end = group.end;
  tile.left_box = params.a_box;
  tile.right_box = params.b_box;
  tile.left_rows = group_rows<C>(params, group.end - tile.row);
  tile.right_rows = kTileColumns<C>;
  if constexpr (kSkips<C>)
    tile.right_rows = boxed_rows<kTileColumns<C>>(params.n - tile.column, params.b_last, kTileColumns<C>);
  tile.batch = tile.right_batch = place.group;
  tile.matrix = tile.left_batch = place.group * params.a_batched;
  tile.first = 0;
  tile.trip_count = params.k_blocks;
  return tile;
}

/// The part of K that a tile's group has. A group that ends before it begins is empty. Of 8-bit elements an end counts
/// as the next multiple of 128.
template <class C>
TJ_DEVICE void find_depths(const Params& params, Tile& tile) {
  constexpr int kStep = kEndsDepths<C> ? 1 : C::kBlockK;
  static_assert(kEndsDepths<C> || kStep == kScaledElements, "an iteration's scales are those of a block of K");
  const auto told = [&](int group) {
    const int end = max(0, min(static_cast<int>(dev::load_global_u32(params.groups + group)), params.k));
    return (end + kStep - 1) / kStep * kStep;
  };
  tile.depth_begin = tile.batch > 0 ? told(tile.batch - 1) : 0;
  tile.depth_end = max(told(tile.batch), tile.depth_begin);
  if constexpr (!kEndsDepths<C>) tile.first = tile.depth_begin / kStep;
  tile.trip_count = params.k_blocks == 0 ? 0 : (tile.depth_end - tile.depth_begin + C::kBlockK - 1) / C::kBlockK;
  tile.row_end = params.m;
}

/// The group that a tile's first row names. Rows of a number that is no group are left alone.
template <class C>
TJ_DEVICE void name_group(const Params& params, Tile& tile) {
  static_assert(C::kClusterM == 1 && kRowsTogether % C::kBlockM == 0, "the rows of a tile are of one group");
  const u32 group = dev::load_global_u32(params.groups + tile.row);
  const bool known = group < static_cast<u32>(params.group_count);
  tile.row_end = known ? params.m : tile.row;
  tile.batch = tile.right_batch = known ? static_cast<int>(group) : 0;
  tile.trip_count = known ? params.k_blocks : 0;
}

}  // namespace tj::ops::gemm
