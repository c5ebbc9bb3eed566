// The units of primitives that tests run on the model and on devices: their texts alone, for those that only compile
// them.
#pragma once

#include <string_view>
#include <vector>

namespace tj::testing {

/// The unit of check_products(), check_matrix_loads() and check_tile_places().
std::vector<std::string_view> warp_matrix_texts();
/// That of check_narrow_products(), for archs with products of e4m3 by warps.
std::string_view narrow_matrix_text();
/// A wave's product of e4m3, 32 of K.
std::string_view narrow_wave_text();
/// The unit of check_copy_sizes(), check_copied_tiles() and wrong_copied_words().
std::string_view thread_copies_text();

/// The unit of warpgroups: check_group_products() and the checks beside it.
std::string_view group_matrix_text();
/// Units of bulk copies and stores; of syncs and a warp's lanes; of numbers; of ordinary accesses.
std::vector<std::string_view> bulk_copies_texts();
/// The unit of check_turned_stores().
std::string_view turned_stores_text();
/// Not a unit, but the begin of two. A warp's fill_box(base) makes 16 rows of 16 columns of a box of 64 row * 100 +
/// column, by matrices as a product leaves them. If told to, it fills the rest of its rows with 7.
std::string_view filled_box_text();
std::string_view sync_text();
std::string_view number_text();
std::string_view access_text();
/// Counters in global memory, for blocks of one warp.
std::string_view counters_text();

/// Units of AMD's waves: products over the maps of fragments; exchange between lanes and all sizes of accesses; syncs
/// of a wave and of a block.
std::string_view wave_products_text();
std::string_view wave_exchange_text();
std::string_view wave_barriers_text();

/// Units of tensor memory and the matrix instruction on it, for sm_100a. Products with every place, type and order of
/// operands; shapes of loads and stores, and allocations; a loop of products, loads and stores; products of a pair of
/// blocks. Each has kernels that break rules, too.
std::string_view tensor_matrix_text();
std::string_view tensor_memory_text();
std::string_view tensor_order_text();
std::string_view tensor_pair_text();

}  // namespace tj::testing
