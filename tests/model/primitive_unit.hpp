// A small hand-written unit of primitives with its data, alike on the CPU model and on a device: a check of one is a
// check of the other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/model_unit.hpp"
#include "model/primitive_texts.hpp"

namespace tj::testing {

class PrimitiveUnit {
 public:
  PrimitiveUnit(std::shared_ptr<launch::Driver> driver, std::string bytes)
      : driver_(std::move(driver)), bytes_(std::move(bytes)) {}

  /// `text` as for unit_job().
  static PrimitiveUnit on_model(std::string_view text, std::string_view arch) {
    return {model::open_model(), compiled("model", arch, text, [&] { return compile_model_unit(text, arch); })};
  }
  /// For `arch`, by the primitives in a file of kernel_templates/arch/ that may be an earlier one's.
  static PrimitiveUnit on_device(std::string_view text, const std::string& primitives, const std::string& arch) {
    const auto compile = [&] {
      arch::Arch served = *arch::find(arch);
      served.primitives = primitives;
      return compile::make_compiler("nvrtc", {})->compile(device_job(text, served)).bytes;
    };
    std::string reason;
    return {launch::open_cuda(&reason), compiled(primitives, arch, text, compile)};
  }

  /// A copy where the unit can read and write it; lives as long as this.
  template <class T>
  T* upload(const std::vector<T>& values) {
    held_.push_back(driver_->allocate(0, values.size() * sizeof(T)));
    driver_->copy(0, held_.back().get(), true, values.data(), false, values.size() * sizeof(T));
    return static_cast<T*>(held_.back().get());
  }
  template <class T>
  std::vector<T> download(const T* from, std::size_t count) {
    std::vector<T> values(count);
    driver_->copy(0, values.data(), false, from, true, count * sizeof(T));
    return values;
  }
  /// How a kernel of the unit is started; what a test does not say is one block of kernel().
  struct Start {
    const char* symbol = "kernel";
    std::int64_t smem_bytes = 65536;
    unsigned blocks = 1, cluster = 1;
    bool waits_itself = false;
    unsigned across_blocks = 0;
  };
  /// Enqueues; run() waits, too.
  template <class Params>
  void start(const Params& params, unsigned threads, const Start& start) {
    auto& kernel = kernels_[start.symbol];
    if (!kernel) kernel = driver_->load(0, bytes_, start.symbol, start.smem_bytes);
    driver_->launch(0, *kernel,
                    {{start.blocks, 1, 1},
                     {.threads = threads,
                      .cluster = start.cluster,
                      .across_blocks = start.across_blocks,
                      .smem_bytes = start.smem_bytes},
                     start.waits_itself},
                    &params, sizeof(params), {});
  }
  template <class Params>
  void run(const Params& params, unsigned threads, const Start& how) {
    start(params, threads, how);
    driver_->synchronize(0, {});
  }
  template <class Params>
  void run(const Params& params, unsigned threads) {
    run(params, threads, Start());
  }
  /// Lets go of uploaded data: nothing needs it any more.
  void forget() { held_.clear(); }
  launch::Driver& driver() { return *driver_; }

 private:
  /// Several checks take the same text: each is compiled once a process.
  template <class Compile>
  static const std::string& compiled(std::string_view primitives, std::string_view arch, std::string_view text,
                                     Compile&& compile) {
    static std::map<std::string, std::string> known;
    const std::string key = std::string(primitives) + "\n" + std::string(arch) + "\n" + std::string(text);
    const auto found = known.find(key);
    return found != known.end() ? found->second : known.emplace(key, compile()).first->second;
  }

  std::shared_ptr<launch::Driver> driver_;
  std::string bytes_;
  std::vector<std::shared_ptr<void>> held_;
  std::map<std::string, std::shared_ptr<launch::Kernel>>
      kernels_;  ///< a symbol is always started with the same bytes of shared memory
};

/// Makes a unit of a text; the checks take one, and do not know what it runs on.
using MakeUnit = std::function<PrimitiveUnit(std::string_view text)>;

// Defined in warp_matrix_checks.cpp and thread_copies_checks.cpp; by doctest's assertions.
void check_products(const MakeUnit& make);
/// Of e4m3, on archs that have such an instruction: every finite byte, whole numbers exactly, NaN, and what a sum loses
/// at most (narrow_matrix_checks.cpp).
void check_narrow_products(const MakeUnit& make);
/// The same of a wave, whose sums are f32's.
void check_narrow_wave_products(const MakeUnit& make);
void check_matrix_loads(const MakeUnit& make);
void check_tile_places(const MakeUnit& make);
void check_copy_sizes(const MakeUnit& make);
/// `which` 1: groups of a thread, 2: a ring between two warps.
void check_copied_tiles(PrimitiveUnit& unit, int which, int count);
/// Words that a reader did not find as its neighbour's thread had copied them. Lets through what the launch throws.
int wrong_copied_words(PrimitiveUnit& unit, int which, int count);

// Checks of sm_90a, defined in group_matrix_checks.cpp. Whole numbers, bit for bit: every type, width and layout, or
// every `every`-th of them.
void check_group_products(const MakeUnit& make, int every);
void check_group_chains(const MakeUnit& make);
/// Checks what a sum of e4m3 keeps and drops.
void check_e4m3_cuts(const MakeUnit& make);
/// 64 x columns sums of random numbers of a type (0 f16, 1 bf16, 2 e4m3). exact: their true values; size: how large all
/// that is added is.
std::vector<float> random_group_product(PrimitiveUnit& unit, int type, int columns, unsigned seed,
                                        std::vector<double>& exact, std::vector<double>& size);
/// The part of that size that four instructions can lose. Each of their terms is cut at most that far below the
/// largest, and the sum once more.
constexpr double largest_loss(int type) { return type == 2 ? 4 * 34 * 0x1p-13 : 4 * 18 * 0x1p-23; }

// Checks of sm_90a, defined in bulk_copies_checks.cpp. Edges on every side, coordinates outside, every swizzle, types
// of 1, 2 and 4 bytes.
void check_boxes(const MakeUnit& make);
/// Rows shorter than the swizzle.
void check_narrow_boxes(const MakeUnit& make);
/// Rows of which only the bytes are counted. announced: 2048 is right.
void check_left_out(const MakeUnit& make, int announced = 2048);
/// `blocks` in clusters of two.
void check_shared_boxes(const MakeUnit& make, unsigned blocks);
void check_stores(const MakeUnit& make);
/// Transposed matrices into shared memory, lane by lane (turned_stores_checks.cpp).
void check_turned_stores(const MakeUnit& make);

// Checks of sm_90a, defined in sync_checks.cpp, for a unit of sync_text().
void check_block_syncs(PrimitiveUnit& unit);
void check_lanes(PrimitiveUnit& unit);
void check_cluster_arrivals(PrimitiveUnit& unit);
void check_words_between_blocks(PrimitiveUnit& unit);
void check_grids_behind(PrimitiveUnit& unit);
void check_registers(PrimitiveUnit& unit);

// Defined in number_checks.cpp and access_checks.cpp.
void check_numbers(const MakeUnit& make);
void check_unpacked(const MakeUnit& make);
void check_accesses(const MakeUnit& make);

/// Parameters of counters_text().
struct CountersParams {
  int which, tiles;
  unsigned blocks;
  unsigned *ticket, *done;  ///< 0 before and after a launch
  float* partial;           ///< 64 for each block
  float* out;               ///< 64: the sums, or the block that had each tile
};
/// Defined in grid_checks.cpp, for a unit of counters_text(). lanes: of a warp.
void check_counters(PrimitiveUnit& unit, unsigned lanes = 32);

}  // namespace tj::testing
