// A small hand-written unit of primitives with its data, alike on the CPU model and on a device, so that what is checked of the one is
// checked of the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/model_unit.hpp"
#include "launch/primitive_texts.hpp"

namespace tj::testing {

class PrimitiveUnit {
 public:
  PrimitiveUnit(std::shared_ptr<launch::Driver> driver, std::string bytes) : driver_(std::move(driver)), bytes_(std::move(bytes)) {}

  /// `text` follows the includes and `using namespace tj::dev`, as for compile_model_unit().
  static PrimitiveUnit on_model(std::string_view text, std::string_view arch) { return {launch::open_model(), compile_model_unit(text, arch)}; }
  /// `primitives` names the file of kernel_templates/arch/, `arch` what the compiler makes code for.
  static PrimitiveUnit on_device(std::string_view text, const std::string& primitives, const std::string& arch) {
    compile::Job job;
    job.name = "unit.cu";
    job.text = "#include \"arch/" + primitives + ".cuh\"\n#include \"pipeline.cuh\"\n#include \"tiles.cuh\"\nusing namespace tj::dev;\n" + std::string(text);
    for (const auto& file : codegen::templates()) job.headers.push_back({std::string(file.name), file.text});
    job.arch = arch;
    std::string reason;
    return {launch::open_cuda(&reason), compile::make_compiler("nvrtc", {})->compile(job).bytes};
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
  template <class Params>
  void run(const Params& params, unsigned threads) {
    constexpr std::int64_t kSmemBytes = 65536;
    const auto kernel = driver_->load(0, bytes_, "kernel", kSmemBytes);
    driver_->launch(0, *kernel, {{1, 1, 1}, threads, kSmemBytes, false, 1}, &params, sizeof(params), {});
    driver_->synchronize(0, {});
  }
  launch::Driver& driver() { return *driver_; }

 private:
  std::shared_ptr<launch::Driver> driver_;
  std::string bytes_;
  std::vector<std::shared_ptr<void>> held_;
};

/// Makes a unit of a text; the checks take one, and do not know what it runs on.
using MakeUnit = std::function<PrimitiveUnit(std::string_view text)>;

// Defined in warp_matrix_checks.cpp and thread_copies_checks.cpp; by doctest's assertions.
void check_products(const MakeUnit& make);
void check_matrix_loads(const MakeUnit& make);
void check_tile_places(const MakeUnit& make);
void check_copy_sizes(const MakeUnit& make);
/// `which` 1: groups of a thread, 2: a ring between two warps.
void check_copied_tiles(PrimitiveUnit& unit, int which, int count);
/// Words that a reader did not find as its neighbour's thread had copied them. Lets through what the launch throws.
int wrong_copied_words(PrimitiveUnit& unit, int which, int count);

}  // namespace tj::testing
