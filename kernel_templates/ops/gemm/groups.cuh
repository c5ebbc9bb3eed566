// Tiles of products whose rows come in groups, each with a matrix of b of its own, or of groups along K: for every
// family. Included by kernels with kGroups, after the family's node bodies.
//
// Decides which group a tile belongs to, from lists in the device's memory: no launch depends on what they say.
// Invariant: lists may hold anything. No row outside a and d is read or written, and each tile is found in as many
// steps as there are groups.
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

/// The group of the cluster's tile `index`, from `place` on; behind the last group there is none. Several numbers are
/// asked for together: one after the other, each would take a round trip. A group that ends before it begins is empty.
template <class C>
TJ_DEVICE GroupRows find_group(const Params& params, int index, GroupPlace& place) {
  constexpr int kTogether = 4, kRows = C::kClusterM * C::kBlockM;
  constexpr bool kEnds = kGroups<C> == kGroupEnds;
  GroupRows rows{0, 0};
  if (kEnds && place.group > 0) rows.begin = told_row(params, dev::load_global_u32(params.groups + place.group - 1));
#pragma unroll 1
  while (place.group < params.group_count) {
    u32 told[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i)
      told[i] = dev::load_global_u32(params.groups + min(place.group + i, params.group_count - 1));
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      rows.end = told_row(params, told[i]);
      const int own = max(0, rows.template tiles<kRows>()) * params.column_tiles;
      const int behind = min(place.before + own, kMostBlocks / kBlocks<C>);
      if (index < behind) return rows;
      place.before = behind;
      if (kEnds) rows.begin = rows.end;
      if (++place.group >= params.group_count) return rows;
    }
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
  const GroupRows group = find_group<C>(params, index, tile.place);
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
