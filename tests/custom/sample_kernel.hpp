// Helpers of the tests of users' kernels: the sample's graph and bodies in a folder of the test's own, which it may
// damage.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <tilejit/custom.hpp>

#include "05_custom_gemm/gemm_gelu_params.cuh"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace tj::test {

inline constexpr const char* kSampleFolder = TJ_REPO_DIR "/samples/05_custom_gemm";

class SampleKernel {
 public:
  SampleKernel() {
    std::filesystem::create_directory(folder());
    for (const char* name : {"gemm_gelu.cuh", "gemm_gelu_params.cuh"})
      write(name, testing::read_bytes(std::string(kSampleFolder) + "/" + name));
    description.name = "gemm_gelu";
    description.graph = testing::read_bytes(std::string(kSampleFolder) + "/gemm_gelu.json");
    description.folder = folder();
  }

  std::string folder() const { return scratch_ / "bodies"; }
  void write(const std::string& name, const std::string& text) const {
    testing::write_bytes(folder() + "/" + name, text);
  }
  /// Replaces the first occurrence in gemm_gelu.cuh.
  void edit(const std::string& piece, const std::string& other) const {
    write("gemm_gelu.cuh", replaced(testing::read_bytes(folder() + "/gemm_gelu.cuh"), piece, other));
  }
  void edit_graph(const std::string& piece, const std::string& other) {
    description.graph = replaced(description.graph, piece, other);
  }

  custom::Description description;

 private:
  static std::string replaced(std::string text, const std::string& piece, const std::string& other) {
    const std::size_t at = text.find(piece);
    REQUIRE_MESSAGE(at != std::string::npos, piece);
    return text.replace(at, piece.size(), other);
  }
  testing::Scratch scratch_;
};

}  // namespace tj::test
