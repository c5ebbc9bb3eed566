// Small hand-written units, compiled by the host compiler and run on the CPU model: helpers that its tests share.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "model/model.hpp"
#include "model/unit_job.hpp"
#include "support/fail.hpp"

namespace tj::testing {

/// `text` as for unit_job().
inline std::string compile_model_unit(std::string_view text, std::string_view arch = "sm_90a") {
  return compile::make_compiler("host", {})->compile(unit_job(text, {arch::find(arch), true})).bytes;
}

/// A driver with one loaded unit.
class ModelUnit {
 public:
  explicit ModelUnit(std::string_view text, std::string_view arch = "sm_90a")
      : bytes_(compile_model_unit(text, arch)) {}

  template <class Params>
  void run(const std::string& symbol, const Params& params, unsigned threads, std::int64_t smem_bytes = 65536,
           unsigned blocks = 1, unsigned cluster = 1) {
    const auto kernel = driver->load(0, bytes_, symbol, smem_bytes);
    driver->launch(0, *kernel, {{blocks, 1, 1}, {.threads = threads, .cluster = cluster, .smem_bytes = smem_bytes}},
                   &params, sizeof(params), {});
  }
  void options(model::ModelOptions options) { driver->set_options(std::move(options)); }
  const std::string& bytes() const { return bytes_; }

  std::shared_ptr<model::ModelDriver> driver = model::open_model_driver();

 private:
  std::string bytes_;
};

/// The error that a call throws; a default error when it throws none.
template <class Work>
Error outcome_of(Work&& work) {
  try {
    work();
  } catch (const Error& e) {
    return e;
  }
  return Error(Stage::argument, Code::internal, "nothing was thrown");
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace tj::testing
