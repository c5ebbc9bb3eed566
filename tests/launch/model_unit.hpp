// Small hand-written units, compiled by the host compiler and run on the CPU model: what its tests share.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "arch/arch.hpp"
#include "codegen/templates.hpp"
#include "compile/compiler.hpp"
#include "launch/model.hpp"
#include "support/fail.hpp"

namespace tj::testing {

/// The headers of a model unit: model/<path> stands in for <path>.
inline std::vector<compile::Header> model_headers() {
  constexpr std::string_view kPrefix = "model/";
  std::vector<compile::Header> headers;
  for (const auto& file : codegen::templates()) {
    if (file.name.substr(0, kPrefix.size()) == kPrefix) headers.push_back({std::string(file.name.substr(kPrefix.size())), file.text});
    else if (file.name.substr(0, 5) != "arch/") headers.push_back({std::string(file.name), file.text});
  }
  return headers;
}

/// `text` follows the includes of an arch's primitives and `using namespace tj::dev`.
inline std::string compile_model_unit(std::string_view text, std::string_view arch = "sm_90a") {
  compile::Job job;
  job.name = "unit.cpp";
  job.text = "#include \"arch/" + arch::find(arch)->primitives + ".cuh\"\n#include \"pipeline.cuh\"\n#include \"tiles.cuh\"\nusing namespace tj::dev;\n" + std::string(text);
  job.headers = model_headers();
  job.arch = arch;
  job.options = {"-Wall", "-Wextra", "-Werror"};
  return compile::make_compiler("host", {})->compile(job).bytes;
}

/// A driver with one loaded unit.
class ModelUnit {
 public:
  explicit ModelUnit(std::string_view text, std::string_view arch = "sm_90a") : bytes_(compile_model_unit(text, arch)) {}

  template <class Params>
  void run(const std::string& symbol, const Params& params, unsigned threads, std::int64_t smem_bytes = 65536, unsigned blocks = 1, unsigned cluster = 1) {
    const auto kernel = driver->load(0, bytes_, symbol, smem_bytes);
    driver->launch(0, *kernel, {{blocks, 1, 1}, threads, smem_bytes, false, cluster}, &params, sizeof(params), {});
  }
  void options(launch::ModelOptions options) { driver->set_options(std::move(options)); }
  const std::string& bytes() const { return bytes_; }

  std::shared_ptr<launch::ModelDriver> driver = launch::open_model_driver();

 private:
  std::string bytes_;
};

/// What a call throws; a default error when it throws none.
template <class Work>
Error error_of(Work&& work) {
  try {
    work();
  } catch (const Error& e) {
    return e;
  }
  return Error(Stage::argument, Code::internal, "nothing was thrown");
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace tj::testing
