// Protects that graphs for the family whose products are a warp's become units that run on the model of its archs:
// rings filled by threads where there is no copy engine, registers that move or clusters; rings filled by the copy
// engine where there is one.
#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "common/half.hpp"
#include "custom/sample_kernel.hpp"
#include "custom/sample_problem.hpp"
#include "custom/warp_kernel.hpp"

using namespace tj;

namespace {

constexpr Device kHost{DeviceKind::cpu, 0};

/// Multiples of 1/16 up to 2, all of them exact: so are their products' sums in f32.
std::vector<std::uint16_t> halves(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint16_t> bits(count);
  for (std::uint16_t& each : bits) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    each = static_cast<std::uint16_t>((seed >> 63) << 15 | (13 + (seed >> 40) % 3) << 10 | (seed >> 50 & 1) << 9);
  }
  return bits;
}

Options options_for(const std::string& arch, const testing::Scratch& scratch) {
  Options options;
  options.target = "model:" + arch;
  options.cache_dir = scratch / "cache";
  options.log_level = LogLevel::off;
  return options;
}

/// The sample's kernel, its products made by warps: the same sums in the same places, done when a body returns.
void make_products_by_warps(test::SampleKernel& sample, const std::string& arch) {
  sample.edit_graph("sm_90a", arch);
  for (int copy = 0; copy < 2; ++copy) sample.edit_graph("\"async\": \"matrix\", ", "");
  for (int edge = 0; edge < 4; ++edge) sample.edit_graph(", \"blocking\": true", "");
  sample.edit("#include \"gemm_gelu_params.cuh\"", "#include \"tiles.cuh\"\n#include \"gemm_gelu_params.cuh\"");
  sample.edit("float sums[C::kBlockN / 2];", "float sums[C::kBlockN / 8][4];");
  sample.edit("for (float& sum : consumer.sums) sum = 0.0f;",
              "for (auto& block : consumer.sums)\n    for (float& sum : block) sum = 0.0f;");
  sample.edit("&consumer.sums[4 * j + 2 * half]", "&consumer.sums[j][2 * half]");
  sample.edit(
      "  dev::hold(consumer.sums);\n  const u64 left = dev::matrix_operand(a + consumer.copy * kRowsPerConsumer * "
      "kRowBytes, 16, kAtomBytes);\n"
      "  const u64 right = dev::matrix_operand(b, 16, kAtomBytes);\n"
      "  dev::matrix_multiply<dev::MatrixSteps<C::kBlockK / 16, 32, 32, 0>>(dev::F16{}, consumer.sums, left, right, "
      "true);\n",
      "  const u32 rows = consumer.copy * kRowsPerConsumer + (dev::warp_index() & 3u) * 16u;\n"
      "#pragma unroll\n"
      "  for (u32 k = 0; k < C::kBlockK / 16; ++k) {\n"
      "    u32 left[4], right[4];\n"
      "    dev::load_matrices(dev::piece_address(a, rows + dev::down_row(), 2 * k + dev::down_piece()), left);\n"
      "#pragma unroll\n"
      "    for (u32 j = 0; j < C::kBlockN / 16; ++j) {\n"
      "      dev::load_matrices(dev::piece_address(b, 16 * j + dev::across_row(), 2 * k + dev::across_piece()), "
      "right);\n"
      "      dev::mma_m16n8k16(dev::F16{}, consumer.sums[2 * j], left, right[0], right[1]);\n"
      "      dev::mma_m16n8k16(dev::F16{}, consumer.sums[2 * j + 1], left, right[2], right[3]);\n"
      "    }\n"
      "  }\n");
  sample.edit("  dev::hold(consumer.sums);\n", "");  // of what followed an asynchronous product
}

}  // namespace

TEST_CASE("a product by a warp's instructions, its rings filled by threads, on the model of every arch that has them") {
  for (const auto& [arch, copies] : {std::pair<const char*, bool>{"sm_80", false},
                                     {"sm_80", true},
                                     {"sm_86", true},
                                     {"sm_90", false},
                                     {"sm_120a", true}}) {
    const testing::Scratch scratch;
    Runtime runtime(options_for(arch, scratch));
    const test::WarpKernel source(arch, copies);
    const custom::Kernel kernel(runtime, source.description);
    for (int k : {8, 64, 72, 400}) {
      INFO(source.description.graph);
      CAPTURE(k);
      const std::vector<std::uint16_t> a = halves(static_cast<std::size_t>(64 * k), 1),
                                       b = halves(static_cast<std::size_t>(64 * k), 2);
      std::vector<float> d(64 * 64, NAN);
      kernel.launch(kHost, test::WarpKernel::Params{a.data(), b.data(), d.data(), k}, 2);
      int wrong = 0;
      for (int i = 0; i < 64; ++i)
        for (int j = 0; j < 64; ++j) {
          float sum = 0;
          for (int l = 0; l < k; ++l)
            sum += samples::half_to_float(a[static_cast<std::size_t>(i * k + l)]) *
                   samples::half_to_float(b[static_cast<std::size_t>(j * k + l)]);
          wrong += d[static_cast<std::size_t>(64 * i + j)] != sum;
        }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the sample's kernel with a warp's instructions, its rings filled by the copy engine") {
  for (const char* arch : {"sm_90", "sm_120a"}) {
    CAPTURE(arch);
    const testing::Scratch scratch;
    Runtime runtime(options_for(arch, scratch));
    test::SampleKernel sample;
    make_products_by_warps(sample, arch);
    const custom::Kernel kernel(runtime, sample.description);
    test::SampleProblem problem(runtime, kHost, 130, 300, 200, 12);
    problem.run(kernel, 2);
    CHECK(problem.error() < test::kMaxSampleError);
  }
}
